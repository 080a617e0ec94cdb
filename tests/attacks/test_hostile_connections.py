"""Whoever opens connections and is silent, slow, endless or no HTTP at all, with TLS and without: each costs its seconds, and a
file of those that are for connections. Who means well is served beside them, also while they hold all that they can.
"""

import asyncio
import contextlib
import json
import random
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
from doubles.clocks import WITHIN

from paddock.base.connection_budget import ConnectionBudget, of_this_process
from paddock.base.connection_limits import ConnectionLimits
from paddock.base.http_server import Tls, bind, listening
from paddock.embedded.certificates import Certificates

LIMITS = ConnectionLimits(handshake_seconds=0.3, head_seconds=0.3, head_bytes=8192, body_seconds=0.3, idle_seconds=0.5)
PATIENT = ConnectionLimits(head_bytes=8192)
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
HELD = b"GET /held HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\n"


class Application:
    """Reads the body, holds /held until it is let go, answers /N with that code, leaves the body of /unread alone."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.held = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        got, more = 0, scope["path"] != "/unread"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            got, more = got + len(message["body"]), message.get("more_body", False)
        if scope["path"] == "/held":
            self.held += 1
            await self.let_go.wait()
        code = int(scope["path"][1:]) if scope["path"][1:].isdecimal() else 200
        body = str(got).encode() if code != 204 else b""
        length = [(b"content-length", str(len(body)).encode())] if body else []
        await send({"type": "http.response.start", "status": code, "headers": length})
        await send({"type": "http.response.body", "body": body})


class Door:
    """A listener as its clients find it."""

    def __init__(self, port: int, application: Application, context: ssl.SSLContext | None, log: Any) -> None:
        self.port, self.application, self.context, self._log = port, application, context, log

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context)

    async def open_without_handshake(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def answer(self, *sent: bytes, pause: float = 0.0) -> bytes:
        """Everything that the server says until it ends the connection."""
        reader, writer = await self.open()
        reading = asyncio.create_task(until_its_end(reader))
        try:
            with contextlib.suppress(ConnectionError):
                for part in sent:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(pause)
            return await reading
        finally:
            writer.close()

    async def until_held(self, count: int) -> None:
        async with asyncio.timeout(WITHIN):
            while self.application.held < count:
                await asyncio.sleep(0.01)

    @property
    def refusals(self) -> list[str]:
        return [line["why"] for line in self._log if line["event"] == "refused" and line["what"] == "connection"]


async def until_its_end(reader: asyncio.StreamReader) -> bytes:
    said = b""
    async with asyncio.timeout(WITHIN):
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while more := await reader.read(65_536):
                said += more
    return said


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.ensure(tmp_path_factory.mktemp("pki"), datetime.now(UTC))


@asynccontextmanager
async def door(
    certificates: Certificates | None, limits: ConnectionLimits = LIMITS, budget: ConnectionBudget | None = None
) -> AsyncIterator[Door]:
    sock, application, tls, context = bind(0, "--port"), Application(), None, None
    if certificates is not None:
        tls = Tls(certificates.certificate, certificates.key)
        context = ssl.create_default_context(cafile=str(certificates.authority))
    with structlog.testing.capture_logs() as log:
        async with listening(application, sock, tls, limits, budget=budget):
            yield Door(sock.getsockname()[1], application, context, log)


@pytest.fixture(params=["plain", "tls"])
async def there(request: pytest.FixtureRequest, certificates: Certificates) -> AsyncIterator[Door]:
    async with door(certificates if request.param == "tls" else None) as found:
        yield found


@pytest.fixture(params=["plain", "tls"])
async def patient(request: pytest.FixtureRequest, certificates: Certificates) -> AsyncIterator[Door]:
    """Whose seconds are those of real life, so that no test waits for them."""
    async with door(certificates if request.param == "tls" else None, PATIENT) as found:
        yield found


def test_the_limits_are_what_the_page_on_security_says() -> None:
    limits = ConnectionLimits()
    assert (limits.handshake_seconds, limits.head_seconds, limits.body_seconds, limits.idle_seconds) == (10, 10, 60, 75)
    assert limits.head_bytes == 64 * 1024


# Silence and slowness


async def test_who_says_nothing_is_ended_without_a_word(there: Door) -> None:
    assert await there.answer() == b""
    assert there.refusals == ["the head of a request did not come within 0.3 s"]


@pytest.mark.parametrize("sent", [b"", b"\x16"], ids=["not a byte", "the first byte of a handshake"])
async def test_who_shakes_no_hands_is_ended_and_leaves_its_place(certificates: Certificates, sent: bytes) -> None:
    async with door(certificates, budget=ConnectionBudget(2)) as there:
        for _ in range(3):  # each needs the places of those before it
            opened = [await there.open_without_handshake() for _ in range(2)]
            for reader, writer in opened:
                writer.write(sent)
                assert await until_its_end(reader) == b""
                writer.close()
        assert (await there.answer(LAST)).startswith(b"HTTP/1.1 200")
        assert set(there.refusals) == {"no TLS handshake within 0.3 s"}


async def test_many_who_are_silent_before_their_handshake_keep_nobody_waiting(certificates: Certificates) -> None:
    async with door(certificates, PATIENT) as there:
        silent = [await there.open_without_handshake() for _ in range(100)]
        assert (await there.answer(LAST)).startswith(b"HTTP/1.1 200"), "more than may shake hands at once"
        for _, writer in silent:
            writer.close()


async def test_what_is_no_handshake_is_ended_and_others_are_served(certificates: Certificates) -> None:
    async with door(certificates, PATIENT, ConnectionBudget(2)) as there:
        for _ in range(3):
            reader, writer = await there.open_without_handshake()
            writer.write(GET)
            assert b"HTTP" not in await until_its_end(reader)
            writer.close()
        assert (await there.answer(LAST)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([b"GET / HTTP/1.1\r\nhost: x\r\n"], id="half a head"),
        pytest.param([bytes([each]) for each in b"GET / HTTP/1.1\r\nhost: " + b"x" * 20], id="byte by byte"),
    ],
)
async def test_a_head_that_does_not_come_to_its_end_is_ended(there: Door, sent: list[bytes]) -> None:
    said = await there.answer(*sent, pause=0.05)
    # Who sends on meanwhile may see a reset in place of the sentence.
    assert said.startswith(b"HTTP/1.1 408 ") or (said == b"" and len(sent) > 1)
    assert there.refusals == ["the head of a request did not come within 0.3 s"]


async def test_half_a_head_on_a_connection_that_was_good_before_is_ended(there: Door) -> None:
    said = await there.answer(GET, b"GET / HT", pause=0.1)
    assert said.count(b"HTTP/1.1 200") == 1
    assert b"HTTP/1.1 408" in said


@pytest.mark.parametrize("sent", [b"\r\n", b"\r", b"\r\n\r\n"])
async def test_an_empty_line_on_a_connection_that_was_good_before_keeps_no_place(there: Door, sent: bytes) -> None:
    assert (await there.answer(GET, sent, pause=0.1)).count(b"HTTP/1.1 200") == 1


async def test_who_rests_between_two_requests_is_ended_in_time(there: Door) -> None:
    assert (await there.answer(GET)).count(b"HTTP/1.1 200") == 1
    assert there.refusals == [], "it did nothing wrong"


@pytest.mark.parametrize("pace", [0.0, 0.05], ids=["stops", "dribbles"])
async def test_a_body_that_does_not_come_to_its_end_is_ended(there: Door, pace: float) -> None:
    said = await there.answer(POST + b"content-length: 90\r\n\r\n", *([b"a"] * 20 if pace else [b"abc"]), pause=pace)
    assert b" 200 " not in said
    assert there.refusals == ["the body of a request did not come within 0.3 s"]


async def test_a_body_that_nobody_asked_for_ends_the_connection_with_the_answer(patient: Door) -> None:
    said = await patient.answer(b"POST /unread HTTP/1.1\r\nhost: x\r\ncontent-length: 90\r\n\r\n" + b"a" * 90, GET)
    assert said.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in said


async def test_a_held_request_outlasts_every_limit(there: Door) -> None:
    asked = asyncio.create_task(there.answer(b"POST /held HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc"))
    await there.until_held(1)
    await asyncio.sleep(2 * LIMITS.idle_seconds)
    there.application.let_go.set()
    assert b"\r\n\r\n3" in await asked


async def test_a_turn_of_the_loop_that_takes_too_long_is_no_clients_fault() -> None:
    async with door(None) as there:
        with socket.create_connection(("127.0.0.1", there.port)) as client:
            await asyncio.sleep(0.05)  # its seconds count
            client.sendall(LAST)
            time.sleep(2 * LIMITS.head_seconds)  # the process stands still, so head and deadline are due in one turn
            assert (await asyncio.to_thread(client.recv, 100)).startswith(b"HTTP/1.1 200")


# Too much, and no HTTP


async def test_a_head_without_end_is_cut_off(patient: Door) -> None:
    said = await patient.answer(b"GET / HTTP/1.1\r\nhost: x\r\n", *[b"a: " + b"b" * 4000 + b"\r\n"] * 2000)
    assert said == b"" or said.startswith(b"HTTP/1.1 400 ")


async def test_a_body_beside_its_head_does_not_count_as_head(patient: Door) -> None:
    body = b"x" * 500_000
    said = await patient.answer(POST + b"connection: close\r\ncontent-length: 500000\r\n\r\n" + body)
    assert said.endswith(b"\r\n\r\n500000")


@pytest.mark.parametrize("code", [400, 401, 403, 413])
async def test_after_a_refusal_the_connection_ends(patient: Door, code: int) -> None:
    said = await patient.answer(f"GET /{code} HTTP/1.1\r\nhost: x\r\n\r\n".encode(), GET)
    assert said.startswith(f"HTTP/1.1 {code} ".encode())
    assert said.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("code", [200, 204, 404, 409, 410, 503])
async def test_after_any_other_answer_it_stays(patient: Door, code: int) -> None:
    said = await patient.answer(f"GET /{code} HTTP/1.1\r\nhost: x\r\n\r\n".encode(), LAST, pause=0.05)
    assert said.count(b"HTTP/1.1") == 2


async def test_what_is_no_http_is_refused_and_whoever_sends_it_does_not_decide_how_much_is_logged(
    patient: Door, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        assert (await patient.answer(b"\x00 rubbish\r\n\r\n")).startswith(b"HTTP/1.1 400")
    assert caplog.records == []
    assert patient.refusals == ["this is no HTTP, or its head is too long"]


@pytest.mark.parametrize("path", [b"/", b"/unread", b"/held"])
async def test_a_body_that_is_none_ends_the_connection_without_a_trace(
    patient: Door, caplog: pytest.LogCaptureFixture, path: bytes
) -> None:
    head = b"POST " + path + b" HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    assert b"HTTP/1.1 400" in await patient.answer(head + b"rubbish\r\n")
    assert b" 500 " not in await patient.answer(head, b"3\r\nabc\r\n", b"rubbish\r\n", pause=0.05)
    assert caplog.records == []


PIECES = (
    *(
        b"GET / HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\n",
        b"POST /unread HTTP/1.1\r\n",
        b"HEAD / HTTP/1.1\r\n",
        b"GET /%ff%00 HTTP/1.0\r\n",
    ),
    *(
        b"CONNECT x:1 HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"GET http://a/b?c#d HTTP/1.1\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n",
    ),
    *(b"host: x\r\n", b"content-length: 3\r\n", b"content-length: " + b"9" * 5000 + b"\r\n", b"content-length: -1\r\n"),
    *(
        b"transfer-encoding: chunked\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"f" * 30 + b"\r\n",
        b"expect: 100-continue\r\n",
    ),
    *(
        b"connection: upgrade\r\nupgrade: h2c\r\n",
        b"connection: close\r\n",
        b"x: \xff\r\n",
        b"\xff: x\r\n",
        b"\r\n",
        b"abc",
        b"\x00",
    ),
)


@pytest.mark.parametrize("seed", range(5))
async def test_no_mixture_of_it_leaves_a_trace_and_who_means_well_is_served_after_it(
    patient: Door, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    rng = random.Random(seed)

    async def sent() -> None:
        _, writer = await patient.open()
        with contextlib.suppress(ConnectionError):
            for _ in range(rng.randint(1, 4)):
                writer.write(b"".join(rng.choices(PIECES, k=rng.randint(1, 8))))
                await asyncio.sleep(rng.choice([0, 0.002]))
        writer.close()

    for _ in range(5):
        await asyncio.gather(*(sent() for _ in range(10)))
    assert (await patient.answer(LAST)).startswith(b"HTTP/1.1 200")
    assert caplog.records == []


async def test_of_many_requests_at_once_one_is_taken_at_a_time(patient: Door) -> None:
    many = asyncio.create_task(patient.answer(HELD + GET * 2000))
    await patient.until_held(1)
    assert patient.application.held == 1
    patient.application.let_go.set()
    assert (await many).count(b"HTTP/1.1 200") == 1, "the first one ends the connection"
    assert (await patient.answer(GET * 500 + LAST)).count(b"HTTP/1.1 200") == 501


async def test_an_upgrade_is_answered_as_the_plain_request_that_it_is(patient: Door, capfd: Any) -> None:
    ask = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n"
    assert (await patient.answer(ask)).startswith(b"HTTP/1.1 200")
    assert "pip install" not in "".join(capfd.readouterr())


# A crowd


async def test_who_comes_when_the_house_is_full_waits_for_a_place(certificates: Certificates) -> None:
    for tls in (None, certificates):
        async with door(tls, PATIENT, ConnectionBudget(4)) as there:
            held = [asyncio.create_task(there.answer(HELD)) for _ in range(4)]
            await there.until_held(4)
            late = asyncio.create_task(there.answer(LAST))
            done, _ = await asyncio.wait([late], timeout=0.3)
            assert not done
            there.application.let_go.set()
            assert all(said.startswith(b"HTTP/1.1 200") for said in await asyncio.gather(late, *held))


async def test_a_crowd_at_one_door_takes_no_place_at_another(certificates: Certificates) -> None:
    budget = ConnectionBudget(8)
    async with door(None, PATIENT, budget) as crowded, door(certificates, PATIENT, budget) as other:
        crowd = [asyncio.create_task(crowded.answer(HELD)) for _ in range(20)]
        await crowded.until_held(6)
        assert (await other.answer(LAST)).startswith(b"HTTP/1.1 200")
        assert crowded.application.held == 6, "and two are the other's own"
        crowded.application.let_go.set()
        await asyncio.gather(*crowd)


@contextmanager
def two_listeners(folder: Path, *, files: int, handshake_seconds: float) -> Iterator[tuple[int, int]]:
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("two_listeners.py"), folder, str(files), str(handshake_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        page, api = json.loads(process.stdout.readline())
        yield page, api
    finally:
        process.communicate()


async def test_silent_tls_connections_beyond_all_files_keep_neither_page_nor_api_from_answering(tmp_path: Path) -> None:
    of_this_process()  # this process, too, may open as many
    with two_listeners(tmp_path, files=1024, handshake_seconds=2.0) as (page, api):
        made = Certificates.ensure(tmp_path, datetime.now(UTC))
        silent = [await asyncio.open_connection("127.0.0.1", api) for _ in range(1100)]
        context = ssl.create_default_context(cafile=str(made.authority))
        for port, tls in ((page, None), (api, context), (page, None)):
            async with asyncio.timeout(WITHIN):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
                writer.write(LAST)
                assert (await reader.read()).startswith(b"HTTP/1.1 200")
                writer.close()
        for _, writer in silent:
            writer.close()
