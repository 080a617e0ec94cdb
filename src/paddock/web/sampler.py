"""Writes the fleet's past into the ledger: what Macs were, what was wrong, and the numbers of each minute.

Any number of processes may run it. One at a time works, by an advisory lock that is taken anew for every look; where two
overlap all the same, the ledger's keys see to it that they write what one would. A look that is not complete writes nothing:
a cache that is still filling, or a ledger that did not answer, would say that Macs are gone and problems are over.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.api import OWNER_LABEL
from paddock.runners.ledger import Ledger, LedgerError
from paddock.runners.ledger.incidents import ProblemSeen
from paddock.runners.ledger.mac_states import MacSeen
from paddock.runners.ledger.samples import MINUTE, FleetNumbers, step_began
from paddock.runners.ledger.views import QueueSummary
from paddock.views.health import ASIDE
from paddock.views.problem import Problem
from paddock.web.front import health_of
from paddock.web.money import money_of
from paddock.web.page_data import LedgerData, PageData
from paddock.web.tiles import Group, groups_of, tile_states

__all__ = ["Sampler", "Seen", "judge"]

_EVERY = 5.0
_LOCK = "sampling"
_COUNT = re.compile(r"^\d+ ")
_log = get_logger("sampler")


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look gives the ledger."""

    macs: tuple[MacSeen, ...]
    problems: tuple[ProblemSeen, ...]
    numbers: FleetNumbers
    nodes: dict[str, str]
    """The Node of each Pod that has a job, by uid."""


def judge(seen: PageData, summary: QueueSummary) -> Seen:
    """What the page would show at this moment, as values. Pure."""
    data = replace(seen, ledger=LedgerData(seen.now, summary), runners=True, unread=())
    groups = groups_of(data)
    money = money_of(groups, data.hosts, data.now)
    waiting = summary.dispatchable + summary.withheld + summary.resting + summary.held + summary.unserved
    return Seen(
        tuple(_macs(groups, data)),
        tuple(_problem(one) for one in health_of(data).problems if one.impact > ASIDE),
        FleetNumbers(
            macs=dict(tile_states(groups)),
            waiting=waiting + summary.not_allowed,
            running=summary.running,
            per_hour=money.per_hour,
            currency=money.currency,
        ),
        {
            pod.metadata.uid: pod.spec.node_name
            for pod in data.pods
            if pod.metadata.labels.get(OWNER_LABEL) and pod.spec.node_name
        },
    )


def _problem(problem: Problem) -> ProblemSeen:
    """A problem of several says how many there are, which may change while it lasts: that is no part of its key."""
    about = _COUNT.sub("", problem.about)
    return ProblemSeen(key=f"{problem.runbook}/{about}", about=problem.about, sentence=problem.sentence)


class Sampler:
    """`look` gives this moment, or None while it is not complete, `summary` the line as the page has it; `who` is what restarts
    are told of.
    """

    def __init__(
        self,
        ledger: Ledger,
        look: Callable[[], PageData | None],
        summary: Callable[[], Awaitable[QueueSummary]],
        clock: Clock,
        *,
        who: str,
    ) -> None:
        self._ledger = ledger
        self._look = look
        self._summary = summary
        self._clock = clock
        self._who = who
        self._told = False
        self._written: Seen | None = None
        self._placed: set[str] = set()
        self._minute: datetime | None = None

    async def run(self) -> None:
        """Look every few seconds until cancelled."""
        while True:
            try:
                await self.once()
            except LedgerError as error:
                self._written = None  # what was written is not known any more: the next look writes everything
                _log.debug("the fleet's past was not written: the next look is in seconds", error=str(error))
            await self._clock.sleep(_EVERY)

    async def once(self) -> bool:
        """One look. False where nothing could be seen, or another process has the turn."""
        seen, ledger = self._look(), self._ledger
        if seen is None:
            return False
        if not self._told:
            # Every process tells of its own start, whoever samples. Lost if the process dies before: then it starts again.
            await ledger.incidents.restarted(seen.now, self._who)
            self._told = True
        async with ledger.locks.taken(_LOCK) as mine:
            if not mine:
                self._written = None  # another writes, so that memory grows old
                return False
            summary = await self._summary()
            # Thousands of objects are judged: in a thread, so that nobody's request waits for it.
            await self._write(seen.now, await asyncio.to_thread(judge, seen, summary))
        return True

    async def _write(self, now: datetime, found: Seen) -> None:
        """Every write can be repeated. A process that dies between two of them leaves the rest to the next look."""
        ledger, before = self._ledger, self._written
        if before is None or before.macs != found.macs:
            await ledger.mac_states.observe(now, found.macs)
        if before is None or _keys(before.problems) != _keys(found.problems):
            await ledger.incidents.observe(now, found.problems)
        new = {uid: node for uid, node in found.nodes.items() if uid not in self._placed}
        # A Pod is labelled before its session is written: it is asked about again until it has one.
        self._placed = (self._placed | await ledger.mac_states.place(new)) & found.nodes.keys()
        self._written = found
        minute = step_began(now, MINUTE) - MINUTE
        if self._minute is None:
            self._minute = minute  # of the minute before the first look nothing was seen
        if minute != self._minute:
            await ledger.samples.add(minute, found.numbers)
            await ledger.samples.roll_up(now)
            self._minute = minute


def _keys(problems: Sequence[ProblemSeen]) -> set[str]:
    return {problem.key for problem in problems}


def _macs(groups: Sequence[Group], data: PageData) -> list[MacSeen]:
    """Prices and titles that change alone open no new stretch; the state, the machine and the fleet do."""
    machines = {host.metadata.name: host.spec.claim.machine_name for host in data.hosts if host.spec.claim is not None}
    return [
        MacSeen(
            host=tile.name,
            state=tile.state,
            machine=machines.get(tile.name, ""),
            title=tile.title,
            zone=tile.zone,
            fleet=tile.fleet,
            price=tile.price,
        )
        for group in groups
        for tile in group.tiles
    ]
