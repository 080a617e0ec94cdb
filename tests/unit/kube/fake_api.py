"""A small API server for tests: lists in pages, watches with bookmarks and 410, writes under resourceVersion.

It counts every request by verb, so that a test can say that nothing spins. It is reached without sockets through
`FakeApi.transport()`, or over loopback through `SocketFrontEnd`.
"""

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import httpx2

Body = bytes | AsyncIterator[bytes]


@dataclass
class Call:
    verb: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    at: float


@dataclass
class Answer:
    code: int = 200
    body: Body = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


def status(code: int, reason: str, message: str = "", **details: Any) -> Answer:
    text = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message or reason,
    }
    return Answer(code, json.dumps(text | {"details": details}).encode())


class AwayError(Exception):
    """Raise it from a fault: the server is not there."""


class FakeApi:
    def __init__(self) -> None:
        self.version = 100
        self.compacted = 0
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.history: list[tuple[int, str, str, dict[str, Any]]] = []
        self.calls: list[Call] = []
        self.faults: list[Callable[[Call], Answer | None]] = []
        self.latency = 0.0
        self.hang: Callable[[Call], bool] = lambda _call: False
        self.bookmark_every = 60.0
        self._changed = asyncio.Event()
        self._cut = asyncio.Event()

    # --- what a test does to it ------------------------------------------------------------------------------------

    def put(self, collection: str, obj: dict[str, Any]) -> dict[str, Any]:
        meta = obj.setdefault("metadata", {})
        key = (collection, meta.get("namespace", ""), meta["name"])
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        kind = "MODIFIED" if key in self.objects else "ADDED"
        meta.setdefault("uid", self.objects[key]["metadata"]["uid"] if key in self.objects else f"uid-{self.version}")
        self.objects[key] = obj
        self._record(kind, key, obj)
        return obj

    def remove(self, collection: str, name: str, namespace: str = "") -> None:
        obj = self.objects.pop((collection, namespace, name))
        self.version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._record("DELETED", (collection, namespace, name), obj)

    def compact(self) -> None:
        """Forget the past: watches and continue tokens from before now are answered with 410."""
        self.version += 1
        self.compacted = self.version

    def cut_watches(self) -> None:
        """End every open watch cleanly."""
        self._cut.set()
        self._cut = asyncio.Event()

    def count(self, verb: str) -> int:
        return Counter(call.verb for call in self.calls)[verb]

    def _record(self, kind: str, key: tuple[str, str, str], obj: dict[str, Any]) -> None:
        self.history.append((self.version, kind, key[0], json.loads(json.dumps(obj))))
        self._changed.set()
        self._changed = asyncio.Event()

    # --- what it answers -------------------------------------------------------------------------------------------

    async def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(target)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        collection, namespace, name, sub = _split(parts.path)
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, "")
        if method == "GET":
            verb = "get" if name else "watch" if query.get("watch") == "true" else "list"
        payload = json.loads(body) if body else None
        call = Call(verb, method, parts.path, query, headers, payload, asyncio.get_running_loop().time())
        self.calls.append(call)
        if self.latency:
            await asyncio.sleep(self.latency)
        if self.hang(call):
            await asyncio.Event().wait()
        for fault in self.faults:
            if (answer := fault(call)) is not None:
                return answer
        return getattr(self, f"_{verb}")(call, collection, namespace, name, sub)

    def _get(self, call: Call, collection: str, namespace: str, name: str, sub: str) -> Answer:
        obj = self.objects.get((collection, namespace, name))
        return status(404, "NotFound", f"{name} not found", name=name) if obj is None else _ok(obj)

    def _list(self, call: Call, collection: str, namespace: str, name: str, sub: str) -> Answer:
        at, offset = (int(part) for part in call.query.get("continue", f"{self.version}:0").split(":"))
        if at < self.compacted:
            return status(410, "Expired", "the continue token is too old")
        items = [o for (c, n, _), o in sorted(self.objects.items()) if c == collection and namespace in ("", n)]
        end = offset + int(call.query.get("limit", "100000"))
        meta = {"resourceVersion": str(at)} | ({"continue": f"{at}:{end}"} if end < len(items) else {})
        return _ok({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items[offset:end]})

    def _watch(self, call: Call, collection: str, namespace: str, name: str, sub: str) -> Answer:
        return Answer(200, self._events(call, collection, namespace))

    async def _events(self, call: Call, collection: str, namespace: str) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        seen, cut = int(call.query["resourceVersion"]), self._cut
        end = loop.time() + float(call.query["timeoutSeconds"])
        while not cut.is_set():
            if seen < self.compacted:
                yield _line("ERROR", json.loads(_bytes(status(410, "Expired", "too old resource version"))))
                return
            for version, kind, where, obj in list(self.history):
                if version > seen and where == collection and namespace in ("", obj["metadata"].get("namespace")):
                    seen = version
                    yield _line(kind, obj)
            waits = [asyncio.ensure_future(event.wait()) for event in (self._changed, cut)]
            left = end - loop.time()
            done, _ = await asyncio.wait(waits, timeout=min(left, self.bookmark_every), return_when="FIRST_COMPLETED")
            for wait in waits:
                wait.cancel()
            if loop.time() >= end - 1e-6:  # a timer may ring a hair early
                return
            if not done:
                seen = max(seen, self.version)
                yield _line("BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(seen)}})

    def _create(self, call: Call, collection: str, namespace: str, name: str, sub: str) -> Answer:
        meta = call.body.setdefault("metadata", {})
        if namespace:
            meta["namespace"] = namespace
        if (collection, namespace, meta.get("name", "")) in self.objects:
            return status(409, "AlreadyExists", "already exists")
        return _ok(self.put(collection, call.body), 201)

    def _update(self, call: Call, collection: str, namespace: str, name: str, sub: str) -> Answer:
        old = self.objects.get((collection, namespace, name))
        if old is None:
            return status(404, "NotFound", f"{name} not found")
        sent = call.body["metadata"].get("resourceVersion")
        if sent and sent != old["metadata"]["resourceVersion"]:
            return status(409, "Conflict", "the object has been modified")
        return _ok(self.put(collection, call.body))

    def _patch(self, call: Call, collection: str, namespace: str, name: str, sub: str) -> Answer:
        old = self.objects.get((collection, namespace, name))
        if old is None and "apply" not in call.headers.get("content-type", ""):
            return status(404, "NotFound", f"{name} not found")
        return _ok(self.put(collection, _merged(old or {}, call.body)))

    def _delete(self, call: Call, collection: str, namespace: str, name: str, sub: str) -> Answer:
        old = self.objects.get((collection, namespace, name))
        if old is None:
            return status(404, "NotFound", f"{name} not found")
        for key, value in ((call.body or {}).get("preconditions") or {}).items():
            if old["metadata"].get(key) != value:
                return status(409, "Conflict", f"the {key} in the precondition does not match")
        self.remove(collection, name, namespace)
        return _ok({"kind": "Status", "status": "Success"})

    def transport(self) -> httpx2.AsyncBaseTransport:
        return _Transport(self)


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, api: FakeApi) -> None:
        self._api = api

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        try:
            answer = await self._api.answer(request.method, str(request.url), dict(request.headers), body)
        except AwayError:
            raise httpx2.ConnectError("connection refused") from None
        if isinstance(answer.body, bytes):
            return httpx2.Response(answer.code, content=answer.body, headers=answer.headers)
        return httpx2.Response(answer.code, stream=_Stream(answer.body), headers=answer.headers)


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield chunk
        except AwayError:
            raise httpx2.ReadError("connection reset") from None

    async def aclose(self) -> None:
        with contextlib.suppress(RuntimeError):
            await self._chunks.aclose()  # type: ignore[attr-defined]


class SocketFrontEnd:
    """The fake behind a real socket: it can be stopped (connections reset) and started again on the same port."""

    def __init__(self, api: FakeApi, tls: ssl.SSLContext | None = None) -> None:
        self.api = api
        self._tls = tls
        self.port = 0
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, reuse_address=True, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                answer = await self.api.answer(method, target, headers, body)
                extra = "".join(f"{key}: {value}\r\n" for key, value in answer.headers.items())
                if isinstance(answer.body, bytes):
                    writer.write(
                        f"HTTP/1.1 {answer.code} x\r\n{extra}Content-Length: {len(answer.body)}\r\n\r\n".encode()
                    )
                    writer.write(answer.body)
                else:
                    writer.write(f"HTTP/1.1 {answer.code} x\r\n{extra}Transfer-Encoding: chunked\r\n\r\n".encode())
                    async for chunk in answer.body:
                        writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                        await writer.drain()
                    writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()


def _split(path: str) -> tuple[str, str, str, str]:
    """(collection with its group, namespace, name, subresource) of a URL path."""
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    collection = f"{rest[0]}.{group}" if group else rest[0]
    name, subresource, *_ = [*rest[1:], "", ""]
    return collection, namespace, name, subresource


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _ok(obj: dict[str, Any], code: int = 200) -> Answer:
    return Answer(code, json.dumps(obj).encode())


def _bytes(answer: Answer) -> bytes:
    assert isinstance(answer.body, bytes)
    return answer.body


def _line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"
