"""What follows when lists do not show a server that we know."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import NOW, OTHER_ID, SERVER_ID, claim, host, later, machine, release, server

from paddock.clients.scaleway import Gone, StillThere, Unknown
from paddock.hosts.absence import KEPT, SERVER_GONE, MarkGone, NotProven, RemoveHost, absence_step, asks
from paddock.hosts.api import EndedJob, HostHistory
from paddock.kube.objects import Condition

PROVEN = Gone("the cloud says not_found of this server")
FROM_A_LIST = Gone("403, and the complete list of 3 servers does not hold it", listed=3)
FROM_NOTHING = Gone("403, and the complete list of 0 servers does not hold it", listed=0)
REMEMBERS: dict[str, dict[str, Any]] = {
    "quarantined": {"spec": {"quarantine": "its fan is loud"}},
    "to be retired": {"spec": {"retire": "its fan is loud"}},
    "given up before": {"history": HostHistory(failed_lives=1)},
}


def marked(since: Any = NOW, **how: Any) -> Any:
    said = Condition(type="Ready", status="False", reason=SERVER_GONE, last_transition_time=since)
    return host(**how, state="gone", conditions=(said,))


@pytest.mark.parametrize("its", [host(), host(spec={"claim": claim()}, cloud_name="m-1")])
@pytest.mark.parametrize("found", [StillThere(server()), Unknown("time-out"), FROM_NOTHING])
def test_lists_alone_take_no_host_from_its_machine_and_none_from_the_ledger(its: Any, found: Any):
    step = absence_step(its, None, found, NOW)
    assert isinstance(step, NotProven)
    assert "fr-par-1" in step.message


@pytest.mark.parametrize("found", [PROVEN, FROM_A_LIST])
def test_a_server_that_is_proven_gone_takes_its_host_along_where_nothing_is_on_record_of_it(found: Any):
    assert absence_step(host(), None, found, NOW) == RemoveHost()


@pytest.mark.parametrize("claimant", [machine(server_id=SERVER_ID), machine()])
def test_a_machine_that_has_no_other_host_keeps_its_claim_should_the_server_come_back(claimant: Any):
    its = host(spec={"claim": claim()})
    step = absence_step(its, claimant, PROVEN, NOW)
    assert isinstance(step, MarkGone)
    assert "not_found" in step.message
    assert not asks(marked(later(days=-30), spec={"claim": claim()}), claimant, NOW)


@pytest.mark.parametrize("claimant", [machine(server_id=OTHER_ID), None])
def test_a_claim_that_nobody_will_take_up_keeps_nothing(claimant: Any):
    its = marked(spec={"claim": claim()})
    assert asks(its, claimant, NOW)
    assert absence_step(its, claimant, PROVEN, NOW) == RemoveHost()


def test_a_host_that_alone_knows_which_jobs_ended_with_it_stays_until_they_are_written_down():
    ended = EndedJob(key="uid-1", at=NOW, path="force", why="a person gave it up")
    step = absence_step(host(spec={"ended_jobs": (ended,)}), None, PROVEN, later(days=400))
    assert isinstance(step, MarkGone)
    assert "until dispatch has written down which jobs ended with it" in step.message


def test_a_release_is_told_and_stays():
    assert isinstance(absence_step(host(spec={"release": release()}), None, PROVEN, NOW), MarkGone)
    assert not asks(marked(later(days=-30), spec={"release": release()}), None, NOW)


@pytest.mark.parametrize("how", REMEMBERS.values(), ids=REMEMBERS)
def test_what_speaks_against_a_host_is_kept_for_a_week_should_its_server_come_back(how: dict[str, Any]):
    step = absence_step(host(**how), None, PROVEN, NOW)
    assert isinstance(step, MarkGone)
    assert "until 2026-06-08 12:00 UTC" in step.message
    assert not asks(marked(**how), None, NOW + KEPT - timedelta(seconds=1))
    late = marked(**how)
    assert asks(late, None, NOW + KEPT)
    assert absence_step(late, None, PROVEN, NOW + KEPT) == RemoveHost()


def test_a_host_is_kept_while_late_calls_may_arrive():
    settling = host(spec={"not_before": later(minutes=1)})
    assert isinstance(absence_step(settling, None, PROVEN, NOW), MarkGone)
    assert absence_step(settling, None, PROVEN, later(minutes=1)) == RemoveHost()


def test_a_machine_that_let_go_of_it_leaves_nothing_behind():
    assert asks(marked(), None, NOW)
    assert absence_step(marked(), None, PROVEN, NOW) == RemoveHost()


@given(
    found=st.sampled_from([PROVEN, FROM_A_LIST, FROM_NOTHING, StillThere(server()), Unknown("why")]),
    spec=st.sampled_from([{}, {"claim": claim()}, {"release": release()}, {"quarantine": "why"}]),
    gone=st.booleans(),
    days=st.integers(0, 20),
)
def test_a_host_is_removed_only_when_it_is_proven_gone_and_nobody_has_it(
    found: Any, spec: dict[str, Any], gone: bool, days: int
):
    its = marked(spec=spec) if gone else host(spec=spec)
    step = absence_step(its, None, found, later(days=days))
    if not isinstance(step, NotProven):
        assert found in (PROVEN, FROM_A_LIST)
    if isinstance(step, RemoveHost):
        assert its.spec.release is None
        assert not its.spec.quarantine or (gone and days >= 7)
