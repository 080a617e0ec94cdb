"""A mistake of the whole fleet: nobody is rebooted, wiped or bought for it, and it is said; when it is mended, all go on."""

from datetime import timedelta

import pytest
from simulation.hosts.interrupting import FleetInvariants, quick, small_fleet

from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.recovery import Tiers
from paddock.kube.conditions import get_condition
from paddock.kube.objects import ObjectMeta
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

TIERS = Tiers(reboot_after=3, max_attempts=8, sealed_timeout=timedelta(minutes=15), retry_seconds=60.0)


class Everything(set[str]):
    """Whichever host: it is broken."""

    def __contains__(self, server: object) -> bool:
        return bool(server)


async def _fleet(fleet: FleetWorld, replicas: int, **spec: str) -> None:
    template = MacFleetTemplate(spec=MachineSpec(zone="fr-par-1", **spec))  # pyright: ignore[reportArgumentType]
    wanted = MacFleetSpec(replicas=replicas, template=template)
    await fleet.create(MacFleet(metadata=ObjectMeta(name="mini", namespace="default"), spec=wanted))


def _effects(fleet: FleetWorld, word: str) -> int:
    return sum(1 for entry in fleet.cloud.audit if word in entry.path and entry.effect)


@simulated(seeds=1)
@pytest.mark.slow
async def test_a_fault_of_the_whole_fleet_reboots_and_wipes_nobody(world: World) -> None:
    fleet = small_fleet(world, hosts=6, settings=quick(tiers=TIERS))
    fleet.macs.broken = {host.id for host in fleet.cloud.hosts()}
    await _fleet(fleet, 4)
    await fleet.clock.sleep(5400)
    assert _effects(fleet, "reboot") == 0
    assert _effects(fleet, "reinstall") == 0
    assert len(fleet.macs.bootstraps) < 4 * 3 + 6 + 4, "one try in a quarter of an hour, not one a minute each"
    said = get_condition((await fleet.api.get(MacFleet, "mini", "default")).status.conditions, "Ready")
    assert said is not None
    assert said.reason == "FleetHalted"
    assert "step reach ssh failed in the same way" in said.message
    for machine in await fleet.machines():
        assert "halted: step reach ssh" in next(c.message for c in machine.status.conditions if c.type == "Ready")

    fleet.macs.broken.clear()
    await fleet.all_ready(4, within=1800)
    await FleetInvariants(fleet).healthy()


@pytest.mark.slow
@simulated(seeds=1)
async def test_another_configuration_is_tried_at_once(world: World) -> None:
    fleet = small_fleet(world, hosts=4, settings=quick(tiers=TIERS))
    fleet.macs.broken = {host.id for host in fleet.cloud.hosts()}
    await _fleet(fleet, 4)
    await fleet.clock.sleep(1800)
    fleet.macs.broken.clear()
    fleet.macs.config = "config-2"
    await fleet.all_ready(4, within=300)


@simulated(seeds=1)
async def test_one_broken_mac_among_good_ones_is_still_given_back(world: World) -> None:
    fleet = small_fleet(world, hosts=5)
    broken = fleet.cloud.hosts()[0].id
    fleet.macs.broken = {broken}
    await _fleet(fleet, 4)
    await fleet.all_ready(4, within=3600)
    assert all(machine.status.server_id != broken for machine in await fleet.machines())


@simulated(seeds=1)
async def test_a_payload_that_fails_everywhere_buys_two_macs_and_no_more(world: World) -> None:
    fleet = small_fleet(world, hosts=0)
    fleet.macs.broken = Everything()
    await _fleet(fleet, 1, source="Order")
    await fleet.clock.sleep(2 * 3600)
    assert len(fleet.cloud.hosts()) <= 2
    (machine,) = await fleet.machines()
    assert "halted" in next(c.message for c in machine.status.conditions if c.type == "Ready")


@pytest.mark.slow
@simulated(seeds=1)
async def test_no_more_are_ordered_in_a_day_than_the_cap_allows(world: World) -> None:
    fleet = small_fleet(world, hosts=0, settings=quick(order_cap=2))
    await _fleet(fleet, 3, source="Order")
    await fleet.clock.sleep(3600)
    assert len(fleet.cloud.hosts()) == 2
    waiting = [machine for machine in await fleet.machines() if not machine.status.ready]
    assert ["--order-cap allows 2" in c.message for c in waiting[0].status.conditions if c.type == "Ready"] == [True]


@simulated(seeds=1)
async def test_a_mac_that_cannot_be_tried_does_not_keep_a_halted_fleet_from_trying_another(world: World) -> None:
    fleet = small_fleet(world, hosts=4, settings=quick(tiers=TIERS))
    unknown, *others = (host.id for host in fleet.cloud.hosts())
    fleet.macs.broken = set(others)

    async def seen() -> bool:
        return all(host.status.host_key for host in (await fleet.hosts()).values()) and len(await fleet.hosts()) == 4

    await fleet.eventually("every key is pinned", seen, within=120)
    past = {"openedAt": "2020-01-01T00:00:00Z", "until": "2020-01-01T02:00:00Z", "evidence": "its wipe ended"}
    expired = {"status": {"hostKey": None, "firstContact": past}}
    await fleet.api.merge_patch(Host, unknown, expired, namespace="default", subresource="status")
    await _fleet(fleet, 4)
    await fleet.clock.sleep(1200)
    said = get_condition((await fleet.api.get(MacFleet, "mini", "default")).status.conditions, "Ready")
    assert said is not None
    assert said.reason == "FleetHalted"

    fleet.macs.broken.clear()
    await fleet.all_ready(3, within=1800)
    (waits,) = [machine for machine in await fleet.machines() if not machine.status.ready]
    assert waits.status.server_id == unknown
    assert [c.reason for c in waits.status.conditions if c.type == "Ready"] == ["FirstContactExpired"]
