"""`paddock detach`: pause, clear, delete, in this order, and nothing is done to the host."""

from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import to_builtins
from msgspec.structs import replace
from unit.cli.cluster import Cluster
from unit.hosts.made import OTHER_UID, SERVER_ID, claim, host, machine

from paddock.cli import main
from paddock.hosts.api import FINALIZER, MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.claim import order_marker
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta, OwnerReference

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost


def put(cluster: Cluster, obj: Any) -> Any:
    return cluster.create(obj, to_builtins(obj.status) or None)


def one(cluster: Cluster, kind: Any, name: str) -> Any:
    async def get(client: Any) -> Any:
        try:
            return await client.get(kind, name, "default")
        except NotFoundError:
            return None

    return cluster.ask(get)


def run(cluster: Cluster, *arguments: str, answer: str = "") -> Any:
    command = ["detach", "m-1", "--kubeconfig", str(cluster.kubeconfig), "--timeout", "0.2", *arguments]
    return CliRunner().invoke(main, command, input=answer)


@pytest.fixture
def bound(cluster: Cluster) -> Cluster:
    made = machine(server_id=SERVER_ID, host_name=SERVER_ID, spec={"provider_id": "scw-applesilicon://z/x"})
    owner = put(cluster, replace(made, metadata=replace(made.metadata, finalizers=(FINALIZER,))))
    put(cluster, host(spec={"claim": claim(owner)}, cloud_name="m-1", state="owned"))
    return cluster


def test_it_tells_its_plan_and_asks(bound: Cluster):
    outcome = run(bound, answer="n\n")
    assert outcome.exit_code == 4
    pause, clear, delete = (outcome.output.index(word) for word in ("1. pause", "2. clear", "3. delete"))
    assert pause < clear < delete
    assert SERVER_ID in outcome.output
    assert "Nothing was changed." in outcome.output
    left = one(bound, Machine, "m-1")
    assert left.status.server_id == SERVER_ID
    assert left.metadata.annotations == {}
    assert left.metadata.deletion_timestamp is None


def test_it_pauses_clears_and_deletes_and_says_what_it_did(bound: Cluster):
    outcome = run(bound, "--yes")
    assert "paused m-1\n" in outcome.output
    assert f"cleared its server {SERVER_ID}\n" in outcome.output
    assert "deleted machine m-1\n" in outcome.output
    left = one(bound, Machine, "m-1")
    assert "cluster.x-k8s.io/paused" in left.metadata.annotations
    assert (left.status.server_id, left.status.host_name, left.spec.provider_id) == ("", "", "")
    assert left.metadata.deletion_timestamp is not None


def test_without_an_operator_it_says_what_it_waits_for(bound: Cluster):
    outcome = run(bound, "--yes")
    assert outcome.exit_code == 1
    assert "is the operator running?" in outcome.output


def test_a_machine_without_a_finalizer_is_gone_at_once(cluster: Cluster):
    put(cluster, machine(server_id=SERVER_ID))
    outcome = run(cluster, "--yes")
    assert outcome.exit_code == 0, outcome.output
    assert one(cluster, Machine, "m-1") is None
    assert "done" in outcome.output


def test_the_host_is_not_touched(bound: Cluster):
    before = one(bound, Host, SERVER_ID)
    run(bound, "--yes")
    assert one(bound, Host, SERVER_ID) == before


def test_a_detachment_that_was_interrupted_is_simply_run_again(bound: Cluster):
    async def interrupted(client: Any) -> None:
        patch = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": "true"}}}
        await client.merge_patch(Machine, "m-1", patch, namespace="default")

    bound.ask(interrupted)
    outcome = run(bound, "--yes")
    assert "it is paused already" in outcome.output
    assert one(bound, Machine, "m-1").metadata.deletion_timestamp is not None


def test_a_machine_that_is_being_deleted_cannot_be_detached_any_more(bound: Cluster):
    bound.ask(lambda client: client.delete(Machine, "m-1", "default"))
    outcome = run(bound, "--yes")
    assert outcome.exit_code == 1
    assert "too late" in outcome.output


def test_a_detachment_that_the_operator_has_not_seen_is_run_again_and_waits_for_it(bound: Cluster):
    assert run(bound, "--yes").exit_code == 1
    again = run(bound, "--yes")
    assert "too late" not in again.output
    assert f"Host {SERVER_ID} (m-1) is not touched." in again.output
    assert "is the operator running?" in again.output


def test_what_the_operator_waits_for_is_said_where_it_says_so(bound: Cluster):
    waits = {
        "type": "Drained",
        "status": "False",
        "reason": "Draining",
        "message": "deletion waits for 1 job: runner-1",
    }
    bound.ask(
        lambda client: client.merge_patch(
            Machine, "m-1", {"status": {"conditions": [waits]}}, namespace="default", subresource="status"
        )
    )
    outcome = run(bound, "--yes")
    assert outcome.exit_code == 1
    assert "deletion waits for 1 job: runner-1" in outcome.output
    assert "is the operator running?" not in outcome.output


def test_what_the_machine_ordered_is_said_to_end_because_it_does(cluster: Cluster):
    marker = order_marker(machine())
    put(cluster, machine(spec={"source": "Order"}, ordering=marker, claiming=SERVER_ID))
    put(cluster, host(spec={"claim": claim()}, cloud_name=marker, state="claiming"))
    planned = run(cluster, answer="n\n").output
    assert f"4. end its order: the server that it ordered as {marker}" in planned
    assert "not touched" not in planned
    done = run(cluster, "--yes").output
    assert "is given back by the operator" in done
    assert "not touched" not in done
    assert "no host was touched" not in done


def test_an_unknown_machine_is_a_clear_error(cluster: Cluster):
    outcome = run(cluster, "--yes")
    assert outcome.exit_code == 1
    assert "there is no machine default/m-1" in outcome.output


def test_a_host_that_another_machine_claims_stays_with_it(cluster: Cluster):
    put(cluster, machine(server_id=SERVER_ID))
    put(cluster, host(spec={"claim": claim(machine("m-2", uid=OTHER_UID))}, cloud_name="m-2", state="owned"))
    assert "It stays with machine default/m-2" in run(cluster, answer="n\n").output


def test_under_a_fleet_it_warns_that_another_machine_will_be_made(cluster: Cluster):
    above = cluster.create(MacFleet(metadata=ObjectMeta(name="blue", namespace="default")))
    fleet = OwnerReference(api_version="tuist.dev/v1alpha1", kind="MacFleet", name="blue", uid=above.metadata.uid)
    made = machine(server_id=SERVER_ID)
    put(cluster, replace(made, metadata=replace(made.metadata, owner_references=(fleet,))))
    put(cluster, host(cloud_name="m-1", state="owned"))
    assert "MacFleet blue makes another machine" in run(cluster, answer="n\n").output


def test_under_cluster_api_it_is_the_machine_above_that_is_deleted(cluster: Cluster):
    above = OwnerReference(api_version="cluster.x-k8s.io/v1beta1", kind="Machine", name="above", uid=OTHER_UID)
    made = machine(server_id=SERVER_ID)
    put(cluster, replace(made, metadata=replace(made.metadata, owner_references=(above,))))
    assert "3. delete Machine above, which takes this one with it" in run(cluster, answer="n\n").output
