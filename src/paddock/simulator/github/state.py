"""Everything the simulated GitHub remembers, as plain values that go to JSON and back."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from paddock.simulator.github.behaviour import GitHubBehaviour

__all__ = [
    "PERMISSIONS",
    "PERSONAL_PERMISSIONS",
    "Attempt",
    "Conclusion",
    "GitHubState",
    "Outgoing",
    "Run",
    "ServiceToken",
    "Sighting",
    "SimulatedAccount",
    "SimulatedGroup",
    "SimulatedJob",
    "SimulatedRepository",
    "SimulatedRunner",
    "SimulatedScaleSet",
    "Status",
    "Step",
    "Token",
    "WaitingMessage",
]

Status = Literal["queued", "waiting", "in_progress", "completed"]
Conclusion = Literal["success", "failure", "cancelled", "timed_out", "skipped", "neutral"]

PERMISSIONS: Final[Mapping[str, str]] = {"actions": "read", "organization_self_hosted_runners": "write"}
"""What our install page has an organisation give the App, and no more: it may not see the runners of a repository."""
PERSONAL_PERMISSIONS: Final[Mapping[str, str]] = {**PERMISSIONS, "administration": "write"}
"""What it has a person give, who has no runners but those of repositories."""


class SimulatedGroup(msgspec.Struct, kw_only=True):
    """A runner group of an organisation, and which of its repositories may use it."""

    id: int
    name: str
    default: bool = False
    visibility: Literal["all", "selected", "private"] = "all"
    repositories: list[str] = msgspec.field(default_factory=list)
    """Full names, for the visibility `selected`."""
    allows_public: bool = True

    def open_to(self, repository: "SimulatedRepository") -> bool:
        if not repository.private and not self.allows_public:
            return False
        if self.visibility == "selected":
            return repository.full_name.lower() in {name.lower() for name in self.repositories}
        return self.visibility == "all" or repository.private


def _default_group() -> "list[SimulatedGroup]":
    return [SimulatedGroup(id=1, name="Default", default=True)]


class SimulatedAccount(msgspec.Struct, kw_only=True):
    """An organisation or a person, and the App's installation there."""

    id: int
    login: str
    kind: Literal["Organization", "User"]
    installation_id: int
    installed: bool = True
    suspended_at: datetime | None = None
    permissions: dict[str, str] = msgspec.field(default_factory=lambda: dict(PERMISSIONS))
    groups: list[SimulatedGroup] = msgspec.field(default_factory=_default_group)

    def group(self, group_id: int) -> SimulatedGroup | None:
        return next((group for group in self.groups if group.id == group_id), None)


class SimulatedRepository(msgspec.Struct, kw_only=True):
    id: int
    full_name: str
    owner: str
    private: bool = True
    protected: list[str] = msgspec.field(default_factory=list)
    """Environments whose deployments somebody must approve."""

    @property
    def name(self) -> str:
        return self.full_name.partition("/")[2]


class Step(msgspec.Struct, kw_only=True):
    name: str
    number: int
    started_at: datetime | None = None
    completed_at: datetime | None = None
    conclusion: Conclusion | None = None


class SimulatedJob(msgspec.Struct, kw_only=True):
    """A workflow job. `duration` and `planned` are what it will take and come to if nothing disturbs it."""

    id: int
    run_id: int
    repository: str
    name: str
    labels: list[str]
    created_at: datetime
    status: Status = "queued"
    conclusion: Conclusion | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    runner_id: int = 0
    runner_name: str = ""
    duration: float = 300.0
    planned: Conclusion = "success"
    steps: list[Step] = msgspec.field(default_factory=list)
    assignable_at: datetime | None = None
    offered_to: int = 0
    lost_since: datetime | None = None
    cancelled_at: datetime | None = None
    flapping_until: datetime | None = None
    environment: str = ""
    queued_at: datetime | None = None
    starts: int = 0
    """How often a runner took it up: more than one is a bug of somebody's."""
    scale_set_id: int = 0
    """The scale set that it waits for; until it is assigned no runner is offered it."""
    assigned_at: datetime | None = None
    assignments: int = 0
    request_id: int = 0


class Run(msgspec.Struct, kw_only=True):
    """A workflow run; its status is that of its jobs."""

    id: int
    number: int
    repository: str
    workflow: str
    branch: str
    sha: str
    created_at: datetime
    attempt: int = 1
    jobs: list[int] = msgspec.field(default_factory=list)


class Sighting(msgspec.Struct, kw_only=True, frozen=True):
    """What was true of a runner from that moment on: lists that lag show an older one."""

    at: datetime
    online: bool = False
    busy: bool = False
    gone: bool = False


class SimulatedRunner(msgspec.Struct, kw_only=True):
    """A registered single-job runner. `credential` is what its JIT config proves itself with, once."""

    id: int
    name: str
    place: str
    """`orgs/acme`, or `repos/bob/app`."""
    labels: list[str]
    credential: str
    created_at: datetime
    os: str = "unknown"
    group_id: int = 1
    used: bool = False
    online: bool = False
    assignable_at: datetime | None = None
    deaf: bool = False
    """It let an offer pass; it is offered nothing until it asks again."""
    job_id: int = 0
    delisted: bool = False
    scale_set_id: int = 0
    removed: bool = False
    observations: list[Sighting] = msgspec.field(default_factory=list)

    @property
    def busy(self) -> bool:
        return self.job_id != 0


class Outgoing(msgspec.Struct, kw_only=True):
    """A webhook on its way, with the bytes that were true when its event happened."""

    due: datetime
    guid: str
    action: str
    body: bytes
    job_id: int
    installation_id: int
    repository_id: int
    redelivery: bool = False
    fails: bool = False
    event: str = "workflow_job"


class Attempt(msgspec.Struct, kw_only=True):
    """One entry of the delivery log."""

    id: int
    guid: str
    delivered_at: datetime
    redelivery: bool
    duration: float
    status: str
    status_code: int
    action: str
    installation_id: int
    repository_id: int
    job_id: int
    body: bytes
    event: str = "workflow_job"


class Token(msgspec.Struct, kw_only=True):
    installation_id: int
    expires_at: datetime


class ServiceToken(msgspec.Struct, kw_only=True):
    """A token of the service behind scale sets: of registration, admin or queue."""

    kind: str
    place: str
    expires_at: datetime


class WaitingMessage(msgspec.Struct, kw_only=True):
    """A message that was not deleted yet. `raw` stands in place of its entries where a test wants it unreadable, `odd` in place of
    fields around them.
    """

    id: int
    entries: list[dict[str, Any]]
    raw: str = ""
    odd: dict[str, Any] = {}
    deliveries: int = 0


class SimulatedScaleSet(msgspec.Struct, kw_only=True):
    """A runner scale set with its one session and its queue."""

    id: int
    name: str
    group_id: int
    place: str
    labels: list[str]
    next_message: int
    label_types: dict[str, str] = {}
    setting: dict[str, Any] = {}
    created_on: datetime | None = None
    session: str = ""
    owner: str = ""
    session_seen_at: datetime | None = None
    capacity: int = 0
    most_promised: int = 0
    said: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Entries that are in no message yet."""
    messages: list[WaitingMessage] = msgspec.field(default_factory=list)


class GitHubState(msgspec.Struct, kw_only=True):
    app_id: int
    app_key: str
    """The App's private key, as PEM. It opens nothing but this simulation."""
    webhook_secret: str
    hook_id: int
    behaviour: GitHubBehaviour
    saved_at: datetime
    next_id: int = 40_000_000_000
    accounts: dict[str, SimulatedAccount] = msgspec.field(default_factory=dict)
    repositories: dict[str, SimulatedRepository] = msgspec.field(default_factory=dict)
    tokens: dict[str, Token] = msgspec.field(default_factory=dict)
    jobs: dict[int, SimulatedJob] = msgspec.field(default_factory=dict)
    runs: dict[int, Run] = msgspec.field(default_factory=dict)
    runners: dict[int, SimulatedRunner] = msgspec.field(default_factory=dict)
    names: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """The names of runners, by place: GitHub reserves one at the mint, and until it has forgotten the runner."""
    outgoing: list[Outgoing] = msgspec.field(default_factory=list)
    held: dict[int, Outgoing] = msgspec.field(default_factory=dict)
    """Deliveries that wait to be overtaken by the next one of their job."""
    moved: dict[str, int] = msgspec.field(default_factory=dict)
    """Former full names of repositories, which lead to their numbers until somebody else takes the name."""
    address: str = "http://127.0.0.1"
    """Where callers last reached this GitHub: where addresses in what it sends lead to."""
    scale_sets: dict[int, SimulatedScaleSet] = msgspec.field(default_factory=dict)
    service_tokens: dict[str, ServiceToken] = msgspec.field(default_factory=dict)
    attempts: dict[int, Attempt] = msgspec.field(default_factory=dict)

    @property
    def client_id(self) -> str:
        """The App's other name, which signs as well as its number."""
        return f"Iv23li{self.app_id:014d}"

    def fresh_id(self, step: int = 1) -> int:
        self.next_id += max(1, step)
        return self.next_id

    def repository(self, full_name: str) -> SimulatedRepository | None:
        return self.repositories.get(full_name.lower())

    def repository_by_id(self, number: int) -> SimulatedRepository | None:
        return next((each for each in self.repositories.values() if each.id == number), None)

    def account(self, login: str) -> SimulatedAccount | None:
        return self.accounts.get(login.lower())

    def installation(self, installation_id: int) -> SimulatedAccount | None:
        found = (account for account in self.accounts.values() if account.installation_id == installation_id)
        return next((account for account in found if account.installed), None)
