"""Running hosts are looked after, by tiers, and never under a running job unless their Mac is dead."""

from collections.abc import Sequence
from functools import partial

import pytest
from simulation.hosts.interrupting import (
    CRASHES,
    OTHERS,
    FleetInvariants,
    Kind,
    effects,
    from_here,
    interrupt_everywhere,
    quick,
    small_fleet,
    until_here,
)
from simulation.hosts.work import Work, node_ready, node_says

from paddock.hosts.api import BOOTSTRAPPED
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.reinstall import ASK_AT_MOST
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition, is_true
from paddock.simulator.cloud.faults import Fault, FaultKind
from paddock.simulator.faults import EffectCall
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


async def _running(world: World) -> tuple[FleetWorld, Work]:
    """A machine whose Node is ready, with a spare host beside it."""
    fleet = small_fleet(world, hosts=2, settings=quick(expect_nodes=True, inventory_interval=60.0))
    await fleet.machine("m-1")
    return fleet, await node_ready(fleet)


async def _message(fleet: FleetWorld) -> str:
    said = get_condition((await fleet.api.get(Machine, "m-1", "default")).status.conditions, "Ready")
    return f"{said.reason}: {said.message}" if said is not None else ""


def _reboots(fleet: FleetWorld) -> int:
    return sum(1 for entry in fleet.cloud.audit if entry.path.endswith("/reboot") and entry.effect)


@simulated(seeds=1)
async def test_a_silent_mac_goes_through_five_tiers_in_turn(world: World) -> None:
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    installs = fleet.cloud.host(first).install
    await node_says(fleet, "Unknown")
    await fleet.clock.sleep(240)
    assert (await _message(fleet)).startswith("HostInTrouble: its Node is not ready")
    assert "next: its agent is started anew after " in await _message(fleet)
    assert not (await fleet.machines())[0].status.ready
    assert (fleet.macs.updates, fleet.macs.soft_reboots, _reboots(fleet)) == ([], [], 0)
    await fleet.clock.sleep(240)
    assert (fleet.macs.updates, fleet.macs.soft_reboots) == ([first], []), "its agent was started anew"
    await fleet.clock.sleep(600)
    assert (fleet.macs.soft_reboots, _reboots(fleet)) == ([first], 0), "the Mac was asked before the cloud was"
    await fleet.clock.sleep(600)
    assert _reboots(fleet) == 1
    assert fleet.macs.forgiven == [first, first], "its failed dials say nothing any more"
    assert work.seen == 2
    assert (await _message(fleet)).count(" at ") == 3, "all that was tried is told"
    assert fleet.cloud.host(first).install == installs

    async def installed() -> bool:
        return fleet.cloud.host(first).install == installs + 1

    await fleet.eventually("it was reinstalled in place", installed, within=3600)
    (machine,) = await fleet.machines()
    assert machine.status.server_id == first
    assert fleet.store.present(Node) == [], "its Node ended with its disk"
    bootstraps = len(fleet.macs.bootstraps)

    async def set_up() -> bool:
        return len(fleet.macs.bootstraps) > bootstraps and is_true(
            (await fleet.machines())[0].status.conditions, "Bootstrapped"
        )

    await fleet.eventually("it was bootstrapped anew", set_up, within=900)
    assert (fleet.macs.wrong_passwords, fleet.macs.changed_keys) == ([], [])
    await work.node((await fleet.machines())[0])
    await node_says(fleet, "Unknown")

    async def elsewhere() -> bool:
        return (await fleet.machines())[0].status.server_id not in ("", first)

    await fleet.eventually("it has another host", elsewhere, within=3 * 3600)
    assert not work.killed
    assert (await fleet.hosts())[first].status.history.reinstalls == 1, "not a second time"
    status = (await fleet.machines())[0].status
    assert (status.remediation, status.reinstall, status.reinstalled_at) == (None, None, None)
    assert not [wipe for wipe in fleet.wipes if wipe.victim]


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_new_disk_that_helps_ends_the_trouble(world: World) -> None:
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await node_says(fleet, "Unknown")

    async def set_up() -> bool:
        (one,) = await fleet.machines()
        return one.status.reinstalled_at is not None and is_true(one.status.conditions, "Bootstrapped")

    await fleet.eventually("it was bootstrapped anew", set_up, within=2 * 3600)
    await work.node((await fleet.machines())[0])
    await node_says(fleet, "True")
    await fleet.all_ready(1, within=600)
    await fleet.clock.sleep(3600)
    (machine,) = await fleet.machines()
    assert (machine.status.server_id, machine.status.remediation) == (first, None)
    assert machine.metadata.annotations[BOOTSTRAPPED].startswith(first)
    (host,) = [host for host in (await fleet.hosts()).values() if host.spec.server_id == first]
    assert (host.status.history.reinstalls, host.status.history.releases) == (1, 0)
    assert not (await fleet.api.get(Node, "m-1")).spec.unschedulable
    assert not work.killed


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_mac_that_comes_back_before_the_cloud_was_asked_is_not_reinstalled(world: World) -> None:
    fleet, _ = await _running(world)
    (machine,) = await fleet.machines()
    installs = fleet.cloud.host(machine.status.server_id).install
    await node_says(fleet, "Unknown")
    await fleet.clock.sleep(3300)
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("list_os",), times=None))
    await fleet.clock.sleep(600)
    (machine,) = await fleet.machines()
    assert machine.status.reinstall is not None
    assert machine.status.reinstall.wipe == ""
    await node_says(fleet, "True")
    fleet.cloud.heal()
    await fleet.all_ready(1, within=600)
    (machine,) = await fleet.machines()
    assert (machine.status.reinstall, machine.status.remediation) == (None, None)
    assert fleet.cloud.host(machine.status.server_id).install == installs
    assert not (await fleet.api.get(Node, "m-1")).spec.unschedulable


@pytest.mark.slow
@simulated(seeds=1)
async def test_an_install_that_the_cloud_cannot_do_ends_in_another_host(world: World) -> None:
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await node_says(fleet, "Unknown")

    async def begun() -> bool:
        return fleet.cloud.host(first).activity == "reinstalling"

    await fleet.eventually("the first install began", begun, within=2 * 3600)
    for _ in range(3):
        await fleet.eventually("an install began", begun, within=1800)
        fleet.cloud.fail_install(first)

        async def ended() -> bool:
            return fleet.cloud.host(first).activity is None

        await fleet.eventually("it ended in an error", ended, within=600)

    async def elsewhere() -> bool:
        return (await fleet.machines())[0].status.server_id not in ("", first)

    await fleet.eventually("it has another host", elsewhere, within=3600)
    assert not work.killed


@simulated(seeds=1)
async def test_a_host_whose_reinstall_was_refused_is_not_given_back_under_a_job_that_came_meanwhile(
    world: World,
) -> None:
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await node_says(fleet, "Unknown")
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("reinstall",), times=None))

    async def asked_for_the_last_time() -> bool:
        (one,) = await fleet.machines()
        return one.status.reinstall is not None and one.status.reinstall.asked == ASK_AT_MOST

    await fleet.eventually("the cloud refused each request", asked_for_the_last_time, within=3 * 3600)
    # Somebody opened the Node by hand, and a job came.
    await fleet.api.merge_patch(Node, "m-1", {"spec": {"unschedulable": False}})
    await work.pod("job-1", "m-1")
    await fleet.clock.sleep(1800)
    (machine,) = await fleet.machines()
    assert machine.status.server_id == first, "a job runs there"
    assert not work.killed
    await work.end("job-1")

    async def elsewhere() -> bool:
        return (await fleet.machines())[0].status.server_id not in ("", first)

    await fleet.eventually("it has another host once the job has ended", elsewhere, within=3600)
    assert not work.killed


@simulated(seeds=1)
async def test_a_mac_without_a_session_is_logged_in_anew_and_never_under_a_job(world: World) -> None:
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await work.pod("job-1", "m-1")
    await node_says(fleet, "False", reason="NoSession")
    await fleet.clock.sleep(600)
    assert fleet.macs.kicks == [], "a job runs there"
    drained = get_condition((await fleet.machines())[0].status.conditions, "Drained")
    assert drained is not None
    assert drained.message.startswith("new login waits for 1 job: job-1")
    await work.end("job-1")
    await fleet.clock.sleep(120)
    assert fleet.macs.kicks == [first]
    assert (fleet.macs.updates, fleet.macs.soft_reboots, _reboots(fleet)) == ([], [], 0)
    assert "tried: its user was logged in anew at " in await _message(fleet)
    await node_says(fleet, "True")
    await fleet.all_ready(1, within=300)
    assert not (await fleet.api.get(Node, "m-1")).spec.unschedulable
    assert (await fleet.machines())[0].status.remediation is None


@simulated(seeds=1)
async def test_who_comes_up_without_a_session_after_a_reboot_is_logged_in_again(world: World) -> None:
    fleet, work = await _running(world)
    await node_says(fleet, "False", reason="NoSession")
    await fleet.clock.sleep(880)
    assert len(fleet.macs.kicks) == 3
    assert work.seen == 0, "no reboot yet"
    await fleet.clock.sleep(120)
    assert len(fleet.macs.soft_reboots) == 1
    await fleet.clock.sleep(400)
    assert len(fleet.macs.kicks) == 4, "each start of the Mac loses it again"
    assert _reboots(fleet) == 0
    await node_says(fleet, "True")
    await fleet.all_ready(1, within=300)
    assert not work.killed


@simulated(seeds=1)
async def test_a_kick_that_fails_is_told_and_tried_again(world: World) -> None:
    fleet, _ = await _running(world)
    (machine,) = await fleet.machines()
    fleet.macs.seconds = 1.0
    fleet.macs.broken.add(machine.status.server_id)
    await node_says(fleet, "False", reason="NoSession")
    await fleet.clock.sleep(240)
    assert "(it did not help, or was refused)" in await _message(fleet)
    assert fleet.macs.kicks == []
    fleet.macs.broken.clear()
    await fleet.clock.sleep(300)
    assert fleet.macs.kicks == [machine.status.server_id]


@simulated(seeds=1)
async def test_a_mac_whose_ssh_refuses_us_is_rebooted_by_the_cloud_without_waiting_for_the_next_tier(
    world: World,
) -> None:
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    fleet.macs.shut_out.add(machine.status.server_id)
    await node_says(fleet, "Unknown")
    await fleet.clock.sleep(1080)
    assert (fleet.macs.soft_reboots, _reboots(fleet)) == ([], 1)
    assert "SSH refuses us" in await _message(fleet)
    (machine,) = await fleet.machines()
    assert machine.status.remediation is not None
    assert [each.tier for each in machine.status.remediation.tried] == [1, 2, 3]
    await node_says(fleet, "True")
    await fleet.all_ready(1, within=600)
    assert not work.killed


@simulated(seeds=1)
async def test_leaked_slots_are_cured_by_a_reboot_alone(world: World) -> None:
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await node_says(fleet, "True", VMSlotsLeaked="True")
    await fleet.clock.sleep(300)
    assert fleet.macs.updates == [], "a new start of the agent cannot help"
    assert (fleet.macs.soft_reboots, _reboots(fleet)) == ([first], 0)
    await node_says(fleet, "True")
    await fleet.all_ready(1, within=300)
    assert not (await fleet.api.get(Node, "m-1")).spec.unschedulable
    assert not work.killed


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_mac_that_is_up_for_too_long_stays_ready_and_is_rebooted_when_it_is_idle(world: World) -> None:
    fleet, work = await _running(world)
    await work.pod("job-1", "m-1")
    await node_says(fleet, "True", LongUptime="True")
    await fleet.clock.sleep(600)
    (machine,) = await fleet.machines()
    assert machine.status.ready, "it works"
    await fleet.clock.sleep(3600)
    assert not work.seen, "a job runs there"
    await work.end("job-1")

    async def rebooted() -> bool:
        return bool(fleet.macs.soft_reboots)

    await fleet.eventually("it is rebooted when its job has ended", rebooted, within=300)
    await node_says(fleet, "True")

    async def well() -> bool:
        (one,) = await fleet.machines()
        return one.status.ready and one.status.remediation is None

    await fleet.eventually("all is well", well, within=300)
    assert not work.killed


async def _the_tiers(world: World, *, tier: int) -> None:
    """A Mac that has been silent for long; disturbed from this tier on, until it is reinstalled in place and set up."""
    fleet, work = await _running(world)
    fleet.macs.seconds = 1.0
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await node_says(fleet, "Unknown", since=3600)

    async def begun() -> bool:
        (one,) = await fleet.machines()
        return one.status.remediation is not None and one.status.remediation.tier >= tier

    await fleet.eventually(f"tier {tier} began", begun, within=3600)
    from_here(world)

    async def set_up() -> bool:
        (one,) = await fleet.machines()
        return one.status.reinstalled_at is not None and is_true(one.status.conditions, "Bootstrapped")

    await fleet.eventually("it was reinstalled in place and bootstrapped", set_up, within=3 * 3600, every=10)
    until_here(world)
    await work.node((await fleet.machines())[0])
    await node_says(fleet, "True")
    await fleet.all_ready(1, within=900)
    (machine,) = await fleet.machines()
    assert (machine.status.server_id, machine.status.remediation, machine.status.reinstall) == (first, None, None)
    assert not work.killed
    assert (fleet.macs.wrong_passwords, fleet.macs.changed_keys) == ([], [])
    assert not [wipe for wipe in fleet.wipes if wipe.victim]
    assert len(fleet.macs.soft_reboots) <= 1, "a tier happens once"
    assert _reboots(fleet) <= 1
    assert 1 <= len(fleet.wipes) <= 2, "asked for once; once more where nobody could know"
    FleetInvariants(fleet).safe()


@pytest.mark.parametrize(
    ("kinds", "tier"),
    [
        pytest.param(CRASHES, 4, id="a crash in the reinstall"),
        pytest.param(CRASHES, 0, id="a crash in any tier", marks=pytest.mark.slow),
        pytest.param(OTHERS, 0, id="a crash before, a lost answer or an error in any tier", marks=pytest.mark.slow),
    ],
)
def test_the_tiers_survive_every_interruption_of_every_effect(kinds: Sequence[Kind], tier: int) -> None:
    assert interrupt_everywhere(partial(_the_tiers, tier=tier), only=_decisions, kinds=kinds) >= 7


def _decisions(call: EffectCall) -> bool:
    """All effects but what the inventory mirrors into a Host's status, and what the SSH of a bootstrap shows."""
    return effects(call) and not ("siliconhosts/" in call.path and call.path.endswith("/status"))


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_mac_that_comes_back_is_left_alone(world: World) -> None:
    fleet, work = await _running(world)
    await node_says(fleet, "False")
    await fleet.clock.sleep(480)
    await node_says(fleet, "True")
    await fleet.all_ready(1, within=60)
    await fleet.clock.sleep(3600)
    (machine,) = await fleet.machines()
    assert machine.status.remediation is None
    assert not work.seen


@simulated(seeds=1)
async def test_nothing_is_rebooted_under_a_job_while_the_mac_may_live(world: World) -> None:
    fleet, work = await _running(world)
    await work.pod("job-1", "m-1")
    await node_says(fleet, "Unknown")
    await fleet.clock.sleep(2 * 3600)
    assert not work.seen
    assert "reboot waits for 1 job: job-1 (of acme)" in await _message(fleet)
    await work.end("job-1")

    async def rebooted() -> bool:
        return len(fleet.macs.soft_reboots) == 1

    await fleet.eventually("it is rebooted when its job has ended", rebooted, within=300)
    assert not work.killed


@simulated(seeds=1)
async def test_a_mac_that_is_proven_dead_is_not_waited_for(world: World) -> None:
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    await work.pod("job-1", "m-1")
    fleet.cloud.set_power(machine.status.server_id, on=False)
    work.killed.clear()  # the power cut was the test's own
    await node_says(fleet, "Unknown")

    async def rebooted() -> bool:
        return _reboots(fleet) >= 1

    await fleet.eventually("it is rebooted although a Pod is bound there", rebooted, within=3600)


@simulated(seeds=1)
async def test_a_mac_that_was_proven_dead_and_came_back_with_a_job_is_not_asked_to_be_reinstalled_again(
    world: World,
) -> None:
    """The first request failed; what was proven before it proves nothing about the next one."""
    fleet, work = await _running(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await work.pod("job-1", "m-1")
    await node_says(fleet, "Unknown")
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("reinstall",), times=None))
    fleet.cloud.set_power(first, on=False)

    async def asked() -> bool:
        (one,) = await fleet.machines()
        fleet.cloud.set_power(first, on=False)  # no reboot helps
        return one.status.reinstall is not None and one.status.reinstall.asked == 1

    await fleet.eventually("the cloud refused the first request", asked, within=3 * 3600)
    (machine,) = await fleet.machines()
    assert machine.status.reinstall is not None
    assert machine.status.reinstall.dead
    fleet.cloud.set_power(first, on=True)
    work.killed.clear()  # the power cut was the test's own
    await node_says(fleet, "True")
    fleet.cloud.heal()
    await fleet.clock.sleep(1800)
    assert not work.killed, "a job runs there"
    assert "waits for 1 job: job-1" in await _message(fleet)
    await work.end("job-1")

    async def installed() -> bool:
        (one,) = await fleet.machines()
        return one.status.reinstalled_at is not None

    await fleet.eventually("it is reinstalled when its job has ended", installed, within=3600)
    assert not work.killed


async def _waited_with_a_reboot(fleet: FleetWorld, work: Work) -> None:
    """A machine whose limit is an hour, in trouble for hours, because the reboot that may help waits for a job."""
    limit = {"spec": {"drainTimeoutSeconds": 3600}}
    await fleet.api.merge_patch(Machine, "m-1", limit, namespace="default")
    await work.pod("job-1", "m-1")
    await node_says(fleet, "False", since=1200)
    await fleet.clock.sleep(7200)
    said = get_condition((await fleet.machines())[0].status.conditions, "Drained")
    assert said is not None
    assert said.message.startswith("reboot waits for 1 job")


@simulated(seeds=1)
async def test_the_limit_of_a_deletion_begins_with_the_deletion_and_not_with_an_earlier_wait(world: World) -> None:
    fleet, work = await _running(world)
    await _waited_with_a_reboot(fleet, work)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(3000)
    assert not work.seen, "its job has ten minutes left"
    await fleet.clock.sleep(1200)
    assert work.killed, "and then the machine's own limit is over"


@simulated(seeds=1)
async def test_a_mac_that_came_back_by_itself_waits_for_nobody_any_more(world: World) -> None:
    fleet, work = await _running(world)
    await _waited_with_a_reboot(fleet, work)
    await node_says(fleet, "True")
    await fleet.all_ready(1, within=600)
    (machine,) = await fleet.machines()
    assert get_condition(machine.status.conditions, "Drained") is None
    assert not (await fleet.api.get(Node, "m-1")).spec.unschedulable
    await fleet.clock.sleep(7200)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(3000)
    assert not work.seen, "the limit of an hour begins with the deletion"


@simulated(seeds=1)
async def test_a_mac_whose_long_uptime_ended_while_its_reboot_waited_takes_work_again(world: World) -> None:
    fleet, work = await _running(world)
    await work.pod("job-1", "m-1")
    await node_says(fleet, "True", since=86_400, LongUptime="True")
    await fleet.clock.sleep(1200)
    assert (await fleet.api.get(Node, "m-1")).spec.unschedulable, "its reboot waits for a job"
    await node_says(fleet, "True", LongUptime="False")
    await fleet.clock.sleep(1800)
    node = await fleet.api.get(Node, "m-1")
    assert not node.spec.unschedulable
    (machine,) = await fleet.machines()
    assert get_condition(machine.status.conditions, "Drained") is None
    assert machine.status.ready


@simulated(seeds=1)
async def test_a_host_that_cannot_be_given_back_is_told_once_and_not_in_an_ever_longer_sentence(world: World) -> None:
    fleet = small_fleet(
        world,
        hosts=1,
        settings=quick(expect_nodes=True, inventory_interval=60.0, default_adopt_pool_prefix=""),
    )
    await fleet.machine("m-1", adopt_pool_prefix="tuist-pool-")
    await node_ready(fleet)
    no_pool = {"spec": {"adoptPoolPrefix": ""}}
    await fleet.api.merge_patch(Machine, "m-1", no_pool, namespace="default")
    reinstalled = {"status": {"reinstalledAt": "2026-01-01T00:00:00Z"}}
    await fleet.api.merge_patch(Machine, "m-1", reinstalled, namespace="default", subresource="status")
    await node_says(fleet, "Unknown")
    await fleet.clock.sleep(6 * 3600)
    (machine,) = await fleet.machines()
    assert machine.status.remediation is not None
    assert [each.tier for each in machine.status.remediation.tried] == [1, 2, 3, 5]
