"""What a Mac and the gateway send each other: one set of structs for both sides.

Unknown fields are ignored on both sides, and each Pod's report is decoded alone, so that an agent and a gateway of neighbouring
releases understand each other. Nothing here is checked: `paddock.gateway.bounds` decides what of a report counts.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

from msgspec import Raw, Struct

__all__ = [
    "LARGEST_BODY",
    "LONGEST_HOLD",
    "MOST_ENDS",
    "REPORT",
    "Absent",
    "Answer",
    "End",
    "Event",
    "JobRequest",
    "MacFacts",
    "PodReport",
    "PodState",
    "Reason",
    "Report",
    "Shape",
    "Stated",
    "Vitals",
    "WantedPod",
    "job_path",
    "log_path",
]

REPORT: Final = "/mac/v1/report"
LARGEST_BODY: Final = 64 * 1024
"""Of every request; a piece of a log has this size, too."""
LONGEST_HOLD: Final = 20.0
"""So long at most a report without news is held: its Lease of 40 s bears that one is lost."""
MOST_ENDS: Final = 4
"""So many ends that are not recorded yet fit into a report beside all else; the others follow in the next ones."""


def job_path(uid: str) -> str:
    return f"/mac/v1/pods/{uid}/job"


def log_path(uid: str) -> str:
    return f"/mac/v1/pods/{uid}/log"


class PodState(StrEnum):
    """How far a Pod is on its Mac. It moves forward only, in this order, but for `REFUSED`, `UNREADABLE` and `OTHER`."""

    ACCEPTED = "accepted"
    PULLING = "pulling"
    STARTING = "starting"
    READY = "ready"
    HANDED = "handed"
    ENDED = "ended"
    CLEARED = "cleared"
    """Nothing of it is on the Mac, or nothing of it was ever begun there."""
    REFUSED = "refused"
    """It cannot be a VM here, and nothing of it was begun."""
    UNREADABLE = "unreadable"
    """The agent cannot decode its entry: it holds its seat and counts as work."""
    OTHER = "other"
    """A word of a newer agent, or gateway. It holds its seat and counts as work."""

    @classmethod
    def _missing_(cls, value: object) -> "PodState":  # noqa: ARG003 - whatever it is
        """A word that this release does not know is no error on either side."""
        return cls.OTHER


class Reason(Struct, frozen=True):
    """A CamelCase word for programs, a sentence for people."""

    reason: str
    message: str


class Stated(Struct, frozen=True):
    """A condition of the Mac as its agent states it."""

    holds: bool
    reason: str
    message: str


class End(Struct, frozen=True, omit_defaults=True):
    """How a Pod ended, decided once. `message` holds the end of the guest's log, or why there is none."""

    succeeded: bool
    code: int
    reason: str
    finished_at: datetime
    message: str = ""


class PodReport(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One Pod as its Mac has it. `cluster` is the uid of the cluster whose Pod it is, empty where the agent does not know it.

    The moments are those of the agent's journal, so that the same entry gives the same Pod status, whoever writes it. `asks`: a job
    is asked for in its name, or was handed over; it goes back and forth, the state does not. `running_at` is that of the present run.
    `waits` is what keeps it from the next state. `end` is there until it is recorded.
    """

    state: str
    namespace: str
    name: str
    accepted_at: datetime | None = None
    vm: str = ""
    cluster: str = ""
    running_at: datetime | None = None
    started_at: datetime | None = None
    ready_at: datetime | None = None
    asking_at: datetime | None = None
    cut_off_at: datetime | None = None
    handed_at: datetime | None = None
    asks: bool = False
    waits: Reason | None = None
    mark: str = ""
    end: End | None = None


class MacFacts(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the Mac is. `memory_bytes` is what it offers to VMs. `seats` may be fewer than a Mac has, and `fewer` says why; `softnet` is said of every VM that runs.

    `goldens` are the hashes of the images that are held; None before the first complete look at them.
    """

    machine_id: str
    boot_id: str
    booted_at: datetime
    cpus: int
    memory_bytes: int
    disk_bytes: int
    seats: int
    clock: datetime
    fewer: str = ""
    os_image: str = ""
    kernel: str = ""
    tart: str = ""
    address: str = ""
    hostname: str = ""
    softnet: bool = False
    goldens: tuple[str, ...] | None = None


class Vitals(Struct, frozen=True, omit_defaults=True):
    """Of the Mac or of one VM, where it could be read: percent of one core, bytes, bytes."""

    cpu_percent: float | None = None
    memory_bytes: int | None = None
    disk_free_bytes: int | None = None


class Event(Struct, frozen=True, omit_defaults=True):
    """Something that happened on the Mac, once. `pod` is the uid of the Pod that it is about, empty for the Mac itself."""

    reason: str
    message: str
    at: datetime
    pod: str = ""
    warning: bool = True


class Report(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One report: heartbeat, question and status in one.

    `folder` is a random word of the agent's data folder, `life` counts the agent's starts in it and is journalled before its first
    report, `word` is drawn at each start, `sequence` counts the reports of one life. `proven`: the key of this request was answered
    before, so that the one before it may end. `conditions` are by type. A Pod that the report does not name is one of which it says
    nothing.
    """

    folder: str
    life: int
    word: str
    sequence: int
    agent: str
    mac: MacFacts
    proven: bool = False
    seen: str = ""
    """The `version` of the answer before: as long as that is what there is, the report is held."""
    conditions: dict[str, Stated] = {}
    events: tuple[Event, ...] = ()
    vitals: Vitals | None = None
    vm_vitals: dict[str, Vitals] = {}
    pods: dict[str, Raw] = {}
    """A `PodReport` by uid."""


class Shape(Struct, frozen=True, omit_defaults=True):
    """What a Pod's VM gets. None leaves the image's own."""

    cpu: int | None = None
    memory_mb: int | None = None
    seats: int = 1
    """How many VMs' places it takes: two, where no other tenant may be beside it."""


class WantedPod(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A Pod that is bound to this Mac, as it should be.

    `ending` is the grace of its deletion in seconds, None where it is not being deleted. `recorded` is the state that the API server
    has, None before the first: an end is told until it is recorded, and a clone is cleared only then. `refusal` says what in it a VM
    cannot be: a newcomer is refused for it, and a VM that runs goes on. `kept` is a Pod that its controller would make anew for ever:
    it is refused without being failed.
    """

    uid: str
    namespace: str
    name: str
    image: str
    shape: Shape = Shape()
    env: dict[str, str] = {}
    pool: str = ""
    container: str = ""
    started_at: datetime | None = None
    ending: float | None = None
    recorded: PodState | None = None
    refusal: Reason | None = None
    kept: bool = False


Absent = Literal["gone", "unknown"]
"""Of a uid that the Mac named and the cluster does not have. `gone` rests on a fresh read, and for a VM that was handed a job on
dispatch's ledger, too.
"""


class Answer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a Mac is answered. `complete`: `pods` is everything that is bound to it; else nothing follows from a Pod that is missing.

    `authorities` are those in force, as PEM; empty where they are not told, never none.
    """

    now: datetime
    cluster: str
    authorities: tuple[str, ...] = ()
    complete: bool = True
    version: str = ""
    """Names `pods`: it is another one wherever they differ."""
    pods: tuple[WantedPod, ...] = ()
    absent: dict[str, Absent] = {}


class JobRequest(Struct, frozen=True):
    """Asks for one Pod's job. `softnet`: every VM of the Mac is behind Softnet now, which the Node's label may lag."""

    softnet: bool
