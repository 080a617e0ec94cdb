"""Strangers beside callers that proved who they are: hostile clients against a real listener, and the line by itself."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paddock.base.connection_limits import ConnectionLimits
from paddock.base.guests import StrangerLimits
from paddock.base.http_server import bind, listening
from paddock.base.strangers import Strangers, proven

LATE = 0.4
LIMITS = StrangerLimits(quick_each=0.001, quick_each_burst=2, late_seconds=LATE, latest_seconds=30.0, kept_seconds=0.5)
GOOD = b"GET /good HTTP/1.1\r\nhost: x\r\n\r\n"
BAD = b"GET /bad HTTP/1.1\r\nhost: x\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Vouches for whoever asks for /good, and refuses the rest."""
    await receive()
    if scope["path"] == "/good":
        proven(scope)
    status = 204 if scope["path"] == "/good" else 401
    await send({"type": "http.response.start", "status": status, "headers": [(b"x-query", scope["query_string"])]})
    await send({"type": "http.response.body", "body": b"" if status == 204 else b"no"})


class Listener:
    def __init__(self, port: int, strangers: Strangers, registry: CollectorRegistry) -> None:
        self.port, self.strangers, self._registry = port, strangers, registry

    def count(self, name: str, **labels: str) -> float:
        return self._registry.get_sample_value(name, labels) or 0.0

    def refused(self, how: str) -> float:
        return self.count("paddock_http_strangers_refused_total", how=how)

    def now(self, which: str) -> float:
        return self.count("paddock_http_strangers", which=which)


@asynccontextmanager
async def listener(limits: StrangerLimits = LIMITS, connections: int = 100, **more: float) -> AsyncIterator[Listener]:
    sock, registry = bind(0, "--port"), CollectorRegistry()
    strangers = Strangers(limits, registry=registry)
    bounds = ConnectionLimits(connections=connections, **more)  # pyright: ignore[reportArgumentType]
    async with listening(app, sock, limits=bounds, strangers=strangers):
        yield Listener(sock.getsockname()[1], strangers, registry)


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, there: Listener) -> "Caller":
        return cls(*await asyncio.open_connection("127.0.0.1", there.port))

    async def ask(self, request: bytes = GOOD) -> tuple[bytes, float]:
        """The first line of the answer, and the seconds that it took."""
        began = asyncio.get_running_loop().time()
        self.writer.write(request)
        async with asyncio.timeout(30):
            head = await self.reader.readuntil(b"\r\n\r\n")
            if b"204" not in head.split(b"\r\n")[0]:
                await self.reader.readuntil(b"no" if b"chunked" not in head else b"0\r\n\r\n")
        return head.split(b"\r\n")[0], asyncio.get_running_loop().time() - began

    async def heard(self) -> bytes:
        """Everything until the other side ends the connection."""
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                return await self.reader.read()
            return b""

    def close(self) -> None:
        self.writer.close()


async def until(true: Any) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


async def test_the_first_refusals_are_told_at_once_and_each_later_one_later() -> None:
    async with listener() as there:
        caller = await Caller.open(there)
        took = [(await caller.ask(BAD))[1] for _ in range(4)]
        assert max(took[:2]) < LATE
        assert took[2] >= LATE
        assert took[3] >= 2 * LATE
        assert (there.refused("at_once"), there.refused("late")) == (2, 2)
        caller.close()


async def test_a_caller_that_proved_itself_waits_for_no_stranger() -> None:
    async with listener(StrangerLimits(quick=1, quick_each_burst=1, late_seconds=30)) as there:
        strangers = [await Caller.open(there) for _ in range(30)]
        asking = [asyncio.create_task(each.ask(BAD)) for each in strangers]
        await until(lambda: there.now("held") == 29)
        honest = await Caller.open(there)
        for _ in range(5):
            assert (await honest.ask())[0].endswith(b"204 No Content")
        assert there.now("held") == 29, "still kept waiting"
        assert there.now("connected") == 30, "the proven caller is none of them"
        for each, task in zip(strangers, asking, strict=True):
            task.cancel()
            each.close()
        await until(lambda: there.now("held") == 0)
        await until(lambda: there.now("connected") == 0)


async def test_a_stop_answers_whoever_is_held_and_leaves_no_trace_in_the_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    began = asyncio.get_running_loop().time()
    async with listener(StrangerLimits(quick=1, quick_each_burst=1, late_seconds=300, latest_seconds=300)) as there:
        callers = [await Caller.open(there) for _ in range(10)]
        asking = [asyncio.create_task(each.ask(BAD)) for each in callers]
        await until(lambda: there.now("held") == 9)
    assert {(await each)[0] for each in asking} == {b"HTTP/1.1 401 Unauthorized"}
    assert asyncio.get_running_loop().time() - began < 60
    for each in callers:
        each.close()
    assert [record.getMessage() for record in caplog.records if record.name.startswith("uvicorn")] == []
    assert "Cancelled" not in "".join(capfd.readouterr())


async def test_a_refusal_ends_the_proof_of_a_connection_that_a_proxy_may_share() -> None:
    async with listener() as there:
        caller = await Caller.open(there)
        await caller.ask()
        assert there.now("connected") == 0
        await caller.ask(BAD)
        assert there.now("connected") == 1
        await caller.ask()
        assert there.now("connected") == 0
        caller.close()


async def test_a_full_house_ends_the_oldest_stranger_and_never_a_proven_caller() -> None:
    async with listener(connections=4) as there:
        honest = await Caller.open(there)
        await honest.ask()
        silent = [await Caller.open(there) for _ in range(3)]
        await until(lambda: there.now("connected") == 3)
        newcomer = await Caller.open(there)
        assert (await newcomer.ask())[0].endswith(b"204 No Content")
        assert await silent[0].heard() == b""
        assert there.refused("ended") == 1
        assert (await honest.ask())[0].endswith(b"204 No Content")
        for each in (honest, newcomer, *silent):
            each.close()


async def test_a_house_full_of_proven_callers_tells_the_next_one_to_come_later() -> None:
    async with listener(replace(LIMITS, quick_each_burst=1, kept_seconds=300), connections=2) as there:
        honest = [await Caller.open(there) for _ in range(2)]
        for each in honest:
            await each.ask()
        newcomers = [await Caller.open(there) for _ in range(3)]
        for each in newcomers:
            # None of them is kept, or there would be no end of connections.
            assert (await each.heard()).startswith(b"HTTP/1.1 503")
        for each in (*newcomers, *honest):
            each.close()


async def test_a_silent_connection_is_ended_after_its_time_without_a_word() -> None:
    async with listener(StrangerLimits(silent_seconds=0.3), head_seconds=0.05) as there:
        began = asyncio.get_running_loop().time()
        caller = await Caller.open(there)
        assert await caller.heard() == b""
        assert asyncio.get_running_loop().time() - began >= 0.25
        caller.close()


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01" + b"A" * 50_000, b"GET / HTTP/1.1\r\nx-slow: ", b"get nothing\r\n\r\n"]
)
async def test_what_is_no_request_is_told_so_seldom_and_otherwise_kept_unread_and_ended(sent: bytes) -> None:
    async with listener(head_seconds=0.1) as there:
        callers = [await Caller.open(there) for _ in range(6)]
        for each in callers:
            each.writer.write(sent)
        heard = [await each.heard() for each in callers]
        assert sum(said.startswith(b"HTTP/1.1 4") for said in heard) <= 2
        assert heard.count(b"") >= 4
        assert there.refused("late") >= 4
        for each in callers:
            each.close()
        await until(lambda: there.now("connected") == 0)


async def test_the_time_in_line_is_not_counted_against_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listener(head_seconds=0.1) as there:
        with monkeypatch.context() as patched:
            patched.setattr(there.strangers._line, "_may_read", lambda *, at_door: False)
            caller = await Caller.open(there)
            asking = asyncio.create_task(caller.ask())
            await asyncio.sleep(0.5)
            assert there.now("in_line") == 1
        there.strangers._line._ask_for_a_turn()
        assert (await asking)[0].startswith(b"HTTP/1.1 204")


async def test_what_comes_in_pieces_keeps_its_order_across_the_proof() -> None:
    # Nothing is parsed at once: the second piece comes while the first waits in line, later requests after the proof.
    async with listener(StrangerLimits(reads_a_turn=1, read_bytes=40, quick_each_burst=100)) as there:
        caller = await Caller.open(there)
        async with asyncio.timeout(30):
            for number in range(30):
                caller.writer.write(f"GET /good?{number} HTTP/1.1\r\nhost: {'x' * 100}\r\n\r\n".encode())
                head = await caller.reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 204")
                assert f"x-query: {number}\r\n".encode() in head
        caller.close()


async def test_of_many_requests_in_one_packet_a_stranger_begins_one_and_is_ended() -> None:
    async with listener() as there:
        caller = await Caller.open(there)
        caller.writer.write(BAD * 200)
        assert (await caller.heard()).count(b"HTTP/1.1") <= 1
        assert there.now("connected") == 0
        honest = await Caller.open(there)
        assert (await honest.ask())[0].endswith(b"204 No Content")
        honest.close()


async def test_who_sends_a_head_in_pieces_is_ended_in_time_though_the_last_piece_waits_in_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with listener(head_seconds=0.3) as there:
        line: Any = there.strangers._line
        may_read, crowded = line._may_read, True
        monkeypatch.setattr(line, "_may_read", lambda *, at_door: not crowded and may_read(at_door=at_door))
        caller = await Caller.open(there)
        caller.writer.write(b"GET /x HTTP/1.1\r\nx: ")
        await until(lambda: there.now("in_line") == 1)
        await asyncio.sleep(0.4)
        assert there.now("connected") == 1, "what it sent may be the end of its head"
        crowded = False
        line._ask_for_a_turn()
        assert b"within 0 s" in await caller.heard()


async def test_a_connection_that_ended_leaves_nothing_for_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Any]] = []
    init = HttpToolsProtocol.__init__

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        made.append(weakref.ref(self))

    monkeypatch.setattr(HttpToolsProtocol, "__init__", noted)
    async with listener() as there:
        gc.disable()
        try:
            for request in (GOOD, BAD):
                for _ in range(5):
                    caller = await Caller.open(there)
                    await caller.ask(request)
                    caller.close()
            (await Caller.open(there)).close()
            await until(lambda: len(made) == 11 and all(each() is None for each in made))
        finally:
            gc.enable()


class FakeGuest:
    """A connection of which only the line is of interest."""

    def __init__(self, name: str, order: list[str], address: str = "192.0.2.1") -> None:
        self.name, self.address, self._order = name, address, order
        self.here, self.vouched, self.refusals = True, False, 0
        self.proven_at: float | None = None
        self.pending: bytes | None = None
        self.held: asyncio.Future[None] | None = None
        self.stopped = False
        self.dribbles, self.between_requests = False, True
        self.at_door = False
        self.ended = ""

    def parse(self, data: bytes) -> None:
        self._order.append(f"{self.name}:{data.decode()}")

    def stop_reading(self) -> None:
        self.stopped = True

    def read_on(self) -> None:
        self.stopped = False

    def limit_reads(self, most: int | None) -> None: ...

    def end(self, limit: str) -> None:
        self.ended = limit


async def test_in_one_turn_of_the_loop_few_strangers_are_read_and_the_rest_in_their_order() -> None:
    strangers, order = Strangers(StrangerLimits(reads_a_turn=3)), []
    for number in range(10):
        strangers.read(FakeGuest(str(number), order), b"x")
    assert order == ["0:x", "1:x", "2:x"]
    for expected in (6, 9, 10):
        await asyncio.sleep(0)
        assert len(order) == expected
    assert order == [f"{number}:x" for number in range(10)]


async def test_in_one_turn_few_requests_of_strangers_begin_whatever_is_read() -> None:
    strangers, order = Strangers(StrangerLimits(reads_a_turn=100, requests_a_turn=2)), []
    for number in range(5):
        strangers.read(Asking(str(number), order, strangers), b"x")
    assert len(order) == 2
    await asyncio.sleep(0)
    assert len(order) == 4


class Asking(FakeGuest):
    """Each of its packets is a request."""

    def __init__(self, name: str, order: list[str], strangers: Strangers) -> None:
        super().__init__(name, order)
        self._strangers = strangers

    def parse(self, data: bytes) -> None:
        super().parse(data)
        self._strangers.request_begins(self)


async def test_a_crowd_keeps_nobody_from_a_door_and_a_crowd_at_the_door_nobody_from_elsewhere() -> None:
    strangers, order = Strangers(StrangerLimits(doors=(b"POST /hooks ",))), []
    for number in range(6):
        strangers.read(Asking(f"crowd-{number}", order, strangers), b"GET /")
    assert [each.partition("-")[0] for each in order] == ["crowd"]
    for number in range(4):
        strangers.read(Asking(f"hook-{number}", order, strangers), b"POST /hooks HTTP/1.1")
    assert [each.partition("-")[0] for each in order] == ["crowd", "hook"]
    del order[:]
    for _ in range(3):
        await asyncio.sleep(0)
    assert sorted(each.partition(":")[0] for each in order) == [
        *(f"crowd-{n}" for n in (1, 2, 3)),
        *(f"hook-{n}" for n in (1, 2, 3)),
    ]
    for _ in range(2):
        await asyncio.sleep(0)
    assert [each.partition(":")[0] for each in order[6:]] == ["crowd-4", "crowd-5"]


async def test_packets_at_a_door_and_others_are_read_in_turn() -> None:
    strangers, order = Strangers(StrangerLimits(reads_a_turn=4, doors=(b"POST /hooks ",))), []
    for number in range(4):
        strangers.read(FakeGuest(f"first-{number}", order), b"x")
    for number in range(9):
        strangers.read(FakeGuest(f"other-{number}", order), b"x")
        strangers.read(FakeGuest(f"hook-{number}", order), b"POST /hooks HTTP/1.1")
    del order[:]
    await asyncio.sleep(0)
    assert sorted(each.partition("-")[0] for each in order) == ["hook", "hook", "other", "other"]


async def test_the_body_of_a_request_at_a_door_waits_where_its_head_did_and_the_next_request_does_not() -> None:
    strangers, order = Strangers(StrangerLimits(reads_a_turn=1, doors=(b"POST /hooks ",))), []
    guest = FakeGuest("sender", order)
    strangers.read(guest, b"POST /hooks HTTP/1.1")
    assert guest.at_door
    guest.between_requests = False
    strangers.read(guest, b"{}")
    assert guest.at_door
    await asyncio.sleep(0)
    guest.between_requests = True
    strangers.read(guest, b"GET / HTTP/1.1")
    assert not guest.at_door


async def test_whoever_sends_a_head_in_pieces_comes_after_those_who_do_not_and_comes_all_the_same() -> None:
    strangers, order = Strangers(StrangerLimits(reads_a_turn=8)), []
    for number in range(8):
        strangers.read(FakeGuest(f"first-{number}", order), b"x")
    for number in range(20):
        guest = FakeGuest(f"slow-{number}", order)
        guest.dribbles = True
        strangers.read(guest, b"x")
    for number in range(10):
        strangers.read(FakeGuest(f"whole-{number}", order), b"x")
    del order[:]
    await asyncio.sleep(0)
    assert [name.partition("-")[0] for name in order] == ["whole"] * 7 + ["slow"]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(order) == 30


async def test_what_waits_in_line_stays_whole_and_is_not_read_further() -> None:
    strangers, order = Strangers(StrangerLimits(reads_a_turn=1)), []
    strangers.read(FakeGuest("first", order), b"x")
    guest = FakeGuest("second", order)
    strangers.read(guest, b"a")
    strangers.read(guest, b"b")
    assert guest.stopped
    await asyncio.sleep(0)
    assert order == ["first:x", "second:ab"]
    assert not guest.stopped


@pytest.mark.parametrize("each", [1, 2, 4])
async def test_those_of_addresses_that_are_known_for_good_are_read_first_and_the_others_all_the_same(each: int) -> None:
    strangers, order = Strangers(StrangerLimits(reads_a_turn=each)), []
    strangers.vouch(FakeGuest("friend", order, address="198.51.100.7"))
    for number in range(40):
        strangers.read(FakeGuest(f"stranger-{number}", order), b"x")
    for number in range(6):
        strangers.read(FakeGuest(f"friend-{number}", order, address="198.51.100.7"), b"x")
    del order[:]
    for _ in range(8 // each):
        await asyncio.sleep(0)
    assert [name.partition("-")[0] for name in order] == ["stranger", "friend", "friend", "friend"] * 2


async def test_all_that_waits_in_line_is_bounded_in_bytes() -> None:
    strangers, order = Strangers(StrangerLimits(reads_a_turn=1, line_bytes=1000)), []
    guests = [FakeGuest(str(number), order) for number in range(20)]
    for guest in guests:
        strangers.read(guest, b"x" * 100)
        if guest.ended:
            strangers.left(guest)
    assert [guest.ended for guest in guests] == [""] * 11 + ["line_bytes"] * 9
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(order) == 11
    assert strangers._line._bytes == 0


async def test_whoever_left_the_line_is_not_parsed() -> None:
    strangers, order = Strangers(StrangerLimits(reads_a_turn=1)), []
    guests = [FakeGuest(str(number), order) for number in range(3)]
    for guest in guests:
        strangers.read(guest, b"x")
    strangers.left(guests[1])
    for _ in range(4):
        await asyncio.sleep(0)
    assert order == ["0:x", "2:x"]


async def test_one_network_of_ipv6_counts_as_one_sender() -> None:
    strangers = Strangers(StrangerLimits(quick_each=0.001, quick_each_burst=2))
    said = [strangers.may_say_why(FakeGuest("", [], address=f"2001:db8::{number:x}")) for number in range(1, 6)]
    assert said == [True, True, False, False, False]
    assert strangers.may_say_why(FakeGuest("", [], address="2001:db8:0:1::1"))
    assert strangers.may_say_why(FakeGuest("", [], address="not an address: at all"))
