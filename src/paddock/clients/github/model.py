"""GitHub's answers as they come, and the values we make of them. Unknown fields are ignored, absent ones optional."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from paddock.base.secrets import Secret
from paddock.clients.github.contract import GitHubJob, GitHubRunner, HookDelivery, Installation, JobStatus
from paddock.clients.github.errors import Unavailable
from paddock.clients.github.messages import GitHubResponse
from paddock.clients.github.paging import Identified

__all__ = [
    "WAITING",
    "MintAnswer",
    "WireDelivery",
    "WireInstallation",
    "WireJob",
    "WireRun",
    "WireRunner",
    "delivery_of",
    "installation_of",
    "installation_page",
    "job_of",
    "job_page",
    "run_page",
    "runner_of",
    "runner_page",
]

_STATUS: dict[str, JobStatus] = {
    "queued": "queued",
    "waiting": "waiting",
    # Held back by a concurrency group, or not yet considered: no runner can take it now.
    "pending": "waiting",
    "requested": "waiting",
    "in_progress": "in_progress",
    "completed": "completed",
}
WAITING = frozenset(name for name, status in _STATUS.items() if status in {"queued", "waiting"})


class MintedEntry(Struct):
    id: int
    name: str = ""


class MintAnswer(Struct):
    runner: MintedEntry
    encoded_jit_config: Secret


class WireStep(Struct):
    status: str | None = None


class WireJob(Identified):
    status: str
    conclusion: str | None = None
    runner_name: str | None = None
    runner_id: int | None = None
    run_id: int = 0
    run_attempt: int = 1
    name: str | None = None
    workflow_name: str | None = None
    head_branch: str | None = None
    head_sha: str | None = None
    labels: tuple[str, ...] = ()
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    steps: tuple[WireStep, ...] | None = None


class WireRun(Identified):
    status: str | None = None


class WireLabel(Struct):
    name: str


class WireRunner(Identified):
    name: str
    status: str
    busy: bool
    labels: tuple[WireLabel, ...] = ()


class WireAccount(Struct):
    id: int
    login: str = ""
    slug: str = ""  # what an enterprise has in place of a login


class WireInstallation(Identified):
    account: WireAccount | None = None
    suspended_at: datetime | None = None


class WireRepository(Identified):
    full_name: str
    owner: WireAccount


class WireGroup(Identified):
    name: str
    default: bool = False


class WireDelivery(Identified):
    guid: str
    delivered_at: datetime
    redelivery: bool
    event: str
    status_code: int = 0
    action: str | None = None


class _JobPage(Struct):
    total_count: int
    jobs: list[WireJob]


class _RunPage(Struct):
    total_count: int
    workflow_runs: list[WireRun]


class _GroupPage(Struct):
    total_count: int
    runner_groups: list[WireGroup]


class _RunnerPage(Struct):
    total_count: int
    runners: list[WireRunner]


def job_page(answer: GitHubResponse) -> tuple[int | None, Sequence[WireJob]]:
    page = answer.shaped(_JobPage)
    return page.total_count, page.jobs


def run_page(answer: GitHubResponse) -> tuple[int | None, Sequence[WireRun]]:
    page = answer.shaped(_RunPage)
    return page.total_count, page.workflow_runs


def runner_page(answer: GitHubResponse) -> tuple[int | None, Sequence[WireRunner]]:
    page = answer.shaped(_RunnerPage)
    return page.total_count, page.runners


def group_page(answer: GitHubResponse) -> tuple[int | None, Sequence[WireGroup]]:
    page = answer.shaped(_GroupPage)
    return page.total_count, page.runner_groups


def installation_page(answer: GitHubResponse) -> tuple[int | None, Sequence[WireInstallation]]:
    return None, answer.shaped(list[WireInstallation])


def job_of(wire: WireJob) -> GitHubJob:
    """The job; raises Unavailable for a status that we do not know, of which nothing may be concluded."""
    status = _STATUS.get(wire.status)
    if status is None:
        raise Unavailable(f"job {wire.id} has the status {wire.status[:40]!r}, which is not known here")
    return GitHubJob(
        job_id=wire.id,
        status=status,
        conclusion=wire.conclusion,
        runner_name=wire.runner_name or "",
        runner_id=wire.runner_id or 0,
        run_id=wire.run_id,
        run_attempt=wire.run_attempt,
        name=wire.name or "",
        workflow_name=wire.workflow_name or "",
        head_branch=wire.head_branch or "",
        head_sha=wire.head_sha or "",
        labels=wire.labels,
        created_at=wire.created_at,
        started_at=wire.started_at,
        completed_at=wire.completed_at,
        steps_done=sum(step.status == "completed" for step in wire.steps or ()),
    )


def runner_of(wire: WireRunner) -> GitHubRunner:
    return GitHubRunner(
        runner_id=wire.id,
        name=wire.name,
        online=wire.status == "online",
        busy=wire.busy,
        labels=tuple(label.name for label in wire.labels),
    )


def installation_of(wire: WireInstallation) -> Installation:
    account = wire.account or WireAccount(0)
    return Installation(
        installation_id=wire.id,
        account_id=account.id,
        login=account.login or account.slug,
        suspended=wire.suspended_at is not None,
    )


def delivery_of(wire: WireDelivery) -> HookDelivery:
    return HookDelivery(
        delivery_id=wire.id,
        guid=wire.guid,
        delivered_at=wire.delivered_at,
        redelivery=wire.redelivery,
        status_code=wire.status_code,
        event=wire.event,
        action=wire.action,
    )
