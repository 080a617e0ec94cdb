"""What holds the sweep back, and that nothing else does: two sightings, the cap, the breaker, and each zone for itself."""

import json
from collections.abc import Sequence
from itertools import pairwise

from simulation.hosts.interrupting import FleetInvariants, quick, small_fleet

from paddock.base.metrics import CollectorRegistry
from paddock.embedded.store.interface import Key
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.controllers.sweep import SweepMetrics
from paddock.hosts.sweep import RECLAIM
from paddock.simulator.cloud.faults import Fault, FaultKind
from paddock.simulator.faults import Fail, Late
from paddock.simulator.fleet_world import POOL, FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

EVERY = 20.0
CYCLE = EVERY * 1.1 + 3.0
"""The longest that one cycle takes, pause and requests."""


def _sweeping(world: World, *, hosts: int, **more: object) -> FleetWorld:
    return small_fleet(
        world, hosts=hosts, settings=quick(**{"claim_name_prefix": "m-", "reclaim_interval": EVERY, **more})
    )


async def _ready(fleet: FleetWorld, names: Sequence[str]) -> dict[str, str]:
    """Ready machines and their servers."""
    for name in names:
        await fleet.machine(name)
    await fleet.all_ready(len(names), within=900)
    return {machine.metadata.name: machine.status.server_id for machine in await fleet.machines()}


def _reclaims(fleet: FleetWorld) -> set[str]:
    """Hosts whose release the sweep recorded, or that were wiped since."""
    return {wipe.server_id for wipe in fleet.wipes}


@simulated(seeds=2)
async def test_report_only_shows_a_stranded_host_and_touches_nothing(world: World) -> None:
    fleet = _sweeping(world, hosts=2, claim_name_prefix="")
    servers = await _ready(fleet, ["m-1", "m-2"])
    before = len([entry for entry in fleet.cloud.audit if entry.effect])
    await fleet.force_delete("m-1")
    await world.clock.sleep(6 * CYCLE)
    operator = fleet.running["operator-0"]
    orphaned = [finding for finding in operator.sweep.findings if finding.verdict.state == "stranded"]
    assert [finding.server.id for finding in orphaned] == [servers["m-1"]]
    assert (await fleet.hosts())[servers["m-1"]].status.state == "stranded"
    assert len([entry for entry in fleet.cloud.audit if entry.effect]) == before
    assert fleet.wipes == []


@simulated(seeds=3)
async def test_active_reclaim_wipes_a_stranded_host_within_two_cycles(world: World) -> None:
    fleet = _sweeping(world, hosts=2)
    servers = await _ready(fleet, ["m-1", "m-2"])
    await fleet.force_delete("m-1")
    await world.clock.sleep(1.0)
    assert _reclaims(fleet) == set(), "one sighting is not enough"
    await world.clock.sleep(2 * CYCLE + 10.0)
    assert _reclaims(fleet) == {servers["m-1"]}
    await FleetInvariants(fleet).healthy()


@simulated(seeds=2)
async def test_no_more_are_reclaimed_in_a_cycle_than_the_cap_allows(world: World) -> None:
    fleet = _sweeping(world, hosts=5, reclaim_cap=1)
    await _ready(fleet, ["m-1", "m-2", "m-3", "m-4", "m-5"])
    for name in ("m-1", "m-2", "m-3"):
        await fleet.force_delete(name)
    counts = []
    for _ in range(8):
        counts.append(len(_reclaims(fleet)))
        await world.clock.sleep(EVERY)
    assert max(later - earlier for earlier, later in pairwise(counts)) == 1
    await FleetInvariants(fleet).healthy()
    assert len(_reclaims(fleet)) == 3


@simulated(seeds=2)
async def test_when_every_machine_vanishes_nothing_is_reclaimed_until_a_person_confirms(world: World) -> None:
    """An emptied or half restored cluster wiped its live hosts two cycles later; a restart made that one."""
    fleet = _sweeping(world, hosts=2)
    servers = await _ready(fleet, ["m-1", "m-2"])
    await world.clock.sleep(2 * CYCLE)
    for name in ("m-1", "m-2"):
        await fleet.force_delete(name)
    await world.clock.sleep(10 * CYCLE)
    for process in fleet.operators:
        process.crash()
    await world.clock.sleep(10 * CYCLE)
    assert _reclaims(fleet) == set()
    operator = fleet.running["operator-0"]
    assert operator.sweep._metrics.vanished._value.get() == 2
    confirmed = {"metadata": {"annotations": {RECLAIM: "true"}}}
    await fleet.api.merge_patch(Host, servers["m-1"], confirmed, "default")
    await world.clock.sleep(3 * CYCLE)
    assert _reclaims(fleet) == {servers["m-1"]}


@simulated(seeds=2)
async def test_machines_that_a_fleet_makes_in_place_of_vanished_ones_do_not_let_the_sweep_go_on(world: World) -> None:
    """A fleet fills its number within seconds: without hosts of their own these machines prove nothing."""
    fleet = _sweeping(world, hosts=4)
    names = ["m-1", "m-2", "m-3", "m-4"]
    servers = await _ready(fleet, names)
    await world.clock.sleep(2 * CYCLE)
    for number, name in enumerate(names, 5):
        await fleet.force_delete(name)
        await fleet.machine(f"m-{number}")
    await world.clock.sleep(10 * CYCLE)
    assert _reclaims(fleet) == set()
    assert fleet.running["operator-0"].sweep._metrics.vanished._value.get() == 4
    confirmed = {"metadata": {"annotations": {RECLAIM: "true"}}}
    await fleet.api.merge_patch(Host, servers["m-1"], confirmed, "default")
    await world.clock.sleep(3 * CYCLE)
    assert _reclaims(fleet) == {servers["m-1"]}


@simulated(seeds=2)
async def test_a_host_that_only_has_a_name_like_ours_is_reported_and_left(world: World) -> None:
    """After a move the source sees hosts under its names again, of machines that it no longer has."""
    fleet = _sweeping(world, hosts=1)
    await _ready(fleet, ["m-1"])
    named = fleet.cloud.add_host("m-moved", server_type="M2-L").id
    marked = fleet.cloud.add_host("tuist-release-pending-0c5d", server_type="M2-L").id
    await world.clock.sleep(10 * CYCLE)
    assert _reclaims(fleet) == set()
    findings = {finding.server.id: finding for finding in fleet.running["operator-0"].sweep.findings}
    for server in (named, marked):
        assert "no record that it gave the host this name" in findings[server].action.reason
    assert fleet.running["operator-0"].sweep._metrics.orphans._value.get() == 2


@simulated(seeds=2)
async def test_a_zone_that_cannot_be_listed_hides_no_other_and_loses_no_count(world: World) -> None:
    fleet = _sweeping(world, hosts=1, zones=("fr-par-1", "fr-par-3"))
    far = fleet.cloud.add_host("m-far", zone="fr-par-3", server_type="M2-L")
    near = fleet.cloud.add_host("m-near", zone="fr-par-1", server_type="M2-L")
    await world.clock.sleep(15.0)
    for server in (far, near):  # claimed once, so that they are this cluster's
        await fleet.api.merge_patch(Host, server.id, {"spec": {"epoch": 1, "lastMachine": server.name}}, "default")
    await world.clock.sleep(CYCLE)
    world.faults.inject(Fail(503), path="*/zones/fr-par-3/servers*", until=world.clock.monotonic() + 200.0)
    await world.clock.sleep(3 * CYCLE)
    operator = fleet.running["operator-0"]
    assert near.id in _reclaims(fleet), "the zone that answers is swept"
    assert {finding.server.id for finding in operator.sweep.findings} >= {near.id, far.id}, (
        "the other one's last count stands"
    )
    await world.clock.sleep(200.0)
    await FleetInvariants(fleet).healthy()
    assert _reclaims(fleet) == {near.id, far.id}


@simulated(seeds=2)
async def test_free_macs_of_a_pool_that_a_machine_names_stay_in_it_when_its_last_machine_goes(world: World) -> None:
    """Scaling such a fleet to nothing made its clean Macs orphans, which were wiped and moved to the default pool."""
    fleet = _sweeping(world, hosts=1)
    names = ("lab-pool-1", "lab-pool-2")
    lab = {fleet.cloud.add_host(name, server_type="M2-L").id for name in names}
    await fleet.machine("m-1", adopt_pool_prefix="lab-pool-")
    await fleet.machine("m-2")
    await fleet.all_ready(2, within=900)
    await fleet.api.delete(Machine, "m-1", "default")
    await world.clock.sleep(300.0)
    (released,) = _reclaims(fleet)
    assert released in lab
    for process in fleet.operators:
        process.crash()
    await world.clock.sleep(8 * CYCLE)
    assert [wipe.server_id for wipe in fleet.wipes] == [released], "nobody wiped a clean Mac"
    states = {server: (await fleet.hosts())[server].status for server in lab}
    assert {status.state for status in states.values()} == {"pooled"}
    assert all(status.cloud_name.startswith("lab-pool-") for status in states.values())
    assert fleet.running["operator-0"].sweep._metrics.orphans._value.get() == 0


@simulated(seeds=2)
async def test_a_server_that_an_order_made_long_after_it_was_sent_is_given_back(world: World) -> None:
    """An order is sent again when it seems lost. The first one took effect all the same, and its server billed for ever."""
    fleet = _sweeping(world, hosts=0)
    await fleet.ready.wait()
    orders = lambda call: call.method == "POST" and call.path.endswith("/servers")  # noqa: E731 - a condition
    world.faults.inject(Late(400.0), where=orders, times=1)
    await fleet.machine("m-1", source="Order")
    await fleet.all_ready(1, within=3600)
    (machine,) = await fleet.machines()

    async def given_back() -> bool:
        others = [host for host in fleet.cloud.hosts() if host.id != machine.status.server_id]
        return bool(others) and all(host.deletion_scheduled for host in others)

    await fleet.eventually("the second server is not paid for after its billing floor", given_back, within=7200)
    assert fleet.wipes == []
    assert (await fleet.machines())[0].status.ready


@simulated(seeds=2)
async def test_a_stranded_mac_goes_back_to_the_pool_that_it_came_from(world: World) -> None:
    fleet = _sweeping(world, hosts=1)
    server = fleet.cloud.add_host("lab-pool-1", server_type="M2-L").id
    await fleet.machine("m-1", adopt_pool_prefix="lab-pool-")
    await fleet.machine("m-2")
    await fleet.all_ready(2, within=900)
    await fleet.force_delete("m-1")
    await world.clock.sleep(6 * CYCLE)
    assert _reclaims(fleet) == {server}
    assert fleet.cloud.host(server).name.startswith("lab-pool-")


@simulated(seeds=2)
async def test_a_zone_that_is_not_looked_at_any_more_counts_no_orphans(world: World) -> None:
    fleet = _sweeping(world, hosts=1, claim_name_prefix="")
    await _ready(fleet, ["m-1"])
    stray = fleet.cloud.add_host("a-person-made-it", zone="fr-par-3", server_type="M2-L")
    fleet.cloud.add_host("lab-pool-1", zone="fr-par-3", server_type="M2-L")
    await fleet.machine("m-2", zone="fr-par-3")
    operator = fleet.running["operator-0"]

    def orphans() -> float:
        return operator.sweep._metrics.orphans._value.get()

    await world.clock.sleep(3 * CYCLE)
    assert orphans() == 2
    for host in [host for host in fleet.cloud.hosts() if host.zone == stray.zone]:
        fleet.cloud.delete_host(host.id)
    for name in [each.metadata.name for each in (await fleet.hosts()).values() if each.spec.zone == stray.zone]:
        await fleet.api.delete(Host, name, "default")
    await fleet.api.delete(Machine, "m-2", "default")
    await world.clock.sleep(3 * CYCLE)
    assert orphans() == 0


@simulated(seeds=2)
async def test_an_empty_or_short_list_makes_nobody_believe_that_servers_are_gone(world: World) -> None:
    fleet = _sweeping(world, hosts=3)
    servers = await _ready(fleet, ["m-1", "m-2"])
    for kind in (FaultKind.EMPTY_LIST, FaultKind.SHORT_LIST):
        fleet.cloud.inject(Fault(kind=kind, operations=("list",), times=5))
    await world.clock.sleep(120.0)
    assert {machine.metadata.name: machine.status.server_id for machine in await fleet.machines()} == servers
    assert all(machine.status.ready for machine in await fleet.machines())
    assert fleet.wipes == []
    await FleetInvariants(fleet).healthy()


@simulated(seeds=3)
async def test_a_host_that_is_adopted_between_two_sightings_is_never_reclaimed(world: World) -> None:
    """The machine comes back from a backup after the first sighting."""
    fleet = _sweeping(world, hosts=2)
    servers = await _ready(fleet, ["m-1", "m-2"])
    await fleet.force_delete("m-1")

    async def seen_once() -> bool:
        findings = fleet.running["operator-0"].sweep.findings
        return any(f.server.id == servers["m-1"] and f.verdict.state == "stranded" for f in findings)

    await fleet.eventually("the sweep has seen it once", seen_once, within=2 * CYCLE, every=0.5)
    await fleet.machine("m-1")
    restored = {"status": {"serverID": servers["m-1"], "hostName": servers["m-1"]}}
    await fleet.api.merge_patch(Machine, "m-1", restored, "default", subresource="status")
    await world.clock.sleep(CYCLE)
    assert _reclaims(fleet) == set()


@simulated(seeds=2)
async def test_a_host_of_a_former_machine_of_the_same_name_is_wiped_and_not_inherited(world: World) -> None:
    fleet = _sweeping(world, hosts=2)
    servers = await _ready(fleet, ["m-1"])
    await fleet.force_delete("m-1")
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    await FleetInvariants(fleet).healthy()
    assert fleet.cloud.host(servers["m-1"]).install == 2


@simulated(seeds=1)
async def test_one_machine_that_cannot_be_read_keeps_its_host_and_ends_no_sweep(world: World) -> None:
    fleet = _sweeping(world, hosts=3)
    servers = await _ready(fleet, ["m-1", "m-2", "m-3"])
    key = Key(f"{Machine.RESOURCE.plural}.{Machine.RESOURCE.group}", "default", "m-2")
    record = await fleet.store.get(key)
    assert record is not None
    broken = json.loads(record.value)
    broken["status"]["bootstrapAttempts"] = "of a version to come"
    await fleet.store.update(key, broken, record.revision)
    await fleet.force_delete("m-1")
    await world.clock.sleep(6 * CYCLE)
    names = {host.id: host.name for host in fleet.cloud.hosts()}
    assert names[servers["m-1"]].startswith(POOL), "the orphan is reclaimed"
    assert names[servers["m-2"]] == "m-2", "the host of the unreadable machine stays"


def test_a_deposed_leader_exports_no_count_of_orphans() -> None:
    registry, leads = CollectorRegistry(), True
    metrics = SweepMetrics(registry, lambda: leads)
    metrics.orphans.set(3)
    assert registry.get_sample_value("scaleway_orphan_servers") == 3
    leads = False
    assert registry.get_sample_value("scaleway_orphan_servers") is None
    leads = True
    assert registry.get_sample_value("scaleway_orphan_servers") == 0, "what it saw before is over"


@simulated(seeds=1)
async def test_a_host_is_found_in_a_zone_that_no_flag_and_no_machine_names_any_more(world: World) -> None:
    fleet = _sweeping(world, hosts=1, claim_name_prefix="", zones=("fr-par-3",))
    servers = await _ready(fleet, ["m-1"])
    await fleet.force_delete("m-1")
    await world.clock.sleep(6 * CYCLE)
    findings = fleet.running["operator-0"].sweep.findings
    assert [(each.server.id, each.verdict.state) for each in findings] == [(servers["m-1"], "stranded")]
    assert (await fleet.hosts())[servers["m-1"]].status.state == "stranded"
