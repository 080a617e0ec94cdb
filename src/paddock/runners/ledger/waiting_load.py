"""Which waiting jobs may run now, and how many of each pool. Everybody who counts the line asks here. Pure, but for the read.

The room of an account is given out once, over all of its pools: job by job, in the order in which admission would hand them
out to Pods that ask one after the other, and past a job that does not fit to the next that does. So the jobs of all pools
that may run can run together, and a pool's other jobs are withheld. A Pod that asks first may still be handed a withheld job
of its pool in another's place: `oldest` and `may_run` say since when, and whether, admission would hand out anything of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final

from msgspec import Struct

from paddock.runners.ledger.database import Connection, fetch_all
from paddock.runners.ledger.precedence import level_of

__all__ = ["InLine", "PoolLoad", "WaitingJobs", "WaitingLoad", "read_waiting_load", "waiting_load"]

WAITING = """
-- waiting_jobs: those of one size, pool and repository together, beside what admission weighs; oldest first, as many as their
-- account has room for, and the oldest of those for which it has none
WITH sizes AS (
    SELECT j.pool, j.account_id, j.platform, j.repository_id, j.repository, j.vcpus, j.memory_mb,
           coalesce(j.not_before > %(now)s, false) AS rests, count(*)::integer AS jobs,
           array_agg(j.job_id ORDER BY j.enqueued_at, j.job_id) AS job_ids,
           array_agg(j.enqueued_at ORDER BY j.enqueued_at, j.job_id) AS since
    FROM jobs j WHERE j.status = 'queued' AND j.enqueued_at > %(now)s - interval '7 days'
    -- numbers first: names are slower to sort by
    GROUP BY j.account_id, j.repository_id, j.vcpus, j.memory_mb, rests, j.pool, j.platform, j.repository
), accounts_in_line AS (
    SELECT a.account_id, a.platform, l.limit_id, l.vcpus AS limit_vcpus, l.memory_mb AS limit_memory_mb,
           l.vcpus - coalesce(used.vcpus, 0) AS free_vcpus, l.memory_mb - coalesce(used.memory_mb, 0) AS free_memory_mb,
           own.weighed
    FROM (SELECT DISTINCT account_id, platform FROM sizes) a LEFT JOIN limits l USING (account_id, platform)
    LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                       WHERE c.limit_id = l.limit_id) used ON true
    CROSS JOIN LATERAL (SELECT count(p.weight) > 0 AS weighed FROM precedence p
                        WHERE p.account_id = a.account_id AND p.repository_id <> 0) own
)
SELECT s.pool, s.account_id, s.platform, s.repository_id, s.vcpus, s.memory_mb, s.jobs,
       s.rests OR EXISTS (SELECT FROM setbacks b WHERE b.account_id = s.account_id AND b.repository IN ('', s.repository)
                                                   AND b.not_before > %(now)s) AS rests,
       s.job_ids[:most.jobs] AS job_ids, s.since[:most.jobs] AS since,
       is_allowed(s.account_id, s.repository_id, s.repository) AS allowed,
       a.limit_vcpus, a.limit_memory_mb, a.free_vcpus, a.free_memory_mb, room.vcpus AS room_vcpus, room.memory_mb AS room_memory_mb,
       coalesce(own.priority, of_account.priority, 0) AS priority,
       CASE WHEN a.weighed THEN coalesce(own.weight, 1) END AS weight,
       coalesce(held.vcpus, 0) AS held_vcpus, coalesce(held.memory_mb, 0) AS held_memory_mb
FROM sizes s JOIN accounts_in_line a USING (account_id, platform)
CROSS JOIN LATERAL (SELECT greatest(1, least(a.free_vcpus / s.vcpus, a.free_memory_mb / s.memory_mb))::integer AS jobs) most
LEFT JOIN LATERAL repository_room(s.account_id, s.repository_id, s.platform) room ON true
LEFT JOIN precedence of_account ON of_account.account_id = s.account_id AND of_account.repository_id = 0
LEFT JOIN precedence own ON own.account_id = s.account_id AND own.repository_id = s.repository_id AND s.repository_id <> 0
LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                   WHERE a.weighed AND c.limit_id = a.limit_id AND c.repository_id = s.repository_id) held ON true
"""


class WaitingJobs(Struct, frozen=True, kw_only=True):
    """Queued jobs of one account that differ in nothing but their age, beside what admission weighs when a Pod asks.

    `since` and `job_ids` are the oldest of them, in the same order: at least one, and as many as fit into what is free.
    """

    pool: str
    account_id: int
    platform: str
    repository_id: int
    vcpus: int
    memory_mb: int
    jobs: int
    job_ids: Sequence[int]
    since: Sequence[datetime]
    rests: bool = False
    allowed: bool = True
    limit_vcpus: int | None = None
    """Of the account, as what is free of it; None where it has no limit, and none means nothing."""
    limit_memory_mb: int | None = None
    free_vcpus: int | None = None
    free_memory_mb: int | None = None
    room_vcpus: int | None = None
    """What its repository may still hold; None where it has no limit of its own."""
    room_memory_mb: int | None = None
    priority: int = 0
    weight: int | None = None
    """Of its repository; None where no repository of the account has one, so that what each holds does not count."""
    held_vcpus: int = 0
    held_memory_mb: int = 0
    """What its repository holds, where weights count."""

    @property
    def fits(self) -> bool:
        """Whether admission would hand one of them to a Pod that asks now."""
        if self.rests or not self.allowed or self.free_vcpus is None or self.free_memory_mb is None:
            return False
        mine = self.room_vcpus is None or (
            self.room_vcpus >= self.vcpus and (self.room_memory_mb or 0) >= self.memory_mb
        )
        return mine and self.free_vcpus >= self.vcpus and self.free_memory_mb >= self.memory_mb


class PoolLoad(Struct):
    """The jobs that wait in one pool; each is counted once. `oldest` is of those that admission would hand out now."""

    dispatchable: int = 0
    withheld: int = 0
    resting: int = 0
    not_allowed: int = 0
    oldest: datetime | None = None
    resting_since: datetime | None = None

    def waited(self, now: datetime) -> float:
        """The seconds that the oldest has waited that may run now; 0 where none may."""
        return 0.0 if self.oldest is None else max(0.0, (now - self.oldest).total_seconds())


class InLine(Struct, frozen=True):
    """The jobs of one account that wait in one pool: since when the oldest does, and whether one may run now."""

    pool: str
    account_id: int
    platform: str
    oldest: datetime
    may_run: bool


class WaitingLoad(Struct, frozen=True):
    """The whole line. `dispatchable` are the jobs that may run now, all of them together."""

    pools: dict[str, PoolLoad]
    line: list[InLine]
    dispatchable: frozenset[int]

    def of_pool(self, pool: str) -> PoolLoad:
        """Zeros where none waits."""
        return self.pools.get(pool) or PoolLoad()

    def total(self) -> PoolLoad:
        """Over all pools."""
        total = PoolLoad()
        for load in self.pools.values():
            total.dispatchable += load.dispatchable
            total.withheld += load.withheld
            total.resting += load.resting
            total.not_allowed += load.not_allowed
            total.oldest = _earlier(total.oldest, load.oldest)
            total.resting_since = _earlier(total.resting_since, load.resting_since)
        return total


async def read_waiting_load(connection: Connection, now: datetime) -> WaitingLoad:
    """The line of this moment. What is read is bounded by what waits, what is fetched by what the accounts have room for."""
    return waiting_load(await fetch_all(connection, WaitingJobs, WAITING, {"now": now}), now)


def waiting_load(line: Sequence[WaitingJobs], now: datetime) -> WaitingLoad:
    """What may run of this line, and what holds the rest of it: the list, a rest after a failed mint, or a limit."""
    pools: dict[str, PoolLoad] = defaultdict(PoolLoad)
    accounts: dict[tuple[int, str], list[WaitingJobs]] = defaultdict(list)
    heads: dict[tuple[str, int, str], InLine] = {}
    for one in line:
        load = pools[one.pool]
        if not one.allowed:
            load.not_allowed += one.jobs
        elif one.rests:
            load.resting += one.jobs
            load.resting_since = _earlier(load.resting_since, one.since[0])
        else:
            load.withheld += one.jobs  # until the room of its account is given out, below
        if one.fits:
            accounts[one.account_id, one.platform].append(one)
            load.oldest = _earlier(load.oldest, one.since[0])
        if not one.rests:
            key = (one.pool, one.account_id, one.platform)
            heads[key] = _head(heads.get(key), InLine(*key, one.since[0], one.fits))
    top = max((one.priority for fitting in accounts.values() for one in fitting), default=0)
    dispatchable: set[int] = set()
    for fitting in accounts.values():
        for pool, job_id in _handed_out(fitting, now, top):
            dispatchable.add(job_id)
            pools[pool].dispatchable += 1
            pools[pool].withheld -= 1
    return WaitingLoad(dict(pools), list(heads.values()), frozenset(dispatchable))


class _Next(Struct, order=True, frozen=True):
    """The head of a repository's line, as admission compares heads: the least goes first."""

    below_top: int
    share: float
    since: datetime
    job_id: int
    repository_id: int


_BY_AGE: Final = attrgetter("since", "job_id")


class _Job(Struct, frozen=True):
    since: datetime
    job_id: int
    of: WaitingJobs


def _handed_out(fitting: Sequence[WaitingJobs], now: datetime, top: int) -> Iterable[tuple[str, int]]:
    """The jobs of one account that admission would hand out to Pods that ask one after the other: (pool, job), in that order.

    A repository's jobs go by age. Of two repositories the one of the higher level goes first, then, where weights count, the
    one that holds less by its weight, then the older job. A job that does not fit any more does not hold up the next.
    """
    first = fitting[0]
    vcpus, memory_mb = first.free_vcpus or 0, first.free_memory_mb or 0
    lines = {repository: _Repository(of, top) for repository, of in _by_repository(fitting).items()}
    heads = [line.head(now) for line in lines.values()]
    heapify(heads)
    while heads:
        line = lines[heappop(heads).repository_id]
        job = line.jobs.pop()
        size = job.of
        if size.vcpus <= vcpus and size.memory_mb <= memory_mb and line.takes(size):
            vcpus, memory_mb = vcpus - size.vcpus, memory_mb - size.memory_mb
            yield size.pool, job.job_id
        if line.jobs:
            heappush(heads, line.head(now))


class _Repository:
    """The waiting jobs of one repository, oldest last, and what is left of its own limit as they are handed out."""

    def __init__(self, sizes: Sequence[WaitingJobs], top: int) -> None:
        self._any = sizes[0]
        self._top = top
        self._vcpus = self._memory_mb = 0
        self.jobs = sorted(
            (
                _Job(since, job_id, size)
                for size in sizes
                for since, job_id in zip(size.since, size.job_ids, strict=True)
            ),
            key=_BY_AGE,
            reverse=True,
        )

    def head(self, now: datetime) -> _Next:
        """How its oldest job stands beside the heads of the account's other repositories."""
        job, its = self.jobs[-1], self._any
        level = level_of(its.priority, job.since, now, self._top)
        share = 0.0
        if its.weight is not None:
            vcpus = (its.held_vcpus + self._vcpus) / (its.limit_vcpus or 1)
            share = max(vcpus, (its.held_memory_mb + self._memory_mb) / (its.limit_memory_mb or 1)) / its.weight
        return _Next(self._top - level, share, job.since, job.job_id, its.repository_id)

    def takes(self, size: WaitingJobs) -> bool:
        """Whether one more of that size fits into the repository's own limit; then it is counted."""
        vcpus, memory_mb = self._vcpus + size.vcpus, self._memory_mb + size.memory_mb
        if size.room_vcpus is not None and (vcpus > size.room_vcpus or memory_mb > (size.room_memory_mb or 0)):
            return False
        self._vcpus, self._memory_mb = vcpus, memory_mb
        return True


def _by_repository(sizes: Iterable[WaitingJobs]) -> dict[int, list[WaitingJobs]]:
    found: dict[int, list[WaitingJobs]] = defaultdict(list)
    for size in sizes:
        found[size.repository_id].append(size)
    return found


def _head(known: InLine | None, other: InLine) -> InLine:
    """The oldest that may run; where none may, the oldest."""
    if known is None or (other.may_run, known.oldest) > (known.may_run, other.oldest):
        return other
    return known


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((moment for moment in (one, other) if moment is not None), default=None)
