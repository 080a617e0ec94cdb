"""Dispatch searches for cycles every few minutes only: what strangers send must leave none, or they would decide what it holds."""

import asyncio
import gc
import socket

import pytest
from attacks import test_hostile_stranger as stranger
from integration.runners.dispatch.rig import Rig
from integration.runners.webhooks.rig import Dispatcher
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from paddock.base.guests import StrangerLimits
from paddock.base.secrets import Secret
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.webhooks.receive import PATH, webhook_route

ASK = "/api/internal/runners/dispatch"
FORGED = f"x-github-event: ping\r\nx-github-delivery: d\r\nx-hub-signature-256: sha256={'0' * 64}"

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
        pytest.param(ASK, _bearer(stranger.made_up(1)), 2, True, id="a made-up token"),
        pytest.param(ASK, _bearer(stranger.made_up(1, exp=5)), 2, True, id="an expired token"),
        pytest.param(ASK, _bearer("rubbish"), 2, True, id="no token at all"),
        pytest.param(ASK, _bearer("rubbish"), 1_000_000, True, id="too long a body"),
        pytest.param(ASK, _bearer("rubbish"), 1000, False, id="half a body, and hangs up"),
        pytest.param("/nowhere", _bearer("rubbish"), 2, True, id="no such page"),
        pytest.param(PATH, FORGED, 2, True, id="a forged delivery"),
        pytest.param(PATH, FORGED, 1000, False, id="half a forged delivery, and hangs up"),
    ],
)
async def test_what_a_stranger_sent_is_gone_with_its_connection(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, path: str, header: str, promised: int, hear: bool
) -> None:
    monkeypatch.setattr(stranger, "LIMITS", StrangerLimits(quick_each=1e6, quick_each_burst=1e6, quick=1e6))
    inbox = Dispatcher(rig.bench).worker
    webhooks = webhook_route(
        rig.ledger, lambda: [Secret("hush")], DispatchSettings(), inbox=inbox, registry=CollectorRegistry()
    )
    async with stranger.door(await rig.dispatcher(), webhooks) as (port, registry):

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
