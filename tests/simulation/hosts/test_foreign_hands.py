"""People and other systems change the cloud and the cluster behind our back: nothing of theirs is touched."""

from datetime import timedelta
from uuid import UUID

import pytest
from msgspec.structs import replace
from simulation.hosts.interrupting import FleetInvariants, quick, small_fleet

from paddock.hosts.api import MachineSpec, MachineStatus
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.controllers.context import condition
from paddock.hosts.controllers.retire import Retirement
from paddock.hosts.listing import unlisted_zones
from paddock.hosts.recovery import Tiers
from paddock.kube.conditions import get_condition
from paddock.kube.errors import InvalidError
from paddock.kube.objects import Condition, ObjectMeta
from paddock.kube.stalled import Stalls
from paddock.kube.stalled_condition import STALLED
from paddock.kube.status_writes import write_status
from paddock.simulator.cloud.faults import Fault, FaultKind
from paddock.simulator.fleet_world import POOL, FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

FOREIGN = "apple-silicon-romantic-curie"


async def _ready(fleet: FleetWorld, name: str = "m-1") -> str:
    """A ready machine's server."""
    await fleet.machine(name)
    await fleet.all_ready(1, within=900)
    return next(machine.status.server_id for machine in await fleet.machines() if machine.metadata.name == name)


async def _gone(fleet: FleetWorld) -> None:
    async def none_left() -> bool:
        return not await fleet.machines()

    await fleet.eventually("the machine is gone", none_left, within=120)


def _hide(fleet: FleetWorld, server: str) -> str:
    """As if our key might not see it any more: lists are without it, and reads of it are refused. The project it was in."""
    before, fleet.cloud.host(server).project_id = fleet.cloud.host(server).project_id, str(UUID(int=7))
    return before


@simulated(seeds=2)
async def test_a_host_that_was_renamed_by_hand_is_not_wiped_when_its_machine_is_deleted(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    server = await _ready(fleet)
    fleet.cloud.foreign_rename(server, FOREIGN)
    await world.clock.sleep(30.0)  # the inventory has seen the new name, which makes it no more ours
    await fleet.api.delete(Machine, "m-1", "default")
    await _gone(fleet)
    await world.clock.sleep(120.0)
    assert fleet.wipes == []
    assert fleet.cloud.host(server).name == FOREIGN
    host = (await fleet.hosts())[server]
    assert (host.spec.claim, host.spec.release) == (None, None)
    assert host.status.state == "stranded", "it is shown, and left alone"


@simulated(seeds=2)
async def test_a_host_that_was_renamed_by_hand_is_not_wiped_when_its_machine_gives_up_on_it(world: World) -> None:
    fleet = small_fleet(world, hosts=2)
    fleet.macs.broken |= {host.id for host in fleet.pool}
    await fleet.machine("m-1")

    async def failed_once() -> bool:
        return any(machine.status.bootstrap_attempts for machine in await fleet.machines())

    await fleet.eventually("the first bootstrap failed", failed_once, within=300)
    first = (await fleet.machines())[0].status.server_id
    fleet.macs.broken &= {first}
    fleet.cloud.foreign_rename(first, FOREIGN)
    await fleet.all_ready(1, within=900)
    ward = FleetInvariants(fleet, elsewhere={first})
    await ward.healthy()
    assert fleet.wipes == []


@simulated(seeds=3)
async def test_a_host_that_a_rival_renames_before_the_claim_is_proven_is_let_go_untouched(world: World) -> None:
    fleet = small_fleet(world, hosts=2)
    await fleet.machine("m-1")

    async def bound() -> bool:
        return any(machine.status.server_id for machine in await fleet.machines())

    await fleet.eventually("a host is bound", bound, within=120, every=0.2)
    first = (await fleet.machines())[0].status.server_id
    fleet.cloud.foreign_rename(first, FOREIGN)
    await fleet.all_ready(1, within=900)
    await FleetInvariants(fleet, elsewhere={first}).healthy()
    assert fleet.wipes == []
    assert all(touch.server_id != first for touch in fleet.macs.touched)


@simulated(seeds=2)
async def test_a_server_deleted_in_the_console_is_let_go_and_replaced(world: World) -> None:
    fleet = small_fleet(world, hosts=3)
    first = await _ready(fleet)
    fleet.cloud.delete_host(first)
    fleet.wipes.clear()  # that was a person, not us

    async def replaced() -> bool:
        return any(machine.status.ready and machine.status.server_id != first for machine in await fleet.machines())

    await fleet.eventually("another host serves the machine", replaced, within=600)
    await FleetInvariants(fleet).healthy()


@simulated(seeds=3)
async def test_two_wrong_lists_take_the_only_mac_of_a_zone_from_nobody(world: World) -> None:
    """A fleet of one is what the first day makes: its Mac vanished from two lists, and its machine let go of it."""
    fleet = small_fleet(world, hosts=1)
    server = await _ready(fleet)
    fleet.cloud.inject(Fault(kind=FaultKind.EMPTY_LIST, operations=("list",), times=6))
    said: set[str] = set()
    for _ in range(40):
        await world.clock.sleep(2.0)
        host = (await fleet.hosts())[server]
        assert host.status.state == "owned"
        said |= {each.message for each in host.status.conditions if each.type == "Listed"}
        (machine,) = await fleet.machines()
        assert machine.status.server_id == server
    assert any("which exists" in each for each in said)
    assert not any(each.type == "Listed" for each in (await fleet.hosts())[server].status.conditions), "it is over"
    assert len({touch.install for touch in fleet.macs.touched}) == 1


@simulated(seeds=3)
async def test_a_key_of_another_project_takes_the_only_mac_from_nobody(world: World) -> None:
    """It sees no server and is refused every one, as for servers that were deleted."""
    fleet = small_fleet(world, hosts=1)
    server = await _ready(fleet)
    _hide(fleet, server)
    await world.clock.sleep(120.0)
    host = (await fleet.hosts())[server]
    assert host.status.state == "owned"
    assert "another project" in next(each.message for each in host.status.conditions if each.type == "Listed")
    assert (await fleet.machines())[0].status.server_id == server


@simulated(seeds=2)
async def test_a_mac_with_the_clouds_own_runner_is_never_claimed_and_never_waits_for_a_wipe(world: World) -> None:
    """The cloud refuses to reinstall it: a release of it waited for a wipe for ever."""
    fleet = small_fleet(world, hosts=2)
    await fleet.ready.wait()
    first, second = (host.id for host in fleet.pool)
    fleet.cloud.host(first).runner_mode = True
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    (machine,) = await fleet.machines()
    assert machine.status.server_id == second
    said = next(each for each in (await fleet.hosts())[first].status.conditions if each.type == "Ready")
    assert (said.reason, "runner configuration" in said.message) == ("CannotBeWiped", True)
    fleet.cloud.host(second).runner_mode = True  # by a person, under a machine that has it
    await world.clock.sleep(30.0)
    await fleet.api.delete(Machine, "m-1", "default")
    await _gone(fleet)
    host = (await fleet.hosts())[second]
    assert host.spec.release is None
    assert fleet.cloud.host(second).name == "m-1"


@simulated(seeds=2)
async def test_a_key_that_is_refused_on_the_first_day_is_said_by_the_machines_that_wait(world: World) -> None:
    """No Host is known yet that could say it, and the machines asked a person to order a Mac."""
    fleet = small_fleet(world, hosts=1)
    refused = fleet.cloud.inject(Fault(kind=FaultKind.FORBIDDEN, operations=("list",), times=1000))
    await fleet.machine("m-1")
    await world.clock.sleep(120.0)
    (machine,) = await fleet.machines()
    said = next(each for each in machine.status.conditions if each.type == "Ready")
    assert said.reason == "ZoneNotListed"
    assert "insufficient permissions" in said.message
    assert not [
        each for each in unlisted_zones((await fleet.hosts()).values(), [machine], []) if "order" in each.sentence
    ]
    refused.times = 0
    await fleet.all_ready(1, within=600)
    assert unlisted_zones((await fleet.hosts()).values(), await fleet.machines(), []) == []


@simulated(seeds=3)
async def test_a_server_that_comes_back_finds_what_is_on_record_of_it(world: World) -> None:
    fleet = small_fleet(world, hosts=2)
    await fleet.ready.wait()
    await world.clock.sleep(15.0)
    first, *_ = (host.id for host in fleet.pool)
    await fleet.api.merge_patch(Host, first, {"spec": {"quarantine": "its fan is loud"}}, "default")
    shown = _hide(fleet, first)
    await world.clock.sleep(60.0)
    host = (await fleet.hosts())[first]
    assert host.status.state == "gone"
    assert "should it come back" in next(each.message for each in host.status.conditions if each.type == "Ready")
    fleet.cloud.host(first).project_id = shown
    await world.clock.sleep(30.0)
    host = (await fleet.hosts())[first]
    assert (host.status.state, host.spec.quarantine) == ("pooled", "its fan is loud")


@simulated(seeds=6)
async def test_a_server_that_was_hidden_for_a_minute_beside_another_serves_again(world: World) -> None:
    """Its machine lets go of it, as of one that was deleted. When it is back, it must not bill beside a machine without a host."""
    fleet = small_fleet(world, hosts=2)
    await fleet.machine("m-1")
    await fleet.machine("m-2")
    await fleet.all_ready(2, within=900)
    hidden = (await fleet.machines())[world.rng("which").randrange(2)].status.server_id
    shown = _hide(fleet, hidden)
    await world.clock.sleep(world.rng("how long").uniform(15.0, 120.0))
    fleet.cloud.host(hidden).project_id = shown
    await fleet.all_ready(2, within=1800)
    await FleetInvariants(fleet).healthy()


@simulated(seeds=3)
async def test_what_one_controller_says_of_a_host_stays_when_another_writes(world: World) -> None:
    """Each wrote the whole list of conditions from its own copy, so one's sentence vanished with the other's next write."""
    fleet = small_fleet(world, hosts=2)
    server = await _ready(fleet)
    operator = fleet.running["operator-0"]
    old = operator.context.hosts.get(server, "default")
    assert old is not None
    await fleet.api.merge_patch(Host, server, {"spec": {"retire": "its fan is loud"}}, "default")
    await Retirement(operator.context).cycle()

    def types(host: Host) -> set[str]:
        return {each.type for each in host.status.conditions}

    assert "Retired" in types((await fleet.hosts())[server])
    late = Condition(type="Released", status="False", reason="Waiting", message="by whoever read it before")
    status = replace(old.status, conditions=(*old.status.conditions, late))
    await write_status(operator.context.client, old, status)
    assert types((await fleet.hosts())[server]) >= {"Ready", "Retired", "Released"}


@simulated(seeds=3)
async def test_what_one_controller_says_of_a_machine_stays_when_a_late_leader_writes(world: World) -> None:
    """A leader that has lost its lease goes on with the copy that it read: it erased what was said of the machine since."""
    fleet = small_fleet(world, hosts=2)
    await _ready(fleet)
    operator = fleet.running["operator-0"]
    old = await operator.context.fresh.get(Machine, "m-1", "default")
    assert old is not None
    for process in fleet.operators:
        process.crash()
    now = world.clock.now()
    stalls = Stalls(fleet.api, operator.context.recorder, world.clock)
    await stalls.failed("machine", old, "its host refuses", None)
    since = await fleet.api.get(Machine, "m-1", "default")
    assert get_condition(since.status.conditions, STALLED) is not None

    late = condition(old.status, "Drained", False, "Draining", "deletion waits for 1 job", now)
    await operator.context.save(old, late)

    left = (await fleet.api.get(Machine, "m-1", "default")).status.conditions
    assert get_condition(left, STALLED) is not None, "what was said since stays"
    assert get_condition(left, "Drained") is not None

    again = await fleet.api.get(Machine, "m-1", "default")
    await stalls.succeeded("machine", again)
    await operator.context.save(again, condition(again.status, "Paused", True, "Paused", "its Cluster is paused", now))

    left = (await fleet.api.get(Machine, "m-1", "default")).status.conditions
    assert get_condition(left, STALLED) is None, "what was taken back does not return"
    assert get_condition(left, "Paused") is not None


@simulated(seeds=2)
async def test_of_two_machines_that_name_one_server_the_one_whose_name_the_cloud_shows_keeps_it(world: World) -> None:
    fleet = small_fleet(world, hosts=2)
    server = await _ready(fleet)
    made = Machine(metadata=ObjectMeta(name="m-2", namespace="default"), spec=MachineSpec())
    await fleet.create(made)
    await fleet.api.merge_patch(
        Machine, "m-2", {"status": {"serverID": server, "hostName": server}}, "default", subresource="status"
    )
    await fleet.all_ready(2, within=900)
    await FleetInvariants(fleet).healthy()
    owner = {machine.metadata.name: machine.status.server_id for machine in await fleet.machines()}
    assert owner["m-1"] == server
    assert owner["m-2"] != server
    assert fleet.wipes == []


@simulated(seeds=2)
async def test_of_two_machines_from_a_backup_the_one_whose_name_the_cloud_shows_keeps_the_server(world: World) -> None:
    """The ledger is lost, the machines are restored: no Host has a claim, only the cloud's name tells."""
    fleet = small_fleet(world, hosts=0)
    server = fleet.cloud.add_host("m-1", server_type="M2-L").id
    spare = fleet.cloud.add_host("tuist-pool-spare", server_type="M2-L").id
    status = MachineStatus(server_id=server, host_name=server)
    await fleet.ready.wait()
    for process in fleet.operators:
        process.crash()  # nobody acts on machines that are only half restored
    for name in ("m-0", "m-1"):
        await fleet.create(Machine(metadata=ObjectMeta(name=name, namespace="default")))
        await fleet.api.merge_patch(
            Machine,
            name,
            {"status": {"serverID": status.server_id, "hostName": status.host_name}},
            "default",
            subresource="status",
        )
    await fleet.all_ready(2, within=900)
    await FleetInvariants(fleet).healthy()
    owner = {machine.metadata.name: machine.status.server_id for machine in await fleet.machines()}
    assert owner == {"m-1": server, "m-0": spare}
    assert fleet.wipes == []


@simulated(seeds=2)
async def test_a_machine_whose_status_was_lost_is_bound_to_its_host_again(world: World) -> None:
    fleet = small_fleet(world, hosts=2)
    server = await _ready(fleet)
    lost = dict.fromkeys(("serverID", "hostName", "boundAt", "claimVerified", "ready", "conditions"))
    await fleet.api.merge_patch(Machine, "m-1", {"status": lost}, "default", subresource="status")
    await fleet.all_ready(1, within=900)
    await FleetInvariants(fleet).healthy()
    assert (await fleet.machines())[0].status.server_id == server
    assert fleet.wipes == []


@simulated(seeds=2)
async def test_a_wipe_installs_the_newest_image_that_is_left_of_the_family(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    server = await _ready(fleet)
    for image in list(fleet.cloud.state.images.values()):
        if image.id == fleet.cloud.host(server).image:
            fleet.cloud.retire_image(image.name)
    newest = fleet.cloud.publish_image("macos-tahoe-26.9", "Tahoe", "26.9")
    await fleet.api.delete(Machine, "m-1", "default")
    await _gone(fleet)
    await FleetInvariants(fleet).healthy()
    assert fleet.cloud.host(server).image == newest.id


@simulated(seeds=2)
async def test_when_the_family_is_withdrawn_the_wipe_still_happens_and_the_next_machine_says_why_it_waits(
    world: World,
) -> None:
    fleet = small_fleet(world, hosts=1)
    server = await _ready(fleet)
    default = next(image for image in fleet.cloud.state.images.values() if "tahoe" not in image.name.lower())
    fleet.cloud.set_default_image("M2-L", default.name)
    for image in list(fleet.cloud.state.images.values()):
        if "tahoe" in image.family.lower() or "tahoe" in image.name.lower():
            fleet.cloud.retire_image(image.name)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.machine("m-2")
    await world.clock.sleep(240.0)
    await FleetInvariants(fleet).healthy()
    assert fleet.cloud.host(server).image == default.id
    (machine,) = await fleet.machines()
    said = next(each for each in machine.status.conditions if each.type == "Ready")
    assert "1 wrong OS" in said.message


@simulated(seeds=2)
async def test_a_password_that_stays_sealed_counts_as_a_failure_and_moves_the_machine_on(world: World) -> None:
    tiers = with_short_timeouts(quick().tiers)
    fleet = small_fleet(world, hosts=2, settings=quick(tiers=tiers))
    first = min(fleet.pool, key=lambda host: host.id).id
    fleet.cloud.seal(first, 100_000.0)
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=3600)
    ward = FleetInvariants(fleet)
    await ward.healthy(within=3600)
    assert (await fleet.machines())[0].status.server_id != first
    assert fleet.macs.wrong_passwords == []


def with_short_timeouts(tiers: Tiers) -> Tiers:
    return Tiers(tiers.reboot_after, tiers.max_attempts, timedelta(seconds=60), tiers.retry_seconds)


@simulated(seeds=1)
async def test_a_host_that_others_took_and_reinstalled_is_no_stranger_to_its_next_tenant(world: World) -> None:
    fleet = small_fleet(world, hosts=1, settings=quick(inventory_interval=300.0))
    server = await _ready(fleet)
    pool_name = f"{POOL}{server}"
    fleet.cloud.foreign_rename(server, FOREIGN)
    host = (await fleet.hosts())[server]
    release = {"policy": "pool", "poolPrefix": POOL, "reason": "MachineDeleted", "cloudName": "m-1"}
    await fleet.api.merge_patch(Host, host.metadata.name, {"spec": {"release": release}}, namespace="default")

    async def abandoned() -> bool:
        host = (await fleet.hosts())[server]
        return host.spec.release is None and host.spec.claim is None

    await fleet.eventually("the release is abandoned", abandoned, within=60)
    # All of this between two looks of the inventory: nobody saw the foreign name, and the key of the old disk is worthless.
    fleet.cloud.state.hosts[server].install += 1
    fleet.cloud.foreign_rename(server, pool_name)
    await fleet.api.delete(Machine, "m-1", "default")
    await _gone(fleet)
    await fleet.machine("m-2")
    await fleet.all_ready(1, within=2000)
    assert fleet.macs.changed_keys == []


@simulated(seeds=1)
async def test_the_zone_of_a_bound_machine_cannot_be_changed_and_the_patch_says_why(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    await _ready(fleet)
    with pytest.raises(InvalidError, match="zone, type and source of a machine that has a host cannot change"):
        await fleet.api.merge_patch(Machine, "m-1", {"spec": {"zone": "mars-1"}}, namespace="default")
    await fleet.api.merge_patch(Machine, "m-1", {"spec": {"drainTimeoutSeconds": 60}}, namespace="default")
    (machine,) = await fleet.machines()
    assert (machine.spec.zone, machine.spec.drain_timeout_seconds) == ("fr-par-1", 60)
