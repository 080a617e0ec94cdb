"""What the parts of one agent share: its clients, its journal, its Pods, and the seats for VMs."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from paddock.base.clock import Clock
from paddock.clients.gateway.messages import Event, Reason, WantedPod
from paddock.node.files import Files
from paddock.node.goldens import PRESSURE, Goldens
from paddock.node.host import HostFacts
from paddock.node.journal import Entry, Journal
from paddock.node.link import MacLink
from paddock.node.machines import Tart
from paddock.node.metrics import AgentMetrics
from paddock.node.pods import Offer, admission
from paddock.node.report import Observed
from paddock.node.seat_leaks import KERNEL_SEATS, SeatLeaks
from paddock.node.settings import AgentSettings
from paddock.node.shares import Shares

__all__ = ["Context"]

_MOST_EVENTS = 100
"""So many wait at most while nobody answers."""


@dataclass(slots=True)
class Context:
    """`pods` are those of the newest answer by uid, `observed` is what is known of Pods beside the journal; `gone` holds the uids that
    are proven gone; `orphans` are the VMs without an entry that may run; `cluster` is the one that answered last, empty while that
    is not known.

    `seats` is held while a seat is given away: between the look and the journal's write nobody else may take it.
    """

    settings: AgentSettings
    link: MacLink
    tart: Tart
    files: Files
    journal: Journal
    goldens: Goldens
    host: HostFacts
    metrics: AgentMetrics
    clock: Clock
    rng: random.Random
    leaks: SeatLeaks
    changed: Callable[[], None] = lambda: None
    """Something was observed that a report may have to say."""
    pods: dict[str, WantedPod] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    observed: dict[str, Observed] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    """What has to be reported once."""
    orphans: set[str] = field(default_factory=set)
    vms_listed: bool = False
    """Whether Tart's list of VMs was complete once in this life: before, a VM without an entry may not be known."""
    present: frozenset[str] | None = None
    """The uids of all Pods that are bound to this Mac, by the newest complete answer that is not older than a sweep; else None."""
    cluster: str = ""
    start_problem: Reason | None = None
    """Why no VM may start on this Mac."""
    clock_skew: float | None = None
    seats: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def offer(self) -> Offer:
        reserve = self.settings.reserve_memory_mb * 1024**2
        memory = max(0, self.host.memory_bytes - reserve)
        return Offer(self.host.cpus * 1000, memory, self._seats, self.leaks.now())

    @property
    def _seats(self) -> int:
        return min(self.settings.max_vms, max(0, KERNEL_SEATS - self.leaks.seats))

    @property
    def behind_softnet(self) -> bool:
        """Whether every VM of this Mac is behind Softnet. One that an agent without it started is not, and outlives that agent;
        of one whose entry cannot be read it is not known.
        """
        settled = all(each.softnet for each in self.journal.entries() if each.holds_seat)
        return self.settings.use_softnet and settled and not self.journal.unreadable

    def of_another_cluster(self, entry: Entry) -> bool:
        """Whether the entry is not known to be of the cluster that is asked."""
        return not self.cluster or entry.cluster != self.cluster

    @property
    def other_cluster_work(self) -> list[Entry]:
        """Jobs that another cluster began here: a `clusterctl move` takes the Mac along, and not its Pods."""
        return [
            each
            for each in self.journal.entries()
            if each.holds_seat
            and each.handed_at is not None
            and each.uid not in self.pods
            and self.of_another_cluster(each)
            and (each.uid in self.gone or (self.cluster and each.cluster))
        ]

    def shares(self, uid: str) -> Shares:
        root = self.settings.shares
        return Shares(self.files, self.journal.folder(uid), root / uid if root is not None else None)

    def refusal(self, pod: WantedPod) -> Reason | None:
        """Why this Pod cannot be taken now."""
        present = [each for each in self.journal.entries() if not each.over and each.uid != pod.uid]
        return admission(
            pod,
            self.offer,
            present,
            ending=sum(each.seats for each in present if self._is_ending(each)),
            pressure=self.pressure,
        )

    def seat_problem(self, uid: str) -> Reason | None:
        """Why no VM may start for this Pod now. The kernel counts VMs, not Pods: one that is ending still has its seat."""
        taken = [each for each in self.journal.entries() if each.holds_seat and each.uid != uid]
        unknown = {f"an unreadable entry ({each})" for each in self.journal.unreadable}
        used = sum(each.seats for each in taken) + len(self.orphans) + len(unknown)
        entry = self.journal.get(uid)
        # Where all have leaked, one Pod that was taken before tries all the same: its refusal is the reason of its end.
        seats = max(1, self._seats)
        wanted = min(entry.seats if entry is not None else 1, seats)
        if used + wanted <= seats:
            return None
        if used < seats:
            # It has the Mac for itself: whoever is still there, and be it a VM on its way out, is another tenant.
            alone = ", ".join(sorted([*(each.name for each in taken), *self.orphans, *unknown]))
            return Reason("VMSlotWaiting", f"the Pod has the Mac for itself, and waits until {alone} has ended")
        names = ", ".join(sorted([*(each.name for each in taken), *self.orphans, *unknown]))
        most = self.leaks.now() or f"{used} VMs run, which is all a Mac may run"
        return Reason("VMSlotWaiting", f"{most}: {names}; the next to end makes room")

    def event(self, reason: Reason, pod: str = "") -> None:
        """Report once that something is wrong, with a Pod or with the Mac."""
        self.events.append(Event(reason.reason, reason.message, self.clock.now(), pod))
        del self.events[:-_MOST_EVENTS]
        self.changed()

    @property
    def pressure(self) -> str:
        disk = self.goldens.disk
        if disk is not None and disk.free_share < PRESSURE:
            return f"its disk has {disk.free_share:.0%} free"
        return ""

    def _is_ending(self, entry: Entry) -> bool:
        pod = self.pods.get(entry.uid)
        return entry.stop is not None or pod is None or pod.ending is not None
