"""What jobs cost: the one place that computes it, for the page, the command line and whoever asks over HTTP.

A job on a Mac costs its share of it, one of two places unless its pool shares no Mac, at that Mac's price of then, for as long
as its Pod was its account's. A job on Linux has no Mac, and no price that is known here. What was not recorded has no cost: a
mean of other Macs would be another number.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Ledger
from paddock.runners.ledger.ended_jobs import By, EndedSum, EndedSums, Selection
from paddock.runners.ledger.views import FinishedJob

__all__ = ["JobCosts", "cost_of_job", "cost_of_sum"]

_UNKNOWN_POOL: Final = 0.5
"""A pool that is gone is taken for one of two on a Mac."""


def cost_of_job(job: FinishedJob, shares: Mapping[str, float]) -> FinishedJob:
    """The job with its share of a Mac, and its cost where the price is known. `shares` are those of the pools that there are."""
    share = 0.0 if job.platform == "linux" else shares.get(job.pool, _UNKNOWN_POOL)
    if job.pod_seconds is None or not share:
        return job
    seconds = job.pod_seconds * share
    euros = None if job.price is None else round(seconds / 3600 * job.price, 4)
    return replace(job, share=share, mac_seconds=seconds, euros=euros)


def cost_of_sum(one: EndedSum, shares: Mapping[str, float]) -> EndedSum:
    """The same of many: the jobs whose price is not known are in the time and not in the cost."""
    seconds, euros = _shared(one.mac_pod_seconds, shares), _shared(one.mac_pod_price, shares)
    return replace(one, mac_seconds=seconds, euros=None if euros is None else round(euros, 4))


def _shared(whole: Mapping[str, float], shares: Mapping[str, float]) -> float | None:
    parts = [amount * share for pool, amount in whole.items() if (share := shares.get(pool, _UNKNOWN_POOL))]
    return sum(parts) if parts else None


class JobCosts:
    """Jobs that ended, from the ledger, with what they cost. `pools` are those that there are now."""

    def __init__(self, ledger: Ledger, pools: Callable[[], Iterable[RunnerPool]]) -> None:
        self._ledger = ledger
        self._pools = pools

    async def of_job(self, job_id: int) -> FinishedJob | None:
        """So far, where the job runs; None where it is not known."""
        job = await self._ledger.ended_jobs.of_job(job_id)
        return None if job is None else cost_of_job(job, self._shares())

    async def recent(self, limit: int) -> list[FinishedJob]:
        """The jobs that ended last, latest first."""
        return self._priced(await self._ledger.overview.recent(limit))

    async def newest(self, chosen: Selection, limit: int) -> list[FinishedJob]:
        """As `EndedJobs.newest`."""
        return self._priced(await self._ledger.ended_jobs.newest(chosen, limit))

    async def sums(self, by: By, chosen: Selection) -> EndedSums:
        """As `EndedJobs.sums`."""
        found, shares = await self._ledger.ended_jobs.sums(by, chosen), self._shares()
        return replace(found, sums=[cost_of_sum(one, shares) for one in found.sums])

    def _priced(self, jobs: Iterable[FinishedJob]) -> list[FinishedJob]:
        shares = self._shares()
        return [cost_of_job(job, shares) for job in jobs]

    def _shares(self) -> dict[str, float]:
        return {pool.metadata.name: pool.share_of_mac for pool in self._pools()}
