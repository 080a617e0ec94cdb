"""Those who have not proved who they are: what all of them together may cost a listener beside those who have.

A connection is a stranger's until the application says `proven(scope)` for one of its requests, and again from its next
refusal on. Of the event loop's time strangers get a bounded part of each turn, proven callers as much as they need; a
refusal is told at once to those who are refused seldom, and late to the others; a full house ends the stranger's
connection that has been there longest, never a proven one.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from ipaddress import ip_address
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from paddock.base.clock import Clock, SystemClock
from paddock.base.guests import Guest, StrangerLimits
from paddock.base.rate_limit import RateLimit, RateLimits
from paddock.base.strangers_line import Line

__all__ = ["Strangers", "proven"]

_KEY: Final = "paddock.guest"
_REMEMBERED: Final = 600.0
_MOST_REMEMBERED: Final = 10_000
_NOTED_EVERY: Final = 60.0

_Message = MutableMapping[str, Any]
_App = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Any
]


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
        self._line = Line(limits, self._is_known)
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
        now.labels("in_line").set_function(lambda: len(self._line))
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
        self._line.left(guest)
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
        if not self._line.read(guest, data):
            self._refusals.labels("ended").inc()
            guest.end("line_bytes")

    def request_begins(self, guest: Guest) -> None:
        if guest.proven_at is None:
            self._line.request_begins(guest)

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
