"""Weaknesses found while reading the system that Paddock follows: each is shown not to be ours."""

import itertools
from collections import Counter
from typing import Any

import pytest
from incidents.hosts.story import (
    OURS,
    Machine,
    asked,
    cloud_host,
    force_delete,
    mutations,
    one,
    orphans,
    reclaimed,
    recorded,
    settings,
    until_gone,
    until_pooled,
    until_ready_says,
)

from paddock.clients.scaleway import IncompleteList
from paddock.hosts.api import FINALIZER
from paddock.hosts.listing import UnlistedZone, unlisted_zones
from paddock.hosts.recovery import Tiers
from paddock.kube.builtin import Lease, SecretObject
from paddock.simulator.cloud import Fault, FaultKind
from paddock.simulator.fleet_world import POOL, FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated
from paddock.views.health import survey
from paddock.views.leadership import nobody_leads


async def bound(fleet: FleetWorld, name: str = "m-1") -> str:
    async def has() -> bool:
        return bool((await one(fleet, name)).status.server_id)

    await fleet.eventually(f"{name} has a host", has, within=600, every=0.2)
    return (await one(fleet, name)).status.server_id


@simulated(seeds=2)
async def test_intent_is_written_before_its_effect(world: World) -> None:
    """Finalizer and serverID were persisted after the whole pass, fifty minutes later. Here the finalizer is there
    before the first rename, and server, provider id and addresses before anything is done to the host.
    """
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1")
    seen_at_rename: list[tuple[bool, bool]] = []
    while not fleet.macs.touched:
        present = await one(fleet, "m-1")
        if mutations(fleet, "", "rename") and not seen_at_rename:
            claimed = (await fleet.hosts())[fleet.pool[0].id].spec.claim is not None
            seen_at_rename.append((FINALIZER in present.metadata.finalizers, claimed))
        await fleet.clock.sleep(0.02)
    assert seen_at_rename == [(True, True)]
    present = await one(fleet, "m-1")
    assert present.status.server_id == fleet.pool[0].id
    assert present.spec.provider_id == f"scw-applesilicon://fr-par-1/{fleet.pool[0].id}"
    assert present.status.addresses


@simulated(seeds=1)
async def test_a_lost_secret_is_made_again(world: World) -> None:
    """A Secret that could not be written after the claim left the machine looping every ten seconds for ever."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    fleet.macs.seconds = 5.0
    fleet.macs.broken.add(fleet.pool[0].id)
    await fleet.machine("m-1")
    await until_ready_says(fleet, "m-1", "BootstrapFailed")
    await fleet.api.delete(SecretObject, "m-1-bootstrap", "default")
    fleet.macs.broken.clear()
    await fleet.all_ready(1)
    kept = await fleet.api.get(SecretObject, "m-1-bootstrap", "default")
    assert kept.data["sudo-password"].decode() == cloud_host(fleet, fleet.pool[0].id).password


@simulated(seeds=2)
async def test_a_host_that_looks_free_is_clean_at_every_moment(world: World) -> None:
    """A reinstall that failed after the rename left a pool-named, un-wiped, ready host, which another machine could
    claim while the retry wiped it. Here the pool name comes last, and a waiting machine never gets a dirty host.
    """
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    server_id = fleet.pool[0].id
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("reinstall",), times=4))
    await fleet.machine("m-2")
    await fleet.api.delete(Machine, "m-1", "default")
    await until_gone(fleet, "m-1")
    while not any(machine.status.ready for machine in await fleet.machines()):
        shown = cloud_host(fleet, server_id)
        assert not (shown.name.startswith(POOL) and shown.install == 1), "a dirty host looks free"
        await fleet.clock.sleep(1)
    assert {(touch.install, touch.machine_uid) for touch in fleet.macs.touched if touch.install > 1} == {
        (2, (await one(fleet, "m-2")).metadata.uid)
    }
    assert not [wipe for wipe in fleet.wipes if wipe.victim]


@simulated(seeds=1)
async def test_an_address_that_comes_late_or_changes_is_followed(world: World) -> None:
    """A server without an address at adoption stored an empty one, and looped on it for ever."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    server_id = fleet.pool[0].id
    late = cloud_host(fleet, server_id).ip
    cloud_host(fleet, server_id).ip = ""
    await fleet.machine("m-1")
    await bound(fleet)
    assert (await one(fleet, "m-1")).status.addresses == ()
    cloud_host(fleet, server_id).ip = late

    async def follows(address: str) -> bool:
        return [each.address for each in (await one(fleet, "m-1")).status.addresses] == [address]

    await fleet.eventually("the address is known", lambda: follows(late), within=600)
    await fleet.all_ready(1)
    cloud_host(fleet, server_id).ip = "198.18.7.7"
    await fleet.eventually("the new address is known", lambda: follows("198.18.7.7"), within=900)


@simulated(seeds=1)
async def test_a_password_that_stays_sealed_escalates_and_never_for_ever(world: World) -> None:
    """A missing password was looked at every five minutes for ever. Here it is waited for, then counts as a failure:
    the host is rebooted, and given back in the end, without sudo ever having been asked.
    """
    fleet = FleetWorld(world, hosts=1, settings=settings(tiers=Tiers(reboot_after=1, max_attempts=3)))
    server_id = fleet.pool[0].id
    fleet.cloud.seal(server_id, 30 * 3600)
    await fleet.machine("m-1")
    await until_ready_says(fleet, "m-1", "MissingSudoPassword")

    async def given_back() -> bool:
        return (await fleet.hosts())[server_id].spec.release is not None

    await fleet.eventually("the host is given back", given_back, within=3 * 3600)
    assert mutations(fleet, server_id, "reboot") == ["reboot"]
    assert fleet.macs.touched == []
    assert fleet.macs.wrong_passwords == []


@simulated(seeds=1)
async def test_a_password_that_is_sealed_again_does_not_disturb_a_ready_machine(world: World) -> None:
    """The gate also ran for bootstrapped hosts, and made ready machines unready whenever the cloud sealed."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    fleet.cloud.seal(fleet.pool[0].id, 6 * 3600)
    for _ in range(36):
        await fleet.clock.sleep(60)
        assert (await one(fleet, "m-1")).status.ready


@simulated(seeds=1)
async def test_a_finished_bootstrap_is_not_followed_by_an_update(world: World) -> None:
    """The first success did not stamp the configuration hash, so a drift push followed at once."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    assert (await one(fleet, "m-1")).status.host_config_hash == "config-1"
    await fleet.clock.sleep(3600)
    assert len(fleet.macs.touched) == 1


@simulated(seeds=2)
async def test_a_server_deleted_in_the_console_is_noticed_and_replaced(world: World) -> None:
    """Readiness was never withdrawn, and the 404 of a live machine's server went unnoticed. Here the machine stops
    being ready, takes another host, and nothing of the lost one stays in the ledger.
    """
    fleet = FleetWorld(world, hosts=2, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    lost = (await one(fleet, "m-1")).status.server_id
    fleet.cloud.delete_host(lost)

    async def elsewhere() -> bool:
        machine = await one(fleet, "m-1")
        return machine.status.ready and machine.status.server_id not in ("", lost)

    await fleet.eventually("m-1 is ready on another host", elsewhere, within=1800)

    async def forgotten() -> bool:
        return lost not in await fleet.hosts()

    await fleet.eventually("the ledger holds no trace of the lost server", forgotten, within=600)


@simulated(seeds=1)
async def test_a_zone_that_is_suddenly_empty_takes_no_host_from_any_machine(world: World) -> None:
    """Absence is evidence only on a read that can be believed."""
    fleet = FleetWorld(world, hosts=2, settings=settings())
    for name in ("m-1", "m-2"):
        await fleet.machine(name)
    await fleet.all_ready(2)
    fleet.cloud.inject(Fault(kind=FaultKind.EMPTY_LIST, operations=("list_servers", "list"), times=40))
    for _ in range(20):
        await fleet.clock.sleep(15)
        assert all(machine.status.ready for machine in await fleet.machines())
    assert fleet.running["operator-0"].inventory.problems


@simulated(seeds=1)
async def test_a_zone_that_cannot_be_listed_says_so_on_one_host_until_it_is_listed_again(world: World) -> None:
    """Whoever has no page beside the operator knows of it, too; and an outage is one write, not one a cycle."""
    fleet = FleetWorld(world, hosts=3, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)

    async def unlisted() -> list[UnlistedZone]:
        return unlisted_zones((await fleet.hosts()).values(), [], [])

    assert await unlisted() == []
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("list_servers", "list"), times=400))
    await fleet.clock.sleep(120)
    [first] = await unlisted()
    assert first.zone in first.sentence
    await fleet.clock.sleep(300)
    assert await unlisted() == [first], "said once, since the same moment"
    fleet.cloud.heal()
    await fleet.clock.sleep(120)
    assert await unlisted() == []


@pytest.mark.parametrize("elect", [True, False])
@pytest.mark.parametrize("kind", [FaultKind.UNAUTHENTICATED, FaultKind.FORBIDDEN])
@simulated(seeds=1)
async def test_a_key_that_the_cloud_refuses_is_a_problem_where_there_is_neither_host_nor_machine(
    world: World, kind: FaultKind, elect: bool
) -> None:
    """On the first day the operator's Lease is the only object there is: it says so, within a minute."""
    fleet = FleetWorld(world, hosts=0, settings=settings(), elect=elect)
    fleet.cloud.inject(Fault(kind=kind, operations=("list_servers", "list"), times=4000))

    async def problems() -> list[str]:
        leases = (await fleet.api.list(Lease)).items
        nothing: dict[str, Any] = dict.fromkeys(("hosts", "machines", "fleets", "pools", "pods"), ())
        health = survey(**nothing, summary=None, runners=False, now=world.clock.now(), leases=leases)
        return [problem.sentence for problem in health.problems]

    await fleet.clock.sleep(60)
    [told] = await problems()
    assert told.startswith("zone fr-par-1 could not be listed")
    assert nobody_leads((await fleet.api.list(Lease)).items, world.clock.now()) == ""
    fleet.cloud.heal()
    await fleet.clock.sleep(60)
    assert await problems() == []


@simulated(seeds=1)
async def test_a_machine_whose_status_was_lost_takes_its_own_host_up_again(world: World) -> None:
    """Re-bound, not wiped: the claim on the Host remembers what the machine forgot."""
    fleet = FleetWorld(world, hosts=3, settings=settings(claim_name_prefix=OURS))
    await fleet.machine(f"{OURS}m-1")
    await fleet.all_ready(1)
    before = await one(fleet, f"{OURS}m-1")
    lost: dict[str, Any] = {"status": None}
    await fleet.api.merge_patch(Machine, before.metadata.name, lost, namespace="default", subresource="status")
    await fleet.clock.sleep(5)
    await fleet.all_ready(1)
    assert (await one(fleet, f"{OURS}m-1")).status.server_id == before.status.server_id
    await fleet.clock.sleep(300)
    assert cloud_host(fleet, before.status.server_id).install == 1
    assert sum(host.spec.claim is not None for host in (await fleet.hosts()).values()) == 1


@simulated(seeds=2)
async def test_the_name_alone_gives_nobody_an_older_tenants_disk(world: World) -> None:
    """Rediscovery by name skipped every check. Here a new machine of the same name has another uid: it takes a clean
    host, and the old disk is wiped before anybody gets it.
    """
    fleet = FleetWorld(world, hosts=2, settings=settings(claim_name_prefix=OURS))
    await fleet.machine(f"{OURS}m-1")
    await fleet.all_ready(1)
    older = (await one(fleet, f"{OURS}m-1")).status.server_id
    fleet.operators[0].crash()
    await force_delete(fleet, f"{OURS}m-1")
    await fleet.machine(f"{OURS}m-1")
    await fleet.all_ready(1)
    assert (await one(fleet, f"{OURS}m-1")).status.server_id != older
    await until_pooled(fleet, older)
    assert cloud_host(fleet, older).install == 2
    assert [touch.install for touch in fleet.macs.touched if touch.server_id == older] == [1]


@simulated(seeds=1)
async def test_the_sweep_keeps_its_brakes(world: World) -> None:
    """No second sighting, no cap, no look at what the cloud does to the host. Here all three, and the next cycle
    goes on with the rest.
    """
    fleet = FleetWorld(world, hosts=0, settings=settings(claim_name_prefix=OURS, reclaim_cap=2))
    lost = [fleet.cloud.add_host(f"{OURS}lost-{number}", server_type="M2-L").id for number in range(5)]
    busy = fleet.cloud.add_host(f"{OURS}busy", server_type="M2-L").id
    fleet.cloud.set_status(busy, "rebooting")
    await recorded(fleet, *lost, busy)
    counts = []
    for _ in range(200):
        await fleet.clock.sleep(1)
        if "operator-0" in fleet.running:
            counts.append(reclaimed(fleet))
    steps = [later - earlier for earlier, later in itertools.pairwise(counts) if later != earlier]
    assert sum(steps) == 5
    assert max(steps) <= 2
    first = next(number for number, count in enumerate(counts) if count)
    assert first >= 30, "not on the first sighting"
    assert mutations(fleet, busy) == []
    for server_id in lost:
        await until_pooled(fleet, server_id)


@simulated(seeds=1)
async def test_one_zones_failure_neither_hides_another_zone_nor_counts_as_none(world: World) -> None:
    """The gauge undercounted when a zone failed."""
    fleet = FleetWorld(world, hosts=0, settings=settings(zones=("fr-par-1", "fr-par-3")))
    fleet.cloud.add_host(f"{OURS}a", server_type="M2-L", zone="fr-par-1")
    fleet.cloud.add_host(f"{OURS}b", server_type="M1-M", zone="fr-par-3")
    await fleet.ready.wait()
    await fleet.clock.sleep(60)
    assert orphans(fleet) == 2
    real = fleet.running["operator-0"].context.cloud.list_servers

    async def no_third_zone(zone: str, **how: Any) -> Any:
        if zone == "fr-par-3":
            raise IncompleteList("the pages do not add up")
        return await real(zone, **how)

    fleet.running["operator-0"].context.cloud.list_servers = no_third_zone  # pyright: ignore[reportAttributeAccessIssue]
    fleet.cloud.add_host(f"{OURS}c", server_type="M2-L", zone="fr-par-1")
    await fleet.clock.sleep(120)
    assert orphans(fleet) == 3
    assert set(fleet.running["operator-0"].inventory.problems) == {"fr-par-3"}


@simulated(seeds=1)
async def test_a_reclaimed_host_comes_back_on_the_family_it_had(world: World) -> None:
    """A reclaimed host got the type's default OS, and no fleet could adopt it."""
    fleet = FleetWorld(world, hosts=0, settings=settings(claim_name_prefix=OURS))
    fleet.cloud.set_default_image("M2-L", "macos-sequoia-15.6")
    lost = fleet.cloud.add_host(f"{OURS}lost", server_type="M2-L", image="macos-tahoe-26.3").id
    await recorded(fleet, lost)
    freed = await until_pooled(fleet, lost)
    assert freed.status.os.family == "Tahoe"
    await fleet.machine(f"{OURS}m-1")
    await fleet.all_ready(1)


@simulated(seeds=1)
async def test_a_claim_costs_a_handful_of_calls_and_never_a_list(world: World) -> None:
    """Every adoption listed the whole zone twice under a lock. Here one list per zone and cycle serves all claims."""
    fleet = FleetWorld(world, hosts=12, settings=settings(reclaim_interval=86400.0))
    await fleet.ready.wait()
    await fleet.clock.sleep(60)
    began, lists, calls = fleet.clock.monotonic(), asked(fleet, "list_servers", "list"), len(fleet.cloud.audit)
    for number in range(12):
        await fleet.machine(f"m-{number}")
    for number in range(12):
        await bound(fleet, f"m-{number}")
    cycles = (fleet.clock.monotonic() - began) / fleet.settings.inventory_interval + 1
    assert asked(fleet, "list_servers", "list") - lists <= cycles
    made = Counter(entry.operation for entry in fleet.cloud.audit[calls:])
    assert made["rename"] == 24
    assert sum(made.values()) / 12 <= 8


@simulated(seeds=1)
async def test_a_cloud_that_asks_for_patience_gets_it(world: World) -> None:
    """429 and Retry-After were ignored."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1")
    limited = Fault(kind=FaultKind.RATE_LIMITED, times=3, retry_after=20.0)
    fleet.cloud.inject(limited)
    await fleet.all_ready(1)
    times = [entry.at for entry in fleet.cloud.audit]
    refused = [entry.at for entry in fleet.cloud.audit if entry.status == 429]
    assert refused
    for moment in refused:
        # What was on its way when the answer came had left before; after that there is silence.
        assert not [at for at in times if 1 < (at - moment).total_seconds() < 15]


@simulated(seeds=1)
async def test_failed_bootstraps_keep_their_distance_even_across_restarts(world: World) -> None:
    """No distance between attempts. Writing a failure down wakes the controller, and a new leader has no timers; the
    next attempt waits all the same.
    """
    fleet = FleetWorld(world, hosts=1, settings=settings(tiers=Tiers(reboot_after=0, max_attempts=0)))
    fleet.macs.seconds = 1.0
    fleet.macs.broken.add(fleet.pool[0].id)
    await fleet.machine("m-1")
    for _ in range(6):
        await fleet.clock.sleep(47)
        fleet.operators[0].crash()
    await fleet.clock.sleep(300)
    began = [touch.at for touch in fleet.macs.touched]
    assert len(began) >= 4
    assert min(later - earlier for earlier, later in itertools.pairwise(began)) >= 55
