"""Lessons that the system that Paddock follows paid for, as far as they concern hosts and not their bootstrap.

Lessons that a seed's own validation section covers are in `test_seed_*.py`; the table in `tests/incidents/README.md` says
where each one is.
"""

from typing import Any

import msgspec
import pytest
from incidents.hosts.story import (
    Machine,
    asked,
    cloud_host,
    events,
    mutations,
    one,
    settings,
    until_gone,
    until_pooled,
    until_ready_says,
)
from msgspec.structs import replace

from paddock.hosts.api import (
    ScalewayAppleSiliconCluster,
    ScalewayAppleSiliconControlPlane,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachineTemplate,
)
from paddock.hosts.cluster_api import cluster_resource
from paddock.hosts.roles import core_rules
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition, is_true
from paddock.kube.objects import ObjectMeta, OwnerReference
from paddock.kube.resource import Resource
from paddock.simulator.cloud import Fault, FaultKind
from paddock.simulator.fleet_world import POOL, FakeBootstrap, FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

_CLUSTER_ROLE = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)


@simulated(seeds=1)
async def test_a_rolling_fleet_never_waits_for_the_cloud(world: World) -> None:
    """Cluster churn destroyed hosts inside Apple's licensing floor, and deploys hung on the refusal. Here a Machine
    goes in seconds while the cloud refuses everything: its release is recorded, and done when the cloud is back.
    """
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    server_id = (await one(fleet, "m-1")).status.server_id
    outage = fleet.cloud.inject(Fault(kind=FaultKind.EMPTY_503, times=None))
    await fleet.api.delete(Machine, "m-1", "default")
    await until_gone(fleet, "m-1", within=30)
    await fleet.clock.sleep(600)
    assert (await fleet.hosts())[server_id].spec.release is not None
    outage.times = 0
    fleet.cloud.heal()
    await until_pooled(fleet, server_id)


@simulated(seeds=1)
async def test_a_password_that_could_not_be_read_is_not_a_missing_password(world: World) -> None:
    """An error of the API was taken for "no password", which counts towards giving the host up."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    fleet.cloud.seal(fleet.pool[0].id, 1)
    await fleet.machine("m-1")

    async def bound() -> bool:
        return (await one(fleet, "m-1")).status.claim_verified

    await fleet.eventually("the claim is verified", bound, within=300, every=0.05)
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("get_server", "get"), times=12))
    await until_ready_says(fleet, "m-1", "CredentialsRefreshFailed", within=300)
    assert (await one(fleet, "m-1")).status.password_missing_since is None
    await fleet.all_ready(1)
    assert (await one(fleet, "m-1")).status.bootstrap_attempts == 0


@simulated(seeds=1)
async def test_the_pinned_key_of_an_earlier_install_never_poisons_the_next_one(world: World) -> None:
    """The replacement was judged by the old host's key. Here a finished wipe forgets the pin."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    for name in ("m-1", "m-2"):
        await fleet.machine(name)
        await fleet.all_ready(1)
        server_id = (await one(fleet, name)).status.server_id
        assert (await fleet.hosts())[server_id].status.host_key
        await fleet.api.delete(Machine, name, "default")
        pooled = await until_pooled(fleet, server_id)
        # Forgotten, or already that of the new install, which is pinned while it is fresh.
        assert pooled.status.host_key in ("", f"SHA256:{server_id[:8]}/{cloud_host(fleet, server_id).install}")
    assert fleet.macs.changed_keys == []
    assert {touch.install for touch in fleet.macs.touched} == {1, 2}


@simulated(seeds=1)
async def test_a_crash_right_after_the_claim_leaves_a_host_that_is_taken_up_again(world: World) -> None:
    """A crash between the claim and the write of its object. The claim is on the Host before the rename,
    so whoever leads next binds the same host instead of stranding it.
    """
    fleet = FleetWorld(world, hosts=2, settings=settings())
    await fleet.machine("m-1")

    async def named() -> bool:
        return any(each.name == "m-1" for each in fleet.cloud.hosts())

    await fleet.eventually("a host has the machine's name", named, within=300, every=0.01)
    fleet.operators[0].crash()
    server_id = next(each.id for each in fleet.cloud.hosts() if each.name == "m-1")
    await fleet.all_ready(1)
    assert (await one(fleet, "m-1")).status.server_id == server_id
    assert sum(each.name.startswith(POOL) for each in fleet.cloud.hosts()) == 1


@simulated(seeds=1)
async def test_a_claim_marker_of_a_host_that_was_ours_is_wiped_and_pooled(world: World) -> None:
    """A late rename left a host under a claim marker, in no machine's memory. One that we never had is a rival's."""
    fleet = FleetWorld(world, hosts=0, settings=settings(claim_name_prefix="tuist-tuist-"))
    marked = fleet.cloud.add_host("tuist-claim-pending-0c5d", server_type="M2-L").id
    rivals = fleet.cloud.add_host("tuist-claim-pending-77aa", server_type="M2-L").id
    await fleet.machine("tuist-tuist-m-1")

    async def mirrored() -> bool:
        return set(await fleet.hosts()) >= {marked, rivals}

    await fleet.eventually("the inventory has both", mirrored, within=60)
    await fleet.api.merge_patch(ScalewayAppleSiliconHost, marked, {"spec": {"epoch": 1}}, namespace="default")
    await until_pooled(fleet, marked, within=3600)
    assert cloud_host(fleet, marked).install == 2
    await fleet.all_ready(1)
    assert cloud_host(fleet, rivals).name == "tuist-claim-pending-77aa"
    assert cloud_host(fleet, rivals).install == 1


@simulated(seeds=2)
async def test_an_error_while_claiming_is_an_error_and_not_an_empty_pool(world: World) -> None:
    """Errors of every kind were read as "race lost" and surfaced as NoAvailableHost, while the pool was full."""
    fleet = FleetWorld(world, hosts=2, settings=settings())
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("rename",), times=3))

    async def listed() -> bool:
        return len(await fleet.hosts()) == 2

    await fleet.eventually("the inventory has both", listed, within=60)
    await fleet.machine("m-1")
    message = await until_ready_says(fleet, "m-1", "ScalewayAdoptFailed", within=120)
    assert "tried again in 30 s" in message
    await fleet.all_ready(1)
    assert not await events(fleet, "NoAvailableHost")


@simulated(seeds=1)
async def test_cluster_api_is_told_that_infrastructure_and_control_plane_are_there(world: World) -> None:
    """Core never bound Machines to Nodes, because nothing told it that the control plane was managed elsewhere."""
    fleet = FleetWorld(world, hosts=0, cluster_api=True, settings=settings())
    await fleet.ready.wait()
    where = ObjectMeta(name="c", namespace="default")
    named: dict[str, Any] = {"metadata": {"name": "c", "namespace": "default"}, "spec": {}}
    made = await fleet.api.create(named, cluster_resource("v1beta2"))
    owner = OwnerReference("cluster.x-k8s.io/v1beta2", "Cluster", "c", made["metadata"]["uid"])
    await fleet.api.create(core_rules().manifest(), _CLUSTER_ROLE)
    await fleet.create(ScalewayAppleSiliconCluster(metadata=replace(where, owner_references=(owner,))))
    await fleet.create(ScalewayAppleSiliconControlPlane(metadata=where))

    async def told() -> bool:
        cluster = await fleet.api.get(ScalewayAppleSiliconCluster, "c", "default")
        plane = await fleet.api.get(ScalewayAppleSiliconControlPlane, "c", "default")
        return (
            cluster.status.ready
            and cluster.status.initialization.provisioned
            and plane.status.initialization.control_plane_initialized
            and plane.status.external_managed_control_plane
        )

    await fleet.eventually("both contracts are served", told, within=60)


async def with_node(world: World) -> tuple[FleetWorld, str]:
    fleet = FleetWorld(world, hosts=1, settings=settings(expect_nodes=True))
    await fleet.machine("m-1")
    await fleet.api.create(Node(metadata=ObjectMeta(name="m-1")))
    await fleet.all_ready(1)
    return fleet, (await one(fleet, "m-1")).status.server_id


@simulated(seeds=1)
async def test_a_node_that_somebody_deleted_is_noticed_and_only_its_agent_is_restarted(world: World) -> None:
    """The host cloud's own controller deleted Nodes with a foreign providerID, and nobody noticed."""
    fleet, server_id = await with_node(world)
    await fleet.clock.sleep(180)
    before, touched = mutations(fleet), len(fleet.macs.touched)
    await fleet.api.delete(Node, "m-1")
    message = await until_ready_says(fleet, "m-1", "NodeMissing", within=600)
    assert "restarted" in message
    assert not (await one(fleet, "m-1")).status.ready
    await fleet.clock.sleep(120)
    assert len(fleet.macs.touched) > touched
    assert mutations(fleet) == before
    assert is_true((await one(fleet, "m-1")).status.conditions, "Bootstrapped")
    await fleet.api.create(Node(metadata=ObjectMeta(name="m-1")))
    await fleet.all_ready(1, within=600)
    assert (await one(fleet, "m-1")).status.server_id == server_id


@simulated(seeds=1)
async def test_slow_bootstraps_do_not_wait_for_each_other(world: World) -> None:
    """One worker serialised bring-ups of fifty minutes each."""
    fleet = FleetWorld(world, hosts=6, settings=settings())
    fleet.macs.seconds = 3000.0
    for number in range(6):
        await fleet.machine(f"m-{number}")
    await fleet.all_ready(6, within=3000 + 300)


@pytest.mark.parametrize("spec", [{}, {"type": "M1-M"}, {"os": "macos-tahoe-26.3", "unknown": True}])
def test_a_template_written_before_any_field_is_still_read(spec: dict[str, Any]) -> None:
    """A required field made older templates unclonable; the fleet stayed at half size with every alert green."""
    old = {"metadata": {"name": "t"}, "spec": {"template": {"spec": spec}}}
    read = msgspec.convert(old, ScalewayAppleSiliconMachineTemplate)
    assert read.spec.template.spec.zone == "fr-par-1"
    assert read.spec.template.spec.adopt_pool_prefix == ""


@simulated(seeds=1)
async def test_an_image_that_the_cloud_retired_is_replaced_by_the_newest_of_its_family(world: World) -> None:
    """Released hosts came back on the type's default OS, and a whole pool became unadoptable."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    server_id = (await one(fleet, "m-1")).status.server_id
    fleet.cloud.retire_image("macos-tahoe-26.3")
    newest = fleet.cloud.publish_image("macos-tahoe-26.6", "Tahoe", "26.6")
    fleet.cloud.set_default_image("M2-L", "macos-sequoia-15.6")
    await fleet.api.delete(Machine, "m-1", "default")
    freed = await until_pooled(fleet, server_id)
    assert cloud_host(fleet, server_id).image == newest.id
    assert freed.status.os.family == "Tahoe"
    await fleet.machine("m-2")
    await fleet.all_ready(1)


@simulated(seeds=1)
async def test_a_family_that_is_gone_is_said_and_the_host_still_comes_back(world: World) -> None:
    """`OSPinUnavailable`, then the type's default: a host on another OS is better than one that never comes back."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    server_id = (await one(fleet, "m-1")).status.server_id
    for image in list(fleet.cloud.state.images.values()):
        image.retired = image.retired or image.family == "Tahoe"
    await fleet.api.delete(Machine, "m-1", "default")
    freed = await until_pooled(fleet, server_id)
    assert freed.status.os.family == "Sequoia"
    (message, *_) = await events(fleet, "OSPinUnavailable")
    assert "Sequoia" in message


@simulated(seeds=1)
async def test_a_version_pin_is_refused_before_any_host_is_touched_and_names_the_family(world: World) -> None:
    """`InvalidOSPin` at adoption, with what to write instead."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1", os="macos-tahoe-26.3")
    assert "'Tahoe'" in await until_ready_says(fleet, "m-1", "InvalidOSPin")
    await fleet.clock.sleep(600)
    assert mutations(fleet) == []
    assert asked(fleet, "get_server", "get") == 0
    await fleet.api.merge_patch(Machine, "m-1", {"spec": {"os": "Tahoe"}}, namespace="default")
    await fleet.all_ready(1, within=900)


@simulated(seeds=1)
async def test_no_host_is_claimed_while_the_fleets_key_cannot_be_registered(world: World) -> None:
    """A host ordered or wiped before a fleet's key was registered never gets the key, and "SSH is not available"."""

    async def no_key(_self: FakeBootstrap, _machine: Machine) -> str | None:
        return "ssh_key: quota exceeded"

    async def key(_self: FakeBootstrap, _machine: Machine) -> str | None:
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeBootstrap, "prepare_claim", no_key)
        fleet = FleetWorld(world, hosts=1, settings=settings())
        await fleet.machine("m-1")
        assert "quota exceeded" in await until_ready_says(fleet, "m-1", "SSHKeyUnavailable")
        await fleet.clock.sleep(120)
        assert mutations(fleet) == []
        patch.setattr(FakeBootstrap, "prepare_claim", key)
        await fleet.all_ready(1)


@simulated(seeds=1)
async def test_a_failed_host_says_so_where_people_and_alerts_look(world: World) -> None:
    """A stuck host was visible in one object's status only. Here the reason is a column, a condition, an event, and
    the count on the Host, which outlives the machine.
    """
    fleet = FleetWorld(world, hosts=1, settings=settings())
    fleet.macs.seconds = 10.0
    fleet.macs.broken.add(fleet.pool[0].id)
    await fleet.machine("m-1")
    message = await until_ready_says(fleet, "m-1", "BootstrapFailed")
    assert "the connection was refused" in message
    assert "given back after 8 failures" in message
    assert await events(fleet, "BootstrapFailed")
    stuck = await one(fleet, "m-1")
    condition = get_condition(stuck.status.conditions, "Bootstrapped")
    assert condition is not None
    assert condition.severity == "Warning"

    async def counted() -> bool:
        return (await fleet.hosts())[fleet.pool[0].id].status.history.bootstrap_failures >= 2

    await fleet.eventually("the host's history counts it", counted, within=600)
