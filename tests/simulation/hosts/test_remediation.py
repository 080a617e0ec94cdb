"""Running hosts are looked after, by tiers, and never under a running job unless their Mac is dead."""

from simulation.hosts.interrupting import quick, small_fleet
from simulation.hosts.test_drain import Work

from paddock.base.clock import rfc3339
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition, is_true
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


async def _running(world: World) -> tuple[FleetWorld, Work]:
    """A machine whose Node is ready, with a spare host beside it."""
    fleet = small_fleet(world, hosts=2, settings=quick(expect_nodes=True))
    await fleet.machine("m-1")

    async def bootstrapped() -> bool:
        return is_true((await fleet.machines())[0].status.conditions, "Bootstrapped")

    await fleet.eventually("it is bootstrapped", bootstrapped, within=900)
    work = Work(fleet)
    await work.node((await fleet.machines())[0])
    await _says(fleet, "True")
    await fleet.all_ready(1, within=600)
    work.watch()
    return fleet, work


async def _says(fleet: FleetWorld, status: str) -> None:
    said = {"type": "Ready", "status": status, "lastTransitionTime": rfc3339(fleet.clock.now())}
    await fleet.api.merge_patch(Node, "m-1", {"status": {"conditions": [said]}}, subresource="status")


async def _message(fleet: FleetWorld) -> str:
    said = get_condition((await fleet.api.get(Machine, "m-1", "default")).status.conditions, "Ready")
    return f"{said.reason}: {said.message}" if said is not None else ""


def _reboots(fleet: FleetWorld) -> int:
    return sum(1 for entry in fleet.cloud.audit if entry.path.endswith("/reboot") and entry.effect)


@simulated(seeds=1)
async def test_a_silent_mac_is_restarted_rebooted_and_given_back_in_turn(world: World) -> None:
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await _says(fleet, "Unknown")
    await fleet.clock.sleep(240)
    assert (await _message(fleet)).startswith("HostInTrouble: its Node is not ready")
    assert not (await fleet.machines())[0].status.ready
    assert (fleet.macs.updates, _reboots(fleet)) == ([], 0)
    await fleet.clock.sleep(240)
    assert (fleet.macs.updates, _reboots(fleet)) == ([first], 0), "its agent was started anew"
    await fleet.clock.sleep(960)
    assert _reboots(fleet) == 1
    assert fleet.macs.forgiven == [first], "its failed dials say nothing any more"
    assert work.seen == 1
    assert (await fleet.machines())[0].status.server_id == first

    async def elsewhere() -> bool:
        return (await fleet.machines())[0].status.server_id not in ("", first)

    await fleet.eventually("it has another host", elsewhere, within=3600)
    assert not work.killed
    assert (await fleet.machines())[0].status.remediation is None


@simulated(seeds=1)
async def test_a_mac_that_comes_back_is_left_alone(world: World) -> None:
    fleet, work = await _running(world)
    await _says(fleet, "False")
    await fleet.clock.sleep(480)
    await _says(fleet, "True")
    await fleet.all_ready(1, within=60)
    await fleet.clock.sleep(3600)
    (machine,) = await fleet.machines()
    assert machine.status.remediation is None
    assert not work.seen


@simulated(seeds=1)
async def test_nothing_is_rebooted_under_a_job_while_the_mac_may_live(world: World) -> None:
    fleet, work = await _running(world)
    await work.pod("job-1", "m-1")
    await _says(fleet, "Unknown")
    await fleet.clock.sleep(2 * 3600)
    assert not work.seen
    assert "reboot waits for 1 job: job-1 (of acme)" in await _message(fleet)
    await work.end("job-1")

    async def rebooted() -> bool:
        return _reboots(fleet) == 1

    await fleet.eventually("it is rebooted when its job has ended", rebooted, within=300)
    assert not work.killed


@simulated(seeds=1)
async def test_a_mac_that_is_proven_dead_is_not_waited_for(world: World) -> None:
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    await work.pod("job-1", "m-1")
    fleet.cloud.set_power(machine.status.server_id, on=False)
    work.killed.clear()  # the power cut was the test's own
    await _says(fleet, "Unknown")

    async def rebooted() -> bool:
        return _reboots(fleet) >= 1

    await fleet.eventually("it is rebooted although a Pod is bound there", rebooted, within=3600)
