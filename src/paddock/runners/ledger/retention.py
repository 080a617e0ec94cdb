"""Forgetting: what the ledger keeps is bounded by age, or one day the database is full and no job is handed out.

Only history goes: lines of the log, finished jobs, ended sessions, heals, killed jobs, deliveries that were handled, marks of runners that
are silent, logs of runners, samples and
stretches of the fleet's past, processes that are no more. Whatever is open stays, however old it is. Each bite is small and its own transaction, with a pause after it, so
that dispatching never waits for housekeeping.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, Counter

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.api.settings import Retention
from paddock.runners.ledger import Ledger, LedgerError

__all__ = ["RetentionWorker"]

_EVERY = 3600.0
_SOON = 300.0
_BITE = 2000
_PAUSE = 0.2
_DELIVERIES = timedelta(days=3)
"""A repeat is known by its id for as long as GitHub may deliver it again."""
_MARKS = timedelta(days=2)
_PROCESSES = timedelta(days=1)
_RUNNER_LOGS = timedelta(days=7)
_RUNNER_LOG_BYTES = 2 << 30
_log = get_logger("forgetting")


class RetentionWorker:
    """One process at a time forgets; two at once would only do the same twice."""

    def __init__(self, ledger: Ledger, retention: Retention, clock: Clock, registry: CollectorRegistry) -> None:
        self._ledger = ledger
        self._retention = retention
        self._clock = clock
        self._forgotten = Counter(
            "paddock_ledger_forgotten", "Rows of history that were dropped for their age.", ["what"], registry=registry
        )

    async def run(self) -> None:
        """Once an hour until cancelled. Not at the start: a process that has just begun has better things to do."""
        await self._clock.sleep(_SOON)
        while True:
            try:
                async with self._ledger.locks.taken("forgetting") as mine:
                    if mine:
                        await self.forget()
            except LedgerError as error:
                _log.warning("history is not forgotten now: the next try is in an hour", error=str(error))
            await self._clock.sleep(_EVERY)

    async def forget(self) -> dict[str, int]:
        """Forget everything that is old enough; gives how many rows of what."""
        now, ledger = self._clock.now(), self._ledger
        gone = {
            "log": await self._all(ledger.transitions.forget, now - self._retention.log),
            "heals": await self._all(ledger.heals.forget, now - self._retention.log),
            "kills": await self._all(ledger.kills.forget, now - self._retention.jobs),
            "sessions": await self._all(ledger.history.forget_sessions, now - self._retention.jobs),
            "jobs": await self._all(ledger.history.forget_jobs, now - self._retention.jobs),
            "deliveries": await self._all(ledger.deliveries.forget, now - _DELIVERIES),
            "scale_set_entries": await self._all(ledger.scale_sets.forget, now - self._retention.log),
            "marks": await self._all(ledger.progress.forget, now - _MARKS),
            "runner_logs": await self._all(ledger.runner_logs.forget, now - _RUNNER_LOGS)
            + await ledger.runner_logs.shrink(_RUNNER_LOG_BYTES),
            "samples": await ledger.samples.forget(now),
            "mac_states": await self._all(ledger.mac_states.forget, now - self._retention.log),
            "incidents": await self._all(ledger.incidents.forget, now - self._retention.log),
            "dispatchers": await ledger.dispatchers.forget(now - _PROCESSES),
        }
        for what, rows in gone.items():
            self._forgotten.labels(what).inc(rows)
        if any(gone.values()):
            _log.info("history was forgotten", **gone)
        return gone

    async def _all(self, forget: Callable[..., Awaitable[int]], before: datetime) -> int:
        whole = 0
        while True:
            rows = await forget(before, limit=_BITE)
            whole += rows
            if rows < _BITE:
                return whole
            await self._clock.sleep(_PAUSE)
