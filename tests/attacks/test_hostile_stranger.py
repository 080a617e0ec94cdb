"""Anybody who can reach dispatch, has no token of the cluster, and opens as many connections as they like."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from time import time
from typing import Any

import pytest
from doubles.clocks import WITHIN
from integration.runners.dispatch.rig import Dispatcher, Rig
from starlette.applications import Starlette

from paddock.base.http_server import bind, listening
from paddock.base.secrets import Secret
from paddock.runners.api import AUDIENCE
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.identity import Unauthenticated
from paddock.runners.http.internal import internal_routes

Logged = Callable[[str, str], bool]
Lines = list[MutableMapping[str, Any]]


def made_up(number: int, **claims: object) -> str:
    """A token that claims all that a good one would, signed by a key that nobody knows."""
    facts = {"namespace": "default", "serviceaccount": {"name": "p", "uid": "u"}, "pod": {"name": "p", "uid": "u"}}
    body = {"aud": [AUDIENCE], "exp": time() + 600, "sub": "system:serviceaccount:default:p", "kubernetes.io": facts}
    parts = ({"alg": "ES256", "kid": f"made-up-{number}"}, {**body, **claims})
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts), "AAAA"])


async def _nothing(*_: object, **__: object) -> int:
    return 0


@asynccontextmanager
async def door(dispatcher: Dispatcher) -> AsyncIterator[int]:
    """Dispatch's routes behind the listener that `paddock dispatch` opens."""
    sock = bind(0, "--bind-address")
    pods = internal_routes(None, dispatcher.service.tokens, _nothing, _nothing, DispatchSettings()).pods  # pyright: ignore[reportArgumentType]
    app = Starlette(routes=[*dispatcher.service.routes, *pods])
    async with listening(app, sock):
        yield sock.getsockname()[1]


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Caller":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, token: str, path: str = "dispatch", body: bytes = b"{}") -> tuple[int, bytes]:
        head = f"POST /api/internal/runners/{path} HTTP/1.1\r\nhost: x\r\nprefer: wait=0\r\n"
        head += f"authorization: Bearer {token}\r\ncontent-length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        async with asyncio.timeout(30):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
            return int(lines[0].split(b" ")[1]), await self._reader.readexactly(length)

    async def ended(self) -> bool:
        async with asyncio.timeout(WITHIN):
            return await self._reader.read() == b""

    def close(self) -> None:
        self._writer.close()


async def test_a_flood_of_made_up_tokens_costs_few_questions_and_a_pod_beside_it_is_served(
    rig: Rig, log: Lines
) -> None:
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    async with door(dispatcher) as port:
        honest = await Caller.open(port)
        assert (await honest.ask(pod.token))[0] == 204
        callers = [await Caller.open(port) for _ in range(150)]
        flood = [
            asyncio.create_task(caller.ask(made_up(number), "pods/log", b"printed"))
            for number, caller in enumerate(callers)
        ]
        newcomer = await Caller.open(port)
        assert (await honest.ask(pod.token))[0] == 204
        assert (await newcomer.ask(pod.token))[0] == 204
        assert {code for code, _ in await asyncio.gather(*flood)} == {401, 503}
        counted = dispatcher.registry.get_sample_value
        reviews = "paddock_dispatch_token_reviews_total"
        asked, limited = (counted(reviews, {"outcome": o}) for o in ("asked_for_stranger", "limited_stranger"))
        assert asked is not None
        assert limited is not None
        assert asked + limited == 150
        assert 100 <= asked < 150, "a burst of a hundred, and twenty a second"
    refused = [line for line in log if line["event"] == "refused" and line["what"].endswith("pods/log")]
    assert refused, "it is in the log"
    assert all(line["sender"] == "127.0.0.1" for line in refused)
    assert len(refused) < 10, "and a stranger does not decide how often"
    for caller in (honest, newcomer, *callers):
        caller.close()


def _raw(head: str, body: str) -> str:
    parts = (base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (head, body))
    return ".".join([*parts, "AAAA"])


def _holder(**parts: Any) -> dict[str, Any]:
    account, pod = {"name": "p", "uid": "u"}, {"name": "p", "uid": "u"}
    return {"kubernetes.io": {"namespace": "default", "serviceaccount": account, "pod": pod, **parts}}


_DEEP = '{"kid":"k","alg":"ES256","a":' + "[" * 4000 + "]" * 4000 + "}"
ODD_TOKENS = {
    "an end of 400 digits": made_up(1, exp=10**400),
    "an end that is a list": made_up(1, exp=[1]),
    "an end that is true": made_up(1, exp=True),
    "a beginning of 400 digits": made_up(1, nbf=10**400),
    "a Pod whose name is an object": made_up(1, **_holder(pod={"name": {"a": 1}, "uid": "u"})),
    "a Pod whose uid is a list": made_up(1, **_holder(pod={"name": "p", "uid": ["u"]})),
    "a Pod that is a list": made_up(1, **_holder(pod=[1])),
    "an account that is a number": made_up(1, **_holder(serviceaccount=7)),
    "a namespace that is an object": made_up(1, **_holder(namespace={})),
    "a subject that is an object": made_up(1, sub={}),
    "an audience that is an object": made_up(1, aud={}),
    "audiences of every kind": made_up(1, aud=[{}, [], AUDIENCE]),
    "a deep header": _raw(_DEEP, "{}"),
    "a deep payload": _raw('{"kid":"k"}', _DEEP),
    "a key's name that is an object": _raw('{"kid":{}}', "{}"),
    "a payload that is no text": "e30.////.AAAA",
    "a payload that is no base64": "e30.a.AAAA",
    "two parts": "e30.e30",
    "five parts": "e30.e30.e30.e30.e30",
}


@pytest.mark.parametrize("token", ODD_TOKENS.values(), ids=ODD_TOKENS.keys())
async def test_a_made_up_token_of_whatever_shape_is_a_refusal_and_no_failure(rig: Rig, log: Lines, token: str) -> None:
    dispatcher = await rig.dispatcher()
    tokens = dispatcher.service.tokens
    with pytest.raises(Unauthenticated):
        await tokens.waiting(Secret(token))
    with pytest.raises(Unauthenticated):
        await tokens.principal(Secret(token), AUDIENCE)
    async with door(dispatcher) as port:
        for path in ("dispatch", "pods/log", "pods/progress"):
            caller = await Caller.open(port)
            assert (await caller.ask(token, path))[0] == 401
            caller.close()
    assert {line["event"] for line in log} == {"refused"}


async def test_an_honest_mistake_is_answered_with_its_sentence_and_the_next_connection_is_served(
    rig: Rig, logged: Logged
) -> None:
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    async with door(dispatcher) as port:
        for token, sentence in (
            (made_up(1, exp=time() - 5), "expired: read it again"),
            (made_up(1, aud=["somebody-else"]), "not meant for us"),
        ):
            caller = await Caller.open(port)
            status, body = await caller.ask(token)
            assert status == 401
            assert sentence in body.decode()
            assert logged("dispatch", sentence)
            assert await caller.ended(), "who guesses begins each time anew"
        caller = await Caller.open(port)
        assert (await caller.ask(pod.token))[0] == 204
        caller.close()


async def test_a_body_that_is_promised_too_large_is_not_waited_for(rig: Rig, log: Lines) -> None:
    dispatcher = await rig.dispatcher(body_timeout=300.0)
    async with door(dispatcher) as port:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /api/internal/runners/dispatch HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n{")
            async with asyncio.timeout(30):
                assert (await reader.readline()).startswith(b"HTTP/1.1 413")
            writer.close()
    refused = [(line["what"], line["sender"]) for line in log if line["event"] == "refused"]
    assert refused == [("dispatch", "127.0.0.1")], "said once, not three times"


async def test_a_body_that_never_comes_is_refused_and_said(rig: Rig, logged: Logged) -> None:
    dispatcher = await rig.dispatcher(body_timeout=0.2)
    async with door(dispatcher) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /api/internal/runners/dispatch HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{")
        async with asyncio.timeout(30):
            assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()
    assert logged("dispatch", "did not arrive in time")
