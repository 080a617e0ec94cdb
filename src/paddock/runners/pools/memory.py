"""What the pool controller keeps in mind between two looks. All of it may be forgotten: it saves questions, proves nothing."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice

from paddock.base.clock import Clock
from paddock.kube.builtin import Pod
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Pod as PodRef
from paddock.runners.pools.admission import Reservation, fleet_of
from paddock.runners.pools.nodes import StartFailure
from paddock.runners.pools.settings import PoolSettings

__all__ = ["PoolMemory"]

_TOLD_KEPT = 3600.0
"""Longer than a Pod that has ended takes to go; of one that takes longer the end is reported twice, which changes nothing."""


class PoolMemory:
    """Creations that caches do not show yet, refusals of the ledger, Pods on their way out, Nodes that failed Pods.

    A restart forgets everything. Then at worst: a few Pods too many start at once; the ledger is asked again and refuses
    again; a stop goes unreported until reconciliation sees that the Pod is missing; a bad Node gets three more Pods.
    """

    def __init__(self, clock: Clock, settings: PoolSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._reserved: dict[str, tuple[tuple[str, str], Reservation]] = {}
        self._made: dict[str, float] = {}
        """Those of the reserved whose creation was acknowledged, and when."""
        self._held: dict[str, float] = {}
        self._leaving: dict[str, tuple[str, PodRef, datetime]] = {}
        self._told: dict[str, float] = {}
        """Uids of Pods whose end was reported before they were deleted, and when."""
        self._failures: dict[tuple[str, str], list[StartFailure]] = {}
        self._looked: dict[str, float] = {}
        self.start_timeouts: Counter[str] = Counter()
        """Pods that did not start in time, by pool, since this process began."""

    # Creations

    def reserve(self, pool: RunnerPool, pod: str) -> None:
        """Count a creation from now on; call it before the first await after the decision, so that siblings see it."""
        until = self._clock.monotonic() + self._settings.reservation
        self._reserved[pod] = (fleet_of(pool), Reservation(pod, pool.metadata.name, until))

    def made(self, pod: str) -> None:
        """The creation was acknowledged: from now on a complete list that does not show the Pod proves that it is gone."""
        if pod in self._reserved:
            self._made[pod] = self._clock.monotonic()

    def release(self, pod: str) -> None:
        """The creation certainly did not happen."""
        self._drop([pod])

    def cached(self, shown: Iterable[Pod]) -> None:
        """The cache shows these Pods, and will show when they go. What it has shown once is no longer on its way: a Pod
        that comes and goes within seconds must not count for longer than it is there.
        """
        self._drop([pod.metadata.name for pod in shown])

    def listed(self, pool: str, present: Iterable[Pod]) -> None:
        """The server's own list of the pool, begun after all of the pool's creations were answered. What it does not show
        of those that were acknowledged came and went; what it does show, caches may not show yet, so it stays counted.
        """
        there = {pod.metadata.name for pod in present}
        self._drop([name for name in self._made if name not in there and self._reserved[name][1].pool == pool])

    def overlooked(self, pool: str) -> bool:
        """Whether a Pod that was made a while ago has not been seen in the cache: it came and went, or the cache is late."""
        before = self._clock.monotonic() - self._settings.blocked
        return any(at <= before and self._reserved[name][1].pool == pool for name, at in self._made.items())

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._reserved.pop(name, None)
            self._made.pop(name, None)

    def reserved(self, pool: RunnerPool, shown: Iterable[Pod]) -> list[Reservation]:
        """Creations in the pool's fleet that `shown` does not show."""
        now = self._clock.monotonic()
        self._drop([name for name, held in self._reserved.items() if held[1].until <= now])
        names = {pod.metadata.name for pod in shown}
        fleet = fleet_of(pool)
        return [each for of, each in self._reserved.values() if of == fleet and each.pod not in names]

    def expects(self, pool: str) -> bool:
        """Whether a creation of the pool may still arrive."""
        now = self._clock.monotonic()
        return any(each.pool == pool and each.until > now for _, each in self._reserved.values())

    # Refusals

    def hold(self, uid: str) -> None:
        self._held[uid] = self._clock.monotonic() + self._settings.held

    def held(self) -> frozenset[str]:
        now = self._clock.monotonic()
        self._held = {uid: until for uid, until in self._held.items() if until > now}
        return frozenset(self._held)

    # Departures

    def leaves(self, pool: str, pod: Pod, at: datetime) -> None:
        """Remember a Pod that is being deleted, until it is seen to be gone; but not one whose end was reported."""
        meta = pod.metadata
        if meta.uid not in self._told:
            self._leaving.setdefault(meta.uid, (pool, PodRef(meta.uid, meta.name), at))

    def left(self, pool: str, present: Iterable[Pod]) -> list[tuple[PodRef, datetime]]:
        """Pods of a pool that were on their way out and that `present` does not show."""
        there = {pod.metadata.uid for pod in present}
        return [(ref, at) for uid, (of, ref, at) in self._leaving.items() if of == pool and uid not in there]

    def reported(self, uid: str) -> None:
        self._leaving.pop(uid, None)

    def told(self, uid: str) -> None:
        """The ledger heard that the Pod has ended, while it was still there: its going is no news."""
        now = self._clock.monotonic()
        for old in list(islice(self._told, 2)):  # the oldest first, and twice as fast as they come
            if now - self._told[old] > _TOLD_KEPT:
                del self._told[old]
        self._told[uid] = now
        self._leaving.pop(uid, None)

    # Nodes

    def failed(self, pool: RunnerPool, node: str, at: datetime, waited: timedelta = timedelta()) -> None:
        kept = [each for each in self._failures.get(fleet_of(pool), ()) if each.counts(at)]
        self._failures[fleet_of(pool)] = [*kept, StartFailure(node, at, waited)]

    def failures(self, pool: RunnerPool) -> list[StartFailure]:
        return self._failures.get(fleet_of(pool), [])

    # Looks

    def look_due(self, uid: str) -> bool:
        """Whether the pool was not looked at on the server for a while; the answer counts from the last `looked`."""
        last = self._looked.get(uid)
        return last is None or self._clock.monotonic() - last >= self._settings.recheck - 1.0

    def looked(self, uid: str) -> None:
        self._looked[uid] = self._clock.monotonic()

    def forget(self, pool: str) -> None:
        """The pool is gone; so is what was kept of its departures."""
        self._leaving = {uid: kept for uid, kept in self._leaving.items() if kept[0] != pool}
