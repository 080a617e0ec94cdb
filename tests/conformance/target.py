"""What a conformance case holds in its hand: one Kubernetes API, whoever serves it."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from doubles.clocks import WITHIN

Json = dict[str, Any]

GROUP = "conformance.paddock.test"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Events:
    """The frames of one watch, in order. A case never waits longer than `within` for one of them."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._frames: asyncio.Queue[Json | None] = asyncio.Queue()

    async def pump(self) -> None:
        try:
            async for line in self.response.aiter_lines():
                if line.strip():
                    self._frames.put_nowait(json.loads(line))
        finally:
            self._frames.put_nowait(None)

    async def next(self, within: float = WITHIN) -> Json:
        frame = await asyncio.wait_for(self._frames.get(), within)
        assert frame is not None, "the watch ended before the event that was awaited"
        return frame

    async def take(self, count: int) -> list[Json]:
        return [await self.next() for _ in range(count)]

    async def until_the_end(self, within: float = WITHIN) -> list[Json]:
        """Every frame that is left; fails if the server keeps the stream open for longer."""

        async def rest() -> list[Json]:
            frames: list[Json] = []
            while (frame := await self._frames.get()) is not None:
                frames.append(frame)
            return frames

        return await asyncio.wait_for(rest(), within)


class Api:
    """One API with a fresh namespace. `http` speaks as the administrator."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        namespace: str,
        speaker: Callable[[str | None], httpx2.AsyncClient],
        forget_history: Callable[[], Awaitable[None]],
        stack: AsyncExitStack,
        *,
        is_real: bool,
    ) -> None:
        self.http = http
        self.namespace = namespace
        self.is_real = is_real
        self.forget_history = forget_history
        self._speaker = speaker
        self._stack = stack

    def unique(self, prefix: str) -> str:
        return f"{prefix}-{secrets.token_hex(4)}"

    async def speaking(self, token: str | None) -> httpx2.AsyncClient:
        """A client that shows this token, or none; it is closed when the case ends."""
        return await self._stack.enter_async_context(self._speaker(token))

    # Paths

    def path(self, plural: str, group_version: str = "v1", *, namespace: str | None = None) -> str:
        root = "/api/v1" if group_version == "v1" else f"/apis/{group_version}"
        return f"{root}/namespaces/{namespace or self.namespace}/{plural}"

    @property
    def gadgets(self) -> str:
        return self.path("gadgets", f"{GROUP}/v1")

    @property
    def configmaps(self) -> str:
        return self.path("configmaps")

    @property
    def pods(self) -> str:
        return self.path("pods")

    # Bodies

    def gadget(self, name: str = "", spec: Json | None = None, **metadata: Any) -> Json:
        meta = {"name": name, **metadata} if name else metadata
        return {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": meta, "spec": spec or {}}

    # Steps that a case takes for granted

    async def make(self, path: str, body: Json, **params: str) -> Json:
        answer = await self.http.post(path, json=body, params=params)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def make_gadget(self, name: str, spec: Json | None = None, **metadata: Any) -> Json:
        return await self.make(self.gadgets, self.gadget(name, spec, **metadata))

    async def see(self, path: str, **params: str) -> Json:
        answer = await self.http.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def names(self, path: str, **params: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.see(path, **params))["items"]]

    async def patch(self, path: str, body: Any, media: str = MERGE, **params: str) -> httpx2.Response:
        return await self.http.patch(path, content=json.dumps(body), headers={"Content-Type": media}, params=params)

    async def patched(self, path: str, body: Any, media: str = MERGE, **params: str) -> Json:
        answer = await self.patch(path, body, media, **params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def apply(self, path: str, body: Json, manager: str, **params: str) -> httpx2.Response:
        return await self.patch(path, body, APPLY, fieldManager=manager, **params)

    async def applied(self, path: str, body: Json, manager: str, **params: str) -> Json:
        answer = await self.apply(path, body, manager, **params)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()

    async def delete(self, path: str, options: Json | None = None, **params: str) -> httpx2.Response:
        content = json.dumps(options) if options is not None else None
        headers = {"Content-Type": "application/json"}
        return await self.http.request("DELETE", path, content=content, headers=headers, params=params)

    async def gone(self, path: str, within: float = WITHIN) -> None:
        """Wait until the object is no more."""
        await self.eventually(lambda: self._is_gone(path), within)

    async def _is_gone(self, path: str) -> bool:
        return (await self.http.get(path)).status_code == 404

    async def eventually(self, reached: Callable[[], Awaitable[bool]], within: float = WITHIN) -> None:
        async with asyncio.timeout(within):
            while not await reached():
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def watching(self, path: str, *, accept: str = "application/json", **params: str) -> AsyncIterator[Events]:
        query = {"watch": "true", **params}
        async with self.http.stream("GET", path, params=query, headers={"Accept": accept}) as response:
            if response.status_code != 200:
                await response.aread()
            assert response.status_code == 200, response.text
            events = Events(response)
            pump = asyncio.ensure_future(events.pump())
            try:
                yield events
            finally:
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)

    async def revision(self) -> str:
        """The newest resourceVersion of the store."""
        return (await self.see(self.configmaps, limit="1"))["metadata"]["resourceVersion"]


def refusal(answer: httpx2.Response, code: int, reason: str) -> str:
    """The message of a Status that refuses with exactly this code and reason."""
    assert answer.status_code == code, answer.text
    body = answer.json()
    assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure"), body
    assert (body["code"], body.get("reason", "")) == (code, reason), body
    return body["message"]


def causes(answer: httpx2.Response) -> dict[str, str]:
    """The violations of a 422, by field: reason and message."""
    return {cause["field"]: f"{cause['reason']}: {cause['message']}" for cause in answer.json()["details"]["causes"]}


def cells(table: Json) -> list[list[Any]]:
    return [row["cells"] for row in table["rows"]]


def entry(obj: Json, manager: str, operation: str = "Apply", subresource: str = "") -> Json:
    """The managedFields entry of one manager; fails unless there is exactly one."""
    found = [
        e
        for e in obj["metadata"]["managedFields"]
        if (e["manager"], e["operation"], e.get("subresource", "")) == (manager, operation, subresource)
    ]
    assert len(found) == 1, obj["metadata"]["managedFields"]
    return found[0]
