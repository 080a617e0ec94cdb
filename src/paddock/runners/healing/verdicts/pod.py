"""Is this Pod a leak? Pure, and total: every Pod gets exactly one verdict, with its reason and its proof.

Two promises hold in every state there can be, and a test goes through all of them:

- **a Pod is reaped only on positive proof from two ledgers** (`Reap` cannot be made with less). Not knowing is never proof:
  no fact that is `unknown` brings a Pod nearer to its end;
- **a Pod that may be executing a job, or be about to, is never reaped.** Any single ledger that speaks of life
  (`sign_of_life`) settles it, whatever the three others say.

Three kinds of leak are known. In each, what could still be alive, and why it is not:

`orphaned_stamped_pod`: assigned to an account, and never handed a runner. Only a Pod that was answered can run a job, and it
is answered after its session was recorded; so "no session, no claim" is the proof, *if the ledger that says it is the one
that assigned the Pod*: it must remember the claim, and how it ended. On Linux the Pod shows by itself that no runner ever
started; one that has stood so, assigned, for much longer than serving takes, needs no memory. A Mac's container is `started`
from the VM's boot, which says nothing, so that there the ledger's memory is everything.

`finished_job_pod`: GitHub says that this very runner finished its job, and does not see it any more. A runner of ours executes
one job in its life.

`hung_runner`: its job is not with it, GitHub does not see it, and its own mark stands still. GitHub may have given it another
job of which we never heard, so a runner that is merely offline must have been so for longer than GitHub itself waits before
it gives up a job (`lost_communication`). One that says nothing about itself, as a runner does that never started, must have
been unseen that long in any case; the second word is then the ledger's, which remembers that its claim ended. A listener that
logs its retries moves for ever: without a worker, that is life only while GitHub lists its runner.
"""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from paddock.base.explanation import span
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.verdicts.pod_facts import (
    ExecutorFact,
    HandedFact,
    HeldFact,
    JobFact,
    LedgerName,
    MovesFact,
    PodFacts,
    PodLife,
    PollerFact,
    RunnerFact,
    RunnerRow,
    VmFact,
)

__all__ = [
    "KINDS",
    "Keep",
    "PodFacts",
    "Reap",
    "Verdict",
    "Watch",
    "judge",
    "sign_of_life",
    "waits_past_deadline",
]

ORPHANED_ASSIGNMENT: Final = "orphaned_stamped_pod"
FINISHED_JOB: Final = "finished_job_pod"
HUNG_RUNNER: Final = "hung_runner"
KINDS: Final = frozenset({ORPHANED_ASSIGNMENT, FINISHED_JOB, HUNG_RUNNER})


class Keep(Struct, frozen=True):
    """Leave it alone: there is nothing wrong, or nothing that proves it."""

    reason: str
    sentence: str


class Watch(Struct, frozen=True):
    """It looks wrong. Leave it alone, and look again; `until` is when a pass of time alone could settle it."""

    reason: str
    sentence: str
    until: datetime | None = None


class Reap(Struct, frozen=True):
    """It is a leak, proven by what two ledgers or more positively say. It cannot be made with less."""

    kind: str
    sentence: str
    proof: tuple[tuple[LedgerName, str], ...]
    since: datetime
    """Since when it has been one, as far as is known."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r} is none of {sorted(KINDS)}")
        if len({ledger for ledger, fact in self.proof if fact}) < 2:
            raise ValueError(f"{self.kind} needs the word of two ledgers, and has {self.proof!r}")


Verdict = Keep | Watch | Reap


def judge(facts: PodFacts, settings: HealingSettings) -> Verdict:
    """The verdict on one Pod. Facts that were read at different moments are judged as if they were of one: read again,
    after the fence, before you act on a `Reap`.
    """
    if (alive := sign_of_life(facts)) is not None:
        return alive
    if facts.handed is not HandedFact.NONE or facts.held in (HeldFact.RUNNING, HeldFact.DISPLACED):
        return _after_the_answer(facts, settings)
    return _before_the_answer(facts, settings)


def sign_of_life(facts: PodFacts) -> Keep | None:
    """Whatever single ledger says that the Pod works, is about to, or is gone already; None if none of them does."""
    if facts.life is PodLife.ENDED:
        return _ENDED
    if facts.life is PodLife.DELETING:
        return _DELETING
    if facts.held is HeldFact.CLAIMED:
        return _SERVED
    if facts.moves is MovesFact.MOVING and facts.listener_still_since is None and not _listens_in_vain(facts):
        return _MOVING
    if facts.job is JobFact.IN_PROGRESS and facts.executor is not ExecutorFact.OTHER:
        return _IN_PROGRESS
    if facts.runner_row is RunnerRow.BUSY:
        return _BUSY
    if facts.runner_row is RunnerRow.IDLE:
        return _LISTENING
    return None


def _listens_in_vain(facts: PodFacts) -> bool:
    """Nothing but a listener moves in it, and GitHub has no such runner, so that no job can reach it."""
    handed = facts.handed is not HandedFact.NONE or facts.held is HeldFact.DISPLACED
    return handed and facts.listens and facts.runner_row is RunnerRow.ABSENT


def waits_past_deadline(facts: PodFacts, settings: HealingSettings) -> bool:
    """Whether its runner was handed out longer ago than one needs to register."""
    return facts.handed_at is not None and facts.now - facts.handed_at >= settings.registration_deadline


def _before_the_answer(facts: PodFacts, settings: HealingSettings) -> Verdict:
    """The ledger has neither claim nor session: a Pod that waits, or one that was assigned and forgotten."""
    if not facts.assigned:
        return _IDLE
    if facts.committed:
        return _CONTRADICTED
    if facts.moves is not MovesFact.UNKNOWN:
        return _REPORTS
    if facts.runner is RunnerFact.TERMINATED:
        return _RAN
    if facts.machine is not VmFact.MACOS and (
        facts.runner is RunnerFact.STARTED or facts.poller is PollerFact.TERMINATED
    ):
        return _STARTED
    if facts.machine is not VmFact.LINUX and facts.unclaimed_since is None:
        return _UNREMEMBERED
    if facts.created_at is None:
        return _AGELESS
    ended = facts.unclaimed_since
    if ended is not None:
        # A process that releases its claim removes the assignment label, too, and is given the time to.
        young = timedelta() if facts.dispatcher_died else settings.assignment_grace
        ripe = max(facts.created_at + young, ended + settings.silent_dispatcher)
        told = f"its claim ended {span(facts.now - ended)} ago, and it was never handed a runner"
    elif facts.stuck_since is not None:
        # Serving takes seconds: no process is serving a Pod that has been assigned and waiting through the whole grace.
        ripe = max(facts.created_at, facts.stuck_since) + settings.assignment_grace
        told = "no claim, and it was never handed a runner"
    else:
        return _UNREMEMBERED
    if facts.now < ripe:
        return Watch("assigned_lately", "assigned and without a claim, but not for long enough to be sure", ripe)
    shape = "no runner ever started in it" if facts.machine is VmFact.LINUX else "it is not marked as handed a runner"
    proof = ((LedgerName.K, f"assigned, {span(facts.now - facts.created_at)} old, {shape}"), (LedgerName.P, told))
    since = max(facts.created_at, ended or facts.created_at)
    return Reap(ORPHANED_ASSIGNMENT, f"assigned to an account, but {told}", proof, since)


def _after_the_answer(facts: PodFacts, settings: HealingSettings) -> Verdict:
    """The Pod was handed a runner: only GitHub and the runner itself can say that it is over."""
    if facts.job is JobFact.COMPLETED and facts.executor is ExecutorFact.THIS:
        return _finished(facts, settings)
    if facts.job is JobFact.UNKNOWN or (facts.job is JobFact.COMPLETED and facts.executor is ExecutorFact.UNKNOWN):
        return _UNASKED
    return _hung(facts, settings)


def _finished(facts: PodFacts, settings: HealingSettings) -> Verdict:
    if facts.held in (HeldFact.RUNNING, HeldFact.DISPLACED):
        return _CLAIM_FIRST  # settling the job ends it, and is not the business of whoever deletes Pods
    if facts.job_over_at is None:
        return _UNASKED
    over = facts.now - facts.job_over_at
    if over < settings.finished_grace:
        until = facts.job_over_at + settings.finished_grace
        return Watch("just_finished", "its job is over, and it has a few minutes to end by itself", until)
    if facts.runner_row not in _UNSEEN:
        return _ROW_UNKNOWN
    said = (LedgerName.G, f"this runner finished its job {span(over)} ago, and is {facts.runner_row.value}")
    sentence = f"its job has been over for {span(over)}, and it does not end"
    if facts.moves is MovesFact.STILL:
        if facts.still_since is None:
            return _SILENT
        if facts.now - facts.still_since < settings.progress_grace:
            return Watch("slowing", "its job is over, and it moved lately", facts.still_since + settings.progress_grace)
        still = (LedgerName.H, f"nothing has moved for {span(facts.now - facts.still_since)}")
        return Reap(FINISHED_JOB, sentence, (said, still), facts.job_over_at)
    if over < settings.lost_communication:
        until = facts.job_over_at + settings.lost_communication
        return Watch("finished_and_silent", "its job is over, but it does not say whether anything moves", until)
    second = _second_word(facts)
    if second is None:
        return Watch("one_witness", "GitHub alone says that its job is over; the ledger has not heard of it yet")
    return Reap(FINISHED_JOB, sentence, (said, second), facts.job_over_at)


def _second_word(facts: PodFacts) -> tuple[LedgerName, str] | None:
    """Who confirms GitHub's word when the runner itself says nothing."""
    if facts.finish_recorded:
        return (LedgerName.P, "the completion by this runner is recorded, and no claim is held for it")
    if facts.runner is RunnerFact.TERMINATED:
        return (LedgerName.K, "its runner container has ended")
    return None


def _hung(facts: PodFacts, settings: HealingSettings) -> Verdict:
    """Its job waits, or is with another runner. Is this one waiting for work, at another job, or hung?"""
    if facts.held is HeldFact.RUNNING:
        return _CLAIM_FIRST  # the job is put back first: by whoever asks GitHub about jobs, under the generation
    if facts.runner_row not in _UNSEEN or facts.unseen_since is None:
        return _ROW_UNKNOWN
    if facts.handed_at is None:
        return _AGELESS
    if facts.listener_still_since is not None and facts.runner_row is RunnerRow.ABSENT:
        return _dismissed(facts, facts.handed_at, facts.listener_still_since)
    if facts.moves is MovesFact.MOVING and _listens_in_vain(facts):
        return _retries(facts, facts.handed_at, settings)
    if facts.listener_still_since is not None and facts.moves is MovesFact.MOVING:
        return _MOVING  # not for long, and GitHub lists it still: it has the time of every runner
    if facts.moves is MovesFact.UNKNOWN:
        return _says_nothing(facts, facts.handed_at, facts.unseen_since, settings)
    if facts.still_since is None:
        return _SILENT
    # A runner that GitHub does not list has no job. One that it lists as offline may have one that we never heard of,
    # until GitHub itself must have given that up.
    timeout = settings.progress_grace if facts.runner_row is RunnerRow.ABSENT else settings.lost_communication
    unseen_for = facts.now - facts.unseen_since
    still_for = facts.now - facts.still_since
    registered_by = facts.handed_at + settings.registration_deadline
    ripe = max(registered_by, facts.still_since + timeout, facts.unseen_since + timeout)
    if facts.now < ripe:
        return Watch("unseen", f"GitHub has not seen its runner for {span(unseen_for)}, and nothing moves", ripe)
    where = "still queued" if facts.job is JobFact.QUEUED else "not with this runner"
    proof = (
        (LedgerName.G, f"its job is {where}, and its runner has been {facts.runner_row.value} for {span(unseen_for)}"),
        (LedgerName.H, f"nothing has moved for {span(still_for)}"),
    )
    sentence = f"its runner was handed out {span(facts.now - facts.handed_at)} ago and hangs: {proof[0][1]}"
    return Reap(HUNG_RUNNER, sentence, proof, max(facts.still_since, facts.unseen_since))


def _dismissed(facts: PodFacts, handed_at: datetime, still_since: datetime) -> Reap:
    """GitHub has no such runner (`hung_listeners` takes it away first, which GitHub refuses while it has a job), so nothing
    can reach it any more; and it says itself that no worker runs in it. Nothing is left to wait for.
    """
    where = "still queued" if facts.job is JobFact.QUEUED else "not with this runner"
    still = f"no worker runs, and nothing has moved for {span(facts.now - still_since)}"
    proof = ((LedgerName.G, f"its job is {where}, and it has no such runner"), (LedgerName.H, still))
    sentence = f"its runner was handed out {span(facts.now - handed_at)} ago and hangs: {still}"
    return Reap(HUNG_RUNNER, sentence, proof, still_since)


def _retries(facts: PodFacts, handed_at: datetime, settings: HealingSettings) -> Verdict:
    """GitHub lists no such runner any more, in two complete lists at least, and it says itself that no worker runs in it."""
    if facts.absent_since is None:
        return _ROW_UNKNOWN
    absent_for = span(facts.now - facts.absent_since)
    ripe = max(handed_at + settings.registration_deadline, facts.absent_since + settings.listener_grace)
    if facts.now < ripe:
        return Watch("unlisted", f"GitHub has not listed its runner for {absent_for}, and it goes on listening", ripe)
    where = "still queued" if facts.job is JobFact.QUEUED else "not with this runner"
    proof = (
        (LedgerName.G, f"its job is {where}, and it has had no such runner for {absent_for}"),
        (LedgerName.H, "no worker runs: its listener alone goes on"),
    )
    sentence = f"its runner was handed out {span(facts.now - handed_at)} ago and listens in vain: {proof[0][1]}"
    return Reap(HUNG_RUNNER, sentence, proof, facts.absent_since)


def _says_nothing(facts: PodFacts, handed_at: datetime, unseen_since: datetime, settings: HealingSettings) -> Verdict:
    """No mark ever came from it. Whatever it was given, GitHub has given up by now; and it has no claim on a job of ours."""
    if facts.held is HeldFact.DISPLACED:
        ended, told = handed_at, "its job was given to another runner, and its claim has none any more"
    elif facts.unclaimed_since is not None:
        ended = facts.unclaimed_since
        told = f"its claim ended {span(facts.now - ended)} ago, and it has not ended with it"
    else:
        return _SILENT
    since = max(handed_at, unseen_since, ended)
    ripe = since + settings.lost_communication
    if facts.now < ripe:
        return Watch("silent", "GitHub does not see its runner, and it does not say whether anything moves", ripe)
    unseen = f"its runner has been {facts.runner_row.value} for {span(facts.now - unseen_since)}"
    proof = ((LedgerName.G, f"its job is not with it, and {unseen}"), (LedgerName.P, told))
    sentence = f"its runner was handed out {span(facts.now - handed_at)} ago and never said a word: {unseen}"
    return Reap(HUNG_RUNNER, sentence, proof, since)


_UNSEEN = frozenset({RunnerRow.ABSENT, RunnerRow.OFFLINE})
_ENDED = Keep("ended", "it has ended; the pool replaces it")
_DELETING = Keep("deleting", "it is being deleted already")
_SERVED = Keep("being_served", "it holds a claim that is being served, or that the healing of claims takes back first")
_MOVING = Keep("moving", "its runner reports progress")
_IN_PROGRESS = Keep("in_progress", "GitHub says that its job is in progress")
_BUSY = Keep("busy", "GitHub says that its runner is busy")
_LISTENING = Keep("listening", "its runner is online and may be given a job at any moment")
_IDLE = Keep("idle", "it waits for a job")
_CONTRADICTED = Keep("contradicted", "it is marked as handed a runner, and the ledger does not know of it")
_REPORTS = Keep("reports", "a runner reports from it, though the ledger handed out none")
_RAN = Keep("ran", "its runner has ended, so that the Pod is about to")
_STARTED = Keep("started", "its runner has started, or is about to, though the ledger handed out none")
_UNREMEMBERED = Keep(
    "unremembered", "it is assigned, and this ledger remembers no claim of it: is it the right database?"
)
_AGELESS = Keep("ageless", "it does not say how old it is")
_UNASKED = Keep("unasked", "it was handed a runner, and GitHub has not said what became of the job")
_CLAIM_FIRST = Watch("claim_first", "its claim is settled first, by the healing of jobs")
_ROW_UNKNOWN = Watch(
    "row_unknown", "its job is over, or not with it, but whether GitHub still sees its runner is not known"
)
_SILENT = Watch("silent", "GitHub does not see its runner, and it does not say whether anything moves")
