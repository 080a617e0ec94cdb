"""Which host a machine reaches for, and the next step towards it."""

import itertools
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import (
    FREE_NAME,
    NOW,
    OTHER_ID,
    OTHER_UID,
    POOL,
    UID,
    claim,
    host,
    later,
    machine,
    release,
    server,
)

from paddock.hosts.api import FirstContact, HostHistory, MachineSpec, OperatingSystem
from paddock.hosts.claim import (
    BackOut,
    Bind,
    Candidate,
    Forget,
    NoneFits,
    WriteClaim,
    already_claimed,
    choose,
    claim_marker,
    claim_step,
)
from paddock.hosts.names import Rename

SPEC = MachineSpec()
NOBODY: frozenset[str] = frozenset()


def refusal(*hosts: Any, spec: MachineSpec = SPEC, intended: frozenset[str] = NOBODY, now: datetime = NOW) -> str:
    outcome = choose(spec, POOL, hosts, intended, now)
    assert isinstance(outcome, NoneFits), outcome
    return outcome.message


class TestChoosing:
    def test_a_free_host_that_fits_is_taken(self):
        free = host()
        assert choose(SPEC, POOL, [free], NOBODY, NOW) == Candidate(free)

    def test_the_host_that_was_free_longest_is_taken_first(self):
        old, new, never = (
            host(f"{n}1111111-1111-4111-8111-111111111111", spec={"not_before": at})
            for n, at in (("1", later(hours=-2)), ("2", later(hours=-1)), ("3", None))
        )
        assert choose(SPEC, POOL, [new, old], NOBODY, NOW) == Candidate(old)
        assert choose(SPEC, POOL, [new, old, never], NOBODY, NOW) == Candidate(never)

    def test_a_host_that_was_given_up_before_is_chosen_last(self):
        good, bad, worse = (
            host(
                f"{n}1111111-1111-4111-8111-111111111111",
                spec={"not_before": later(hours=-hours)},
                history=HostHistory(failed_lives=lives),
            )
            for n, hours, lives in (("1", 1, 0), ("2", 5, 1), ("3", 9, 2))
        )
        assert choose(SPEC, POOL, [worse, bad, good], NOBODY, NOW) == Candidate(good)
        assert choose(SPEC, POOL, [worse, bad], NOBODY, NOW) == Candidate(bad)
        assert choose(SPEC, POOL, [worse], NOBODY, NOW) == Candidate(worse), "better than none"

    def test_a_host_that_is_not_dialled_any_more_is_chosen_after_all_others(self):
        window = FirstContact(opened_at=later(hours=-9), until=later(hours=-7), evidence="its wipe ended")
        silent = host(first_contact=window, spec={"not_before": later(hours=-9)})
        failed = host(OTHER_ID, host_key="SHA256:x", history=HostHistory(failed_lives=2))
        assert choose(SPEC, POOL, [silent, failed], NOBODY, NOW) == Candidate(failed)
        assert choose(SPEC, POOL, [silent], NOBODY, NOW) == Candidate(silent), "it says then what a person can do"

    def test_between_equals_the_choice_is_the_same_for_everybody(self):
        one, two = host(), host(OTHER_ID)
        for order in itertools.permutations([one, two]):
            assert choose(SPEC, POOL, order, NOBODY, NOW) == Candidate(one)

    def test_a_host_that_another_machine_reaches_for_is_passed_over(self):
        one, two = host(), host(OTHER_ID)
        assert choose(SPEC, POOL, [one, two], frozenset({one.metadata.name}), NOW) == Candidate(two)

    @pytest.mark.parametrize(
        ("unfit", "says"),
        [
            (host(type="M4-S"), "wrong type"),
            (host(os=OperatingSystem(family="Sequoia", name="macos-sequoia-15.6")), "wrong OS"),
            (host(os=OperatingSystem(family="DevOS", name="devos-tahoe-26.3")), "wrong OS"),
            (host(os=OperatingSystem()), "wrong OS"),
            (host(cloud_status="reinstalling"), "reinstalling"),
            (host(cloud_status="locked"), "locked"),
            (host(delivered=False), "not delivered"),
            (host(deletion_scheduled=True), "scheduled for deletion"),
            (host(spec={"claim": claim()}), "claimed"),
            (host(spec={"release": release()}), "being given back"),
            (host(spec={"quarantine": "kernel panics"}), "quarantined"),
            (host(spec={"not_before": later(seconds=1)}), "settling"),
            (host(state=""), "not judged yet"),
            (host(state="foreign"), "foreign"),
            (host(deleted=True), "being removed"),
        ],
    )
    def test_a_pooled_host_that_cannot_be_claimed_is_counted_under_its_reason(self, unfit: Any, says: str):
        assert refusal(unfit) == f"1 pooled: 1 {says}"

    def test_the_message_counts_every_reason(self):
        hosts = [host(type="M4-S"), host(type="M4-S"), host(cloud_status="reinstalling")]
        assert refusal(*hosts) == "3 pooled: 2 wrong type, 1 reinstalling"

    def test_a_host_reached_for_by_another_machine_is_counted_too(self):
        only = host()
        message = refusal(only, intended=frozenset({only.metadata.name}))
        assert message == "1 pooled: 1 reached for by another machine"

    def test_without_any_pooled_host_the_message_says_what_a_pooled_host_looks_like(self):
        for unseen in ([], [host(cloud_name="m-7")], [host(spec={"zone": "fr-par-3"})]):
            message = refusal(*unseen)
            assert "fr-par-1" in message
            assert POOL in message

    def test_while_a_disk_is_wiped_it_waits_and_nobody_is_asked_for_another_mac(self):
        wiped = host(cloud_name="marker", spec={"release": release()})
        outcome = choose(SPEC, POOL, [wiped], NOBODY, NOW)
        assert outcome == NoneFits(
            "wait: the disk of 1 of its type is being wiped, and the first in the pool is claimed", 1
        )
        settling = host(spec={"not_before": later(seconds=1)})
        assert choose(SPEC, POOL, [settling], NOBODY, NOW) == NoneFits("1 pooled: 1 settling", 1)

    @pytest.mark.parametrize(
        "host_",
        [
            host(cloud_name="marker", type="M4-S", spec={"release": release()}),
            host(cloud_name="marker", spec={"release": release(policy="terminate")}),
            host(cloud_name="marker", spec={"release": release(), "quarantine": "kernel panics"}),
            host(type="M4-S", spec={"not_before": later(seconds=1)}),
            host(cloud_status="locked"),
        ],
    )
    def test_what_brings_it_no_mac_is_not_said_to_come(self, host_: Any):
        outcome = choose(SPEC, POOL, [host_], NOBODY, NOW)
        assert isinstance(outcome, NoneFits)
        assert outcome.coming == 0

    def test_a_host_settles_for_exactly_as_long_as_it_says(self):
        settling = host(spec={"not_before": NOW})
        assert choose(SPEC, POOL, [settling], NOBODY, NOW) == Candidate(settling)
        assert refusal(settling, now=later(seconds=-1)) == "1 pooled: 1 settling"

    def test_the_family_is_compared_and_not_the_version(self):
        newer = host(os=OperatingSystem(family="Tahoe", name="macos-tahoe-26.6.1", version="26.6.1"))
        numbered = host(os=OperatingSystem(family="26", name="macos-tahoe-26.6.1"))
        assert choose(MachineSpec(os="tahoe"), POOL, [newer], NOBODY, NOW) == Candidate(newer)
        assert choose(SPEC, POOL, [numbered], NOBODY, NOW) == Candidate(numbered)

    def test_a_pin_without_any_family_in_it_matches_nothing(self):
        nameless = host(os=OperatingSystem())
        assert refusal(nameless, spec=MachineSpec(os="macos-")) == "1 pooled: 1 wrong OS"

    @given(
        facts=st.lists(
            st.fixed_dictionaries(
                {
                    "state": st.sampled_from(["", "pooled", "owned", "foreign", "stranded", "gone"]),
                    "cloud_status": st.sampled_from(["ready", "reinstalling", "busy", "locked", ""]),
                    "type": st.sampled_from(["M2-L", "M4-S"]),
                    "delivered": st.booleans(),
                    "deletion_scheduled": st.booleans(),
                    "cloud_name": st.sampled_from([FREE_NAME, "m-9", ""]),
                }
            ),
            max_size=6,
        )
    )
    def test_every_pool_gives_a_host_or_counts_that_add_up(self, facts: list[dict[str, Any]]):
        hosts = [host(f"{n}1111111-1111-4111-8111-111111111111", **each) for n, each in enumerate(facts)]
        outcome = choose(SPEC, POOL, hosts, NOBODY, NOW)
        if isinstance(outcome, Candidate):
            assert outcome.host.status.cloud_status == "ready"
            assert outcome.host.status.state == "pooled"
        elif " pooled: " in outcome.message:
            total, _, reasons = outcome.message.partition(" pooled: ")
            assert int(total) == sum(int(part.split()[0]) for part in reasons.split(", "))


class TestResumingALostIntent:
    """A machine whose status was lost finds the host that its own claim still holds."""

    def test_a_host_whose_claim_names_the_machine_is_its_host(self):
        mine = host(spec={"claim": claim()})
        assert already_claimed(machine(), [host(OTHER_ID), mine]) == Candidate(mine)

    @pytest.mark.parametrize(
        "spec",
        [{}, {"claim": claim(machine(uid=OTHER_UID))}, {"claim": claim(), "release": release()}],
        ids=["nobody's", "another machine's", "being given back"],
    )
    def test_any_other_host_is_not(self, spec: dict[str, Any]):
        assert already_claimed(machine(), [host(spec=spec)]) is None


class TestTheNextStep:
    def step(self, its_host: Any, its_server: Any = None, of: Any = None) -> Any:
        return claim_step(of or machine(claiming="h"), its_host, its_server, POOL, NOW)

    def test_a_host_that_is_gone_from_the_ledger_is_forgotten(self):
        assert isinstance(self.step(None), Forget)

    def test_a_free_host_is_claimed_under_the_next_epoch(self):
        assert self.step(host(spec={"epoch": 4})) == WriteClaim(5)

    @pytest.mark.parametrize(
        "taken",
        [
            host(spec={"release": release()}),
            host(spec={"not_before": later(seconds=5)}),
            host(cloud_status="reinstalling"),
            host(state="stranded"),
            host(type="M4-S"),
            host(spec={"quarantine": "broken"}),
            host(deleted=True),
        ],
    )
    def test_a_host_that_is_not_free_any_more_is_forgotten_before_anything_is_written(self, taken: Any):
        assert isinstance(self.step(taken), Forget)

    def test_a_host_that_another_machine_claimed_is_forgotten(self):
        step = self.step(host(spec={"claim": claim(machine("m-2", uid=OTHER_UID))}))
        assert isinstance(step, Forget)
        assert "default/m-2" in step.reason

    def test_the_same_name_with_another_uid_is_another_machine(self):
        step = self.step(host(spec={"claim": claim(machine("m-1", uid=OTHER_UID))}))
        assert isinstance(step, Forget)

    def test_a_claimed_host_that_is_being_given_back_is_forgotten(self):
        assert isinstance(self.step(host(spec={"claim": claim(), "release": release()})), Forget)

    def test_once_the_claim_is_ours_the_server_is_read_before_anything_is_done_to_it(self):
        assert self.step(host(spec={"claim": claim()})) is None

    def test_a_server_that_is_still_pooled_gets_the_marker_first(self):
        marker = claim_marker(claim())
        assert self.step(host(spec={"claim": claim()}), server()) == Rename(marker, FREE_NAME)

    def test_a_server_with_our_marker_gets_the_machines_name(self):
        marker = claim_marker(claim())
        assert self.step(host(spec={"claim": claim()}), server(marker)) == Rename("m-1", marker)

    def test_a_server_with_our_name_is_bound_whatever_the_cloud_does_to_it(self):
        ours = server("m-1", status="rebooting")
        assert self.step(host(spec={"claim": claim()}), ours) == Bind(ours)

    @pytest.mark.parametrize("name", ["m-2", "tuist-claim-pending-somebody-elses", "tuist-release-pending-x", ""])
    def test_a_server_under_any_other_name_is_left_to_whoever_named_it(self, name: str):
        step = self.step(host(spec={"claim": claim()}), server(name))
        assert isinstance(step, BackOut)

    def test_the_marker_of_an_earlier_claim_is_not_ours(self):
        earlier = claim_marker(claim(epoch=1))
        assert isinstance(self.step(host(spec={"claim": claim(epoch=2)}), server(earlier)), BackOut)

    @pytest.mark.parametrize(
        "change", [{"status": "reinstalling"}, {"delivered": False}, {"type": "M4-S"}, {"os": None}]
    )
    def test_a_pooled_server_that_does_not_fit_any_more_is_given_up(self, change: dict[str, Any]):
        assert isinstance(self.step(host(spec={"claim": claim()}), server(**change)), BackOut)

    @given(
        its_claim=st.sampled_from([None, UID, OTHER_UID]),
        releasing=st.booleans(),
        state=st.sampled_from(["", "pooled", "claiming", "owned", "stranded", "gone"]),
        settled=st.booleans(),
        name=st.sampled_from([None, FREE_NAME, "m-1", "m-2", claim_marker(claim()), ""]),
        status=st.sampled_from(["ready", "reinstalling", "a word of the future"]),
    )
    def test_every_combination_of_facts_has_a_step_and_a_rename_only_from_our_own_names(
        self, its_claim: str | None, releasing: bool, state: str, settled: bool, name: str | None, status: str
    ):
        held = claim(machine(uid=its_claim)) if its_claim else None
        given_back = release() if releasing else None
        judged = host(
            spec={"claim": held, "release": given_back, "not_before": None if settled else later(seconds=9)},
            state=state,
        )
        shown = None if name is None else server(name, status=status)
        step = claim_step(machine(claiming="h"), judged, shown, POOL, NOW)
        if step is None:
            assert its_claim == UID
            assert shown is None
        if isinstance(step, Rename | Bind):
            assert its_claim == UID
            assert not releasing
        if isinstance(step, Rename):
            assert step.expected in (FREE_NAME, claim_marker(claim()))


def test_the_marker_tells_one_claim_from_every_other():
    markers = {claim_marker(claim(machine(uid=uid), epoch=epoch)) for uid in (UID, OTHER_UID) for epoch in range(1, 5)}
    assert len(markers) == 8
    assert claim_marker(claim(epoch=3)) == claim_marker(claim(epoch=3))
