"""Who may work beside whom on a Mac: decided from the Mac's Pods and the ledger's word alone."""

import random
from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace
from unit.runners.pools.built import node, pod, pool

from paddock.kube.builtin import Pod
from paddock.runners.api import ACCOUNT_LABEL, SOFTNET_LABEL
from paddock.runners.dispatch.neighbours import Neighbour, kept_apart, stranger
from paddock.runners.ledger import Claim, Outcome, Tenant

CLAIM = Claim(outcome=Outcome.CLAIMED, pod_uid="uid-mine", pod_name="mine", account_id=1, login="acme")
ACME, BOLT = Tenant(1, "acme", True), Tenant(2, "bolt", True)


def beside(name: str, phase: str = "Running", **labels: str) -> Pod:
    made = pod(name, phase=phase)
    meta = _with(made.metadata, uid=f"uid-{name}", labels={**made.metadata.labels, **labels})
    return _with(made, metadata=meta)


def _with(value: Any, **fields: Any) -> Any:
    return replace(value, **fields) if hasattr(value, "__struct_fields__") else changed(value, **fields)


def look(*pods: Pod, **tenants: Tenant) -> Neighbour | None:
    known = {f"uid-{name}": tenant for name, tenant in tenants.items()}
    return stranger(CLAIM, "mac-7", pods, known, random.Random(1))


def test_another_accounts_work_is_not_joined_and_the_sentence_says_all() -> None:
    found = look(beside("mine"), beside("other"), other=BOLT)
    assert found is not None
    assert 20.0 <= found.rest <= 30.0
    for said in ("mac-7", "Pod other of account bolt", "acme", "asks again", "--softnet-url", "isolation: exclusive"):
        assert said in found.why


def test_a_rival_that_is_only_claimed_costs_a_short_rest_of_a_random_length() -> None:
    rests = {
        found.rest
        for seed in range(9)
        if (found := stranger(CLAIM, "m", [beside("o")], {"uid-o": Tenant(2, "bolt", False)}, random.Random(seed)))
    }
    assert len(rests) == 9
    assert all(2.0 <= rest <= 6.0 for rest in rests)


def test_the_same_account_may_have_both_vms() -> None:
    assert look(beside("mine"), beside("other", **{ACCOUNT_LABEL: "1"}), other=ACME) is None


def test_a_login_that_was_given_up_makes_nobody_the_same_account() -> None:
    assert look(beside("other"), other=Tenant(2, "acme", True)) is not None


def test_nobody_is_beside_an_idle_pod_or_one_that_has_ended() -> None:
    assert look(beside("mine"), beside("idle")) is None
    assert look(beside("gone", phase="Succeeded", **{ACCOUNT_LABEL: "2"}), gone=BOLT) is None
    assert look(beside("gone", phase="Failed"), gone=BOLT) is None


def test_a_pod_that_is_labelled_for_another_account_counts_without_the_ledger() -> None:
    found = look(beside("leaving", **{ACCOUNT_LABEL: "2"}))
    assert found is not None
    assert "account number 2" in found.why


def test_its_own_pod_is_no_neighbour() -> None:
    assert look(beside("mine", **{ACCOUNT_LABEL: "2"}), mine=BOLT) is None


@pytest.mark.parametrize(("label", "apart"), [("true", True), ("false", False), ("", False), ("yes", False)])
def test_only_softnet_on_the_node_keeps_a_shared_mac_apart(label: str, apart: bool) -> None:
    mac = node("n1")
    mac = _with(mac, metadata=_with(mac.metadata, labels={SOFTNET_LABEL: label} if label else {}))
    assert kept_apart(pool(), mac) is apart


def test_a_node_that_is_not_known_keeps_nobody_apart_and_linux_needs_none() -> None:
    assert not kept_apart(pool(), None)
    assert kept_apart(pool(os="linux"), None)
    assert kept_apart(pool(isolation="exclusive"), None)
