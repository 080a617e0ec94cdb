"""What a spec gets wrong, whose a host is, whether a claim is proven, and what a deletion must do."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import (
    FREE_NAME,
    NOW,
    OTHER_UID,
    POOL,
    SERVER_ID,
    UID,
    claim,
    host,
    later,
    machine,
    release,
    server,
)

from paddock.hosts.claim import claim_marker
from paddock.hosts.lifecycle import (
    KNOWN_ZONES,
    BadInput,
    KeepBinding,
    LetGo,
    NotVerifiedYet,
    RecordRelease,
    RenameAgain,
    SkipRelease,
    Verified,
    WaitForInventory,
    WriteMissingClaim,
    bad_input,
    ending,
    ownership,
    verification,
)

SETTLE = timedelta(seconds=60)


class TestBadInput:
    def judged(self, of: Any = None, prefix: str = POOL, types: Any = None) -> BadInput | None:
        return bad_input(of or machine(), prefix, zones=KNOWN_ZONES, types=types)

    def test_a_good_machine_has_nothing_wrong(self):
        assert self.judged() is None
        assert self.judged(types={"M2-L", "M4-S"}) is None

    @pytest.mark.parametrize(
        ("wrong", "prefix", "reason", "remedy"),
        [
            (machine("m" * 64), POOL, "NameTooLong", "63"),
            (machine("tuist-pool-mine"), POOL, "NameReserved", "another name"),
            (machine("tuist-claim-pending-mine"), POOL, "NameReserved", "another name"),
            (machine(spec={"zone": "mars-1"}), POOL, "UnknownZone", "fr-par-1"),
            (machine(spec={"os": "macos-tahoe-26.3"}), POOL, "InvalidOSPin", "'Tahoe'"),
            (machine(spec={"os": "26.3"}), POOL, "InvalidOSPin", "Tahoe"),
            (machine(spec={"type": "M9-Q"}), POOL, "UnknownType", "M2-L, M4-S"),
            (machine(), "NoDash", "InvalidPoolPrefix", "tuist-pool-"),
            (machine(), "", "NoAdoptPoolPrefix", "--default-adopt-pool-prefix"),
        ],
    )
    def test_what_no_retry_can_mend_is_refused_with_what_to_write_instead(
        self, wrong: Any, prefix: str, reason: str, remedy: str
    ):
        judged = self.judged(wrong, prefix, types={"M2-L", "M4-S"})
        assert judged is not None
        assert judged.reason == reason
        assert remedy in judged.message

    def test_a_name_of_exactly_the_longest_length_is_fine(self):
        assert self.judged(machine("m" * 63)) is None

    def test_an_unknown_type_is_not_refused_while_the_types_are_not_known(self):
        assert self.judged(machine(spec={"type": "M9-Q"}), types=None) is None

    def test_a_machine_that_orders_its_own_host_needs_no_pool(self):
        assert self.judged(machine(spec={"source": "Order"}), prefix="") is None

    @given(name=st.text(max_size=80), zone=st.text(max_size=12), os=st.text(max_size=20), prefix=st.text(max_size=30))
    def test_no_input_is_too_strange_to_be_judged(self, name: str, zone: str, os: str, prefix: str):
        judged = self.judged(machine(name, spec={"zone": zone, "os": os}), prefix)
        assert judged is None or (judged.reason and judged.message)


class TestOwnership:
    def whose(self, its_host: Any, of: Any = None, rivals: Any = ()) -> Any:
        return ownership(of or machine(server_id=SERVER_ID), its_host, rivals)

    def test_a_host_whose_claim_names_the_machine_is_kept(self):
        assert self.whose(host(spec={"claim": claim()}, cloud_name="m-1")) == KeepBinding()

    def test_a_claim_is_kept_whatever_name_the_last_look_showed(self):
        assert self.whose(host(spec={"claim": claim()}, cloud_name=FREE_NAME)) == KeepBinding()

    def test_a_host_that_the_inventory_has_not_seen_is_waited_for(self):
        assert isinstance(self.whose(None), WaitForInventory)

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
        assert isinstance(decided, KeepBinding | WriteMissingClaim | LetGo)
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
        assert self.check(server(marker)) == RenameAgain("m-1", marker)

    @pytest.mark.parametrize("name", ["m-2", FREE_NAME, "tuist-claim-pending-a-rivals", ""])
    def test_a_rival_who_took_the_host_keeps_it(self, name: str):
        decided = self.check(server(name))
        assert isinstance(decided, LetGo)
        assert decided.reason == "RivalTookHost"

    def test_a_machine_that_does_not_know_when_it_was_bound_waits_the_whole_time(self):
        assert self.check(server("m-1"), bound_at=None) == NotVerifiedYet(60)


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
        assert isinstance(decided, SkipRelease)
        assert decided.reason == "HostUnknown"

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
