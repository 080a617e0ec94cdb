"""What a delivery says, decoded: of GitHub's payloads only the fields that anything here depends on.

Whatever the bytes are, the result is a value or MalformedError. Moments are never in the future, and texts can be stored.
"""

from datetime import datetime, timedelta
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

__all__ = [
    "INSTALLATION_ACTIONS",
    "JOB_ACTIONS",
    "REPOSITORIES_ACTIONS",
    "InstallationEvent",
    "Installed",
    "JobEvent",
    "MalformedError",
    "Owner",
    "RenamedEvent",
    "RepositoriesEvent",
    "Repository",
    "ShortRepository",
    "WorkflowJob",
    "action_of",
    "decode_installation",
    "decode_job",
    "decode_renamed",
    "decode_repositories",
]

JOB_ACTIONS: Final = frozenset({"queued", "waiting", "in_progress", "completed"})
_HELD_BACK: Final = frozenset({"waiting", "pending", "requested"})
INSTALLATION_ACTIONS: Final = frozenset({"created", "deleted", "suspend", "unsuspend", "new_permissions_accepted"})
REPOSITORIES_ACTIONS: Final = frozenset({"added", "removed"})

_LONGEST_WAIT: Final = timedelta(days=1)

_Id = Annotated[int, Meta(gt=0, le=2**63 - 1)]
_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Moment = Annotated[datetime, Meta(tz=True)] | None
_Label = Annotated[str, Meta(max_length=1000)]
_Event = TypeVar("_Event", bound=Struct)


class MalformedError(ValueError):
    """The payload is not what GitHub documents: the message names the field. It will not get better by trying again."""


class Owner(Struct, frozen=True):
    id: _Id
    login: Annotated[str, Meta(min_length=1)]


class Repository(Struct, frozen=True):
    full_name: Annotated[str, Meta(min_length=1)]
    owner: Owner
    id: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0


class InstallationId(Struct, frozen=True):
    id: _Id


class WorkflowJob(Struct, frozen=True, kw_only=True):
    id: _Id
    run_id: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    run_attempt: _Count = 1
    name: str | None = None
    workflow_name: str | None = None
    head_branch: str | None = None
    head_sha: str | None = None
    status: str | None = None
    labels: Annotated[tuple[_Label, ...], Meta(max_length=200)] = ()
    conclusion: str | None = None
    runner_name: str | None = None
    created_at: _Moment = None
    started_at: _Moment = None
    completed_at: _Moment = None


class JobEvent(Struct, frozen=True, kw_only=True):
    """A `workflow_job` delivery."""

    action: str
    workflow_job: WorkflowJob
    repository: Repository
    installation: InstallationId | None = None

    @property
    def installation_id(self) -> int | None:
        return None if self.installation is None else self.installation.id

    @property
    def held_back(self) -> bool:
        """Whether GitHub gives the job to nobody yet, because somebody must approve it first (or its concurrency group is
        taken). A `queued` may say so, too: GitHub also sends one when it creates such a job.
        """
        return self.action == "waiting" or self.workflow_job.status in _HELD_BACK

    @property
    def runner_name(self) -> str | None:
        """The runner that GitHub gave the job to; None where there is none, which GitHub says as null or as ''."""
        return storable(self.workflow_job.runner_name) or None


class Installed(Struct, frozen=True):
    id: _Id
    account: Owner
    suspended_at: str | int | None = None


class InstallationEvent(Struct, frozen=True, kw_only=True):
    """An `installation` delivery."""

    action: str
    installation: Installed


class ShortRepository(Struct, frozen=True):
    id: _Id
    full_name: Annotated[str, Meta(min_length=1)]


class RepositoriesEvent(Struct, frozen=True, kw_only=True):
    """An `installation_repositories` delivery: the installation was given repositories, or lost some."""

    action: str
    installation: Installed
    repositories_added: tuple[ShortRepository, ...] = ()
    repositories_removed: tuple[ShortRepository, ...] = ()


class RenamedEvent(Struct, frozen=True, kw_only=True):
    """An `installation_target` delivery: the account where the App is installed has another login."""

    action: str
    account: Owner
    installation: InstallationId


class _Envelope(Struct, frozen=True):
    action: str | None = None


def action_of(raw: bytes) -> str:
    """The delivery's action, '' if it has none; nothing else is looked at."""
    return _decode(raw, _Envelope).action or ""


def decode_job(raw: bytes) -> JobEvent:
    return _decode(raw, JobEvent)


def decode_installation(raw: bytes) -> InstallationEvent:
    return _decode(raw, InstallationEvent)


def decode_repositories(raw: bytes) -> RepositoriesEvent:
    return _decode(raw, RepositoriesEvent)


def decode_renamed(raw: bytes) -> RenamedEvent:
    return _decode(raw, RenamedEvent)


def storable(text: str | None) -> str:
    """The text without what Postgres refuses: JSON may hold a zero character, a database text may not."""
    return (text or "").replace("\x00", "")


def moment(said: datetime | None, now: datetime, otherwise: datetime) -> datetime:
    """When GitHub says it was, but not after `now`: a clock that is ahead must not make waiting negative."""
    return min(said or otherwise, now)


def waiting_since(created: datetime | None, heard: datetime, now: datetime) -> datetime:
    """Since when a job has waited for a runner that is announced as waiting for one; never after `now`.

    GitHub ends what waits for a runner for a day. So an older one was held back for an approval of which nothing was kept here,
    and its wait counts from the announcement, as that of every approved job.
    """
    since = moment(created, now, heard)
    return since if heard - since < _LONGEST_WAIT else min(heard, now)


def _decode(raw: bytes, kind: type[_Event]) -> _Event:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise MalformedError(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError("not JSON: set the webhook's content type to application/json") from error
