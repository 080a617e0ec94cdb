"""Exactly one verdict, with its evidence, for every host that the cloud shows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import (
    FREE_NAME,
    OTHER_ID,
    OTHER_UID,
    POOL,
    SERVER_ID,
    UID,
    claim,
    host,
    machine,
    release,
    server,
)

from paddock.hosts.claim import claim_marker, order_marker
from paddock.hosts.orphans import HostState, Owners, Verdict, VerdictReason, verdict
from paddock.hosts.release import release_marker

OURS = "tuist-tuist-"


def judged(name: str, its_host: Any = None, machines: Any = (), prefix: str = OURS, **shown: Any) -> Verdict:
    return verdict(
        server(name, **shown), its_host, Owners.of(list(machines)), pool_prefix=POOL, claim_name_prefix=prefix
    )


M1 = machine(f"{OURS}m-1")
ELSEWHERE = machine(f"{OURS}m-1", server_id=OTHER_ID)
BOUND = machine(f"{OURS}m-1", server_id=SERVER_ID)


@pytest.mark.parametrize(
    ("name", "its_host", "machines", "state", "reason"),
    [
        (FREE_NAME, None, [], HostState.POOLED, VerdictReason.FREE),
        (FREE_NAME, host(), [M1], HostState.POOLED, VerdictReason.FREE),
        (FREE_NAME, host(spec={"claim": claim(M1)}), [], HostState.POOLED, VerdictReason.DEAD_CLAIM),
        (FREE_NAME, host(spec={"claim": claim(M1)}), [M1], HostState.CLAIMING, VerdictReason.CLAIMED),
        (claim_marker(claim(M1)), host(spec={"claim": claim(M1)}), [M1], HostState.CLAIMING, VerdictReason.CLAIMED),
        (
            claim_marker(claim(M1)),
            host(spec={"claim": claim(M1)}),
            [],
            HostState.ORPHANED,
            VerdictReason.CLAIM_ABANDONED,
        ),
        ("tuist-claim-pending-x", host(), [M1], HostState.CLAIMING, VerdictReason.CLAIM_PENDING),
        ("tuist-claim-pending-x", None, [], HostState.CLAIMING, VerdictReason.CLAIM_PENDING),
        ("tuist-release-pending-x", host(), [], HostState.RELEASING, VerdictReason.RELEASE_PENDING),
        (
            release_marker(host()),
            host(spec={"release": release()}),
            [],
            HostState.RELEASING,
            VerdictReason.RELEASE_RECORDED,
        ),
        (f"{OURS}m-1", host(spec={"release": release()}), [BOUND], HostState.RELEASING, VerdictReason.RELEASE_RECORDED),
        (f"{OURS}m-1", host(spec={"claim": claim(M1)}), [M1], HostState.OWNED, VerdictReason.CLAIMED),
        (f"{OURS}m-1", host(), [BOUND], HostState.OWNED, VerdictReason.NAMED_BY_SERVER_ID),
        ("renamed-by-hand", host(), [BOUND], HostState.OWNED, VerdictReason.NAMED_BY_SERVER_ID),
        (f"{OURS}m-1", host(), [M1], HostState.OWNED, VerdictReason.NAMED_BY_NAME),
        (f"{OURS}m-1", None, [M1], HostState.OWNED, VerdictReason.NAMED_BY_NAME),
        (f"{OURS}m-1", host(), [], HostState.ORPHANED, VerdictReason.NO_OWNER),
        (f"{OURS}m-1", host(spec={"claim": claim(M1)}), [], HostState.ORPHANED, VerdictReason.NO_OWNER),
        (
            f"{OURS}m-1",
            host(),
            [machine(f"{OURS}m-1", server_id=OTHER_ID)],
            HostState.ORPHANED,
            VerdictReason.OWNER_HAS_ANOTHER,
        ),
        (FREE_NAME, host(spec={"claim": claim(ELSEWHERE)}), [ELSEWHERE], HostState.POOLED, VerdictReason.DEAD_CLAIM),
        (
            "tuist-claim-pending-x",
            host(spec={"claim": claim(ELSEWHERE)}),
            [ELSEWHERE],
            HostState.ORPHANED,
            "ClaimAbandoned",
        ),
        ("apple-silicon-romantic-haibt", host(), [M1], HostState.FOREIGN, VerdictReason.NOT_OUR_NAME),
        ("another-cluster-m-9", None, [M1], HostState.FOREIGN, VerdictReason.NOT_OUR_NAME),
    ],
)
def test_every_kind_of_host_has_its_verdict(
    name: str, its_host: Any, machines: Any, state: HostState, reason: VerdictReason
):
    given_verdict = judged(name, its_host, machines)
    assert (given_verdict.state, given_verdict.reason) == (state, reason)
    assert given_verdict.message


def test_without_a_claim_name_prefix_every_unowned_host_counts_as_stranded():
    assert judged("apple-silicon-romantic-haibt", prefix="").state is HostState.ORPHANED


def test_a_machine_that_is_being_deleted_still_owns_its_host():
    assert judged(f"{OURS}m-1", host(), [machine(f"{OURS}m-1", deleted=True)]).state is HostState.OWNED
    assert judged("x", host(), [machine("m", deleted=True, server_id=SERVER_ID)]).state is HostState.OWNED


def test_the_host_of_an_older_machine_of_the_same_name_is_stranded():
    reborn = machine(f"{OURS}m-1", uid=OTHER_UID)
    its = judged(f"{OURS}m-1", host(spec={"claim": claim(M1)}), [reborn])
    assert (its.state, its.reason) == (HostState.ORPHANED, VerdictReason.OLDER_TENANT)


def test_the_verdict_names_its_owner():
    assert judged(f"{OURS}m-1", host(spec={"claim": claim(M1)}), [M1]).machine == f"{OURS}m-1"
    assert judged("renamed-by-hand", host(), [BOUND]).machine == f"{OURS}m-1"
    assert judged(FREE_NAME).machine == ""


def test_a_pooled_host_that_cannot_be_used_yet_says_what_the_cloud_does_to_it():
    waiting = judged(FREE_NAME, host(), status="reinstalling")
    assert (waiting.state, waiting.reason) == (HostState.POOLED, VerdictReason.NOT_USABLE_YET)
    assert "reinstalling" in waiting.message


def test_the_hosts_of_a_pool_that_only_a_machine_names_are_pooled_too():
    blue = machine("m-2", uid=OTHER_UID, spec={"adopt_pool_prefix": "blue-pool-"})
    assert judged("blue-pool-0c5d", host(), [blue]).state is HostState.POOLED
    assert judged("blue-pool-0c5d", host(), []).state is HostState.FOREIGN


def test_a_malformed_pool_prefix_of_a_machine_makes_nothing_pooled():
    wrong = machine("m-2", uid=OTHER_UID, spec={"adopt_pool_prefix": "t"})
    assert judged("tuist-tuist-m-9", host(), [wrong]).state is HostState.ORPHANED


def test_of_two_machines_with_one_name_the_one_that_may_still_own_by_name_protects_the_host():
    hostless = machine("m-1", namespace="blue")
    elsewhere = machine("m-1", uid=OTHER_UID, namespace="green", server_id=OTHER_ID)
    for order in ([hostless, elsewhere], [elsewhere, hostless]):
        assert judged("m-1", host(), order, prefix="").reason == VerdictReason.NAMED_BY_NAME


@given(
    name=st.sampled_from(
        [FREE_NAME, f"{OURS}m-1", "m-2", "tuist-claim-pending-x", "tuist-release-pending-x", claim_marker(claim()), ""]
    ),
    known=st.booleans(),
    its_claim=st.sampled_from([None, UID, OTHER_UID]),
    releasing=st.booleans(),
    machines=st.lists(
        st.builds(
            machine,
            st.sampled_from([f"{OURS}m-1", "m-2"]),
            uid=st.sampled_from([UID, OTHER_UID]),
            server_id=st.sampled_from(["", SERVER_ID, OTHER_ID]),
            deleted=st.booleans(),
        ),
        max_size=3,
        unique_by=lambda each: each.metadata.uid,
    ),
    prefix=st.sampled_from(["", OURS]),
    pool=st.sampled_from(["", POOL]),
    status=st.sampled_from(["ready", "reinstalling", "locked", "a word of the future"]),
)
def test_every_combination_of_facts_has_one_verdict_and_no_owned_host_is_ever_stranded(
    name: str,
    known: bool,
    its_claim: str | None,
    releasing: bool,
    machines: Any,
    prefix: str,
    pool: str,
    status: str,
):
    held = claim(machine(uid=its_claim)) if its_claim else None
    its = host(spec={"claim": held, "release": release() if releasing else None}) if known else None
    its_verdict = verdict(
        server(name, status=status), its, Owners.of(machines), pool_prefix=pool, claim_name_prefix=prefix
    )
    assert its_verdict.state in HostState
    assert its_verdict.reason
    assert its_verdict.message
    keeping = {each.metadata.uid for each in machines if each.status.server_id in ("", SERVER_ID)}
    if its_verdict.state in (HostState.ORPHANED, HostState.FOREIGN):
        assert not (known and releasing)
        assert not (known and its_claim in keeping)
        assert SERVER_ID not in {each.status.server_id for each in machines}
        # A machine without a host owns by its name, unless the ledger says that an older machine of that name did.
        older_tenant = its_verdict.reason == VerdictReason.OLDER_TENANT
        assert older_tenant or name not in {each.metadata.name for each in machines if not each.status.server_id}
        assert not older_tenant or (known and its_claim is not None)


def test_a_second_server_of_one_order_is_known_by_the_machine_that_ordered_it():
    buyer = machine(server_id=OTHER_ID, spec={"source": "Order"})
    second = judged(order_marker(buyer), host(), [buyer])
    assert (second.state, second.reason) == (HostState.ORPHANED, VerdictReason.ORDERED_TWICE)
    assert OTHER_ID in second.message
    waiting = machine(spec={"source": "Order"}, ordering=order_marker(buyer))
    assert judged(order_marker(buyer), host(), [waiting]).reason is VerdictReason.CLAIM_PENDING
