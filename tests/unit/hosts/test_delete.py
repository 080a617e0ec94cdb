"""What a deletion does about the host: only what is the machine's own is given back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import (
    FREE_NAME,
    OTHER_UID,
    POOL,
    SERVER_ID,
    UID,
    claim,
    host,
    machine,
    release,
)

from paddock.hosts.delete import HostUnknown, RecordRelease, SkipRelease, ending


class TestEnding:
    def decided(self, of: Any, its_host: Any, default: str = "") -> Any:
        return ending(of, its_host, default)

    mine = host(spec={"claim": claim()}, cloud_name="m-1")

    def test_a_machine_without_a_host_has_nothing_to_give_back(self):
        assert self.decided(machine(), None, POOL) is None
        assert self.decided(machine(), self.mine, POOL) is None

    def test_a_host_goes_back_to_the_pool_of_the_spec_before_that_of_the_default(self):
        of = machine(server_id=SERVER_ID, spec={"adopt_pool_prefix": "blue-"})
        assert self.decided(of, self.mine, POOL) == RecordRelease("pool", "blue-")
        assert self.decided(machine(server_id=SERVER_ID), self.mine, POOL) == RecordRelease("pool", POOL)

    def test_without_any_pool_the_release_is_skipped_and_says_what_follows(self):
        decided = self.decided(machine(server_id=SERVER_ID), self.mine)
        assert isinstance(decided, SkipRelease)
        assert decided.reason == "ReleaseSkipped"
        assert "sweep" in decided.message

    def test_the_annotation_terminates(self):
        of = machine(server_id=SERVER_ID, annotations={"tuist.dev/release-policy": "terminate"})
        assert self.decided(of, self.mine, POOL) == RecordRelease("terminate", POOL)
        assert self.decided(of, self.mine, "") == RecordRelease("terminate", "")

    def test_a_host_that_was_ordered_is_terminated(self):
        of = machine(server_id=SERVER_ID, spec={"source": "Order"})
        assert self.decided(of, self.mine, "") == RecordRelease("terminate", "")

    @pytest.mark.parametrize("value", ["", "pool", "Terminate", "delete"])
    def test_an_unknown_policy_is_the_default(self, value: str):
        of = machine(server_id=SERVER_ID, annotations={"tuist.dev/release-policy": value})
        assert self.decided(of, self.mine, POOL) == RecordRelease("pool", POOL)

    @pytest.mark.parametrize("status", [{"server_id": SERVER_ID}, {"claiming": SERVER_ID, "ordering": "pending-1"}])
    def test_a_host_of_which_the_inventory_has_not_said_the_name_yet_is_waited_for(self, status: dict[str, Any]):
        decided = self.decided(machine(**status), host(cloud_name=""), POOL)
        assert decided == HostUnknown(
            f"the inventory has not said yet under which name the cloud shows server {SERVER_ID}"
        )

    def test_a_claim_that_was_only_just_written_is_given_back_too(self):
        of = machine(claiming=SERVER_ID)
        assert self.decided(of, host(spec={"claim": claim()}), POOL) == RecordRelease("pool", POOL)

    def test_an_intent_without_a_claim_touches_nothing(self):
        assert isinstance(self.decided(machine(claiming=SERVER_ID), host(), POOL), SkipRelease)

    def test_a_host_of_another_machine_is_not_given_back(self):
        its = host(spec={"claim": claim(machine("m-2", uid=OTHER_UID))}, cloud_name="m-1")
        decided = self.decided(machine(server_id=SERVER_ID), its, POOL)
        assert isinstance(decided, SkipRelease)
        assert "default/m-2" in decided.message

    def test_a_host_without_a_claim_is_given_back_only_if_the_cloud_shows_the_machines_name(self):
        of = machine(server_id=SERVER_ID)
        assert self.decided(of, host(cloud_name="m-1"), POOL) == RecordRelease("pool", POOL)
        assert isinstance(self.decided(of, host(cloud_name="somebody-elses"), POOL), SkipRelease)

    def test_a_release_is_recorded_once(self):
        its = host(spec={"claim": claim(), "release": release()})
        decided = self.decided(machine(server_id=SERVER_ID), its, POOL)
        assert isinstance(decided, SkipRelease)
        assert decided.reason == "ReleaseRecorded"

    def test_a_host_that_is_not_in_the_ledger_is_said_to_be_unknown(self):
        decided = self.decided(machine(server_id=SERVER_ID), None, POOL)
        assert isinstance(decided, HostUnknown)
        assert SERVER_ID in decided.message

    @given(
        server_id=st.sampled_from(["", SERVER_ID]),
        claiming=st.sampled_from(["", SERVER_ID]),
        known=st.booleans(),
        its_claim=st.sampled_from([None, UID, OTHER_UID]),
        releasing=st.booleans(),
        name=st.sampled_from([FREE_NAME, "m-1", "m-2", ""]),
        policy=st.sampled_from([None, "terminate", "nonsense"]),
        source=st.sampled_from(["Pool", "Order"]),
        default=st.sampled_from(["", POOL]),
    )
    def test_every_combination_of_facts_has_an_answer_and_only_our_own_host_is_given_back(
        self,
        server_id: str,
        claiming: str,
        known: bool,
        its_claim: str | None,
        releasing: bool,
        name: str,
        policy: str | None,
        source: str,
        default: str,
    ):
        of = machine(
            server_id=server_id,
            claiming=claiming,
            annotations={"tuist.dev/release-policy": policy} if policy else {},
            spec={"source": source},
        )
        held = claim(machine(uid=its_claim)) if its_claim else None
        its = (
            host(spec={"claim": held, "release": release() if releasing else None}, cloud_name=name) if known else None
        )
        decided = self.decided(of, its, default)
        assert (decided is None) == (not server_id and not claiming)
        if isinstance(decided, RecordRelease):
            assert its_claim == UID or (its_claim is None and name == "m-1" and server_id)
            assert not releasing
            assert decided.pool_prefix or decided.policy == "terminate"
