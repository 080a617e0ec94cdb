"""A hostile client costs a bounded amount: of bytes, of seconds, of places. An honest one beside it notices nothing."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import structlog

from paddock.base.connection_limits import ConnectionLimits, with_limits
from paddock.base.http_server import bind, listening

LIMITS = ConnectionLimits(head_bytes=8192, head_seconds=0.3, body_seconds=0.3, connections=4)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, waits as long as the path says (longer than every limit), answers with the body's length."""
    got = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        got += len(message["body"])
        if not message.get("more_body"):
            break
    if scope["path"] == "/held":
        await asyncio.sleep(1.0)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(got).encode()})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    sock = bind(0, "--port")
    number = sock.getsockname()[1]
    async with listening(app, sock, limits=LIMITS):
        yield number


async def answer(port: int, *sent: bytes, pause: float = 0.0) -> bytes:
    """Everything that the server says until it ends the connection, which it must within ten seconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(ConnectionError):
            for part in sent:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause)
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                return await reader.read()
            return b""
    finally:
        writer.close()


async def test_headers_without_end_are_cut_off(port: int) -> None:
    said = await answer(port, b"GET / HTTP/1.1\r\nhost: x\r\n", *[b"a: " + b"b" * 4000 + b"\r\n"] * 2000)
    assert b"200" not in said.split(b"\r\n")[0]
    assert said == b"" or said.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([], id="not a byte"),
        pytest.param([b"GET / HTTP/1.1\r\nhost: x\r\n"], id="half a head"),
        pytest.param([b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc"], id="half a body"),
    ],
)
async def test_a_client_that_stops_in_mid_request_is_ended(port: int, sent: list[bytes]) -> None:
    said = await answer(port, *sent)
    assert b" 200 " not in said


async def test_a_client_that_sends_byte_by_byte_is_ended(port: int) -> None:
    said = await answer(port, *[bytes([each]) for each in b"GET / HTTP/1.1\r\nhost: " + b"x" * 20], pause=0.05)
    assert b" 200 " not in said


async def test_half_a_head_on_a_connection_that_was_good_before_is_ended(port: int) -> None:
    said = await answer(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"GET / HT", pause=0.1)
    assert said.count(b"HTTP/1.1 200") == 1
    assert b"HTTP/1.1 408" in said


@pytest.mark.parametrize("sent", [b"\r\n", b"\r", b"\r\n\r\n"])
async def test_an_empty_line_on_a_connection_that_was_good_before_keeps_no_place(port: int, sent: bytes) -> None:
    said = await answer(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", sent, pause=0.1)
    assert said.count(b"HTTP/1.1 200") == 1


async def test_an_empty_line_before_a_request_is_passed_over(port: int) -> None:
    get = b"GET / HTTP/1.1\r\nhost: x\r\n"
    said = await answer(port, get + b"\r\n", b"\r\n", get + b"connection: close\r\n\r\n", pause=0.05)
    assert said.count(b"HTTP/1.1 200") == 2


async def test_a_held_request_outlasts_every_limit(port: int) -> None:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        assert (await client.post("/held", content=b"x" * 5000)).text == "5000"


async def test_a_body_beside_its_head_does_not_count_as_head(port: int) -> None:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        assert (await client.post("/", content=b"x" * 500_000)).text == "500000"


async def test_connections_over_the_limit_are_told_so_and_leave_the_others_alone(port: int) -> None:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        held = [asyncio.create_task(client.get("/held")) for _ in range(4)]
        await asyncio.sleep(0.1)
        said = await answer(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b" 200 " not in said
        assert [(await each).status_code for each in held] == [200] * 4
        assert (await client.get("/")).status_code == 200


async def test_one_request_may_come_before_the_answer_to_another_and_hundreds_may_not(port: int) -> None:
    one = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    last = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    assert (await answer(port, one + last)).count(b"HTTP/1.1 200") == 2
    assert (await answer(port, one * 500)).count(b"HTTP/1.1 200") <= 1


async def test_an_upgrade_is_answered_as_the_plain_request_that_it_is(port: int, capfd: Any) -> None:
    ask = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n"
    said = await answer(port, ask)
    assert said.startswith(b"HTTP/1.1 200")
    assert "pip install" not in "".join(capfd.readouterr())


async def test_rubbish_is_refused_and_whoever_sends_it_does_not_decide_how_much_is_logged(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with structlog.testing.capture_logs() as lines:
        for _ in range(20):
            assert (await answer(port, b"\x16\x03\x01 rubbish\r\n\r\n")).startswith(b"HTTP/1.1 400")
    assert [record for record in caplog.records if "Invalid HTTP" in record.getMessage()] == []
    assert [line for line in lines if "limit" in line["event"]] == [
        {"event": "connections were ended at a limit", "component": "http", "no_http": 1, "log_level": "warning"}
    ]


async def test_of_many_who_send_rubbish_most_are_kept_waiting_and_nobody_else_is() -> None:
    sock = bind(0, "--port")
    number = sock.getsockname()[1]
    limits = ConnectionLimits(connections=100, quick_refusals=2, kept_waiting=0.5)
    async with listening(app, sock, limits=limits):
        said = asyncio.gather(*(answer(number, b"\x16\x03\x01 rubbish\r\n\r\n") for _ in range(20)))
        honest = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        assert (await answer(number, honest)).startswith(b"HTTP/1.1 200")
        heard = await said
    told = [each for each in heard if each.startswith(b"HTTP/1.1 400")]
    assert 2 <= len(told) < 10
    assert heard.count(b"") == 20 - len(told), "silence, and the end"


def test_a_request_that_our_own_stop_cuts_short_leaves_no_trace_and_a_failure_does() -> None:
    def said(error: BaseException) -> bool:
        record = logging.LogRecord(
            "uvicorn.error", logging.ERROR, "", 0, "Exception in ASGI application", (), (type(error), error, None)
        )
        return bool(logging.getLogger("uvicorn.error").filter(record))

    with_limits(ConnectionLimits(connections=1), lambda _: None)
    assert not said(asyncio.CancelledError("timeout graceful shutdown exceeded"))
    assert said(ValueError("a real one"))
