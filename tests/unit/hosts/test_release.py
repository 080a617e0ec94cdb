"""The next step of a recorded release: to the pool, or for good."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from unit.hosts.made import FREE_NAME, NOW, POOL, claim, host, later, machine, release, server

from paddock.clients.scaleway import Gone, Unknown
from paddock.clients.scaleway.model import Commitment, next_anniversary
from paddock.hosts.claim import claim_marker
from paddock.hosts.names import Rename
from paddock.hosts.release import (
    ASK_AGAIN_AFTER,
    FAILED_WIPE_AGAIN_AFTER,
    Abandon,
    Delete,
    Finish,
    MarkStarted,
    Reinstall,
    Remove,
    Wait,
    fresh_pool_name,
    own_names,
    release_marker,
    release_step,
)


def given_back(*, claimed: bool = True, epoch: int = 1, **fields: Any) -> Any:
    """A Host whose release is recorded; its machine was m-1."""
    return host(
        spec={
            "claim": claim() if claimed else None,
            "epoch": epoch,
            "release": release(**{"cloud_name": "m-1", **fields}),
        },
        cloud_name="m-1",
    )


MARKER = release_marker(given_back())
POOLED_AGAIN = fresh_pool_name(given_back(), release())


def step(its_host: Any, its_server: Any, now: Any = NOW) -> Any:
    return release_step(its_host, its_server, now)


class TestToThePool:
    def test_without_a_recorded_release_there_is_no_step(self):
        assert step(host(), server()) is None
        assert step(host(spec={"claim": claim()}), server("m-1")) is None

    def test_a_host_with_the_machines_name_gets_the_marker_first(self):
        assert step(given_back(), server("m-1")) == Rename(MARKER, "m-1")

    def test_a_host_that_died_while_it_was_claimed_gets_the_marker_first(self):
        name = claim_marker(claim())
        assert step(given_back(), server(name)) == Rename(MARKER, name)

    def test_a_claimed_host_that_never_left_the_pool_gets_the_marker_first(self):
        assert step(given_back(cloud_name=""), server(FREE_NAME)) == Rename(MARKER, FREE_NAME)

    def test_under_its_marker_the_wipe_is_asked_for_with_the_fleets_family(self):
        assert step(given_back(), server(MARKER)) == Reinstall("Tahoe")

    def test_the_wipe_waits_until_another_operation_has_ended(self):
        assert isinstance(step(given_back(), server(MARKER, status="rebooting")), Wait)

    def test_a_wipe_that_was_asked_for_is_given_time_to_begin(self):
        asked = given_back(wipe="requested", wipe_requested_at=NOW)
        waiting = step(asked, server(MARKER), later(seconds=20))
        assert isinstance(waiting, Wait)
        assert waiting.seconds == ASK_AGAIN_AFTER.total_seconds() - 20

    def test_a_wipe_that_never_began_is_asked_for_again(self):
        asked = given_back(wipe="requested", wipe_requested_at=NOW)
        assert step(asked, server(MARKER), NOW + ASK_AGAIN_AFTER) == Reinstall("Tahoe")

    def test_a_wipe_that_was_asked_for_nobody_knows_when_is_asked_for_again(self):
        assert step(given_back(wipe="requested"), server(MARKER)) == Reinstall("Tahoe")

    def test_a_wipe_that_is_seen_is_remembered_even_if_its_answer_was_lost(self):
        for wipe in ("", "requested"):
            assert step(given_back(wipe=wipe), server(MARKER, status="reinstalling")) == MarkStarted()

    def test_while_the_disk_is_wiped_nothing_is_done(self):
        assert isinstance(step(given_back(wipe="started"), server(MARKER, status="reinstalling")), Wait)

    @pytest.mark.parametrize("status", ["starting", "error", "locked", "a word of the future"])
    def test_after_the_wipe_the_host_must_be_ready_before_it_is_free(self, status: str):
        assert isinstance(step(given_back(wipe="started"), server(MARKER, status=status)), Wait)

    def test_a_wiped_host_gets_a_pool_name(self):
        assert step(given_back(wipe="started"), server(MARKER)) == Rename(POOLED_AGAIN, MARKER)

    def test_the_pool_name_is_given_from_any_of_our_own_names_not_only_from_the_marker(self):
        for name in ("m-1", claim_marker(claim())):
            assert step(given_back(wipe="started"), server(name)) == Rename(POOLED_AGAIN, name)

    def test_a_wiped_host_with_its_pool_name_is_free(self):
        assert step(given_back(wipe="started"), server(POOLED_AGAIN)) == Finish()

    def test_a_ready_host_under_its_pool_name_is_not_free_while_its_wipe_was_not_seen(self):
        """A late rename brought the pool name back: the disk is dirty, so the marker comes first and the wipe after it."""
        for wipe in ("", "requested"):
            assert step(given_back(wipe=wipe), server(POOLED_AGAIN)) == Rename(MARKER, POOLED_AGAIN)


class TestNotOurs:
    @pytest.mark.parametrize("name", ["m-2", "tuist-release-pending-another", "tuist-claim-pending-another", "", "x"])
    @pytest.mark.parametrize("policy", ["pool", "terminate"])
    def test_a_server_under_a_name_that_is_not_ours_is_not_touched(self, name: str, policy: str):
        assert isinstance(step(given_back(policy=policy), server(name)), Abandon)

    def test_a_pool_name_that_is_not_ours_is_left_alone_when_nobody_claims_the_host(self):
        strange = f"{POOL}somebody-elses"
        assert isinstance(step(given_back(claimed=False), server(strange)), Abandon)

    def test_a_marker_of_an_earlier_release_is_not_ours(self):
        assert isinstance(step(given_back(epoch=2), server(MARKER)), Abandon)

    def test_a_server_that_is_gone_lets_the_host_object_go(self):
        for policy in ("pool", "terminate"):
            assert step(given_back(policy=policy), Gone("not_found")) == Remove()

    def test_a_server_of_which_nothing_can_be_proven_is_waited_for(self):
        waiting = step(given_back(), Unknown("the list failed"))
        assert isinstance(waiting, Wait)
        assert "the list failed" in waiting.reason


class TestForGood:
    def test_the_marker_comes_first_so_that_nobody_claims_a_dying_host(self):
        assert step(given_back(policy="terminate"), server("m-1")) == Rename(MARKER, "m-1")

    def test_under_its_marker_the_server_is_deleted(self):
        assert step(given_back(policy="terminate"), server(MARKER)) == Delete()

    def test_under_a_monthly_commitment_the_deletion_is_told_to_take_effect_at_its_anniversary(self):
        committed = replace(
            server(MARKER), commitment=Commitment("renewed_monthly"), created_at=NOW - timedelta(days=3)
        )
        end = next_anniversary(NOW - timedelta(days=3), NOW)
        assert step(given_back(policy="terminate"), committed) == Delete(end)
        waiting = step(given_back(policy="terminate"), replace(committed, deletion_scheduled=True))
        assert isinstance(waiting, Wait)
        assert waiting.reason.endswith(f"when its monthly commitment ends on {end:%Y-%m-%d %H:%M} UTC")

    def test_nothing_is_wiped_on_the_way(self):
        assert step(given_back(policy="terminate", os_family="Tahoe"), server(MARKER)) == Delete()

    def test_it_needs_no_pool(self):
        assert step(given_back(policy="terminate", pool_prefix=""), server(MARKER)) == Delete()

    def test_an_operation_under_way_ends_first(self):
        assert isinstance(step(given_back(policy="terminate"), server(MARKER, status="rebooting")), Wait)

    def test_a_scheduled_deletion_is_left_to_the_cloud_and_says_when(self):
        scheduled = server(MARKER, deletion_scheduled=True, deletable_at=later(days=11))
        waiting = step(given_back(policy="terminate"), scheduled)
        assert isinstance(waiting, Wait)
        assert "2026-06-12 12:00" in waiting.reason
        assert waiting.seconds >= 600

    def test_a_scheduled_deletion_without_a_date_is_waited_for_too(self):
        assert isinstance(step(given_back(policy="terminate"), server("m-1", deletion_scheduled=True)), Wait)


def test_the_names_of_one_release_are_its_own():
    first, second = given_back(epoch=1), given_back(epoch=2)
    assert release_marker(first) != release_marker(second)
    assert fresh_pool_name(first, release()) != fresh_pool_name(second, release())
    assert own_names(first, release(cloud_name="m-1")) >= {"m-1", MARKER, POOLED_AGAIN, claim_marker(claim())}
    assert own_names(given_back(claimed=False), release()) == {MARKER, POOLED_AGAIN}


@given(
    name=st.sampled_from([FREE_NAME, "m-1", "m-2", MARKER, POOLED_AGAIN, claim_marker(claim()), ""]),
    status=st.sampled_from(["ready", "reinstalling", "rebooting", "locked", "error", "a word of the future"]),
    delivered=st.booleans(),
    scheduled=st.booleans(),
    policy=st.sampled_from(["pool", "terminate"]),
    wipe=st.sampled_from(["", "requested", "started"]),
    asked=st.sampled_from([None, NOW, later(hours=-1)]),
    claimed=st.booleans(),
    prefix=st.sampled_from([POOL, "other-"]),
    there=st.sampled_from(["there", "gone", "unknown"]),
)
def test_every_combination_of_facts_has_a_step_and_nothing_is_done_to_a_host_that_is_not_ours(
    name: str,
    status: str,
    delivered: bool,
    scheduled: bool,
    policy: str,
    wipe: str,
    asked: Any,
    claimed: bool,
    prefix: str,
    there: str,
):
    judged = given_back(claimed=claimed, policy=policy, wipe=wipe, wipe_requested_at=asked, pool_prefix=prefix)
    shown = {
        "there": server(name, status=status, delivered=delivered, deletion_scheduled=scheduled),
        "gone": Gone("not_found"),
        "unknown": Unknown("why"),
    }[there]
    decided = step(judged, shown)
    assert decided is not None
    recorded = judged.spec.release
    ours = own_names(judged, recorded)
    if isinstance(decided, Rename | Reinstall | Delete | Finish):
        assert there == "there"
        assert name in ours or (claimed and name.startswith(prefix))
    if isinstance(decided, Finish):
        assert wipe == "started"
        assert policy == "pool"
        assert (status, delivered) == ("ready", True)
    if isinstance(decided, Rename) and decided.to.startswith(prefix):
        assert wipe == "started"
    if isinstance(decided, Reinstall):
        assert name == MARKER
        assert policy == "pool"
    if isinstance(decided, Delete):
        assert name == MARKER
        assert policy == "terminate"


def test_a_release_ends_after_a_handful_of_steps_when_the_cloud_does_what_it_is_asked():
    judged, shown, taken = given_back(), server("m-1"), []
    for _ in range(10):
        decided = step(judged, shown)
        taken.append(type(decided).__name__)
        match decided:
            case Rename(to, expected):
                assert shown.name == expected
                shown = server(to, status=shown.status)
            case Reinstall():
                judged = given_back(wipe="requested", wipe_requested_at=NOW)
                shown = server(shown.name, status="reinstalling")
            case MarkStarted():
                judged = given_back(wipe="started")
            case Wait():
                shown = server(shown.name)
            case Finish():
                break
    assert taken == ["Rename", "Reinstall", "MarkStarted", "Wait", "Rename", "Finish"]
    assert machine().metadata.name not in shown.name


class TestAWipeThatFails:
    @pytest.mark.parametrize("wipe", ["started", "requested"])
    def test_it_is_asked_for_again_after_ten_minutes_and_not_waited_for_for_ever(self, wipe: str):
        its = given_back(wipe=wipe, wipe_requested_at=NOW)
        early = step(its, server(MARKER, status="error"), NOW + FAILED_WIPE_AGAIN_AFTER - timedelta(seconds=1))
        assert isinstance(early, Wait)
        assert early.seconds <= 60
        assert isinstance(step(its, server(MARKER, status="error"), NOW + FAILED_WIPE_AGAIN_AFTER), Reinstall)
        # A name that was lost on the way is written anew first: nothing is wiped without our marker.
        renamed = step(its, server("m-1", status="error"), NOW + FAILED_WIPE_AGAIN_AFTER)
        assert renamed == Rename(MARKER, "m-1")

    def test_until_then_it_says_why(self):
        early = step(given_back(wipe="started", wipe_requested_at=NOW), server(MARKER, status="error"), NOW)
        assert "the wipe ended in an error of the cloud; it is asked for again at 2026-06-01 12:10 UTC" in early.reason
