"""What each Mac reported last to this replica, and who waits for something about a Mac to change."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.base.tasks import end
from paddock.gateway.bounds import Accepted
from paddock.gateway.identity import MacIdentity
from paddock.gateway.lease import SECONDS
from paddock.gateway.report_order import Heard, order_of
from paddock.hosts.api import ScalewayAppleSiliconMachine

LEASE: Final = float(SECONDS)
"""So long a Mac's report says that it lives."""

__all__ = ["LEASE", "Changes", "Left", "Macs", "Reported"]

Left = Callable[[], Awaitable[None]]
"""Returns once whoever asked has left."""


class Reported(Struct, frozen=True):
    """A report that counted, from whom, and its place in the order of that Mac's reports."""

    mac: MacIdentity
    machine: ScalewayAppleSiliconMachine | None
    accepted: Accepted
    order: Heard

    @property
    def node(self) -> str:
        return self.mac.name


class Macs:
    """The newest report of each Mac, for as long as its Lease lasts. What is lost with the process comes again with the Mac's next
    report, which is whole.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._newest: dict[str, tuple[Reported, float]] = {}

    def put(self, reported: Reported) -> None:
        """Two reports of one Mac may be noted in one order and come here in the other: the newer one stays."""
        before = self.newest(reported.node)
        same_mac = before is not None and before.mac.machine_uid == reported.mac.machine_uid
        if before is not None and same_mac and order_of(before.order, reported.order) == "older":
            return
        self._newest[reported.node] = (reported, self._clock.monotonic())

    def newest(self, node: str) -> Reported | None:
        """None once the Mac is silent: nobody may be shown as alive by what he said before."""
        reported, at = self._newest.get(node, (None, 0.0))
        # By the monotonic clock: a wall clock that was set back would let the dead live on.
        if reported is not None and self._clock.monotonic() - at > LEASE:
            del self._newest[node]
            return None
        return reported

    def forget(self, node: str) -> None:
        self._newest.pop(node, None)


class Changes:
    """Held requests of Macs: each is looked at again when something about its Node was changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)

    def ring(self, node: str) -> None:
        for each in self._waiting.get(node, ()):
            each.set()

    def ring_all(self) -> None:
        for node in list(self._waiting):
            self.ring(node)

    async def until(self, node: str, differs: Callable[[], bool], seconds: float, left: Left) -> bool:
        """Whether it differed within that time. The caller asks for nothing between its first look and this call."""
        if seconds <= 0:
            return differs()
        rung = asyncio.Event()
        self._waiting[node].add(rung)
        timer = asyncio.create_task(self._clock.sleep(seconds))
        leaving = asyncio.ensure_future(left())
        try:
            while not differs():
                rung.clear()
                ringing = asyncio.create_task(rung.wait())
                try:
                    await asyncio.wait([timer, leaving, ringing], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await end(ringing)
                if timer.done() or leaving.done():
                    return differs()
            return True
        finally:
            self._waiting[node].discard(rung)
            if not self._waiting[node]:
                del self._waiting[node]
            await end(timer)
            await end(leaving)
