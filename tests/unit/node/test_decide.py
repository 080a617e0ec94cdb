"""The decision is total, and no input that lacks an answer ends a VM."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paddock.clients.dispatch import Drained, Refused
from paddock.clients.gateway.messages import End, PodState, Reason, WantedPod
from paddock.node.decide import Action, Do, Facts, decide
from paddock.node.journal import Entry, Exit, Stage, Stop, StopReason
from paddock.node.machines import Liveness
from paddock.node.shares import Guest

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ENTRY = Entry(
    uid="u",
    namespace="n",
    name="p",
    container="runner",
    image="i",
    vm="pdk-pool-u",
    stage=Stage.RUNNING,
    accepted_at=NOW - timedelta(minutes=5),
    attempt=1,
    boot_id="boot",
    started_at=NOW - timedelta(minutes=4),
    running_at=NOW - timedelta(minutes=4),
)
FACTS = Facts(now=NOW, boot_id="boot", booted_at=NOW - timedelta(days=1), entry=ENTRY, began=True)
ENDS_A_VM = {Do.BEGIN_STOP, Do.ASK_TO_HALT, Do.POWER_OFF}


def pod(recorded: PodState | None = PodState.READY, *, deleted: bool = False) -> WantedPod:
    return WantedPod(uid="u", namespace="n", name="p", image="i", recorded=recorded, ending=30.0 if deleted else None)


guests = st.builds(
    Guest,
    readable=st.booleans(),
    state=st.sampled_from([None, "booted", "ready", "job", "done"]),
    rc=st.sampled_from([None, 0, 1, 143]),
    mark=st.none(),
)
ends = st.just(End(succeeded=True, code=0, reason="Completed", finished_at=NOW))
stops = st.builds(Stop, reason=st.sampled_from(StopReason), grace=st.sampled_from([0.0, 30.0]))
entries = st.builds(
    lambda stage, attempt, ready, handed, stop, end, boot: replace(
        ENTRY,
        stage=stage,
        attempt=attempt,
        ready_at=NOW if ready else None,
        handed_at=NOW if handed else None,
        stop=stop,
        end=end if stage in (Stage.ENDED, Stage.CLEARED) else None,
        boot_id=boot,
    ),
    st.sampled_from(Stage),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.none() | stops,
    ends,
    st.sampled_from(["boot", "other"]),
)
everything = st.builds(
    Facts,
    now=st.just(NOW),
    boot_id=st.just("boot"),
    booted_at=st.just(NOW - timedelta(days=1)),
    pod=st.none() | st.builds(pod, st.none() | st.sampled_from(PodState), deleted=st.booleans()),
    gone=st.booleans(),
    entry=st.none() | entries,
    refusal=st.none() | st.just(Reason("OutOfcpu", "no")),
    waiting=st.none() | st.just(Reason("ImagePulling", "no")),
    liveness=st.sampled_from(Liveness),
    vms_listed=st.booleans(),
    cloned=st.booleans(),
    began=st.booleans(),
    exit=st.none() | st.builds(Exit, st.sampled_from([0, 1]), st.just(NOW)),
    guest=guests,
    handed=st.booleans(),
    since_start=st.sampled_from([0.0, 599.0, 601.0]),
    since_stop=st.sampled_from([0.0, 31.0]),
    since_done=st.sampled_from([0.0, 61.0]),
    halt_asked=st.booleans(),
    outcome=st.sampled_from([None, Drained("x"), Refused(403, "x")]),
)


@settings(max_examples=400)
@given(everything)
def test_every_combination_of_facts_has_an_answer_with_a_reason(facts: Facts) -> None:
    action = decide(facts)
    assert isinstance(action, Action)
    assert action.why
    assert (action.do is Do.BEGIN_STOP) == (action.stop is not None)
    assert (action.do is Do.END) == (action.end is not None)


@settings(max_examples=400)
@given(everything)
def test_a_vm_is_never_ended_because_an_answer_is_missing(facts: Facts) -> None:
    """Take away everything that was said: no Pod in the cache, no proof, no share, no outcome, no recorded intent."""
    entry = facts.entry
    silent = replace(
        facts,
        pod=None,
        gone=False,
        outcome=None,
        guest=Guest(readable=False),
        entry=replace(entry, stop=None) if entry is not None else None,
    )
    assert decide(silent).do not in ENDS_A_VM


@settings(max_examples=400)
@given(everything)
def test_a_vm_with_a_job_ends_only_with_its_pod_or_when_its_guest_is_done(facts: Facts) -> None:
    action = decide(replace(facts, handed=True))
    if action.do is Do.BEGIN_STOP:
        assert action.stop is not None
        assert action.stop.reason in (StopReason.DELETED, StopReason.POD_GONE, StopReason.HALT_FAILED)


@settings(max_examples=400)
@given(everything)
def test_nothing_runs_a_second_time_once_its_guest_spoke_or_had_a_job(facts: Facts) -> None:
    action = decide(facts)
    if action.do is Do.RETRY:
        assert facts.liveness is Liveness.GONE
        assert not facts.guest.spoke
        assert not facts.handed
        assert facts.exit is not None
    if action.do is Do.START and facts.entry is not None and facts.entry.holds_seat:
        assert not facts.began


@settings(max_examples=400)
@given(everything)
def test_nothing_but_attendance_follows_from_a_probe_that_failed(facts: Facts) -> None:
    action = decide(replace(facts, liveness=Liveness.UNKNOWN))
    if facts.entry is None or facts.entry.holds_seat:
        assert action.do in (Do.ATTEND, Do.WAIT, Do.NOTHING)


@settings(max_examples=200)
@given(everything, stops)
def test_a_vm_that_is_to_end_is_not_attended_while_its_probe_fails(facts: Facts, stop: Stop) -> None:
    ending = replace(facts.entry or ENTRY, stage=Stage.RUNNING, stop=stop)
    assert decide(replace(facts, liveness=Liveness.UNKNOWN, entry=ending)).do is Do.WAIT


def test_the_guests_own_code_decides_how_the_pod_ended() -> None:
    gone = replace(FACTS, liveness=Liveness.GONE, exit=Exit(0, NOW))
    for code, succeeded in ((0, True), (3, False)):
        action = decide(replace(gone, guest=Guest(state="done", rc=code)))
        assert action.end is not None
        assert (action.end.succeeded, action.end.code) == (succeeded, code)
        assert action.end.finished_at == NOW
    silent = decide(replace(gone, guest=Guest(state="job"), handed=True))
    assert silent.end is not None
    assert (silent.end.succeeded, silent.end.reason) == (False, "VMExited")


def test_a_deletion_is_looked_at_before_a_terminal_phase() -> None:
    deleted = replace(FACTS, entry=None, pod=pod(PodState.ENDED, deleted=True))
    assert decide(deleted).do is Do.LET_GO
    assert decide(replace(deleted, vms_listed=False)).do is Do.WAIT, "a VM that nobody knows may run"


def test_a_clone_goes_only_when_its_end_is_recorded() -> None:
    ended = replace(FACTS, entry=replace(ENTRY, stage=Stage.ENDED, end=End(True, 0, "Completed", NOW)))
    assert decide(replace(ended, pod=pod(PodState.READY))).do is Do.WAIT
    assert decide(ended).do is Do.WAIT, "that a Pod is not shown is no record"
    assert decide(replace(ended, pod=pod(PodState.ENDED))).do is Do.CLEAR
    assert decide(replace(ended, gone=True)).do is Do.CLEAR


def test_a_power_cut_ends_the_pod_at_the_boot_and_not_now() -> None:
    rebooted = replace(FACTS, boot_id="next", booted_at=NOW - timedelta(minutes=1), liveness=Liveness.GONE)
    action = decide(replace(rebooted, guest=Guest(state="job")))
    assert action.end is not None
    assert (action.end.reason, action.end.finished_at) == ("HostRebooted", NOW - timedelta(minutes=1))
