"""The dispatch process's flags, as values."""

from dataclasses import dataclass, field
from datetime import timedelta

from paddock.runners.api.labels import AUDIENCE, OPERATOR_AUDIENCE
from paddock.runners.api.runner_pool import Platform

__all__ = ["SHORTEST_KEPT", "ConfiguredLimit", "DispatchSettings", "HealingSettings", "Retention"]

SHORTEST_KEPT = timedelta(days=7)
"""GitHub redelivers for three days: a tombstone that goes sooner could let a finished job come back."""


@dataclass(frozen=True, slots=True)
class ConfiguredLimit:
    """What an account may hold at once on a platform."""

    login: str
    platform: Platform
    vcpus: int
    memory_mb: int


@dataclass(frozen=True, slots=True)
class Retention:
    """How long history is kept: `log` for who changed what and what was healed, `jobs` for jobs, tombstones and sessions."""

    log: timedelta = timedelta(days=30)
    jobs: timedelta = timedelta(days=400)

    def __post_init__(self) -> None:
        for name, kept in (("log", self.log), ("jobs", self.jobs)):
            if kept < SHORTEST_KEPT:
                raise ValueError(f"{name} is kept for {kept.days} days: at least {SHORTEST_KEPT.days}")


@dataclass(frozen=True, slots=True)
class HealingSettings:
    """When a disagreement counts as proven, and how much may be undone at once. See docs/design/healing.md."""

    every: float = 60.0
    report_only: frozenset[str] = frozenset()
    """Kinds that are only reported; `*` for all."""
    claim_grace: timedelta = timedelta(minutes=5)
    silent_dispatcher: timedelta = timedelta(seconds=30)
    assignment_grace: timedelta = timedelta(minutes=5)
    registration_deadline: timedelta = timedelta(seconds=90)
    """A runner that GitHub does not see by then is unregistered, and its job waits again: late, it is only refused."""
    executing_asked: timedelta = timedelta(minutes=5)
    """From when on GitHub is asked about a job that its runner was heard to execute: its end is announced, and its Pod's is seen."""
    still_asked: timedelta = timedelta(seconds=60)
    """The same, once the guest has said for so long that nothing moves any more."""
    working_asked: timedelta = timedelta(minutes=30)
    """The same, while the guest says that a worker lives."""
    finished_grace: timedelta = timedelta(minutes=3)
    displaced_grace: timedelta = timedelta(minutes=3)
    """A runner whose job went to another may be given any other; after so long without one it is given up."""
    progress_grace: timedelta = timedelta(minutes=2)
    listener_grace: timedelta = timedelta(seconds=60)
    """A listener without a worker whose mark stands still for so long, and that GitHub gives nothing to do, hangs."""
    listener_every: float = 15.0
    lost_communication: timedelta = timedelta(minutes=15)
    """GitHub fails a job whose runner was silent for ten minutes: after this long nothing is alive that GitHub counts."""
    missing_grace: timedelta = timedelta(minutes=10)
    missing_confirm: timedelta = timedelta(minutes=5)
    session_absence: timedelta = timedelta(minutes=15)
    queued_verify: timedelta = timedelta(minutes=10)
    queued_give_up: timedelta = timedelta(hours=24)
    redelivery_every: float = 60.0
    redelivery_window: timedelta = timedelta(minutes=15)
    cap: int = 25
    """The most that one worker undoes in one pass."""
    cap_share: float = 0.05
    """And never more than this share of a pool's Pods in one pass, but at least one."""
    burst_share: float = 0.2
    """The share, where one proven cause explains them all: a dispatcher that died in the middle of a burst."""
    burst_every: float = 15.0
    """How soon the next pass comes while such a burst is being worked off."""
    offline_grace: timedelta = timedelta(seconds=90)
    """How long a runner row must have been offline, look after look, before it is unregistered."""
    immortal_grace: timedelta = timedelta(seconds=30)
    """How long after its own grace a Pod may be deleting on a Node that does not exist."""
    breaker_share: float = 0.5
    """A worker that finds more than this share of what it looked at gone stops and says so, from ten on."""


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """What the runner subsystem is told from outside. The defaults are those of the flags."""

    namespace: str = "default"
    """Where pools, runner Pods and their ServiceAccounts are."""
    controller: str = "system:serviceaccount:default:paddock-operator"
    """Who may report stopped Pods and ask for Pods to be retired."""
    audience: str = AUDIENCE
    operator_audience: str = OPERATOR_AUDIENCE
    """Of tokens that speak for a controller: never the API server's own audience, which would make them good there, too."""
    hold: float = 75.0
    """The longest a request of a waiting Pod is held; what our own poll client asks for."""
    hold_unasked: float = 8.0
    """How long a request is held that does not say: below the ten seconds after which simple clients hang up."""
    serve_deadline: float = 20.0
    """From claim to answer; after it everything is undone."""
    serving: int = 64
    """How many Pods are served at once by one process."""
    backstop: float = 2.0
    beat: float = 5.0
    body_limit: int = 256 * 1024
    body_timeout: float = 5.0
    healing: HealingSettings = field(default_factory=HealingSettings)
    allow_accounts: tuple[str, ...] = ()
    """The first who may run jobs: accounts and repositories by name, or accounts by number (`id:42`)."""
    accounts_principal: str = "system:serviceaccount:default:paddock-dispatch"
    """Whose token a change of the allow list shows: of a ServiceAccount, system:serviceaccount:NAMESPACE:NAME."""
    limits: tuple[ConfiguredLimit, ...] = ()
    """What accounts may hold at once; those that are not named have the default."""
    retention: Retention = field(default_factory=Retention)

    def __post_init__(self) -> None:
        if self.hold <= 0 or self.hold_unasked < 0:
            raise ValueError("hold and hold_unasked are seconds and cannot be negative; hold must be above zero")
        if self.serving < 1:
            raise ValueError("serving must be at least 1, or no Pod would ever be served")
        parts = self.accounts_principal.split(":")
        if parts[:2] != ["system", "serviceaccount"] or len(parts) != 4 or not all(parts):
            raise ValueError("accounts_principal must be system:serviceaccount:NAMESPACE:NAME")
