"""Runs the workers: each at its own pace, one pass at a time over all processes, and every heal written down."""

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.metrics import CollectorRegistry
from paddock.base.tasks import cancelled_by_somebody
from paddock.runners.healing.metrics import HealingMetrics
from paddock.runners.healing.worker import Healed, Report, Worker
from paddock.runners.ledger import Ledger, LedgerError

__all__ = ["Healer", "Plans", "WatchesPods"]

_LOG = get_logger("healing")
_SOON = 10.0
"""No worker waits longer than this before its first pass, however seldom it comes."""


@runtime_checkable
class Plans(Protocol):
    """A worker that can say what it would do."""

    async def plan(self) -> Report: ...


@runtime_checkable
class Remembers(Protocol):
    """A worker that needs more than one look to act, so that its rehearsal must have looked as often."""

    def recall(self, other: Any) -> None:
        """Remember what `other`, of the same kind, does at this moment; it is left as it is."""
        ...


@runtime_checkable
class WatchesPods(Protocol):
    """A worker that heals at once when a Pod is seen to go."""

    async def on_pod_gone(self, pod_uid: str, *, name: str = "", ended_at: datetime | None = None) -> Report: ...


class Healer:
    """One a process; any number of processes.

    Each worker's pass is done by whichever process has its turn. A pass that fails is logged and counted, and the worker
    comes again at its next time: nothing ends the healing but cancellation. `rehearsals` are workers in report-only mode over
    a ledger that refuses to be written, for those that have no `plan` of their own; they recall what their worker remembers.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        ledger: Ledger,
        clock: Clock,
        rng: random.Random,
        registry: CollectorRegistry | None = None,
        *,
        metrics: HealingMetrics | None = None,
        rehearsals: Sequence[Worker] = (),
    ) -> None:
        names = [worker.name for worker in workers]
        if len(set(names)) != len(names):
            raise ValueError(f"two workers have one name, and would share a turn: {sorted(names)}")
        self.workers = tuple(workers)
        self.metrics = metrics or HealingMetrics(registry)
        self.last_reports: dict[str, Report] = {}
        """The newest report of each worker that this process ran, for people."""
        self._ledger = ledger
        self._clock = clock
        self._rng = rng
        self._rehearsals = {worker.name: worker for worker in rehearsals}

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for worker in self.workers:
                group.create_task(self._keep(worker), name=f"healing {worker.name}")

    async def once(self, worker: Worker) -> Report | None:
        """One pass of one worker; None if another process has the turn, or the pass failed as a whole."""
        try:
            async with self._ledger.locks.taken(f"healing/{worker.name}") as mine:
                if not mine:
                    return None
                report = await worker.heal()
                await self.note(worker.name, report)
        except asyncio.CancelledError as error:
            # Not ours: something that the pass awaited was cancelled. A task group takes that for an end in order, so that the
            # worker would be gone, and nobody would hear of it.
            if cancelled_by_somebody():
                raise
            return self._failed(worker, error)
        except Exception as error:  # noqa: BLE001 - whatever it was, the next pass reads everything anew
            return self._failed(worker, error)
        self.metrics.last_pass.labels(worker.name).set(self._clock.now().timestamp())
        return report

    def _failed(self, worker: Worker, error: BaseException) -> None:
        self.metrics.failed.labels(worker.name).inc()
        self.last_reports[worker.name] = Report(failed=(f"the pass failed: {str(error) or type(error).__name__}",))
        _LOG.error("a pass of healing failed", worker=worker.name, exc_info=error)

    async def pod_gone(self, pod_uid: str, *, name: str = "", ended_at: datetime | None = None) -> None:
        """A watch saw the Pod go: heal at once. Never raises; what fails is found by the sweep."""
        for worker in self.workers:
            if isinstance(worker, WatchesPods):
                try:
                    await self.note(
                        worker.name, await worker.on_pod_gone(pod_uid, name=name, ended_at=ended_at), keep=False
                    )
                except Exception:  # noqa: BLE001 - the caller is a watch, which must go on
                    self.metrics.failed.labels(worker.name).inc()
                    _LOG.exception("healing after a Pod failed; the sweep will find it", pod_uid=pod_uid)

    async def plan(self) -> dict[str, Report]:
        """What every worker would do now. Nothing is done, and no worker's turn is taken."""
        plans: dict[str, Report] = {}
        for worker in self.workers:
            try:
                if isinstance(worker, Plans):
                    plans[worker.name] = await worker.plan()
                elif worker.name in self._rehearsals:
                    rehearsal = self._rehearsals[worker.name]
                    if isinstance(rehearsal, Remembers):
                        rehearsal.recall(worker)
                    plans[worker.name] = await rehearsal.heal()
                else:
                    plans[worker.name] = Report(refused=("it cannot say what it would do",))
            except Exception as error:  # noqa: BLE001 - one worker that fails must not hide the others' plans
                _LOG.exception("a rehearsal of healing failed", worker=worker.name)
                plans[worker.name] = Report(failed=(str(error) or type(error).__name__,))
        return plans

    async def note(self, worker: str, report: Report, *, keep: bool = True) -> None:
        """Write down what a pass did: the heal ledger, the counters, the page."""
        if keep:
            self.last_reports[worker] = report
        for heal in report.healed:
            self.metrics.heals.labels(heal.kind).inc()
            self.metrics.heal_seconds.labels(heal.kind).observe(heal.seconds)
            await self._record(heal)
        if report.failed:
            self.metrics.failed.labels(worker).inc(len(report.failed))
        if report.healed or report.reported or report.deferred or report.failed:
            _LOG.info(
                "healing",
                worker=worker,
                looked=report.looked,
                healed=len(report.healed),
                reported=len(report.reported),
                put_off=report.deferred,
                failed=len(report.failed),
            )

    async def _record(self, heal: Healed) -> None:
        """A heal is done whether or not its line can be written: the log of the ledger has it in any case."""
        pod_uid, job_id = heal.evidence.get("pod_uid"), heal.evidence.get("job_id")
        try:
            await self._ledger.heals.record(
                heal.kind,
                heal.subject,
                heal.sentence,
                pod_uid=pod_uid if isinstance(pod_uid, str) else "",
                job_id=job_id if isinstance(job_id, int) else None,
                evidence=heal.evidence,
                seconds=heal.seconds,
            )
        except LedgerError as error:
            _LOG.warning("a heal could not be written down", kind=heal.kind, subject=heal.subject, problem=str(error))

    async def _keep(self, worker: Worker) -> None:
        # Spread over the first seconds, so that a new process does not ask everybody everything at once.
        await self._clock.sleep(self._rng.uniform(0.0, min(worker.every, _SOON)))
        while True:
            await self.once(worker)
            await self._clock.sleep(worker.every)
