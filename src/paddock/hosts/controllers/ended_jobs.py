"""Hands the jobs that were ended with a Mac to dispatch, which writes them down. Nothing waits for it but the removal of the Host."""

from paddock.base.logs import get_logger
from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.hosts.controllers.context import ReconcileContext
from paddock.hosts.disruption import WorkLedgerAwayError
from paddock.kube.errors import ConflictError, NotFoundError

__all__ = ["EndedJobs"]

Host = ScalewayAppleSiliconHost
log = get_logger("ended jobs")


class EndedJobs:
    """Takes `spec.endedJobs` of each Host to dispatch, and off the Host once dispatch has them.

    Crash windows: died before dispatch answered, or after it, the list is still on the Host and is handed over once more, which
    changes nothing, because each job has a key. It is taken off in the version that was handed over, so no job that was added
    meanwhile is lost.
    """

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def cycle(self) -> None:
        for host in self._context.hosts.list(self._context.settings.namespace):
            if not host.spec.ended_jobs:
                continue
            try:
                await self._hand_over(host)
            except WorkLedgerAwayError as error:
                # The next one all the same: what dispatch refuses of one Host must not hold up what it takes of others.
                log.warning("jobs that were ended are not written down yet", host=host.metadata.name, why=str(error))

    async def _hand_over(self, host: Host) -> None:
        context, jobs = self._context, host.spec.ended_jobs
        if context.work is None:
            # Nobody is left who counts, and a Host must not stay for ever because of that.
            names = ", ".join(f"{job.pod} (of {job.account})" for job in jobs)
            message = f"ended with this Mac, and in no ledger, because this operator has no --dispatch-url: {names}"
            context.recorder.record(host, "Warning", "JobsKilled", message)
        else:
            await context.work.ended(jobs)
        try:
            await context.patch_host(host, {"endedJobs": None})
        except (ConflictError, NotFoundError):
            return  # the cache was behind: handed over once more, or there is no list any more
