"""The autoscaler: every few seconds, as many replicas as a pool's load, floor and fleet call for.

It writes `spec.replicas` and says why in the pool's `Autoscaled` condition; Pods are the pool controller's. Two writes,
the spec first: died in between, the next pass finds the replicas as wanted and writes the status. Both are made in the
version that was read, because another writer's condition in the same list must not be lost, and because replicas that
another client has just changed are judged anew.
"""

from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from paddock.base.clock import Clock, rfc3339
from paddock.base.explanation import span
from paddock.base.logs import get_logger
from paddock.kube.builtin import Node
from paddock.kube.client import Client
from paddock.kube.conditions import get_condition, set_condition, without_condition
from paddock.kube.controller import Done, Request, RequeueAfter, Result
from paddock.kube.difference import merge_difference
from paddock.kube.errors import ConflictError, KubeError, NotFoundError
from paddock.kube.objects import Condition, key_of
from paddock.kube.reader import CachedReader, FreshReader
from paddock.kube.store import Key
from paddock.runners.api import RunnerPool, RunnerPoolStatus
from paddock.runners.ledger import PoolSignals
from paddock.runners.pools.capacity import Costs, CostUnknownError, capacity_of
from paddock.runners.pools.retirement import RetirementApi, RetirementUnavailableError
from paddock.runners.pools.scaling import (
    Decision,
    Demand,
    Desired,
    Grant,
    Remembered,
    allocate,
    desired,
    each_alone,
    pinned,
    settle,
)
from paddock.runners.pools.warm_windows import WARM_WINDOWS, Schedule, schedule, scheduled

__all__ = ["AUTOSCALED", "EVERY", "Autoscaler", "Outlook"]

log = get_logger("autoscaler")

AUTOSCALED = "Autoscaled"
"""The condition that says how many Pods are wanted, and why."""
RUNNER_VERSION = "RunnerVersion"
"""The condition that says that GitHub calls the pool's runners too old; there is none while it does not."""
EVERY = 5.0
_VERSION_EVERY = 60.0
_SIGNALS_KEPT = 4.0
"""Below `EVERY`, so that a pass sees its own pool anew, and pools of one fleet do not ask for each other all the time."""
_WHEN_CHANGED = 0.5


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the last pass over a pool saw and gave, for those who show it."""

    want: Desired
    granted: int
    signals: PoolSignals


class Autoscaler:
    """The reconciler of autoscaled pools.

    What cannot be read changes nothing: without signals of the pool or the cost of its Pods the replicas stay; without a
    sibling's signals or a healthy Node the pool gets what it wants by itself.
    """

    def __init__(
        self,
        client: Client,
        retirement: RetirementApi,
        pools: CachedReader[RunnerPool],
        nodes: CachedReader[Node],
        clock: Clock,
    ) -> None:
        self._client = client
        self._fresh = FreshReader(client)
        self._retirement = retirement
        self._pools = pools
        self._nodes = nodes
        self._clock = clock
        self._costs = Costs(client, clock)
        self._signals: dict[str, tuple[float, PoolSignals]] = {}
        self._memories: dict[str, Remembered] = {}
        self._outlooks: dict[Key, Outlook] = {}

    def outlook(self, pool: RunnerPool) -> Outlook | None:
        """What was last seen of a pool; None while it is not autoscaled or was not looked at yet."""
        return self._outlooks.get(key_of(pool))

    async def __call__(self, request: Request) -> Result:
        pool = await self._fresh.get(RunnerPool, request.name, request.namespace)
        if pool is None or pool.metadata.deletion_timestamp is not None or not pool.spec.autoscaling.enabled:
            self._forget(request, pool)
            if pool is not None and pool.metadata.deletion_timestamp is None:
                status = self._with_windows(pool, _said_nothing(pool.status), self._windows_of(pool))
                await self._save(pool, await self._with_version(pool, status))
                return RequeueAfter(_VERSION_EVERY)
            return Done()
        try:
            return await self._scale(pool)
        except ConflictError:
            return RequeueAfter(_WHEN_CHANGED)  # another client wrote since we read; judged anew
        except NotFoundError:
            return Done()  # deleted since we read

    async def _scale(self, pool: RunnerPool) -> Result:
        try:
            signals = await self._signals_of(pool)
        except RetirementUnavailableError as error:
            return await self._unknown(pool, "SignalsUnavailable", f"the ledger cannot be asked for its load: {error}")
        windows = self._windows_of(pool)
        want = desired(signals, pool.spec.autoscaling, windows)
        try:
            cost = await self._costs.of(pool, self._nodes.list())
        except CostUnknownError as error:
            return await self._unknown(pool, "CostUnknown", str(error))
        except KubeError as error:
            return await self._unknown(pool, "CostUnknown", f"what one of its Pods takes could not be read: {error}")
        mine = Demand(pool.metadata.name, want, cost, pool.spec.replicas, signals.queued)
        granted = await self._granted(pool, mine)
        decided = settle(
            granted,
            pool.spec.replicas,
            self._memories.get(pool.metadata.uid, Remembered()),
            self._clock.monotonic(),
            float(pool.spec.autoscaling.scale_down_cooldown_seconds),
        )
        pool = await self._write_replicas(pool, decided)
        # Only what was written is remembered: a write that failed is decided anew, and no cooldown is cut short by it.
        self._memories[pool.metadata.uid] = decided.memory
        self._outlooks[key_of(pool)] = Outlook(want, decided.replicas, signals)
        status = self._with_windows(pool, self._status(pool, signals, decided), windows)
        await self._save(pool, await self._with_version(pool, status))
        return RequeueAfter(EVERY)

    # What the fleet gives

    async def _granted(self, pool: RunnerPool, mine: Demand) -> Grant:
        siblings = [
            each
            for each in self._pools.list(pool.metadata.namespace)
            if each.metadata.name != pool.metadata.name and _share_a_fleet(each, pool)
        ]
        try:
            others = [await self._demand(sibling) for sibling in siblings]
        except (RetirementUnavailableError, CostUnknownError, KubeError) as error:
            return each_alone([mine], f"a sibling could not be counted: {error}")[mine.pool]
        return allocate([mine, *others], capacity_of(pool, self._nodes.list()))[mine.pool]

    async def _demand(self, sibling: RunnerPool) -> Demand:
        """A sibling's part. What the autoscaler does not scale still takes its room: a pool of a fixed size, and one that drains."""
        name, spec = sibling.metadata.name, sibling.spec
        cost = await self._costs.of(sibling, self._nodes.list())
        if sibling.metadata.deletion_timestamp is not None:
            return Demand(name, pinned(sibling.status.busy, "it is being deleted"), cost, sibling.status.busy)
        if not spec.autoscaling.enabled:
            return Demand(name, pinned(spec.replicas, "its size is fixed"), cost, spec.replicas)
        signals = await self._signals_of(sibling)
        return Demand(
            name, desired(signals, spec.autoscaling, self._windows_of(sibling)), cost, spec.replicas, signals.queued
        )

    async def _signals_of(self, pool: RunnerPool) -> PoolSignals:
        name, now = pool.metadata.name, self._clock.monotonic()
        kept = self._signals.get(name)
        if kept is not None and now - kept[0] < _SIGNALS_KEPT:
            return kept[1]
        signals = await self._retirement.signals(name)
        self._signals[name] = (now, signals)
        return signals

    # What is written

    async def _write_replicas(self, pool: RunnerPool, decided: Decision) -> RunnerPool:
        if decided.replicas == pool.spec.replicas:
            return pool
        meta = pool.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "spec": {"replicas": decided.replicas}}
        written = await self._client.merge_patch(RunnerPool, meta.name, patch, namespace=meta.namespace)
        log.info(
            "scaled",
            pool=meta.name,
            before=pool.spec.replicas,
            now=decided.replicas,
            reason=decided.reason,
            why=decided.why,
        )
        return written

    def _status(self, pool: RunnerPool, signals: PoolSignals, decided: Decision) -> RunnerPoolStatus:
        now = self._clock.now()
        said = _condition("True", decided.reason, f"{decided.replicas} wanted: {decided.why}")
        status = replace(
            pool.status,
            queued=signals.queued,
            withheld=signals.withheld,
            conditions=set_condition(pool.status.conditions, said, now),
        )
        if decided.reason == "ScaledDown":
            status = replace(status, last_scale_down_at=now.replace(microsecond=0))
        return status

    async def _with_version(self, pool: RunnerPool, status: RunnerPoolStatus) -> RunnerPoolStatus:
        """The status with what the ledger knows of the runners' version; as it is while the ledger cannot be asked."""
        try:
            said = runner_version(pool, await self._signals_of(pool))
        except RetirementUnavailableError:
            return status
        if said is None:
            return replace(status, conditions=without_condition(status.conditions, RUNNER_VERSION))
        return replace(status, conditions=set_condition(status.conditions, said, self._clock.now()))

    def _windows_of(self, pool: RunnerPool) -> Schedule:
        return schedule(pool.spec.autoscaling, self._clock.now())

    def _with_windows(self, pool: RunnerPool, status: RunnerPoolStatus, windows: Schedule) -> RunnerPoolStatus:
        """The status with what is to be said about the pool's windows, and nothing where it has none."""
        said = scheduled(pool.spec.autoscaling, windows)
        if said is None:
            return replace(status, conditions=without_condition(status.conditions, WARM_WINDOWS))
        return replace(status, conditions=set_condition(status.conditions, said, self._clock.now()))

    async def _unknown(self, pool: RunnerPool, reason: str, problem: str) -> Result:
        self._outlooks.pop(key_of(pool), None)  # numbers of the past are not shown as those of now
        message = f"{pool.spec.replicas} kept, because {problem}; asked again every {span(EVERY)}"
        said = _condition("False", reason, message)
        conditions = set_condition(pool.status.conditions, said, self._clock.now())
        await self._save(pool, replace(pool.status, conditions=conditions))
        return RequeueAfter(EVERY)

    async def _save(self, pool: RunnerPool, status: RunnerPoolStatus) -> None:
        change = merge_difference(pool.status, status)
        if not change:
            return
        meta = pool.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": change}
        await self._client.merge_patch(RunnerPool, meta.name, patch, namespace=meta.namespace, subresource="status")

    def _forget(self, request: Request, pool: RunnerPool | None) -> None:
        self._outlooks.pop((request.namespace, request.name), None)
        self._signals.pop(request.name, None)
        if pool is not None:
            self._memories.pop(pool.metadata.uid, None)
        else:
            alive = {each.metadata.uid for each in self._pools.list()}
            self._memories = {uid: memory for uid, memory in self._memories.items() if uid in alive}


def _share_a_fleet(one: RunnerPool, other: RunnerPool) -> bool:
    return (one.spec.os, one.spec.fleet_selector) == (other.spec.os, other.spec.fleet_selector)


def runner_version(pool: RunnerPool, signals: PoolSignals) -> Condition | None:
    """What GitHub says of the version of the pool's runners, where it refuses it. Pure."""
    if not signals.too_old or signals.too_old_since is None:
        return None
    since = rfc3339(signals.too_old_since)
    text = (
        f"GitHub has called {signals.too_old} runners of image {pool.spec.image} too old since {since}, and none has got a job: "
        "one at a time is tried, within a quarter of an hour; put a newer runner into the image"
    )
    return Condition(type=RUNNER_VERSION, status="False", reason="RunnerTooOld", message=text)


def _condition(status: Literal["True", "False"], reason: str, message: str) -> Condition:
    return Condition(type=AUTOSCALED, status=status, reason=reason, message=message)


def _said_nothing(status: RunnerPoolStatus) -> RunnerPoolStatus:
    """The status of a pool that is not autoscaled: what this controller said of it goes, what others said stays."""
    if get_condition(status.conditions, AUTOSCALED) is None:
        return status
    return replace(status, queued=0, withheld=0, conditions=without_condition(status.conditions, AUTOSCALED))
