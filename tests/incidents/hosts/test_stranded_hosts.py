"""Stranded hosts (their Machine was deleted by force, or had a spec of an older version) come back to the pool."""

from types import SimpleNamespace
from typing import Any

from incidents.hosts.story import (
    OURS,
    Host,
    Machine,
    cloud_host,
    events,
    force_delete,
    mutations,
    one,
    orphans,
    reclaimed,
    settings,
    until_gone,
    until_pooled,
)
from msgspec.structs import replace
from unit.hosts.made import NOW, POOL, SERVER_ID, host, machine, server

from paddock.base.metrics import CollectorRegistry
from paddock.clients.scaleway import ScalewayClient
from paddock.hosts.claim import claim_marker
from paddock.hosts.controllers.sweep import Sweep, SweepMetrics
from paddock.hosts.names import NameKind, kind_of
from paddock.kube.objects import ObjectMeta
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


@simulated(seeds=2)
async def test_the_sweep_reclaims_exactly_the_stranded_host_in_our_namespace(world: World) -> None:
    """`OrphanReclaimer reclaims exactly the stranded in-namespace host while leaving pool, claim-pending,
    CR-owned-by-name, and CR-owned-by-serverID hosts untouched`.
    """
    fleet = FleetWorld(world, hosts=1, settings=settings(claim_name_prefix=OURS))
    pooled = fleet.pool[0].id
    by_name, by_id, pending, lost, person, rival = (
        fleet.cloud.add_host(name, server_type="M2-L").id
        for name in (
            f"{OURS}by-name",
            f"{OURS}renamed-since",
            "to-be-marked",
            f"{OURS}builders-fleet-rg4h9-c295c",
            "apple-silicon-romantic-haibt",
            "another-cluster-m-3",
        )
    )
    # Paused, so that nothing but the sweep acts on these machines.
    for name in (f"{OURS}by-name", f"{OURS}by-id", f"{OURS}claiming"):
        meta = ObjectMeta(name=name, namespace="default", annotations={"cluster.x-k8s.io/paused": ""})
        await fleet.create(Machine(metadata=meta))
    await fleet.api.merge_patch(
        Machine, f"{OURS}by-id", {"status": {"serverID": by_id}}, namespace="default", subresource="status"
    )

    async def mirrored() -> bool:
        return set(await fleet.hosts()) >= {pooled, by_name, by_id, pending, lost}

    await fleet.eventually("the inventory has seen them all", mirrored, within=60)
    # The machine of the lost host is gone, and nothing but our ledger knows that there was one.
    last = {"epoch": 1, "lastMachine": cloud_host(fleet, lost).name}
    await fleet.api.merge_patch(Host, lost, {"spec": last}, namespace="default")
    claimant = await one(fleet, f"{OURS}claiming")
    claim = {
        "machineNamespace": "default",
        "machineName": claimant.metadata.name,
        "machineUID": claimant.metadata.uid,
        "epoch": 1,
    }
    held = await fleet.api.merge_patch(Host, pending, {"spec": {"claim": claim}}, namespace="default")
    assert held.spec.claim is not None
    fleet.cloud.foreign_rename(pending, claim_marker(held.spec.claim))
    names_before = {each.id: each.name for each in fleet.cloud.hosts()}

    freed = await until_pooled(fleet, lost)

    assert cloud_host(fleet, lost).install == 2
    assert freed.status.cloud_name.startswith(POOL)
    assert mutations(fleet) == ["rename", "reinstall", "rename"]
    assert all(entry.server_id == lost for entry in fleet.cloud.audit if entry.effect)
    left = {each.id: each.name for each in fleet.cloud.hosts() if each.id != lost}
    assert left == {server_id: name for server_id, name in names_before.items() if server_id != lost}
    assert {person, rival} <= set(left)
    assert reclaimed(fleet) == 1
    assert await events(fleet, "Reclaimed")


class Scripted:
    """Reads that answer from a script: what the sweep saw at first, and what it sees when it looks again."""

    def __init__(self, machines: list[list[Any]], hosts: list[Any]) -> None:
        self._machines, self._hosts = machines, hosts

    async def list(self, kind: type[Any], *_: Any, **__: Any) -> Any:
        if kind is Host:
            return SimpleNamespace(items=self._hosts)
        return SimpleNamespace(items=self._machines.pop(0) if len(self._machines) > 1 else self._machines[0])


async def test_a_host_adopted_since_the_scan_is_not_reclaimed() -> None:
    """`a host adopted since the scan is not reclaimed (the re-check)`: nobody on the first read, an owner on the second."""
    lost = host(cloud_name=f"{OURS}m-1", state="stranded")
    lost = replace(lost, spec=replace(lost.spec, epoch=1, last_machine=f"{OURS}m-1"))
    shown = server(f"{OURS}m-1")
    adopter = machine(f"{OURS}m-1", server_id=SERVER_ID)
    bystander = machine(f"{OURS}m-9", uid="cccccccc-cccc-4ccc-8ccc-cccccccccccc")
    written: list[Any] = []

    async def answer(value: Any) -> Any:
        return value

    async def patch_host(_: Any, spec: Any) -> None:
        written.append(spec)

    def sweep(seen: list[list[Any]]) -> Sweep:
        context = SimpleNamespace(
            fresh=Scripted(seen, [lost]),
            cloud=SimpleNamespace(
                list_servers=lambda _: answer([shown]),
                get_server=lambda *_: answer(SimpleNamespace(server=shown)),
            ),
            settings=settings(claim_name_prefix=OURS),
            clock=SimpleNamespace(now=lambda: NOW),
            fresh_host=lambda _: answer(lost),
            patch_host=patch_host,
            recorder=SimpleNamespace(record=lambda *_: None),
        )
        return Sweep(context, lambda: ["fr-par-1"], SweepMetrics(CollectorRegistry()))  # pyright: ignore[reportArgumentType]

    raced = sweep([[bystander], [bystander], [bystander, adopter]])
    await raced.cycle()
    await raced.cycle()
    assert written == []
    assert raced._metrics.reclaimed._value.get() == 0
    unraced = sweep([[bystander]])
    await unraced.cycle()
    await unraced.cycle()
    assert len(written) == 1
    assert written[0]["release"]["reason"] == "Reclaimed"


@simulated(seeds=2)
async def test_report_only_mode_mutates_nothing_but_still_counts_strays_on_the_gauge(world: World) -> None:
    """`report-only mode mutates nothing but still counts orphans on the gauge`."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    fleet.cloud.add_host(f"{OURS}builders-fleet-rg4h9-c295c", server_type="M2-L")
    fleet.cloud.add_host("apple-silicon-romantic-haibt", server_type="M2-L")
    await fleet.ready.wait()
    await fleet.clock.sleep(1800)
    assert orphans(fleet) == 2
    assert mutations(fleet) == []
    assert reclaimed(fleet) == 0


@simulated(seeds=1)
async def test_list_servers_shows_the_id_and_the_name_of_every_server(world: World) -> None:
    """`ListServers … unit tests`."""
    fleet = FleetWorld(world, hosts=3, operators=0)
    async with ScalewayClient(
        fleet.cloud.settings(), fleet.clock, world.rng("client"), fleet.cloud.transport()
    ) as client:
        listed = await client.list_servers("fr-par-1")
    assert {(each.id, each.name) for each in listed} == {(each.id, each.name) for each in fleet.pool}


def test_a_name_tells_whether_a_host_is_pooled_or_being_adopted() -> None:
    """`IsPoolOrAdopting unit tests`: pool, pending, claimed, foreign, and an empty prefix that catches pending only."""
    adopting = (NameKind.POOLED, NameKind.CLAIM_PENDING)
    assert kind_of(f"{POOL}x", POOL) in adopting
    assert kind_of("tuist-claim-pending-x", POOL) in adopting
    assert kind_of(f"{OURS}m-1", POOL) not in adopting
    assert kind_of("apple-silicon-romantic-haibt", POOL) not in adopting
    assert kind_of(f"{POOL}x", "") not in adopting
    assert kind_of("tuist-claim-pending-x", "") in adopting


@simulated(seeds=2)
async def test_deleting_a_legacy_machine_releases_its_host_through_the_operators_default(world: World) -> None:
    """`reconcileDelete releases a legacy CR via the controller default`."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1", adopt_pool_prefix="")
    await fleet.all_ready(1)
    server_id = (await one(fleet, "m-1")).status.server_id
    await fleet.api.delete(Machine, "m-1", "default")
    await until_gone(fleet, "m-1")
    await until_pooled(fleet, server_id)
    assert not await events(fleet, "ReleaseSkipped")


@simulated(seeds=2)
async def test_without_any_default_the_release_is_skipped_with_a_warning_and_the_machine_still_goes(
    world: World,
) -> None:
    """`the existing skip-when-no-default test still passes`. The host is left running, and is visible as an orphan."""
    fleet = FleetWorld(world, hosts=1, settings=settings(default_adopt_pool_prefix=""))
    await fleet.machine("m-1", adopt_pool_prefix=POOL)
    await fleet.all_ready(1)
    server_id = (await one(fleet, "m-1")).status.server_id
    await fleet.api.merge_patch(Machine, "m-1", {"spec": {"adoptPoolPrefix": None}}, namespace="default")
    before = mutations(fleet)
    await fleet.api.delete(Machine, "m-1", "default")
    await until_gone(fleet, "m-1")
    (message,) = await events(fleet, "ReleaseSkipped")
    assert "--default-adopt-pool-prefix" in message
    await fleet.clock.sleep(120)
    assert mutations(fleet) == before
    assert (await fleet.hosts())[server_id].status.state == "stranded"
    assert orphans(fleet) == 1


@simulated(seeds=1)
async def test_a_force_delete_past_the_finalizer_is_found_within_one_cycle_and_reclaimed(world: World) -> None:
    """Cause 2 of the seed: a force-delete or owner-reference collection that bypasses the finalizer."""
    fleet = FleetWorld(world, hosts=1, settings=settings(claim_name_prefix=OURS))
    await fleet.machine(f"{OURS}m-1")
    await fleet.all_ready(1)
    await fleet.machine(f"{OURS}m-2")  # it waits for a host: with no machine left, nothing would be believed
    server_id = (await one(fleet, f"{OURS}m-1")).status.server_id
    fleet.operators[0].crash()
    await force_delete(fleet, f"{OURS}m-1")

    async def shown() -> bool:
        return (await fleet.hosts())[server_id].status.state == "stranded"

    await fleet.eventually("the host shows as stranded", shown, within=40)
    await until_pooled(fleet, server_id)
    assert cloud_host(fleet, server_id).install == 2
    assert orphans(fleet) == 0
