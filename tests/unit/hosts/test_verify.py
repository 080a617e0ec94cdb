"""Whose a host is, and whether a claim is proven."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import (
    FREE_NAME,
    NOW,
    OTHER_UID,
    SERVER_ID,
    UID,
    claim,
    host,
    later,
    machine,
    release,
    server,
)

from paddock.hosts.api import BOOTSTRAPPED
from paddock.hosts.claim import claim_marker
from paddock.hosts.names import Rename
from paddock.hosts.verify import INTRODUCED as TOLD
from paddock.hosts.verify import (
    KeepBinding,
    LetGo,
    NotVerifiedYet,
    Verified,
    WaitForInventory,
    WriteMissingClaim,
    ownership,
    unheard,
    verification,
)
from paddock.kube.builtin import Node, NodeCondition, NodeStatus
from paddock.kube.objects import Condition, ObjectMeta

SETTLE = timedelta(seconds=60)


class TestOwnership:
    def whose(self, its_host: Any, of: Any = None, rivals: Any = ()) -> Any:
        return ownership(of or machine(server_id=SERVER_ID), its_host, rivals)

    def test_a_host_whose_claim_names_the_machine_is_kept(self):
        assert self.whose(host(spec={"claim": claim()}, cloud_name="m-1")) == KeepBinding()

    def test_a_claim_is_kept_whatever_name_the_last_look_showed(self):
        assert self.whose(host(spec={"claim": claim()}, cloud_name=FREE_NAME)) == KeepBinding()

    def test_a_host_that_the_inventory_has_not_seen_is_waited_for(self):
        assert isinstance(self.whose(None), WaitForInventory)

    def test_a_host_of_which_the_inventory_has_not_said_the_name_yet_is_waited_for(self):
        decided = self.whose(host(cloud_name="", state=""))
        assert isinstance(decided, WaitForInventory)
        assert "has not said yet" in decided.message

    @pytest.mark.parametrize(
        ("lost", "reason"),
        [
            (host(state="gone", spec={"claim": claim()}), "HostGone"),
            (host(spec={"claim": claim(), "release": release()}), "HostReleased"),
            (host(spec={"claim": claim(machine("m-2", uid=OTHER_UID))}), "DuplicateClaim"),
            (host(cloud_name="a-person-renamed-it"), "HostRenamed"),
        ],
    )
    def test_a_host_that_is_not_the_machines_any_more_is_let_go(self, lost: Any, reason: str):
        decided = self.whose(lost)
        assert isinstance(decided, LetGo)
        assert decided.reason == reason

    def test_the_reason_of_a_release_reaches_the_machine(self):
        decided = self.whose(host(spec={"claim": claim(), "release": release(message="8 bootstraps failed")}))
        assert isinstance(decided, LetGo)
        assert "8 bootstraps failed" in decided.message

    def test_a_missing_claim_on_a_host_that_has_the_machines_name_is_written_again(self):
        assert self.whose(host(cloud_name="m-1", spec={"epoch": 6})) == WriteMissingClaim(7)

    def test_of_two_machines_that_name_one_server_the_one_whose_name_the_cloud_shows_keeps_it(self):
        shown = host(cloud_name="m-1")
        first = machine("m-1", server_id=SERVER_ID)
        second = machine("m-2", uid=OTHER_UID, server_id=SERVER_ID)
        assert isinstance(ownership(first, shown, [second]), WriteMissingClaim)
        loser = ownership(second, shown, [first])
        assert isinstance(loser, LetGo)
        assert loser.reason == "DuplicateClaim"

    @given(
        state=st.sampled_from(["", "pooled", "owned", "gone", "stranded"]),
        name=st.sampled_from([FREE_NAME, "m-1", "m-2", ""]),
        its_claim=st.sampled_from([None, UID, OTHER_UID]),
        releasing=st.booleans(),
        rivals=st.booleans(),
    )
    def test_every_combination_of_facts_has_an_answer_and_only_our_own_claim_keeps_a_host(
        self, state: str, name: str, its_claim: str | None, releasing: bool, rivals: bool
    ):
        held = claim(machine(uid=its_claim)) if its_claim else None
        judged = host(spec={"claim": held, "release": release() if releasing else None}, state=state, cloud_name=name)
        others = [machine("m-2", uid=OTHER_UID, server_id=SERVER_ID)] if rivals else []
        decided = self.whose(judged, rivals=others)
        assert isinstance(decided, KeepBinding | WriteMissingClaim | LetGo | WaitForInventory)
        if isinstance(decided, WaitForInventory):
            assert (its_claim, name) == (None, "")
        if isinstance(decided, KeepBinding):
            assert its_claim == UID
            assert not releasing
        if isinstance(decided, WriteMissingClaim):
            assert its_claim is None
            assert name == "m-1"


class TestVerification:
    def check(self, its_server: Any, now: Any = None, **status: Any) -> Any:
        of = machine(**{"bound_at": NOW, "server_id": SERVER_ID, **status})
        return verification(of, claim(), its_server, now or later(seconds=60), SETTLE)

    def test_a_claim_is_not_proven_while_a_late_rename_can_still_arrive(self):
        assert self.check(server("m-1"), later(seconds=59)) == NotVerifiedYet(1)
        assert self.check(server("m-2"), later(seconds=59)) == NotVerifiedYet(1)

    def test_when_it_is_time_the_server_is_read(self):
        assert self.check(None) is None

    def test_the_name_is_still_ours(self):
        assert self.check(server("m-1")) == Verified()

    def test_our_own_late_rename_is_repaired(self):
        marker = claim_marker(claim())
        assert self.check(server(marker)) == Rename("m-1", marker)

    @pytest.mark.parametrize("name", ["m-2", FREE_NAME, "tuist-claim-pending-a-rivals", ""])
    def test_a_rival_who_took_the_host_keeps_it(self, name: str):
        decided = self.check(server(name))
        assert isinstance(decided, LetGo)
        assert decided.reason == "RivalTookHost"

    def test_a_machine_that_does_not_know_when_it_was_bound_waits_the_whole_time(self):
        assert self.check(server("m-1"), bound_at=None) == NotVerifiedYet(60)


class TestUnheard:
    """A Mac that came with a move is heard of when its agent has reported since the machine came."""

    MOVED: Any = {
        "made": NOW,
        "annotations": {BOOTSTRAPPED: f"{SERVER_ID}/config-1"},
        "spec": {"provider_id": f"scw-applesilicon://fr-par-1/{SERVER_ID}"},
    }

    def node(self, heard: datetime | None) -> Node:
        said = NodeCondition("Ready", "True", last_heartbeat_time=heard)
        return Node(metadata=ObjectMeta(name="m-1"), status=NodeStatus(conditions=(said,)))

    def of(self, reason: str) -> Any:
        said = Condition(type="Bootstrapped", status="True", reason=reason)
        return machine(made=NOW, server_id=SERVER_ID, conditions=(said,))

    @pytest.mark.parametrize("told", [False, True])
    def test_only_a_report_from_after_the_move_counts(self, told: bool):
        moved = self.of(TOLD) if told else machine(**self.MOVED)
        assert unheard(moved, None)
        assert unheard(moved, Node(metadata=ObjectMeta(name="m-1")))
        assert unheard(moved, self.node(None))
        assert unheard(moved, self.node(later(seconds=-1)))
        assert not unheard(moved, self.node(later(seconds=0)))
        assert not unheard(moved, self.node(later(minutes=1)))

    def test_a_machine_that_was_never_moved_is_not_waited_for(self):
        assert not unheard(machine(made=NOW), None)
        assert not unheard(self.of("Bootstrapped"), None)

    def test_what_is_said_of_another_server_does_not_count(self):
        other = {**self.MOVED, "annotations": {BOOTSTRAPPED: "another/config-1"}}
        assert not unheard(machine(**other), None)
