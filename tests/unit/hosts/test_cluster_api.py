"""What Cluster API forbids us: pauses, moves and waiting for owners."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from unit.hosts.made import NOW, SERVER_ID, machine

from paddock.hosts import cluster_api
from paddock.hosts.api import Reinstall
from paddock.hosts.cluster_api import (
    CLUSTER_NAME_LABEL,
    DELETE_FOR_MOVE,
    PAUSED,
    WATCH_FILTER_LABEL,
    Cluster,
    ClusterInitialization,
    ClusterSpec,
    ClusterStatus,
    Go,
    Hold,
    OwnerMachine,
    OwnerMachineSpec,
    lost_in_a_move,
    may_delete,
    may_reconcile,
    watched,
)
from paddock.kube.objects import OwnerReference

OWNER = OwnerMachine(spec=OwnerMachineSpec(cluster_name="c"))
READY = Cluster(status=ClusterStatus(infrastructure_ready=True))
PAUSED_CLUSTER = Cluster(spec=ClusterSpec(paused=True), status=ClusterStatus(infrastructure_ready=True))


def held(gate: Go | Hold) -> str:
    return gate.reason if isinstance(gate, Hold) else "go"


def test_a_standalone_machine_needs_nobody():
    assert may_reconcile(machine(), None, None) == Go()
    assert may_delete(machine(), None) == Go()


def test_a_machine_with_a_ready_cluster_may_be_worked_on():
    assert may_reconcile(machine(), OWNER, READY) == Go()


def test_the_newer_contracts_way_of_saying_ready_is_understood():
    new = Cluster(status=ClusterStatus(initialization=ClusterInitialization(infrastructure_provisioned=True)))
    assert may_reconcile(machine(), OWNER, new) == Go()


@pytest.mark.parametrize("value", ["", "true", "false", "anything"])
def test_the_pause_annotation_holds_by_being_there_whatever_its_value(value: str):
    gate = may_reconcile(machine(annotations={PAUSED: value}), None, None)
    assert held(gate) == "Paused"
    assert isinstance(gate, Hold)
    assert gate.seconds is None


def test_the_pause_annotation_comes_before_every_wait_so_that_a_paused_machine_is_silent():
    paused = machine(annotations={PAUSED: "true"}, labels={CLUSTER_NAME_LABEL: "c"})
    assert held(may_reconcile(paused, None, None)) == "Paused"
    assert held(may_reconcile(paused, OWNER, None)) == "Paused"
    assert held(may_reconcile(paused, OWNER, Cluster())) == "Paused"


def test_a_paused_cluster_holds_everything_deletions_included():
    assert held(may_reconcile(machine(), OWNER, PAUSED_CLUSTER)) == "ClusterPaused"
    assert held(may_delete(machine(deleted=True), PAUSED_CLUSTER)) == "ClusterPaused"


def test_a_deletion_is_above_the_machines_own_pause():
    assert may_delete(machine(annotations={PAUSED: "true"}, deleted=True), READY) == Go()


def test_a_machine_that_clusterctl_moves_is_not_touched_by_its_deletion():
    moved = machine(annotations={DELETE_FOR_MOVE: ""}, deleted=True)
    for cluster in (None, READY, PAUSED_CLUSTER):
        assert held(may_delete(moved, cluster)) == "BeingMoved"


def test_a_machine_of_a_cluster_waits_for_its_owner_its_cluster_and_its_infrastructure():
    cloned = machine(labels={CLUSTER_NAME_LABEL: "c"})
    assert held(may_reconcile(cloned, None, None)) == "WaitingForOwner"
    assert held(may_reconcile(cloned, OWNER, None)) == "WaitingForCluster"
    assert held(may_reconcile(cloned, OWNER, Cluster())) == "WaitingForCluster"


@given(
    annotations=st.dictionaries(st.sampled_from([PAUSED, DELETE_FOR_MOVE, "x"]), st.just("")),
    labelled=st.booleans(),
    owner=st.sampled_from([None, OWNER, OwnerMachine()]),
    paused=st.sampled_from([None, True, False]),
    ready=st.sampled_from([None, True, False]),
    there=st.booleans(),
)
def test_every_combination_is_a_go_or_a_hold_that_says_why(
    annotations: dict[str, str], labelled: bool, owner: Any, paused: Any, ready: Any, there: bool
):
    its_cluster = Cluster(spec=ClusterSpec(paused=paused), status=ClusterStatus(infrastructure_ready=ready))
    cluster = its_cluster if there else None
    of = machine(annotations=annotations, labels={CLUSTER_NAME_LABEL: "c"} if labelled else {})
    for gate in (may_reconcile(of, owner, cluster), may_delete(of, cluster)):
        assert isinstance(gate, Go) or (gate.reason and gate.message)
    if there and paused:
        assert isinstance(may_reconcile(of, owner, cluster), Hold)
        assert isinstance(may_delete(of, cluster), Hold)


def test_the_owner_is_a_machine_of_cluster_api_and_of_nobody_else():
    core = OwnerReference(api_version="cluster.x-k8s.io/v1beta2", kind="Machine", name="m", uid="u")
    others = (
        OwnerReference(api_version="machine.openshift.io/v1", kind="Machine", name="m", uid="u"),
        OwnerReference(api_version="cluster.x-k8s.io/v1beta1", kind="MachineSet", name="m", uid="u"),
    )
    of = machine()
    owned = replace(of, metadata=replace(of.metadata, owner_references=(*others, core)))
    assert cluster_api.machine_owner(owned) == core
    assert cluster_api.machine_owner(of) is None
    assert cluster_api.machine_owner(replace(of, metadata=replace(of.metadata, owner_references=others))) is None


def test_both_contracts_shapes_of_a_cluster_are_read():
    old = msgspec.convert({"spec": {"paused": True}, "status": {"infrastructureReady": True}}, Cluster)
    new = msgspec.convert({"status": {"initialization": {"infrastructureProvisioned": True}}}, Cluster)
    assert old.spec.paused
    assert old.infrastructure_ready
    assert new.infrastructure_ready
    assert not msgspec.convert({}, Cluster).infrastructure_ready


def test_a_watch_filter_leaves_the_work_on_other_machines_to_others():
    mine, theirs, nobodys = (
        machine(labels={WATCH_FILTER_LABEL: value} if value else {}) for value in ("blue", "green", "")
    )
    assert [watched(each, "blue") for each in (mine, theirs, nobodys)] == [True, False, False]
    assert all(watched(each, "") for each in (mine, theirs, nobodys))


def test_an_operator_with_namespaces_leaves_the_work_in_others_to_others():
    mine = machine()
    theirs = replace(mine, metadata=replace(mine.metadata, namespace="nightly"))
    assert [watched(each, "", (mine.metadata.namespace,)) for each in (mine, theirs)] == [True, False]
    assert all(watched(each, "") for each in (mine, theirs))


@pytest.mark.parametrize(
    ("made", "what"),
    [
        pytest.param(machine(claiming="h-1"), "claims host h-1", id="a claim"),
        pytest.param(machine(ordering="order-1", ordered_at=NOW), "has ordered a server", id="an order that was sent"),
        pytest.param(machine(server_id=SERVER_ID, reinstall=Reinstall()), "reinstalled in place", id="a reinstall"),
        pytest.param(machine(server_id=SERVER_ID), "not in its spec yet", id="a host that the spec does not name"),
    ],
)
def test_what_only_the_status_knows_would_be_lost_in_a_move(made: Any, what: str):
    assert what in lost_in_a_move(made)


def test_a_machine_that_waits_or_has_its_host_loses_nothing_in_a_move():
    bound = machine(server_id=SERVER_ID, spec={"provider_id": f"scw-applesilicon://fr-par-1/{SERVER_ID}"})
    assert lost_in_a_move(bound) == ""
    assert lost_in_a_move(machine()) == ""
    assert lost_in_a_move(machine(ordering="order-1")) == "", "nothing was sent under that name"
