"""What a page is made from: everything that was known at one moment, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from paddock.clients.github import BudgetView
from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Event, Lease, Node, Pod
from paddock.runners.api import RunnerPool
from paddock.runners.http.concern import Concern
from paddock.runners.ledger import Heal
from paddock.runners.ledger.views import AccountView, FinishedJob, QueueSummary, RunningJob, Stage, WaitingJob
from paddock.views.problems.services import Unread

__all__ = ["LedgerData", "PageData"]


@dataclass(frozen=True, slots=True)
class LedgerData:
    """What the ledger said when it was last asked. Lists are the young or old end that a page shows, never everything."""

    at: datetime
    summary: QueueSummary
    queue: Sequence[WaitingJob] = ()
    running: Sequence[RunningJob] = ()
    recent: Sequence[FinishedJob] = ()
    latency: Sequence[Stage] = ()
    accounts: Sequence[AccountView] = ()
    heals: Sequence[Heal] = ()
    healed_last_day: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageData:
    """The caches and the ledger at one moment. `ledger` is None where it did not answer, or where there is none."""

    now: datetime
    hosts: Sequence[ScalewayAppleSiliconHost] = ()
    machines: Sequence[ScalewayAppleSiliconMachine] = ()
    fleets: Sequence[MacFleet] = ()
    pools: Sequence[RunnerPool] = ()
    pods: Sequence[Pod] = ()
    nodes: Sequence[Node] = ()
    events: Sequence[Event] = ()
    ledger: LedgerData | None = None
    runners: bool = False
    """Whether there is a runner subsystem; without one its ledger is not missed."""
    budgets: Sequence[BudgetView] = ()
    report_only: frozenset[str] = frozenset()
    told: Sequence[str] = ()
    """What processes say about themselves, such as a watch that stalls."""
    concerns: Sequence[Concern] = ()
    """What dispatch sees of what it stands on."""
    unread: Sequence[Unread] = ()
    """The reads of the ledger that failed."""
    leaderless: str = ""
    leases: Sequence[Lease] = ()
    """Those of operators, where they can be seen."""
    """Why no operator leads; empty where one does, or nobody can say."""
    heard_ago: float | None = None
    """Seconds since the API server last said anything to the caches."""
