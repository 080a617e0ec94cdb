"""Reads from the ledger what pages show, and only while a browser shows them."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeVar

from paddock.base.clock import Clock
from paddock.base.readable import selected
from paddock.clients.github import BudgetView
from paddock.runners.http.readonly import JobPage, PodPage, job_page, log_of, pod_page
from paddock.runners.http.why import Explainer
from paddock.runners.ledger import Ledger, LedgerError
from paddock.runners.ledger.views import FinishedJob
from paddock.runners.processes.dispatch import RunnerService
from paddock.views.problems.services import LINE, Unread
from paddock.web.mac_past import MacPast, past_of, stays_of
from paddock.web.page_data import LedgerData
from paddock.web.then import FleetThen, read_then

__all__ = ["LedgerReader"]

Answer = TypeVar("Answer")

_EVERY = 2.0
_LOOKED_AT = 30.0
_FRESH = 1.5
_RUNNING = 1000
_LISTED = 60
_LOG_LINES = 300
_WINDOW = timedelta(hours=1)


class LedgerReader:
    """Keeps the last answer of the ledger; None while it does not answer, because an old number would look like health.

    While no browser shows a page the reader asks nothing; `fresh` and `looked` say that one does.
    """

    def __init__(self, service: RunnerService, clock: Clock) -> None:
        self._service = service
        self._clock = clock
        self._lock = asyncio.Lock()
        self._asked = float("-inf")
        self._looked = float("-inf")
        self.last: LedgerData | None = None
        self.unread: tuple[Unread, ...] = ()
        """The reads of the last look that failed."""

    @property
    def explainer(self) -> Explainer:
        return self._service.explainer

    @property
    def report_only(self) -> frozenset[str]:
        return self._service.settings.healing.report_only

    @property
    def log_kept(self) -> timedelta:
        return self._service.settings.retention.log

    async def then(self, at: datetime) -> FleetThen:
        """The fleet at that moment of the past. LedgerError where it cannot be read."""
        return await read_then(self._service.ledger, at, self._clock.now())

    async def mac_past(self, host: str) -> MacPast | None:
        """What was written down of a Mac as long as that is kept; None where nothing was."""
        states, now = self._service.ledger.mac_states, self._clock.now()
        stretches = await states.of_mac(host, now - self.log_kept)
        stays = stays_of(stretches, now)
        return past_of(stretches, await states.ran_on(stays), await states.count_on(stays), now)

    async def cost_of(self, job_id: int) -> FinishedJob | None:
        """The job with the Node that it ran on and what it cost, as the command line lists it; None where it is not known."""
        return await self._service.costs.of_job(job_id)

    def budgets(self) -> list[BudgetView]:
        return self._service.github.budgets()

    def looked(self) -> None:
        """A browser shows a page."""
        self._looked = self._clock.monotonic()

    async def fresh(self) -> LedgerData | None:
        """The answer of a moment ago."""
        self.looked()
        if self._clock.monotonic() - self._asked > _FRESH:
            await self._ask()
        return self.last

    async def run(self, changed: Callable[[], None]) -> None:
        """Ask again every few seconds while pages are open; tell when there is an answer."""
        while True:
            if self._clock.monotonic() - self._looked < _LOOKED_AT:
                await self._ask()
                changed()
            await self._clock.sleep(_EVERY)

    async def _ask(self) -> None:
        async with self._lock:
            if self._clock.monotonic() - self._asked <= _FRESH:
                return  # another request asked while we waited
            self.last, self.unread = await self._read(self._service.ledger)
            self._asked = self._clock.monotonic()

    async def _read(self, ledger: Ledger) -> tuple[LedgerData | None, tuple[Unread, ...]]:
        """One after the other: whoever looks takes one connection. What fails is said, and keeps nothing else from the page."""
        overview, now = ledger.overview, self._clock.now()
        unread: list[Unread] = []

        async def read(what: str, answer: Awaitable[Answer], instead: Answer) -> Answer:
            try:
                return await answer
            except LedgerError as error:
                unread.append(Unread(what, str(error)))
                return instead

        summary = await read(LINE, self._service.queue.summary(), None)
        if summary is None:
            return None, tuple(unread)
        data = LedgerData(
            now,
            summary,
            await read("the list of waiting jobs", overview.queue(_LISTED), []),
            await read("the list of jobs that run", overview.running(_RUNNING), []),
            await read("the list of jobs that ended", overview.recent(_LISTED), []),
            await read("how long jobs took", overview.latency(_WINDOW), []),
            await read("the list of accounts", overview.accounts(_LISTED), []),
            await read("the list of what was healed", ledger.heals.newest(_LISTED), []),
            await read("how much was healed", ledger.heals.count_by_kind(now - timedelta(days=1)), {}),
        )
        return data, tuple(unread)

    async def job(self, job_id: int) -> JobPage | None:
        return await job_page(self._service.ledger, job_id)

    async def log(self, pod_uid: str) -> str | None:
        """The end of what the Pod's runner printed; None where nothing is kept."""
        text = await log_of(self._service.ledger, pod_uid) if pod_uid else None
        return None if text is None else selected(text, tail_lines=_LOG_LINES)

    async def pod(self, uid_or_name: str) -> PodPage | None:
        return await pod_page(self._service.ledger, uid_or_name)
