"""GitHub as healing asks it, also about jobs whose number there is not known.

A job of a scale set has a number of ours. Asked about one, this gives what GitHub's queue has said of its assignment; once a
runner has it, its own record is looked for among the jobs of its run, by the runner's name, which is never used twice.
Everything else goes to GitHub as it is.
"""

import msgspec

from paddock.clients.github import GitHub, GitHubJob, NotFound, Priority
from paddock.runners.ledger.assignments import AssignedJob, Assignments
from paddock.runners.ledger.scale_sets import is_scale_set_job
from paddock.runners.scale_sets.messages import conclusion_of

__all__ = ["GitHubView"]


class GitHubView:
    """Keeps the contract of `GitHub`."""

    def __init__(self, github: GitHub, assignments: Assignments) -> None:
        self._github = github
        self._assignments = assignments
        # Named one by one, so that the type checker holds this to the contract.
        self.mint = github.mint
        self.repository = github.repository
        self.run_jobs = github.run_jobs
        self.waiting_jobs = github.waiting_jobs
        self.runners = github.runners
        self.remove_runner = github.remove_runner
        self.installations = github.installations
        self.deliveries = github.deliveries
        self.redeliver = github.redeliver
        self.budgets = github.budgets

    async def job(
        self, installation_id: int, repository: str, job_id: int, *, priority: Priority = Priority.VERIFY
    ) -> GitHubJob:
        if not is_scale_set_job(job_id):
            return await self._github.job(installation_id, repository, job_id, priority=priority)
        row = await self._assignments.job(job_id)
        if row is None:
            raise NotFound(f"job {job_id} is of no scale set that this ledger knows")
        if row.result is None and row.runner_name is not None:
            found = await self._record(installation_id, repository, row)
            if found is not None:
                return msgspec.structs.replace(found, job_id=job_id)
        return _as_said(row)

    async def _record(self, installation_id: int, repository: str, row: AssignedJob) -> GitHubJob | None:
        if row.forge_job_id is not None:
            return await self._github.job(installation_id, repository, row.forge_job_id)
        if not row.workflow_run_id:
            return None
        try:
            jobs = await self._github.run_jobs(installation_id, repository, row.workflow_run_id)
        except NotFound:
            return None  # of a run that is gone, the queue's word is all there is
        found = next((job for job in jobs if job.runner_name == row.runner_name), None)
        if found is not None:
            await self._assignments.numbered(row.job_id, found.job_id)
        return found


def _as_said(row: AssignedJob) -> GitHubJob:
    """The job by the queue's word alone."""
    status = "completed" if row.result is not None else ("in_progress" if row.started_at is not None else "queued")
    return GitHubJob(
        job_id=row.job_id,
        status=status,
        conclusion=None if row.result is None else conclusion_of(row.result),
        runner_name=row.runner_name or "",
        run_id=row.workflow_run_id,
        created_at=row.assigned_at,
        started_at=row.started_at,
        completed_at=row.finished_at,
    )
