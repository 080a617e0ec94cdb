"""What ends a VM, and what does not: one case for each mistake that others made (docs/design/bug-museum.md)."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from paddock.node.decide import BOOT_LIMIT, HALT_LIMIT, Do, Facts, decide
from paddock.node.guest import NO_NETWORK, RUNNER_TOO_OLD
from paddock.node.journal import Entry, Exit, Stage, StopReason
from paddock.node.machines import Liveness
from paddock.node.shares import Guest

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
ENTRY = Entry(
    uid="u",
    namespace="default",
    name="p",
    container="runner",
    image="i",
    vm="pdk-pool-u",
    stage=Stage.RUNNING,
    accepted_at=NOW - timedelta(minutes=5),
    started_at=NOW - timedelta(minutes=5),
    running_at=NOW - timedelta(minutes=5),
    attempt=1,
    boot_id="boot",
    cluster="a",
)
ALIVE = Facts(
    now=NOW,
    boot_id="boot",
    booted_at=NOW - timedelta(days=1),
    entry=ENTRY,
    liveness=Liveness.ALIVE,
    guest=Guest(state="job"),
    handed=True,
    since_start=300.0,
)


def test_a_probe_that_fails_is_no_end() -> None:
    assert decide(replace(ALIVE, liveness=Liveness.UNKNOWN)).do is Do.ATTEND


def test_a_pod_that_the_cache_does_not_show_is_not_gone() -> None:
    assert decide(ALIVE).do is Do.ATTEND
    stop = decide(replace(ALIVE, gone=True)).stop
    assert stop is not None
    assert stop.reason is StopReason.POD_GONE


@pytest.mark.parametrize("guest", [Guest(state="job"), Guest(state="ready"), Guest(readable=False)])
def test_a_job_of_another_cluster_is_let_finish(guest: Guest) -> None:
    assert decide(replace(ALIVE, gone=True, other_cluster=True, guest=guest)).do is Do.ATTEND


def test_a_vm_of_another_cluster_ends_when_it_is_done_or_never_had_a_job() -> None:
    moved = replace(ALIVE, gone=True, other_cluster=True)
    assert decide(replace(moved, guest=Guest(state="done", rc=0), since_done=HALT_LIMIT)).do is Do.BEGIN_STOP
    assert decide(replace(moved, handed=False, guest=Guest(state="ready"))).do is Do.BEGIN_STOP


def test_a_share_that_cannot_be_read_does_not_count_against_the_guest() -> None:
    waiting = replace(ALIVE, handed=False, since_start=BOOT_LIMIT + 1)
    assert decide(replace(waiting, guest=Guest(readable=False))).do is Do.ATTEND
    assert decide(replace(waiting, guest=Guest())).do is Do.BEGIN_STOP


def test_a_vm_that_ended_at_once_runs_again_only_where_its_guest_never_spoke() -> None:
    began = replace(ENTRY, started_at=NOW - timedelta(seconds=20))
    over = replace(ALIVE, entry=began, liveness=Liveness.GONE, began=True, exit=Exit(1, NOW), handed=False)
    assert decide(replace(over, guest=Guest())).do is Do.RETRY
    assert decide(replace(over, guest=Guest(state="booted"))).do is Do.END
    assert decide(replace(over, guest=Guest(), handed=True)).do is Do.END


def test_a_zero_of_tart_says_nothing_about_the_job() -> None:
    end = decide(replace(ALIVE, liveness=Liveness.GONE, began=True, exit=Exit(0, NOW), guest=Guest(state="job"))).end
    assert end is not None
    assert (end.succeeded, end.reason) == (False, "VMExited")


def test_no_way_to_github_is_believed_of_a_guest_that_never_had_a_job_alone() -> None:
    said = Guest(state="done", rc=NO_NETWORK)
    over = replace(ALIVE, liveness=Liveness.GONE, began=True, exit=Exit(0, NOW), guest=said, handed=False)
    reasons = [
        end.reason
        for facts in (
            over,
            replace(over, handed=True),
            replace(over, entry=replace(ENTRY, handed_at=NOW)),
        )
        if (end := decide(facts).end) is not None
    ]
    assert reasons == ["NoNetwork", "Error", "Error"], "a job's code can write any number"


def test_a_runner_that_is_too_old_is_reported_with_its_code_and_as_the_guests_word() -> None:
    said = Guest(state="done", rc=RUNNER_TOO_OLD)
    end = decide(replace(ALIVE, liveness=Liveness.GONE, began=True, exit=Exit(0, NOW), guest=said)).end
    assert end is not None
    assert (end.succeeded, end.code, end.reason) == (False, 7, "RunnerTooOld")
    assert end.message.startswith("the guest says")
