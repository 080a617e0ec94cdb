"""Those who have not proved who they are: what all of them together may cost a listener beside those who have.

A connection is a stranger's until the application says `proven(scope)` for one of its requests, and again from its next
refusal on. Of the event loop's time strangers get a bounded part of each turn, proven callers as much as they need; a
refusal is told at once to those who are refused seldom, and late to the others; a full house ends the stranger's
connection that has been there longest, never a proven one.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge

from paddock.base.clock import Clock, SystemClock
from paddock.base.rate_limit import RateLimit, RateLimits

__all__ = ["Guest", "StrangerLimits", "Strangers", "proven"]

_KEY: Final = "paddock.guest"
_REMEMBERED: Final = 600.0
_MOST_REMEMBERED: Final = 10_000
_NOTED_EVERY: Final = 60.0

_Message = MutableMapping[str, Any]
_App = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Any
]


@dataclass(frozen=True, slots=True)
class StrangerLimits:
    reads_a_turn: int = 32
    requests_a_turn: int = 4
    """So many packets of strangers are parsed, and so many requests of theirs begun, in one turn of the event loop. The rest
    waits in line, while every packet of a proven caller is parsed in the turn in which it comes."""
    read_bytes: int = 8 * 1024
    """One packet is at most so long, so that the line holds at most twice this for each connection."""
    line_bytes: int = 64 * 1024 * 1024
    """All that waits in line. A TLS connection may bring more than `read_bytes` at once, so this is bounded by itself."""
    quick_each: float = 2.0
    quick_each_burst: float = 20.0
    quick: float = 50.0
    """Refusals that are told at once, in each second: to one address, and to all. Whoever is refused for an honest reason
    (a clock that is off, a token that has expired) is refused seldom, and hears why without delay."""
    late_seconds: float = 4.0
    """The first refusal beyond that on a connection is told so late; each one after it takes twice as long. Our own clients
    and GitHub wait longer than the first."""
    latest_seconds: float = 30.0
    silent_seconds: float = 60.0
    """A connection that never says a word costs a place and nothing else; to open it anew would cost more."""
    kept_seconds: float = 60.0
    """One that broke a limit and cannot be told so at once is kept so long, unread."""


class Guest(Protocol):
    """One connection, as the listener's protocol knows it. The attributes belong to Strangers."""

    address: str
    here: bool
    proven_at: float | None
    """When the application last vouched for it; None for a stranger."""
    vouched: bool
    """Whether it did for the request that is being answered."""
    refusals: int
    pending: bytes | None
    """What it sent and nobody parsed yet."""
    held: "asyncio.Future[None] | None"

    @property
    def dribbles(self) -> bool:
        """Whether it sent a part of a request's head before, and not the whole of it."""
        ...

    def parse(self, data: bytes) -> None: ...
    def stop_reading(self) -> None: ...
    def read_on(self) -> None: ...
    def limit_reads(self, most: int | None) -> None: ...
    def end(self, limit: str) -> None: ...


def proven(scope: Mapping[str, Any]) -> None:
    """The sender of this request has proved who it is. Nothing where the listener does not tell strangers apart."""
    found = scope.get(_KEY)
    if found is not None:
        strangers, guest = found
        strangers.vouch(guest)


class Strangers:
    """What the connections of one listener, or of several in one event loop, share."""

    def __init__(
        self,
        limits: StrangerLimits | None = None,
        *,
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.limits = limits = limits or StrangerLimits()
        self._clock = clock or SystemClock()
        self._quick = RateLimit(limits.quick, limits.quick, self._clock)
        self._quick_each = RateLimits(limits.quick_each, limits.quick_each_burst, self._clock)
        # Strangers by age; those of addresses from which somebody proved who they are have lines and places of their own.
        self._known: OrderedDict[str, float] = OrderedDict()
        self._places: tuple[OrderedDict[Guest, None], OrderedDict[Guest, None]] = (OrderedDict(), OrderedDict())
        self._lines: tuple[deque[Guest], ...] = (deque(), deque(), deque())
        self._line_bytes = 0
        self._read = 0
        self._begun = 0
        self._turn_asked = False
        self._held: set[asyncio.Future[None]] = set()
        self._closing = False
        registry = registry or CollectorRegistry()
        self._refusals = Counter(
            "paddock_http_strangers_refused",
            "Refusals of callers that had not proved who they are: told at once; late, or not at all; by the end of the connection.",
            ("how",),
            registry=registry,
        )
        for how in ("at_once", "late", "ended"):
            self._refusals.labels(how)
        now = Gauge(
            "paddock_http_strangers",
            "Connections whose caller has not proved who it is: all, those that wait to be read, those whose refusal is held back.",
            ("which",),
            registry=registry,
        )
        now.labels("connected").set_function(lambda: sum(map(len, self._places)))
        now.labels("in_line").set_function(lambda: sum(map(len, self._lines)))
        now.labels("held").set_function(lambda: len(self._held))

    # Who is there

    def arrived(self, guest: Guest) -> None:
        if not guest.here:
            return
        guest.limit_reads(self.limits.read_bytes)
        self._places[self._is_known(guest)][guest] = None

    def left(self, guest: Guest) -> None:
        guest.here = False
        for places in self._places:
            places.pop(guest, None)
        if guest.pending is not None:
            self._line_bytes -= len(guest.pending)
            guest.pending = None  # what is left of it in the line is passed over
        if guest.held is not None and not guest.held.done():
            guest.held.set_result(None)

    def vouch(self, guest: Guest) -> None:
        guest.vouched = True
        now = self._clock.monotonic()
        if guest.proven_at is not None and now - guest.proven_at < _NOTED_EVERY:
            return
        if guest.proven_at is None:
            for places in self._places:
                places.pop(guest, None)
            guest.refusals = 0
            guest.limit_reads(None)
        guest.proven_at = now
        self._known[guest.address] = now
        self._known.move_to_end(guest.address)
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)

    def make_room(self, newcomer: Guest) -> bool:
        """End the stranger that has been here longest, of an unknown address if there is one. An honest newcomer proves itself
        within a moment, so it is never the oldest; False where all others have proved who they are.
        """
        for places in self._places:
            oldest = next(iter(places), newcomer)
            if oldest is not newcomer:
                places.popitem(last=False)
                self._refusals.labels("ended").inc()
                oldest.end("connections")
                return True
        return False

    def _is_known(self, guest: Guest) -> bool:
        at = self._known.get(guest.address)
        return at is not None and self._clock.monotonic() - at < _REMEMBERED

    # The line

    def read(self, guest: Guest, data: bytes) -> None:
        """A stranger's packet: parsed now if this turn of the loop has room and nobody waits, in its order otherwise."""
        if guest.pending is not None:
            guest.pending += data
            guest.stop_reading()
        elif self._may_read() and not any(self._lines):
            self._read += 1
            self._ask_for_a_turn()
            guest.parse(data)
            return
        else:
            guest.pending = data
            self._lines[2 if guest.dribbles else self._is_known(guest)].append(guest)
            self._ask_for_a_turn()
        self._line_bytes += len(data)
        if self._line_bytes > self.limits.line_bytes:
            self._refusals.labels("ended").inc()
            guest.end("line_bytes")

    def _ask_for_a_turn(self) -> None:
        if not self._turn_asked:
            self._turn_asked = True
            asyncio.get_running_loop().call_soon(self._turn)

    def request_begins(self, guest: Guest) -> None:
        if guest.proven_at is None:
            self._begun += 1

    def _may_read(self) -> bool:
        return self._read < self.limits.reads_a_turn and self._begun < self.limits.requests_a_turn

    def _turn(self) -> None:
        self._turn_asked, self._read, self._begun = False, 0, 0
        unknown, known, dribbling = self._lines
        orders = ((unknown, known, dribbling), *((known, unknown, dribbling),) * 3) * 2
        # Whoever sends its head in pieces comes last, but one in eight; of the others three in four are of addresses that are
        # known for good. None waits for ever.
        orders = (*orders[:-1], (dribbling, known, unknown))
        while self._may_read() and any(self._lines):
            guest = next(line for line in orders[self._read % 8] if line).popleft()
            if (data := guest.pending) is None:
                continue
            guest.pending = None
            self._line_bytes -= len(data)
            self._read += 1
            guest.read_on()
            guest.parse(data)
        if self._read:
            self._ask_for_a_turn()

    # Refusals

    def may_say_why(self, guest: Guest) -> bool:
        """Whether a refusal is told at once; counts it."""
        at_once = self._quick_each.take(_network(guest.address)) and self._quick.take()
        self._refusals.labels("at_once" if at_once else "late").inc()
        return at_once

    def answering(self, app: _App) -> _App:
        """The application, whose refusals of strangers beyond the limit are sent late. What is late is the answer alone: the
        request has ended, and nothing of it is kept but the answer's few bytes.
        """

        async def served(scope: Any, receive: Any, send: Any) -> None:
            found = scope.get(_KEY)
            if found is None:
                await app(scope, receive, send)
                return
            guest: Guest = found[1]
            guest.vouched = False
            kept: list[_Message] = []

            async def sending(message: _Message) -> None:
                if kept or (message["type"] == "http.response.start" and self._is_late(guest, message["status"])):
                    kept.append(message)
                else:
                    await send(message)

            await app(scope, receive, sending)
            if kept:
                wait = self.limits.late_seconds * 2 ** min(guest.refusals - 1, 10)
                await self._hold(guest, min(wait, self.limits.latest_seconds))
            for message in kept:
                await send(message)

        return served

    def introduce(self, guest: Guest, scope: MutableMapping[str, Any]) -> None:
        """So that the application can vouch for whoever sends this request."""
        scope[_KEY] = (self, guest)

    def _is_late(self, guest: Guest, status: int) -> bool:
        if guest.vouched or status < 400:
            return False
        if guest.proven_at is not None:
            # Perhaps a proxy's connection, which others use as well: whoever comes next proves it again.
            guest.proven_at = None
            self.arrived(guest)
        if self._closing or self.may_say_why(guest):
            return False
        guest.refusals += 1
        return True

    async def _hold(self, guest: Guest, seconds: float) -> None:
        """Until then, or until the client left, or until the listener stops."""
        if self._closing or not guest.here:
            return
        loop = asyncio.get_running_loop()
        guest.held = held = loop.create_future()
        self._held.add(held)
        timer = loop.call_later(seconds, _wake, held)
        try:
            await held
        finally:
            timer.cancel()
            self._held.discard(held)
            guest.held = None

    def stop(self) -> None:
        """Whoever is held gets its answer now, and nobody is held any more: the listener must not wait for strangers."""
        self._closing = True
        for held in self._held:
            _wake(held)


def _wake(held: "asyncio.Future[None]") -> None:
    if not held.done():
        held.set_result(None)


def _network(address: str) -> str:
    """Whoever has one address of IPv6 has as many as they like: the /64 counts."""
    if ":" not in address:
        return address
    try:
        return str(int(ip_address(address.partition("%")[0])) >> 64)
    except ValueError:
        return address
