"""What to do next for one Pod: pure and total. The facts go in, one action with its reason comes out.

The order of the questions is the safety argument: a deletion is looked at before anything terminal, a VM is ended only for a
recorded reason, and nothing follows from what could not be found out.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from paddock.clients.dispatch import Drained, Refused
from paddock.clients.gateway.messages import End, PodState, Reason, WantedPod
from paddock.node.guest import NO_NETWORK, RUNNER_TOO_OLD
from paddock.node.journal import Entry, Exit, Stage, Stop, StopReason
from paddock.node.machines import Liveness
from paddock.node.report import is_recorded
from paddock.node.shares import Guest

__all__ = ["Action", "Do", "Facts", "decide"]

STARTS: Final = 3
"""So many runs may die at once before the Pod fails."""
SHORT_LIFE: Final = 60.0
BOOT_LIMIT: Final = 600.0
GONE_GRACE: Final = 30.0
HALT_LIMIT: Final = 60.0
READ_LIMIT: Final = 60.0
_KILLED: Final = 137
UNREADABLE: Final = (
    "the agent's journal entry of this Pod cannot be read, so that its VM is left alone and keeps its seat: install the agent's "
    "version that wrote it, or stop the VM with tart, remove the entry's folder (the Node's condition names it) and restart the agent"
)


class Do(StrEnum):
    """Everything that can be done for a Pod."""

    NOTHING = "nothing"
    WAIT = "wait"
    REFUSE = "refuse"
    ACCEPT = "accept"
    ADOPT = "adopt"
    CLONE = "clone"
    START = "start"
    NOTE_RUNNING = "note that it runs"
    ATTEND = "attend"
    BEGIN_STOP = "begin to stop"
    ASK_TO_HALT = "ask the guest to halt"
    POWER_OFF = "power off"
    RETRY = "run again"
    END = "record the end"
    CLEAR = "delete the clone"
    LET_GO = "let the Pod go"
    FORGET = "forget"


class Action(msgspec.Struct, frozen=True):
    """One step, and why. `refusal` is also the waiting reason that people see; `stop` and `end` are to be recorded."""

    do: Do
    why: str
    refusal: Reason | None = None
    stop: Stop | None = None
    end: End | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one Pod at one moment.

    `pod` is the Pod as it was answered last, None where it was not, which proves nothing; `gone` is proven. `cloned`
    says that this agent itself made the clone: after a restart the clone is made again, for it never ran.
    `since_start`, `since_stop`, `since_done` and `unreadable_for` are monotonic seconds of this agent's life.
    """

    now: datetime
    boot_id: str
    booted_at: datetime
    pod: WantedPod | None = None
    gone: bool = False
    entry: Entry | None = None
    refusal: Reason | None = None
    waiting: Reason | None = None
    liveness: Liveness = Liveness.GONE
    cloned: bool = False
    began: bool = False
    exit: Exit | None = None
    complaint: str = ""
    guest: Guest = Guest()
    log_tail: str = ""
    handed: bool = False
    since_start: float = 0.0
    since_stop: float = 0.0
    since_done: float = 0.0
    unreadable_for: float = 0.0
    halt_asked: bool = False
    outcome: Drained | Refused | None = None
    other_cluster: bool = False
    """The entry is not known to belong to the cluster that the agent asks: what that one does not know proves little."""
    vms_listed: bool = True
    """Tart's list was complete once: a VM of this Pod that the journal does not know would be known."""
    unreadable: bool = False
    """The journal has an entry for this Pod that does not decode: what was begun is not known."""


def decide(facts: Facts) -> Action:
    entry = facts.entry
    if entry is None:
        return _newcomer(facts)
    if entry.over:
        return _over(facts, entry)
    if entry.holds_seat:
        return _machine(facts, entry)
    return _not_started(facts, entry)


def _newcomer(facts: Facts) -> Action:
    pod = facts.pod
    if pod is None:
        return Action(Do.NOTHING, "there is neither a Pod nor an entry")
    if facts.unreadable:
        # Not even for a deletion: what its VM does is not known, so that a person decides.
        lost = Reason("JournalUnreadable", UNREADABLE)
        return Action(Do.WAIT, lost.message, refusal=lost)
    if facts.liveness is Liveness.UNKNOWN:
        return Action(Do.WAIT, "whether a VM of this Pod runs cannot be told")
    if facts.liveness is Liveness.ALIVE:
        return Action(Do.ADOPT, "its VM runs, and the journal does not know it")
    if pod.ending is not None:
        if not facts.vms_listed:
            return Action(Do.WAIT, "the Pod is deleted, and which VMs are here is not known yet")
        return Action(Do.LET_GO, "the Pod is deleted, and nothing of it runs here")
    if is_recorded(pod):
        return Action(Do.NOTHING, "the Pod has ended")
    if pod.recorded in (PodState.STARTING, PodState.READY, PodState.HANDED):
        lost = Reason("VMExited", "the VM and the agent's journal of it are gone")
        return Action(Do.REFUSE, lost.message, refusal=lost)
    if facts.refusal is not None:
        return Action(Do.REFUSE, facts.refusal.message, refusal=facts.refusal)
    return Action(Do.ACCEPT, "the Pod is bound to this Node, and there is room")


def _over(facts: Facts, entry: Entry) -> Action:
    """The end is in the journal, and in every report until it is recorded. Only then the clone goes, so that no end is lost."""
    if facts.gone:
        if entry.stage is Stage.ENDED:
            return Action(Do.CLEAR, "the Pod is gone")
        return Action(Do.FORGET, "the Pod is gone, and so is its VM")
    if entry.stage is Stage.CLEARED:
        return Action(Do.NOTHING, "the Pod has ended and waits to be deleted")
    if not is_recorded(facts.pod):
        return Action(Do.WAIT, "the end is journalled, and not recorded yet")
    return Action(Do.CLEAR, "the VM has ended, and its end is recorded")


def _not_started(facts: Facts, entry: Entry) -> Action:
    ending = _ending(facts, entry)
    if ending is not None or entry.stop is not None:
        end = End(
            succeeded=False,
            code=_KILLED,
            reason=(entry.stop or ending or Stop(StopReason.DELETED, 0.0)).reason.value,
            finished_at=facts.now.replace(microsecond=0),
            message="the Pod was deleted before its VM started",
        )
        return Action(Do.END, end.message, end=end)
    if facts.waiting is not None:
        return Action(Do.WAIT, facts.waiting.message, refusal=facts.waiting)
    if entry.stage is Stage.ACCEPTED or not facts.cloned:
        return Action(Do.CLONE, "the image is here and a seat is free")
    return Action(Do.START, "the clone is ready")


def _machine(facts: Facts, entry: Entry) -> Action:
    if facts.liveness is Liveness.UNKNOWN:
        if entry.stop is not None:
            # Who attends it would ask for a job, and the stop, which goes on with the next probe, would end it.
            return Action(Do.WAIT, "the VM is to end, and whether it lives cannot be told")
        return Action(Do.ATTEND, "whether the VM lives cannot be told: it counts as alive")
    if facts.liveness is Liveness.ALIVE:
        return _alive(facts, entry)
    return _dead(facts, entry)


def _alive(facts: Facts, entry: Entry) -> Action:
    if entry.stop is not None:
        if not facts.halt_asked:
            return Action(Do.ASK_TO_HALT, f"{entry.stop.reason}: {entry.stop.message}")
        if facts.since_stop >= entry.stop.grace:
            return Action(Do.POWER_OFF, f"the guest did not halt within {entry.stop.grace:.0f} s")
        return Action(Do.WAIT, "the guest was asked to halt")
    if (stop := _ending(facts, entry)) is not None:
        return Action(Do.BEGIN_STOP, stop.message, stop=stop)
    if entry.stage is Stage.STARTING:
        return Action(Do.NOTE_RUNNING, "the VM lives")
    return Action(Do.ATTEND, "the VM lives")


def _ending(facts: Facts, entry: Entry) -> Stop | None:
    """The reason to end a VM, if there is one; each is proven, none is an answer that is missing."""
    pod = facts.pod
    if pod is not None and pod.ending is not None:
        return Stop(StopReason.DELETED, pod.ending, "the Pod is being deleted")
    if facts.gone and not (facts.other_cluster and _works(facts, entry)):
        return Stop(StopReason.POD_GONE, GONE_GRACE, "the Pod is gone: the API server said so twice")
    if facts.guest.state == "done" and facts.guest.rc is not None and facts.since_done >= HALT_LIMIT:
        said = f"the guest said that it is done ({facts.guest.rc}) and did not halt within {HALT_LIMIT:.0f} s"
        return Stop(StopReason.HALT_FAILED, 0.0, said)
    if facts.handed or entry.handed_at is not None or not entry.holds_seat:
        return None  # with a job in its hands a VM ends by itself, or with its Pod
    match facts.outcome:
        case Drained(reason=reason):
            return Stop(StopReason.DRAINED, GONE_GRACE, f"dispatch lets the Pod go: {reason}")
        case Refused(status=status, reason=reason):
            return Stop(StopReason.REFUSED, GONE_GRACE, f"dispatch refuses the Pod ({status}): {reason}")
        case _:
            pass
    never = facts.guest.readable and not facts.guest.ready and entry.ready_at is None
    if never and facts.since_start >= BOOT_LIMIT:
        said = f"said {facts.guest.state!r} only" if facts.guest.state else "said nothing"
        return Stop(StopReason.NEVER_READY, 0.0, f"the guest {said} within {BOOT_LIMIT:.0f} s")
    return None


def _works(facts: Facts, entry: Entry) -> bool:
    """Whether the guest has a job and has not said that it is done; a share that cannot be read has not said so."""
    return (facts.handed or entry.handed_at is not None) and facts.guest.state != "done"


def _dead(facts: Facts, entry: Entry) -> Action:
    if not facts.began:
        if entry.stop is not None or _ending(facts, entry) is not None:
            return _not_started(facts, entry)
        if facts.waiting is not None:
            return Action(Do.WAIT, facts.waiting.message, refusal=facts.waiting)
        return Action(Do.START, "the run was recorded and never began")
    if not facts.guest.readable and facts.unreadable_for < READ_LIMIT:
        return Action(Do.WAIT, "the VM has ended, and its last words cannot be read yet")
    if entry.stop is None and _retry(facts, entry):
        return Action(Do.RETRY, f"run {entry.attempt} ended at once, before the guest said anything{_said(facts)}")
    return Action(Do.END, "the VM has ended", end=_end(facts, entry))


def _retry(facts: Facts, entry: Entry) -> bool:
    """A second run is allowed only where the first cannot have done anything: the guest never spoke and had no job."""
    if facts.exit is None or facts.boot_id != entry.boot_id or not facts.guest.readable:
        return False
    silent = not facts.guest.spoke and not facts.handed and entry.handed_at is None and entry.ready_at is None
    lived = (facts.exit.at - (entry.started_at or facts.exit.at)).total_seconds()
    wanted = not facts.gone and (facts.pod is None or facts.pod.ending is None)
    return silent and wanted and entry.attempt < STARTS and lived < SHORT_LIFE


def _end(facts: Facts, entry: Entry) -> End:
    """How the Pod ended: the guest's own word first, then ours, and what nobody said is a failure."""
    guest, tail = facts.guest, facts.log_tail
    rebooted = facts.boot_id != entry.boot_id
    unseen = facts.booted_at if rebooted else facts.now
    finished = facts.exit.at if facts.exit is not None else unseen
    finished = max(finished, entry.started_at or finished).replace(microsecond=0)

    def failed(reason: str, code: int, why: str) -> End:
        message = f"{why}\n{tail}" if tail and why else why or tail
        return End(succeeded=False, code=code, reason=reason, finished_at=finished, message=_bounded(message))

    if guest.rc == 0:
        return End(succeeded=True, code=0, reason="Completed", finished_at=finished, message=tail)
    stop = entry.stop
    if stop is not None and stop.reason is StopReason.DRAINED:
        return End(succeeded=True, code=0, reason="Completed", finished_at=finished, message=_bounded(stop.message))
    if stop is not None and stop.reason is StopReason.REFUSED:
        return failed("Error", 1, stop.message)
    if stop is not None and stop.reason is StopReason.NEVER_READY:
        return failed("VMStartFailed", 1, stop.message)
    if guest.rc == NO_NETWORK and entry.handed_at is None and not facts.handed:
        # No job's code has run there: the word is our script's.
        return failed("NoNetwork", guest.rc, "the guest has no way to GitHub, so that it took no job")
    if guest.rc == RUNNER_TOO_OLD:
        # A job can write it, too: only who knows that this runner never got one may believe it.
        return failed("RunnerTooOld", guest.rc, "the guest says that GitHub calls the version of its runner too old")
    if guest.rc is not None:
        return failed("Error", guest.rc, "")
    if stop is not None:
        return failed(stop.reason.value, _KILLED, stop.message)
    if rebooted:
        return failed("HostRebooted", _KILLED, f"the Mac went down under the VM and was up again at {facts.booted_at}")
    spoke = guest.spoke or entry.ready_at is not None or entry.handed_at is not None or facts.handed
    code = facts.exit.code if facts.exit is not None else 0
    if not spoke and facts.exit is not None:
        return failed(
            "VMStartFailed", code or 1, f"{entry.attempt} runs ended before the guest said anything{_said(facts)}"
        )
    if code != 0 or facts.complaint:
        return failed("VMFailed", code or 1, f"tart run ended with {code}{_said(facts)}")
    return failed("VMExited", 1, "the VM ended and the guest did not say how")


def _said(facts: Facts) -> str:
    return f": {facts.complaint}" if facts.complaint else ""


def _bounded(text: str) -> str:
    return text.encode()[-4096:].decode("utf-8", "ignore")
