"""When core's kubeconfig is made, renewed, left alone and withdrawn."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paddock.hosts.api import FINALIZER, ScalewayAppleSiliconCluster
from paddock.hosts.bootstrap.identity import ApiEndpoint
from paddock.hosts.cluster_api import DELETE_FOR_MOVE, PAUSED, Cluster, ClusterSpec
from paddock.hosts.core_access import (
    LOOK_AGAIN,
    VALUE,
    Declare,
    End,
    Given,
    Issue,
    KeepAccess,
    Provide,
    Renew,
    Rest,
    binding_name,
    labels,
    next_step,
    notes,
    owner_of,
    secret_name,
    secret_step,
)
from paddock.kube.builtin import SecretObject
from paddock.kube.objects import ObjectMeta

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HERE = ApiEndpoint("https://10.96.0.1:443", "a certificate")
LIVING = Cluster()
STOPPED = Cluster(spec=ClusterSpec(paused=True))


def infra(**meta: Any) -> ScalewayAppleSiliconCluster:
    return ScalewayAppleSiliconCluster(metadata=ObjectMeta(name="macs", namespace="ci", uid="infra-1", **meta))


def ours(issued: datetime = NOW, life: timedelta = timedelta(days=7), **changes: Any) -> SecretObject:
    meta = ObjectMeta(
        name=secret_name("macs"),
        namespace="ci",
        labels=labels("macs"),
        annotations=notes("account-1", HERE, issued, issued + life),
        owner_references=(owner_of(infra()),),
    )
    return SecretObject(metadata=replace(meta, **changes), data={VALUE: b"a kubeconfig"})


def judged(secret: SecretObject | None, **given: Any) -> Given | Issue | Renew | KeepAccess:
    asked = {"infra_uid": "infra-1", "account_uid": "account-1", "endpoint": HERE, "now": NOW, **given}
    return secret_step(secret, **asked)


def test_a_cluster_waits_for_its_owner_before_it_is_called_provisioned():
    assert next_step(infra(), "", None, managed=True) == Rest(None)
    assert isinstance(next_step(infra(), "macs", None, managed=True), Rest)
    assert next_step(infra(), "macs", LIVING, managed=True) == Provide("macs")


def test_without_management_nobody_is_waited_for():
    assert next_step(infra(), "", None, managed=False) == Declare()
    assert next_step(infra(), "macs", LIVING, managed=False) == Declare()


@pytest.mark.parametrize("managed", [True, False])
def test_a_pause_holds_everything_even_the_end(managed: bool):
    assert next_step(infra(annotations={PAUSED: ""}), "macs", LIVING, managed=managed) == Rest(None)
    assert isinstance(next_step(infra(), "macs", STOPPED, managed=managed), Rest)
    ending = infra(deletion_timestamp=NOW, finalizers=(FINALIZER,))
    assert isinstance(next_step(ending, "macs", STOPPED, managed=managed), Rest)


@pytest.mark.parametrize("managed", [True, False])
def test_what_was_made_is_withdrawn_at_the_end_even_when_management_was_turned_off(managed: bool):
    ending = infra(deletion_timestamp=NOW, finalizers=(FINALIZER,))
    assert next_step(ending, "macs", LIVING, managed=managed) == End()
    assert next_step(ending, "macs", None, managed=managed) == End()
    assert next_step(infra(deletion_timestamp=NOW), "macs", LIVING, managed=managed) == Rest(None), "nothing was made"


def test_a_cluster_that_clusterctl_moves_away_keeps_what_it_has():
    moved = infra(deletion_timestamp=NOW, finalizers=(FINALIZER,), annotations={DELETE_FOR_MOVE: ""})
    assert next_step(moved, "macs", LIVING, managed=True) == Rest(None)


def test_a_missing_secret_is_made():
    assert judged(None) == Issue()


@pytest.mark.parametrize(
    "theirs",
    [
        SecretObject(metadata=ObjectMeta(name="macs-kubeconfig"), data={VALUE: b"by hand"}),
        SecretObject(metadata=ObjectMeta(name="macs-kubeconfig")),
        ours(labels={"cluster.x-k8s.io/cluster-name": "macs"}),
        ours(annotations={}),
    ],
)
def test_a_secret_that_does_not_carry_both_of_our_marks_is_never_written(theirs: SecretObject):
    for later in (timedelta(0), timedelta(days=400)):
        assert judged(theirs, now=NOW + later, account_uid="another") == Given()


@pytest.mark.parametrize(
    ("secret", "given", "why"),
    [
        (replace(ours(), data={}), {}, "no kubeconfig"),
        (ours(), {"account_uid": "account-2"}, "anew"),
        (ours(), {"endpoint": ApiEndpoint("https://10.96.0.2:443", "a certificate")}, "elsewhere"),
        (ours(), {"endpoint": ApiEndpoint(HERE.server, "another certificate")}, "elsewhere"),
        (ours(), {"infra_uid": "infra-2"}, "owner"),
        (ours(annotations={**ours().metadata.annotations, "tuist.dev/token-expires": "soon"}), {}, "when"),
        (ours(), {"now": NOW + timedelta(days=5)}, "ends soon"),
    ],
)
def test_a_secret_of_ours_that_would_not_work_for_long_is_renewed(
    secret: SecretObject, given: dict[str, Any], why: str
):
    step = judged(secret, **given)
    assert isinstance(step, Renew)
    assert why in step.why


@given(life=st.integers(600, 30 * 86400), age=st.floats(0, 1.5))
def test_a_token_is_renewed_in_its_last_third_and_looked_at_in_time_before(life: int, age: float):
    spent = timedelta(seconds=age * life)
    step = judged(ours(NOW, timedelta(seconds=life)), now=NOW + spent)
    if isinstance(step, KeepAccess):
        assert spent <= timedelta(seconds=life * 2 / 3)
        assert step.seconds <= LOOK_AGAIN.total_seconds()
        assert spent + timedelta(seconds=step.seconds) < timedelta(seconds=life), "the next look is before its end"
    else:
        assert isinstance(step, Renew)
        assert spent >= timedelta(seconds=life * 2 / 3 - 1)


def test_no_two_clusters_share_a_binding():
    one = ScalewayAppleSiliconCluster(metadata=ObjectMeta(name="b-c", namespace="a"))
    other = ScalewayAppleSiliconCluster(metadata=ObjectMeta(name="c", namespace="a-b"))
    assert binding_name(one) != binding_name(other)
