"""Dispatch's word on who works, in the form in which the host subsystem asks for it."""

from collections.abc import Mapping, Sequence

from paddock.hosts.api import EndedJob
from paddock.hosts.disruption import WorkLedgerAwayError
from paddock.runners.ledger import GivenUp
from paddock.runners.pools.retirement import RetirementApi, RetirementUnavailableError

__all__ = ["DispatchWord"]


class DispatchWord:
    """`paddock.hosts.disruption.WorkLedger` over the retirement API: hosts and runners know nothing of each other."""

    def __init__(self, retirement: RetirementApi) -> None:
        self._retirement = retirement

    async def at_work(self, pod_uids: Sequence[str]) -> Mapping[str, str]:
        try:
            return await self._retirement.at_work(pod_uids)
        except RetirementUnavailableError as error:
            raise WorkLedgerAwayError(str(error)) from error

    async def ended(self, jobs: Sequence[EndedJob]) -> None:
        kills = [
            GivenUp(
                key=job.key,
                at=job.at,
                path=job.path,
                pod_uid=job.pod_uid,
                pod_name=job.pod,
                account=job.account,
                machine=job.machine,
                why=job.why,
            )
            for job in jobs
        ]
        try:
            await self._retirement.killed(kills)
        except RetirementUnavailableError as error:
            raise WorkLedgerAwayError(str(error)) from error
