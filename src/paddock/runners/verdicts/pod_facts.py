"""What four ledgers say about a runner Pod, in the few words that a verdict needs. See `paddock.runners.verdicts.pod`."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

__all__ = [
    "Executor",
    "Handed",
    "Held",
    "Job",
    "Ledger",
    "Life",
    "Machine",
    "Moves",
    "PodFacts",
    "Poller",
    "Runner",
    "RunnerRow",
]


class Ledger(StrEnum):
    """Who says something."""

    K = "kubernetes"
    P = "postgres"
    G = "github"
    H = "runner"


class Life(StrEnum):
    """K: the Pod as a whole."""

    ALIVE = "alive"
    ENDED = "ended"  # Succeeded or Failed
    DELETING = "deleting"


class Machine(StrEnum):
    """K: what kind of Pod it is."""

    LINUX = "linux"
    MACOS = "macos"
    UNKNOWN = "unknown"  # held to the rules of both


class Runner(StrEnum):
    """K: the container that runs the job."""

    NONE = "none"  # no status yet
    WAITING = "waiting"
    STARTED = "started"  # on a Mac: since the VM's boot, job or no job
    TERMINATED = "terminated"


class Poller(StrEnum):
    """K: the init container that waits for a job, on Linux. It ends when it was handed a runner."""

    NONE = "none"
    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


class Held(StrEnum):
    """P: the row under the Pod's uid among claims."""

    NONE = "none"
    CLAIMED = "claimed"  # somebody is serving it this very moment, or died doing so
    RUNNING = "running"
    DISPLACED = "displaced"  # minted, but its job went to another runner
    FENCE = "fence"


class Handed(StrEnum):
    """P: whether the Pod was ever handed a runner."""

    NONE = "none"
    OPEN = "open"
    ENDED = "ended"  # reported to have ended, which a Pod that is there contradicts


class Job(StrEnum):
    """G: the job that this Pod's runner executes, or else the one that it was minted for."""

    UNKNOWN = "unknown"  # not asked, no answer, or not found
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class Executor(StrEnum):
    """G: which runner that job names."""

    UNKNOWN = "unknown"
    NOBODY = "nobody"
    THIS = "this"
    OTHER = "other"


class RunnerRow(StrEnum):
    """G: the Pod's runner, in a complete list."""

    UNKNOWN = "unknown"
    ABSENT = "absent"
    OFFLINE = "offline"
    IDLE = "idle"  # online: it may be given a job at any moment
    BUSY = "busy"


class Moves(StrEnum):
    """H: the runner's own mark. `STILL` is said by the runner; a runner that fell silent is `UNKNOWN`."""

    UNKNOWN = "unknown"
    MOVING = "moving"
    STILL = "still"


class PodFacts(Struct, frozen=True, kw_only=True):
    """What four ledgers say about one Pod. Every default is "unknown" or "nothing", and proves nothing."""

    now: datetime
    life: Life = Life.ALIVE
    machine: Machine = Machine.UNKNOWN
    created_at: datetime | None = None
    stamped: bool = False
    committed: bool = False
    """K: carries the label that is put on only after the Pod was handed a runner."""
    runner: Runner = Runner.NONE
    poller: Poller = Poller.NONE
    held: Held = Held.NONE
    handed: Handed = Handed.NONE
    handed_at: datetime | None = None
    unclaimed_since: datetime | None = None
    """P: when the last claim ended that the ledger remembers for this Pod; None: it remembers none."""
    stuck_since: datetime | None = None
    """K, over time: since when every look found it stamped, unclaimed and without a runner that ever started."""
    finish_recorded: bool = False
    """P: the completion of the job below, by this runner, is in the ledger."""
    job: Job = Job.UNKNOWN
    executor: Executor = Executor.UNKNOWN
    job_over_at: datetime | None = None
    runner_row: RunnerRow = RunnerRow.UNKNOWN
    unseen_since: datetime | None = None
    """G: since when every look at the runner row found it offline or absent."""
    moves: Moves = Moves.UNKNOWN
    still_since: datetime | None = None
