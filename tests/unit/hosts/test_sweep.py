"""What the sweep may do about a verdict, and what holds it back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import FREE_NAME, claim, host

from paddock.hosts.orphans import HostState, Verdict, VerdictReason
from paddock.hosts.sweep import (
    HealLedger,
    Leave,
    OrphanHistory,
    Reclaim,
    counts_as_orphan,
    judge,
    ours,
    owners_vanished,
)

OURS = "tuist-tuist-"
ORPHANED = Verdict(HostState.ORPHANED, VerdictReason.NO_OWNER, "no machine owns it")
REASONS = [
    (HostState.POOLED, VerdictReason.FREE),
    (HostState.POOLED, VerdictReason.NOT_USABLE_YET),
    (HostState.POOLED, VerdictReason.DEAD_CLAIM),
    (HostState.CLAIMING, VerdictReason.CLAIMED),
    (HostState.CLAIMING, VerdictReason.CLAIM_PENDING),
    (HostState.RELEASING, VerdictReason.RELEASE_RECORDED),
    (HostState.RELEASING, VerdictReason.RELEASE_PENDING),
    (HostState.OWNED, VerdictReason.CLAIMED),
    (HostState.OWNED, VerdictReason.NAMED_BY_NAME),
    (HostState.OWNED, VerdictReason.NAMED_BY_SERVER_ID),
    (HostState.FOREIGN, VerdictReason.NOT_OUR_NAME),
    (HostState.ORPHANED, VerdictReason.NO_OWNER),
    (HostState.ORPHANED, VerdictReason.OWNER_HAS_ANOTHER),
    (HostState.ORPHANED, VerdictReason.CLAIM_ABANDONED),
]


def test_a_stranded_host_of_ours_is_reclaimed_on_its_second_sighting():
    assert isinstance(judge(f"{OURS}m-1", ORPHANED, 1, OURS, given=True), Leave)
    assert judge(f"{OURS}m-1", ORPHANED, 2, OURS, given=True) == Reclaim("no machine owns it")


def test_without_a_claim_name_prefix_everything_is_only_reported():
    left = judge(f"{OURS}m-1", ORPHANED, 99, "", given=True)
    assert isinstance(left, Leave)
    assert "--orphan-reclaim-claim-name-prefix" in left.reason


def test_a_name_outside_our_namespace_is_left_alone_and_says_so():
    left = judge("apple-silicon-romantic-haibt", ORPHANED, 99, OURS, given=True)
    assert isinstance(left, Leave)
    assert OURS in left.reason


def test_a_marker_that_nobody_recorded_is_finished_by_the_sweep():
    for state, reason, name in (
        (HostState.CLAIMING, VerdictReason.CLAIM_PENDING, "tuist-claim-pending-x"),
        (HostState.RELEASING, VerdictReason.RELEASE_PENDING, "tuist-release-pending-x"),
    ):
        assert isinstance(judge(name, Verdict(state, reason, "a marker"), 2, OURS, given=True), Reclaim)
        assert isinstance(judge(name, Verdict(state, reason, "a marker"), 2, "", given=True), Leave)


def test_a_dead_claim_is_taken_back_on_its_second_sighting_even_when_only_reporting():
    dead = Verdict(HostState.POOLED, VerdictReason.DEAD_CLAIM, "its machine is gone")
    for prefix in ("", OURS):
        assert isinstance(judge("tuist-pool-x", dead, 1, prefix, given=True), Leave)
        assert isinstance(judge("tuist-pool-x", dead, 2, prefix, given=True), HealLedger)


UNRECORDED = (VerdictReason.CLAIM_PENDING, VerdictReason.RELEASE_PENDING, VerdictReason.DEAD_CLAIM)


@pytest.mark.parametrize(
    ("state", "reason"),
    [each for each in REASONS if each[0] is not HostState.ORPHANED and each[1] not in UNRECORDED],
)
def test_what_has_an_owner_or_is_on_its_way_is_left_alone(state: HostState, reason: VerdictReason):
    left = judge(f"{OURS}m-1", Verdict(state, reason, "why"), 99, OURS, given=True)
    assert left == Leave("why")


@given(
    kind=st.sampled_from(REASONS),
    name=st.sampled_from([f"{OURS}m-1", "m-2", "tuist-pool-x", "tuist-claim-pending-x", "tuist-release-pending-x", ""]),
    observations=st.integers(0, 5),
    prefix=st.sampled_from(["", OURS]),
)
def test_every_verdict_has_an_action_and_a_reclaim_has_passed_every_brake(
    kind: Any, name: str, observations: int, prefix: str
):
    state, reason = kind
    action = judge(name, Verdict(state, reason, "why"), observations, prefix, given=True)
    assert action.reason
    if isinstance(action, Reclaim):
        assert prefix
        assert observations >= 2
        assert name.startswith((prefix, "tuist-claim-pending-", "tuist-release-pending-"))
        assert state is HostState.ORPHANED or reason in (VerdictReason.CLAIM_PENDING, VerdictReason.RELEASE_PENDING)
    if isinstance(action, HealLedger):
        assert reason == VerdictReason.DEAD_CLAIM
        assert observations >= 2


def test_the_gauge_counts_what_nobody_owns():
    assert {state for state, reason in REASONS if counts_as_orphan(Verdict(state, reason, ""))} == {
        HostState.ORPHANED,
        HostState.FOREIGN,
    }


def test_the_gauge_counts_a_marker_that_nobody_recorded_when_it_stays():
    marker = Verdict(HostState.RELEASING, VerdictReason.RELEASE_PENDING, "a marker")
    assert not counts_as_orphan(marker, 1)
    assert counts_as_orphan(marker, 2)


@pytest.mark.parametrize("name", [f"{OURS}m-1", "tuist-claim-pending-x", "tuist-release-pending-x"])
def test_what_this_cluster_has_not_recorded_may_be_a_rivals_and_is_left(name: str):
    left = judge(name, ORPHANED, 99, OURS, given=False)
    assert isinstance(left, Leave)
    assert "paddock adopt --from-names" in left.reason


class TestWhatIsOurs:
    """A name is proof only if our own ledger says that we gave it to this very host."""

    def test_a_host_that_this_cluster_never_had_is_not_whatever_its_name_begins_with(self):
        assert not ours(None, f"{OURS}m-1")
        assert not ours(host(cloud_name=f"{OURS}m-1", state="stranded"), f"{OURS}m-1")

    @pytest.mark.parametrize("spec", [{"claim": claim()}, {"last_machine": "m-1"}])
    def test_the_name_that_a_claim_gave_is_also_after_it_has_ended(self, spec: dict[str, Any]):
        assert ours(host(spec={**spec, "epoch": 1}), "m-1")

    @pytest.mark.parametrize("spec", [{"claim": claim()}, {"last_machine": "m-1"}, {}])
    def test_a_name_that_another_cluster_gave_since_is_not(self, spec: dict[str, Any]):
        judged = host(spec={**spec, "epoch": 1})
        for name in ("m-1-b", "m-2", FREE_NAME, ""):
            assert not ours(judged, name)

    @pytest.mark.parametrize("name", ["tuist-claim-pending-x", "tuist-release-pending-x"])
    def test_a_marker_is_on_a_host_that_this_cluster_had_because_nobody_works_under_one(self, name: str):
        assert ours(host(spec={"last_machine": "m-1", "epoch": 1}), name)
        assert not ours(host(), name)


def test_sightings_in_a_row_are_counted_and_any_change_begins_anew():
    assert OrphanHistory().count("a", "m-1", "NoOwner") == 1
    seen = OrphanHistory({"a": ("m-1", "NoOwner", 3)})
    assert seen.count("a", "m-1", "NoOwner") == 4
    assert seen.count("a", "m-2", "NoOwner") == 1
    assert seen.count("a", "m-1", "ClaimAbandoned") == 1
    assert seen.count("b", "m-1", "NoOwner") == 1


@pytest.mark.parametrize(
    ("dead", "held", "machines", "vanished"),
    [
        (0, 0, 0, False),
        (0, 9, 9, False),
        (1, 0, 0, True),
        (9, 0, 0, True),
        (1, 0, 1, False),  # a fleet of one whose machine was replaced
        (1, 1, 1, False),
        (3, 2, 2, False),
        (4, 3, 3, True),
        (4, 3, 9, True),
        (9, 0, 9, True),
        (9, 9, 9, False),
    ],
)
def test_owners_that_are_gone_all_at_once_look_like_an_emptied_or_restored_cluster(
    dead: int, held: int, machines: int, vanished: bool
):
    assert owners_vanished(dead, held, machines) is vanished


def test_a_stranded_host_that_the_cloud_cannot_wipe_is_left_and_says_why():
    left = judge(f"{OURS}m-1", ORPHANED, 99, OURS, given=True, unwipeable="it is a Runner of the cloud")
    assert left == Leave("left as it is: it is a Runner of the cloud")
