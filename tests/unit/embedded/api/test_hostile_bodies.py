"""A stranger's body is not read: who asks is known before what they send. An honest caller's body has the usual limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator

import httpx2
import pytest
import structlog

from paddock.base import connection_limits
from paddock.base.clock import SystemClock
from paddock.base.connection_limits import ConnectionLimits
from paddock.base.http_server import bind, listening
from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store.memory import MemoryStore

TOKEN = "the-administrators"
PATH = "/api/v1/namespaces/default/configmaps"
PROMISED = 3 * 1024 * 1024
BODY_SECONDS = 1.0


@pytest.fixture
async def port() -> AsyncIterator[int]:
    plane = ControlPlane(
        MemoryStore(),
        SystemClock(),
        random.Random(1),
        admin_token=Secret(TOKEN),
        signing_key=generate_key(),
        definitions=[],
    )
    sock = bind(0, "--kube-port")
    limits = ConnectionLimits(body_seconds=BODY_SECONDS)
    async with listening(plane.app, sock, limits=limits), plane.running():
        yield sock.getsockname()[1]


def head(token: str | None, *more: str, length: int | None = PROMISED) -> bytes:
    lines = [f"POST {PATH} HTTP/1.1", "host: x", "content-type: application/json", *more]
    lines += [f"authorization: Bearer {token}"] if token else []
    lines += [f"content-length: {length}"] if length is not None else ["transfer-encoding: chunked"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Sender:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> tuple[int, bytes, dict[str, object]]:
        async with asyncio.timeout(5):
            said = await self.reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in said.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            return int(said.split(b" ")[1]), said.lower(), json.loads(await self.reader.readexactly(length))

    async def seconds_until_the_end(self) -> float:
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError):
                await self.reader.read()
        return asyncio.get_running_loop().time() - began


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[Sender]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Sender(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize("token", [None, "made-up"], ids=["no token", "a token of nobody"])
@pytest.mark.parametrize("length", [PROMISED, None], ids=["promised", "chunked"])
async def test_a_stranger_is_refused_before_a_byte_of_the_body_has_come(
    port: int, token: str | None, length: int | None
) -> None:
    with structlog.testing.capture_logs() as lines:
        async with connected(port) as stranger:
            stranger.writer.write(head(token, length=length))
            code, said, answer = await stranger.answer()
            assert (code, answer["reason"]) == (401, "Unauthorized")
            assert b"connection: close" in said
    assert [(line["what"], line["why"]) for line in lines if line["event"] == "refused"] == [("api", "unauthorized")]


async def test_a_stranger_who_may_not_go_on_is_not_told_to(port: int) -> None:
    async with connected(port) as stranger:
        stranger.writer.write(head(None, "expect: 100-continue"))
        assert (await stranger.answer())[0] == 401, "and not 100 Continue"


async def test_a_refused_stranger_who_says_no_more_loses_the_connection_soon(port: int) -> None:
    async with connected(port) as stranger:
        stranger.writer.write(head("made-up"))
        await stranger.answer()
        assert await stranger.seconds_until_the_end() < 5


async def test_a_refused_stranger_who_sends_on_is_not_listened_to(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "_DRAINED_SECONDS", 60.0)
    async with connected(port) as stranger:
        stranger.writer.write(head("made-up", length=1 << 30))
        await stranger.answer()
        sent = 0
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(10):
                while not stranger.reader.at_eof() and sent < 1 << 26:
                    stranger.writer.write(bytes(65_536))
                    await stranger.writer.drain()
                    sent += 65_536
        assert sent < 1 << 26, "the connection ended long before the promised gigabyte, or its first sixteenth"


async def test_an_honest_client_with_an_old_token_hears_why_although_it_sends_all_at_once(port: int) -> None:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False) as client:
        for size in (100, 200_000):
            refused = await client.post(PATH, content=bytes(size), headers={"authorization": "Bearer old"})
            assert (refused.status_code, refused.json()["reason"]) == (401, "Unauthorized")


async def test_a_stranger_cannot_have_a_body_read_at_the_open_door_of_health_either(port: int) -> None:
    async with connected(port) as stranger:
        stranger.writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 3145728\r\n\r\n")
        async with asyncio.timeout(5):
            assert (await stranger.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_a_known_callers_slow_body_ends_at_the_limit_of_every_body(port: int) -> None:
    async with connected(port) as known:
        known.writer.write(head(TOKEN) + b'{"apiVersion"')
        began = asyncio.get_running_loop().time()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            async with asyncio.timeout(10):
                while not known.reader.at_eof():
                    known.writer.write(b" ")
                    await known.writer.drain()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(known.reader.read(1000), 0.05)
        assert BODY_SECONDS * 0.9 <= asyncio.get_running_loop().time() - began < BODY_SECONDS + 3
    assert ConnectionLimits().body_seconds == 60


async def test_a_known_callers_body_is_read_to_its_end(port: int) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "long"}, "data": {"text": "x" * 200_000}}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False) as client:
        made = await client.post(PATH, json=obj, headers={"authorization": f"Bearer {TOKEN}"})
    assert (made.status_code, made.json()["data"]) == (201, obj["data"])


async def test_a_known_callers_body_that_is_too_large_is_refused_and_the_rest_is_left(port: int) -> None:
    async with connected(port) as known:
        known.writer.write(head(TOKEN, length=1 << 30) + bytes(PROMISED + 1))
        code, said, answer = await known.answer()
    assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")
    assert b"connection: close" in said
