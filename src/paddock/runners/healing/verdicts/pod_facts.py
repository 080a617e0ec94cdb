"""What four ledgers say about a runner Pod, in the few words that a verdict needs. See `paddock.runners.healing.verdicts.pod`."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

__all__ = [
    "ExecutorFact",
    "HandedFact",
    "HeldFact",
    "JobFact",
    "LedgerName",
    "MovesFact",
    "PodFacts",
    "PodLife",
    "PollerFact",
    "RunnerFact",
    "RunnerRow",
    "VmFact",
]


class LedgerName(StrEnum):
    """Who says something."""

    K = "kubernetes"
    P = "postgres"
    G = "github"
    H = "runner"


class PodLife(StrEnum):
    """K: the Pod as a whole."""

    ALIVE = "alive"
    ENDED = "ended"  # Succeeded or Failed
    DELETING = "deleting"


class VmFact(StrEnum):
    """K: what kind of Pod it is."""

    LINUX = "linux"
    MACOS = "macos"
    UNKNOWN = "unknown"  # held to the rules of both


class RunnerFact(StrEnum):
    """K: the container that runs the job."""

    NONE = "none"  # no status yet
    WAITING = "waiting"
    STARTED = "started"  # on a Mac: since the VM's boot, job or no job
    TERMINATED = "terminated"


class PollerFact(StrEnum):
    """K: the init container that waits for a job, on Linux. It ends when it was handed a runner."""

    NONE = "none"
    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


class HeldFact(StrEnum):
    """P: the row under the Pod's uid among claims."""

    NONE = "none"
    CLAIMED = "claimed"  # a dispatcher serves it this very moment, or died doing so
    RUNNING = "running"
    DISPLACED = "displaced"  # minted, but its job went to another runner
    FENCE = "fence"


class HandedFact(StrEnum):
    """P: whether the Pod was ever handed a runner."""

    NONE = "none"
    OPEN = "open"
    ENDED = "ended"  # reported to have ended, which a Pod that is there contradicts


class JobFact(StrEnum):
    """G: the job that this Pod's runner executes, or else the one that it was minted for."""

    UNKNOWN = "unknown"  # not asked, no answer, or not found
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class ExecutorFact(StrEnum):
    """G: which runner that job names."""

    UNKNOWN = "unknown"
    NONE = "none"
    THIS = "this"
    OTHER = "other"


class RunnerRow(StrEnum):
    """G: the Pod's runner, in a complete list."""

    UNKNOWN = "unknown"
    ABSENT = "absent"
    OFFLINE = "offline"
    IDLE = "idle"  # online: it may be given a job at any moment
    BUSY = "busy"


class MovesFact(StrEnum):
    """H: the runner's own mark. `STILL` is said by the runner; a runner that fell silent is `UNKNOWN`."""

    UNKNOWN = "unknown"
    MOVING = "moving"
    STILL = "still"


class PodFacts(Struct, frozen=True, kw_only=True):
    """What four ledgers say about one Pod. Every default is "unknown" or "nothing", and proves nothing."""

    now: datetime
    life: PodLife = PodLife.ALIVE
    machine: VmFact = VmFact.UNKNOWN
    created_at: datetime | None = None
    assigned: bool = False
    committed: bool = False
    """K: carries the label that is put on only after the Pod was handed a runner."""
    runner: RunnerFact = RunnerFact.NONE
    poller: PollerFact = PollerFact.NONE
    held: HeldFact = HeldFact.NONE
    handed: HandedFact = HandedFact.NONE
    handed_at: datetime | None = None
    unclaimed_since: datetime | None = None
    """P: when the last claim ended that the ledger remembers for this Pod; None: it remembers none."""
    dispatcher_died: bool = False
    """P: that claim was taken back because its dispatcher had fallen silent: nobody is left who would remove the label."""
    stuck_since: datetime | None = None
    """K, over time: since when every look found it assigned, unclaimed and without a runner that ever started."""
    finish_recorded: bool = False
    """P: the completion of the job below, by this runner, is in the ledger."""
    job: JobFact = JobFact.UNKNOWN
    executor: ExecutorFact = ExecutorFact.UNKNOWN
    job_over_at: datetime | None = None
    runner_row: RunnerRow = RunnerRow.UNKNOWN
    unseen_since: datetime | None = None
    """G: since when every look at the runner row found it offline or absent."""
    moves: MovesFact = MovesFact.UNKNOWN
    still_since: datetime | None = None
    absent_since: datetime | None = None
    """G: since when every look was a complete list without the runner."""
    listens: bool = False
    """H: it says, and said lately, that no worker runs in it: what moves is its listener alone."""
    listener_still_since: datetime | None = None
    """H: since when it says that no worker runs in it and that nothing moves: much sooner than `STILL`, and more."""
