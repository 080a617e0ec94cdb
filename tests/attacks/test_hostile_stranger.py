"""Anybody who can reach dispatch, has no token of the cluster, and opens as many connections as they like."""

import asyncio
import base64
import gc
import json
import socket
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from time import time
from typing import Any

import pytest
from integration.runners.dispatch.rig import Dispatcher, Rig
from integration.runners.webhooks import rig as webhooks_rig
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from paddock.base.guests import StrangerLimits
from paddock.base.http_server import bind, listening
from paddock.base.secrets import Secret
from paddock.base.strangers import Strangers
from paddock.runners.api import AUDIENCE
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.identity import Unauthenticated
from paddock.runners.http.internal import internal_routes
from paddock.runners.webhooks.receive import PATH, webhook_route

Logged = Callable[[str, str], bool]
Lines = list[MutableMapping[str, Any]]
LIMITS = StrangerLimits(quick_each=0.001, quick_each_burst=3, late_seconds=300, latest_seconds=300)


def made_up(number: int, **claims: object) -> str:
    """A token that claims all that a good one would, signed by a key that nobody knows."""
    facts = {"namespace": "default", "serviceaccount": {"name": "p", "uid": "u"}, "pod": {"name": "p", "uid": "u"}}
    body = {"aud": [AUDIENCE], "exp": time() + 600, "sub": "system:serviceaccount:default:p", "kubernetes.io": facts}
    parts = ({"alg": "ES256", "kid": f"made-up-{number}"}, {**body, **claims})
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts), "AAAA"])


async def _nothing(*_: object, **__: object) -> int:
    return 0


@asynccontextmanager
async def door(
    dispatcher: Dispatcher, *more: Route, limits: StrangerLimits = LIMITS
) -> AsyncIterator[tuple[int, CollectorRegistry]]:
    """Dispatch's routes behind the listener that `paddock dispatch` opens."""
    registry, sock = CollectorRegistry(), bind(0, "--bind-address")
    pods = internal_routes(None, dispatcher.service.tokens, _nothing, _nothing, DispatchSettings()).pods  # pyright: ignore[reportArgumentType]
    app = Starlette(routes=[*dispatcher.service.routes, *pods, *more])
    async with listening(app, sock, strangers=Strangers(limits, registry=registry)):
        yield sock.getsockname()[1], registry


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

    def close(self) -> None:
        self._writer.close()


async def until_held(registry: CollectorRegistry, count: int) -> None:
    async with asyncio.timeout(30):
        while registry.get_sample_value("paddock_http_strangers", {"which": "held"}) != count:
            await asyncio.sleep(0.01)


async def test_a_flood_of_made_up_tokens_is_kept_waiting_and_a_pod_beside_it_is_not(rig: Rig, log: Lines) -> None:
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    async with door(dispatcher) as (port, registry):
        honest = await Caller.open(port)
        assert (await honest.ask(pod.token))[0] == 204
        callers = [await Caller.open(port) for _ in range(150)]
        flood = [
            asyncio.create_task(caller.ask(made_up(number), "pods/log", b"printed"))
            for number, caller in enumerate(callers)
        ]
        await until_held(registry, 147)
        newcomer = await Caller.open(port)
        assert (await honest.ask(pod.token))[0] == 204
        assert (await newcomer.ask(pod.token))[0] == 204
        told = [task.result() for task in flood if task.done()]
        assert len(told) == 3
        assert {code for code, _ in told} <= {401, 503}
        assert registry.get_sample_value("paddock_http_strangers_refused_total", {"how": "late"}) == 147
        counted = dispatcher.registry.get_sample_value
        reviews = "paddock_dispatch_token_reviews_total"
        asked, limited = (counted(reviews, {"outcome": o}) for o in ("asked_for_stranger", "limited_stranger"))
        assert asked is not None
        assert limited is not None
        assert asked + limited == 150
        assert 100 <= asked < 150, "a burst of a hundred, and twenty a second"
    # The stop answered them all.
    codes = {code for code, _ in await asyncio.gather(*flood)}
    assert codes == {401, 503}
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
async def test_a_made_up_token_of_whatever_shape_is_a_refusal_that_is_delayed_and_counted(
    rig: Rig, log: Lines, token: str
) -> None:
    dispatcher = await rig.dispatcher()
    tokens = dispatcher.service.tokens
    with pytest.raises(Unauthenticated):
        await tokens.waiting(Secret(token))
    with pytest.raises(Unauthenticated):
        await tokens.principal(Secret(token), AUDIENCE)
    async with door(dispatcher) as (port, registry):
        callers = [await Caller.open(port) for _ in range(5)]
        asked = [
            asyncio.create_task(caller.ask(token, path))
            for caller, path in zip(
                callers, ("dispatch", "pods/log", "dispatch", "pods/progress", "dispatch"), strict=True
            )
        ]
        await until_held(registry, 2)
        assert {task.result()[0] for task in asked if task.done()} == {401}
    assert {code for code, _ in await asyncio.gather(*asked)} == {401}
    assert {line["event"] for line in log} == {"refused"}
    for caller in callers:
        caller.close()


async def test_an_honest_mistake_hears_its_sentence_at_once_and_is_forgotten_when_it_was_mended(
    rig: Rig, logged: Logged
) -> None:
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    async with door(dispatcher) as (port, registry):
        caller = await Caller.open(port)
        status, body = await caller.ask(made_up(1, exp=time() - 5))
        assert status == 401
        assert b"expired: read it again" in body
        status, body = await caller.ask(made_up(1, aud=["somebody-else"]))
        assert status == 401
        assert b"not meant for us" in body
        assert logged("dispatch", "expired: read it again")
        assert logged("dispatch", "not meant for us")
        # The mistake was mended: the same connection is a Pod's, and nothing is held against it.
        assert (await caller.ask(pod.token))[0] == 204
        assert registry.get_sample_value("paddock_http_strangers_refused_total", {"how": "late"}) == 0
        assert registry.get_sample_value("paddock_http_strangers", {"which": "connected"}) == 0
        caller.close()


async def test_a_body_that_is_promised_too_large_is_not_waited_for(rig: Rig, log: Lines) -> None:
    dispatcher = await rig.dispatcher(body_timeout=300.0)
    async with door(dispatcher) as (port, _):
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
    async with door(dispatcher) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /api/internal/runners/dispatch HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{")
        async with asyncio.timeout(30):
            assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()
    assert logged("dispatch", "did not arrive in time")


ASK = "/api/internal/runners/dispatch"
FORGED = f"x-github-event: ping\r\nx-github-delivery: d\r\nx-hub-signature-256: sha256={'0' * 64}"

AT_ONCE = StrangerLimits(quick_each=1e6, quick_each_burst=1e6, quick=1e6)
OF_A_CONNECTION = (asyncio.BaseTransport, asyncio.BaseProtocol, socket.socket, Request, RequestResponseCycle)


async def _send(port: int, path: str, header: str, promised: int, *, hear: bool) -> None:
    """On a bare socket: asyncio's own streams would leave cycles on this side."""
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\nprefer: wait=0\r\n{header}\r\ncontent-length: {promised}\r\n\r\n{{}}"
        )
        await loop.sock_sendall(sock, head.encode())
        if hear:
            async with asyncio.timeout(30):
                assert (await loop.sock_recv(sock, 4096)).startswith(b"HTTP/1.1 4")
        else:
            await asyncio.sleep(0.05)


def _bearer(token: str) -> str:
    return f"authorization: Bearer {token}"


@pytest.mark.parametrize(
    ("path", "header", "promised", "hear"),
    [
        pytest.param(ASK, _bearer(made_up(1)), 2, True, id="a made-up token"),
        pytest.param(ASK, _bearer(made_up(1, exp=5)), 2, True, id="an expired token"),
        pytest.param(ASK, _bearer("rubbish"), 2, True, id="no token at all"),
        pytest.param(ASK, _bearer("rubbish"), 1_000_000, True, id="too long a body"),
        pytest.param(ASK, _bearer("rubbish"), 1000, False, id="half a body, and hangs up"),
        pytest.param("/nowhere", _bearer("rubbish"), 2, True, id="no such page"),
        pytest.param(PATH, FORGED, 2, True, id="a forged delivery"),
        pytest.param(PATH, FORGED, 1000, False, id="half a forged delivery, and hangs up"),
    ],
)
async def test_what_a_stranger_sent_is_gone_with_its_connection(
    rig: Rig, path: str, header: str, promised: int, hear: bool
) -> None:
    """Dispatch searches for cycles every few minutes only: strangers must not decide what it holds until then."""
    inbox = webhooks_rig.Dispatcher(rig.bench).worker
    webhooks = webhook_route(
        rig.ledger, lambda: [Secret("hush")], DispatchSettings(), inbox=inbox, registry=CollectorRegistry()
    )
    async with door(await rig.dispatcher(), webhooks, limits=AT_ONCE) as (port, registry):

        async def all_left() -> None:
            async with asyncio.timeout(30):
                while registry.get_sample_value("paddock_http_strangers", {"which": "connected"}):
                    await asyncio.sleep(0.01)

        await _send(port, path, header, promised, hear=hear)
        await all_left()
        gc.collect()
        gc.disable()
        try:
            for _ in range(10):
                await _send(port, path, header, promised, hear=hear)
            await all_left()
            await asyncio.sleep(0.05)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            assert [kind for kind in map(type, gc.garbage) if issubclass(kind, OF_A_CONNECTION)] == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
