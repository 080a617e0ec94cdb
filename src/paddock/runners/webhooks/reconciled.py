"""Jobs that GitHub never announced to us and that were found in its own list: the second source beside webhooks."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from paddock.base.clock import Clock
from paddock.clients.github import GitHubJob
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Ledger, Moved, NewJob
from paddock.runners.ledger.nameless import IN_VAIN_COUNTS
from paddock.runners.webhooks.payload import moment, waiting_since
from paddock.runners.webhooks.routing import Chosen, choose

__all__ = ["enqueue_from_github"]

BY: Final = "healing/unheard"


def enqueue_from_github(
    ledger: Ledger, pools: Callable[[], Sequence[RunnerPool] | None], clock: Clock
) -> Callable[[int, str, GitHubJob], Awaitable[bool]]:
    """How a found job enters the queue: routed as an announced one is. True if it was not known and waits now.

    A job of a scale set is announced by its queue. Where that is silent though the set is idle (GitHub forgets to announce the
    re-run of a run that was over, pytorch/ci-infra#900), one runner is brought: GitHub then gives it what waits.
    """

    async def announce(installation_id: int, repository: str, job: GitHubJob) -> bool:
        account = await ledger.accounts.of_installation(installation_id)
        choice = choose(pools() or (), job.labels)
        if account is None or not isinstance(choice, Chosen):
            return False
        pool, now, held = choice.pool, clock.now(), job.status == "waiting"
        found = NewJob(
            job_id=job.job_id,
            account_id=account.account_id,
            pool=pool.metadata.name,
            platform=pool.platform,
            vcpus=pool.vcpus,
            memory_mb=pool.spec.pod_memory_mb,
            repository=repository,
            repository_id=await _number(ledger, account.account_id, repository),
            enqueued_at=moment(job.created_at, now, now) if held else waiting_since(job.created_at, now, now),
            workflow_run_id=job.run_id,
            workflow_name=job.workflow_name,
            run_attempt=job.run_attempt,
            job_name=job.name,
            head_branch=job.head_branch,
            head_sha=job.head_sha,
            label=choice.label,
            labels=job.labels,
        )
        if pool.spec.job_source == "ScaleSet":
            if held:
                return False  # for somebody's approval
            why = f"job {job.job_id} waits at GitHub, and its scale set is told of none: a runner wakes it"
            return await ledger.nameless.nudge(found, since=now - IN_VAIN_COUNTS, by=BY, why=why)
        if await ledger.assignments.may_be(found, created_at=job.created_at):
            return False  # its pool had a scale set, whose runners serve what was assigned; if it waits after that, it is found again
        moved = await ledger.jobs.enqueue(found, by=BY, status="waiting" if held else "queued")
        return moved in (Moved.QUEUED, Moved.HELD)

    return announce


async def _number(ledger: Ledger, account_id: int, repository: str) -> int:
    """GitHub's number of the repository, by which it is denied and limited: a name alone misses one that was renamed since.

    An announcement is newer than the name that a person's line was written with, so it counts first. 0: nobody told it.
    """
    heard = await ledger.unconfirmed.repository_id(account_id, repository)
    return heard or await ledger.scale_sets.repository_id(account_id, repository)
