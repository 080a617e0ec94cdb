"""A waiting job follows its labels: when pools are renamed, deleted or relabelled, their line goes where it can be served.

A job is routed when it is announced, by the pools of that moment. This looks again whenever the pools have changed, and once
a minute in any case. What no pool serves leaves the line as `unserved`, with the sentence that says which labels nobody
offers, and comes back as soon as one does. A line that stays is counted as the size that its pool has now. Nothing else is
touched: not a job that a runner has, and no claim. No job goes to a pool that asks a scale set: its queue announces the job under
a number of its own, and two numbers would be two runners.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Ledger, LedgerUnavailableError
from paddock.runners.ledger.rerouting import Routed
from paddock.runners.webhooks.routing import Chosen, choose, offered

__all__ = ["Rerouter"]

_LOOK = 1.0
_BACKSTOP = 60.0
_log = get_logger("routing")


class Rerouter:
    """Any number of processes may run one: each move names what was read, and a job is moved once.

    While the pools are not known nothing is done; a process whose cache of pools is behind moves jobs back at worst, until
    it has caught up.
    """

    def __init__(self, ledger: Ledger, pools: Callable[[], Sequence[RunnerPool] | None], clock: Clock) -> None:
        self._ledger = ledger
        self._pools = pools
        self._clock = clock
        self._seen: object = None

    async def run(self) -> None:
        """Look until cancelled."""
        looked_at = -_BACKSTOP
        while True:
            pools = self._pools()
            if pools is not None:
                offers = _offers(pools)
                if offers != self._seen or self._clock.monotonic() - looked_at >= _BACKSTOP:
                    with suppress(LedgerUnavailableError):
                        await self.look()
                        self._seen, looked_at = offers, self._clock.monotonic()
            await self._clock.sleep(_LOOK)

    async def look(self) -> int:
        """Route every waiting job anew; gives how many moved."""
        pools = self._pools()
        if pools is None:
            return 0
        moved = 0
        for group in await self._ledger.rerouting.groups():
            moved += await self._route(group, pools)
            await asyncio.sleep(0)
        return moved

    async def _route(self, group: Routed, pools: Sequence[RunnerPool]) -> int:
        labels = group.labels or ([group.label] if group.label else [])
        if not labels:
            return 0  # of an older release, which kept no labels: it stays where it was sent
        choice = choose(pools, labels)
        if isinstance(choice, Chosen):
            pool = choice.pool
            if group.status != "unserved" and group.pool == pool.metadata.name:
                return await self._count_as(group, pool)
            if pool.spec.job_source == "ScaleSet":
                return await self._leave_to_scale_set(group, pool)
            why = f"pool {pool.metadata.name} offers its labels"
            moved = await self._ledger.rerouting.move(
                group,
                pool=pool.metadata.name,
                platform=pool.platform,
                vcpus=pool.vcpus,
                memory_mb=pool.spec.pod_memory_mb,
                label=choice.label,
                why=why,
            )
        else:
            why = choice.sentence
            if choice.reason == "ambiguous_pool" and _serves(pools, group.pool, labels):
                return 0  # a second pool of that label stops nothing that was on its way to the first
            if group.status == "waiting" or (group.status == "unserved" and group.why == why):
                return 0
            moved = await self._ledger.rerouting.strand(group, why=why)
        return _told(group, moved, why)

    async def _count_as(self, group: Routed, pool: RunnerPool) -> int:
        """They stay where they are. Whoever changes the size of a pool changes what its jobs take of their account's limit."""
        platform, vcpus, memory_mb = pool.platform, pool.vcpus, pool.spec.pod_memory_mb
        if (group.platform, group.vcpus, group.memory_mb) == (platform, vcpus, memory_mb):
            return 0
        moved = await self._ledger.rerouting.resize(group, platform=platform, vcpus=vcpus, memory_mb=memory_mb)
        if moved:
            size = f"{vcpus} vCPU, {memory_mb} MB"
            _log.info(
                "waiting jobs are counted as the size that their pool has now", jobs=moved, pool=group.pool, size=size
            )
        return moved

    async def _leave_to_scale_set(self, group: Routed, pool: RunnerPool) -> int:
        """Out of the line, and nobody's alarm: GitHub tells the set's queue of the job, and says here when it ends."""
        why = f"pool {pool.metadata.name} is told of such jobs by its scale set's queue, and runs them under other numbers"
        if group.status == "waiting" or (group.status == "unserved" and group.why == why):
            return 0
        return _told(group, await self._ledger.rerouting.strand(group, why=why, unsure=True), why)


def _told(group: Routed, moved: int, why: str) -> int:
    if moved:
        _log.warning("waiting jobs were routed anew", jobs=moved, labels=group.labels, was=group.pool, why=why)
    return moved


def _serves(pools: Sequence[RunnerPool], name: str, labels: Sequence[str]) -> bool:
    own = [pool for pool in pools if pool.metadata.name == name and pool.metadata.deletion_timestamp is None]
    return offered(own, labels)


def _offers(pools: Sequence[RunnerPool]) -> object:
    """What routing depends on, and nothing else: most changes of a pool are of its status."""
    return sorted(
        (
            pool.metadata.name,
            pool.metadata.deletion_timestamp is not None,
            pool.spec.job_source,
            pool.spec.dispatch_label,
            tuple(pool.spec.runner_labels),
            (pool.platform, pool.vcpus, pool.spec.pod_memory_mb),
        )
        for pool in pools
    )
