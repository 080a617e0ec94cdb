"""Listening on loopback: a port in use names the way out, and a stop does not wait for idle clients."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from paddock.base.http_server import PortInUseError, bind, listening


async def app(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    if scope["path"] == "/for-ever":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await asyncio.Event().wait()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.mark.parametrize("option", ["--port", "--kube-port"])
def test_a_port_in_use_names_the_option_that_chooses_another(option: str) -> None:
    with bind(0, option) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortInUseError) as refusal:
            bind(port, option)
    assert f"127.0.0.1:{port}" in str(refusal.value)
    assert str(refusal.value).endswith(f"choose another port with {option}")


def test_a_port_that_this_user_may_not_have_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: socket.socket, address: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", denied)
    with pytest.raises(PortInUseError, match=r"Permission denied.*--port"):
        bind(80, "--port")


def test_a_port_can_be_bound_again_right_after_it_was_used() -> None:
    with bind(0, "--port") as first:
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            first.setblocking(True)
            first.accept()[0].close()
    with bind(port, "--port") as second:
        assert second.getsockname()[1] == port


def test_only_loopback_is_listened_on() -> None:
    with bind(0, "--port") as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


async def test_an_answer_never_waits_for_the_clients_delayed_acknowledgement() -> None:
    sock = bind(0, "--port")
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/"
    async with listening(app, sock), httpx2.AsyncClient(trust_env=False) as client:
        await client.get(url)
        quickest = 1.0
        for _ in range(20):
            began = time.perf_counter()
            await client.get(url)
            quickest = min(quickest, time.perf_counter() - began)
    assert quickest < 0.03, "Nagle's algorithm makes it 40 ms"


async def test_it_serves_while_the_block_runs_and_not_after() -> None:
    sock = bind(0, "--port")
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/"
    async with listening(app, sock), httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(url)).text == "ok"
    with pytest.raises(OSError):  # noqa: PT011 - refused, reset: the kernel's words differ
        socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1].rstrip("/"))), timeout=1)


async def test_a_stop_does_not_wait_for_a_stream_that_never_ends() -> None:
    sock = bind(0, "--port")
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/for-ever"
    async with AsyncExitStack() as client_side:
        client = await client_side.enter_async_context(httpx2.AsyncClient(trust_env=False))
        async with listening(app, sock):
            answer = await client_side.enter_async_context(client.stream("GET", url))
            assert answer.status_code == 200
            began = time.perf_counter()
        assert time.perf_counter() - began < 60.0
