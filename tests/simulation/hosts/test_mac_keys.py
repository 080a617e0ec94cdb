"""Each rented Mac is given its key for the gateway, whoever dies, stalls or writes in between, and none is locked out by it."""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from simulation.hosts.interrupting import (
    Kind,
    effects,
    from_here,
    interrupt_everywhere,
    quick,
    small_fleet,
    until_here,
)
from simulation.hosts.speaking import GATEWAY, Speaking, everything
from simulation.hosts.work import node_ready, node_says

from paddock.base.tasks import end
from paddock.clients.gateway.mac_key import hash_of
from paddock.hosts.api import BOOTSTRAPPED, FINALIZER, HostClaim, MachineStatus
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.bootstrap.contract import KeyOffer
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition, is_true
from paddock.kube.objects import ObjectMeta
from paddock.node.keys import Keys
from paddock.simulator.cloud.faults import Fault, FaultKind
from paddock.simulator.faults import Crash, EffectCall, Fail, FaultMoment, LoseAnswer
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

KINDS: tuple[Kind, ...] = (Crash(FaultMoment.BEFORE), Crash(FaultMoment.AFTER), LoseAnswer(), Fail())
"""Before the write of a claim the Mac has the key, and no claim has it."""


@asynccontextmanager
async def speaking(world: World, **more: Any) -> AsyncIterator[tuple[FleetWorld, Speaking]]:
    settings = quick(gateway=GATEWAY, **more.pop("settings", {}))
    fleet = small_fleet(world, hosts=more.pop("hosts", 1), settings=settings, **more)
    macs = Speaking(fleet)
    task = asyncio.create_task(macs.run())
    try:
        yield fleet, macs
    finally:
        await end(task)


async def _until_known(fleet: FleetWorld, macs: Speaking, within: float = 900) -> HostClaim:
    async def speaks() -> bool:
        return macs.speaks()

    await fleet.eventually("every claimed Mac speaks with the one key of its claim", speaks, within)
    macs.safe()
    (claim,) = [each.spec.claim for each in fleet.store.present(Host) if each.spec.claim and not each.spec.release]
    return claim


async def _claim(fleet: FleetWorld, **change: Any) -> None:
    """Write the claim of the one Host, as a backup or another leader would."""
    (host,) = fleet.store.present(Host)
    await fleet.api.merge_patch(Host, host.metadata.name, {"spec": {"claim": change}}, namespace="default")


def writes_to_hosts(call: EffectCall) -> bool:
    """Claims, keys and releases."""
    return effects(call) and call.path.rpartition("/")[0].endswith("siliconhosts")


def writes_that_decide(call: EffectCall) -> bool:
    return effects(call) and not ("siliconhosts/" in call.path and call.path.endswith("/status"))


# A new Mac


@simulated(seeds=2)
async def test_a_bootstrapped_mac_is_given_one_key_and_its_claim_the_hash(world: World) -> None:
    async with speaking(world) as (fleet, macs):
        await fleet.machine("m-1")
        claim = await _until_known(fleet, macs)
        assert (claim.key_number, len(fleet.macs.keys_given)) == (1, 1)
        await fleet.clock.sleep(1800)
        assert len(fleet.macs.keys_given) == 1, "and no other"
        assert len(fleet.macs.keys_given[0]) >= 43, "256 bits"


@simulated(seeds=1)
async def test_an_operator_that_knows_no_gateway_gives_no_key(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    await fleet.clock.sleep(900)
    (host,) = fleet.store.present(Host)
    assert (fleet.macs.keys_given, fleet.macs.keys) == ([], {})
    assert host.spec.claim is not None
    assert (host.spec.claim.key_hash, host.spec.claim.machine_id) == ("", "")


async def _introduced(world: World) -> None:
    async with speaking(world) as (fleet, macs):
        from_here(world)
        await fleet.machine("m-1")
        claim = await _until_known(fleet, macs)
        assert claim.key_number <= len(fleet.macs.keys_given)
        until_here(world)
        await fleet.all_ready(1)


def test_a_first_key_survives_every_interruption_of_every_write_to_its_host() -> None:
    assert interrupt_everywhere(_introduced, kinds=KINDS, only=writes_to_hosts) >= 2


@simulated(seeds=1)
async def test_a_mac_whose_answers_are_lost_is_given_other_keys_until_one_is_heard(world: World) -> None:
    async with speaking(world) as (fleet, macs):
        fleet.macs.lost_key_answers = 2
        await fleet.machine("m-1")
        claim = await _until_known(fleet, macs)
        assert (claim.key_number, len(set(fleet.macs.keys_given))) == (3, len(fleet.macs.keys_given))


@simulated(seeds=1)
async def test_whoever_writes_the_host_while_the_key_is_under_way_makes_it_worthless(world: World) -> None:
    async with speaking(world) as (fleet, macs):
        written: list[str] = []

        async def somebody_writes(server: str, offer: KeyOffer | None) -> None:
            if len(written) < 2:
                written.append(server)
                (host,) = fleet.store.present(Host)
                why = {"spec": {"retire": f"for a test, {len(written)}"}}
                await fleet.api.merge_patch(Host, host.metadata.name, why, namespace="default")

        fleet.macs.on_key.append(somebody_writes)
        await fleet.machine("m-1")
        claim = await _until_known(fleet, macs)
        assert claim.key_number == 3
        assert [hash_of(key) for key in fleet.macs.keys_given].index(claim.key_hash) == 2


@simulated(seeds=1)
async def test_a_key_that_another_leader_wrote_meanwhile_is_replaced_because_the_mac_has_ours(world: World) -> None:
    async with speaking(world) as (fleet, macs):
        written: list[str] = []

        async def another_leader_writes(server: str, offer: KeyOffer | None) -> None:
            if not written:
                written.append(server)
                await _claim(fleet, keyHash="b" * 64, keyNumber=1)

        fleet.macs.on_key.append(another_leader_writes)
        await fleet.machine("m-1")
        claim = await _until_known(fleet, macs, within=300)
        assert claim.key_number == 2


@simulated(seeds=3)
async def test_the_key_of_a_leader_that_stalled_arrives_late_and_harms_nobody(world: World) -> None:
    async with speaking(world, operators=2, elect=False) as (fleet, macs):
        stalled: list[int] = []

        async def stall(server: str, offer: KeyOffer | None) -> None:
            del server
            if offer is not None and not stalled:
                stalled.append(offer.number)
                await fleet.clock.sleep(300)

        fleet.macs.on_key.append(stall)
        await fleet.machine("m-1")
        claim = await _until_known(fleet, macs)
        number = claim.key_number
        assert stalled
        await fleet.clock.sleep(1800)
        claim = await _until_known(fleet, macs)
        assert claim.key_number >= number
        assert not macs.locked_out


@simulated(seeds=1)
async def test_a_mac_that_cannot_be_reached_waits_with_its_reason_and_climbs_no_tier(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    (server,) = (host.id for host in fleet.cloud.hosts())
    fleet.macs.broken.add(server)
    fleet.settings = replace(fleet.settings, gateway=GATEWAY)
    fleet.operators[0].crash()
    await fleet.clock.sleep(4 * 3600)
    (machine,) = await fleet.machines()
    said = get_condition(machine.status.conditions, "KnownToGateway")
    assert said is not None
    assert (said.status, said.reason) == ("False", "KeyNotGiven")
    assert "the connection was refused" in said.message
    assert machine.status.ready
    assert (machine.status.remediation, fleet.macs.soft_reboots, fleet.wipes) == (None, [], [])
    assert not [entry for entry in fleet.cloud.audit if entry.path.endswith("/reboot")]
    fleet.macs.broken.clear()

    async def known() -> bool:
        (one,) = await fleet.machines()
        return get_condition(one.status.conditions, "KnownToGateway") is None

    await fleet.eventually("it is known, and nothing is said any more", known, within=300)
    assert len(fleet.macs.keys_given) == 1


# Another key


async def _promoted(world: World) -> None:
    async with speaking(world) as (fleet, macs):
        await fleet.machine("m-1")
        claim = await _until_known(fleet, macs)
        (server,) = (host.id for host in fleet.cloud.hosts())
        # As a pass leaves it that gave the Mac another key.
        another = "another-".ljust(43, "k")
        fleet.macs.keys_given.append(another)
        fleet.macs.keys[server, 1] = Keys(2, another, fleet.macs.keys[server, 1].proven)
        await _claim(fleet, nextKeyHash=hash_of(another), nextKeyNumber=2)
        from_here(world)
        after = await _until_known(fleet, macs)
        assert (after.key_hash, after.key_number) == (hash_of(another), 2)
        assert after.key_hash != claim.key_hash


def test_the_key_before_ends_once_the_mac_uses_the_next_whatever_is_interrupted() -> None:
    assert interrupt_everywhere(_promoted, kinds=KINDS, only=writes_to_hosts) >= 1


async def _from_a_backup(world: World) -> None:
    """The Host comes from a backup, with the hash of a key that the Mac has given up."""
    async with speaking(world, settings={"expect_nodes": True, "inventory_interval": 60.0}) as (fleet, macs):
        await fleet.machine("m-1")
        work = await node_ready(fleet)
        await _until_known(fleet, macs)
        (server,) = (host.id for host in fleet.cloud.hosts())
        held = fleet.macs.keys[server, 1]
        fleet.macs.keys[server, 1] = Keys(7, held.newest, held.proven)
        await _claim(fleet, keyHash="0" * 64, keyNumber=3)
        await node_says(fleet, "Unknown", since=120)
        from_here(world)

        async def known() -> bool:
            return macs.speaks()

        await fleet.eventually("it is given a key that the claim knows", known, within=1800)
        until_here(world)
        (host,) = fleet.store.present(Host)
        assert host.spec.claim is not None
        assert host.spec.claim.key_number >= 8, "higher than any that the Mac took"
        assert not fleet.wipes
        assert not work.killed


def test_a_silent_mac_whose_claim_knows_none_of_its_keys_is_asked_and_introduced() -> None:
    assert interrupt_everywhere(_from_a_backup, kinds=KINDS, only=writes_to_hosts) >= 1


@simulated(seeds=1)
async def test_a_silent_mac_whose_claim_knows_its_key_is_given_no_other(world: World) -> None:
    async with speaking(world, settings={"expect_nodes": True, "inventory_interval": 60.0}) as (fleet, macs):
        await fleet.machine("m-1")
        await node_ready(fleet)
        await _until_known(fleet, macs)
        await node_says(fleet, "Unknown", since=120)

        async def restarted() -> bool:
            return bool(fleet.macs.updates)

        await fleet.eventually("its agent is started anew", restarted, within=1800)
        assert len(fleet.macs.keys_given) == 1


# The end of a key


async def _reinstalled(world: World) -> None:
    async with speaking(world, settings={"expect_nodes": True, "inventory_interval": 60.0}) as (fleet, macs):
        await fleet.machine("m-1")
        work = await node_ready(fleet)
        await _until_known(fleet, macs)
        (server,) = (host.id for host in fleet.cloud.hosts())
        fleet.macs.seconds = 1.0
        before = list(fleet.macs.keys_given)
        await node_says(fleet, "Unknown", since=3600)

        async def recorded() -> bool:
            return (await fleet.machines())[0].status.reinstall is not None

        await fleet.eventually("a reinstall is recorded", recorded, within=3 * 3600)
        from_here(world)

        async def set_up() -> bool:
            (one,) = await fleet.machines()
            return one.status.reinstalled_at is not None and is_true(one.status.conditions, "Bootstrapped")

        await fleet.eventually("it was reinstalled and bootstrapped", set_up, within=3 * 3600)
        claim = await _until_known(fleet, macs)
        assert claim.key_hash not in {hash_of(key) for key in before}
        assert claim.key_number > len(before), "a number is never given twice"
        until_here(world)
        assert fleet.cloud.host(server).install >= 2
        assert fleet.macs.changed_keys == []
        assert not work.killed


def test_a_reinstall_in_place_ends_the_key_and_the_new_disk_gets_another() -> None:
    assert interrupt_everywhere(_reinstalled, kinds=(Crash(FaultMoment.AFTER),), only=writes_that_decide) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Crash(FaultMoment.BEFORE), LoseAnswer(), Fail()])
def test_a_reinstall_survives_every_other_interruption(kind: Kind) -> None:
    assert interrupt_everywhere(_reinstalled, kinds=(kind,), only=writes_that_decide) >= 5


@simulated(seeds=1)
async def test_the_key_ends_before_the_install_is_noted_and_a_stalled_leader_brings_none_back(world: World) -> None:
    async with speaking(world, settings={"expect_nodes": True, "inventory_interval": 60.0}) as (fleet, macs):
        await fleet.machine("m-1")
        await node_ready(fleet)
        former = await _until_known(fleet, macs)
        await node_says(fleet, "Unknown", since=3600)

        async def noted() -> bool:
            work = (await fleet.machines())[0].status.reinstall
            return work is not None and work.wipe == "started"

        await fleet.eventually("the install is noted", noted, within=3 * 3600, every=0.01)
        (host,) = fleet.store.present(Host)
        assert host.spec.claim is not None
        assert (host.spec.claim.key_hash, host.spec.claim.machine_id) == ("", "")
        await _claim(fleet, keyHash="e" * 64, keyNumber=former.key_number + 1)

        async def installed() -> bool:
            return (await fleet.machines())[0].status.reinstalled_at is not None

        await fleet.eventually("it was reinstalled", installed, within=3 * 3600, every=0.01)
        (host,) = fleet.store.present(Host)
        assert host.spec.claim is not None
        assert host.spec.claim.key_hash == "", "no key of the old disk counts for the new one"
        claim = await _until_known(fleet, macs, within=300)
        assert claim.key_number > former.key_number + 1


@simulated(seeds=1)
async def test_the_key_survives_a_reinstall_that_the_cloud_refuses(world: World) -> None:
    async with speaking(world, settings={"expect_nodes": True, "inventory_interval": 60.0}) as (fleet, macs):
        await fleet.machine("m-1")
        await node_ready(fleet)
        claim = await _until_known(fleet, macs)
        fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("reinstall",), times=None))
        await node_says(fleet, "Unknown", since=3600)

        async def asked() -> bool:
            (one,) = await fleet.machines()
            return one.status.reinstall is not None and one.status.reinstall.asked >= 1

        await fleet.eventually("the cloud was asked", asked, within=3 * 3600)
        await fleet.clock.sleep(60)
        assert await _until_known(fleet, macs) == claim, "only that Mac can say that nobody works there"


async def _let_go(world: World) -> None:
    """A machine is deleted while its Mac is being given a key; the Mac is claimed again by another machine."""
    async with speaking(world) as (fleet, macs):
        await fleet.machine("m-1")
        deleted: list[str] = []

        async def deletes(server: str, offer: KeyOffer | None) -> None:
            if not deleted:
                deleted.append(server)
                await fleet.api.delete(Machine, "m-1", "default")
                await fleet.clock.sleep(20)

        fleet.macs.on_key.append(deletes)
        from_here(world)

        async def gone() -> bool:
            return not fleet.store.present(Machine)

        await fleet.eventually("the machine is gone", gone, within=900)
        macs.safe()

        async def free() -> bool:
            (host,) = fleet.store.present(Host)
            return host.spec.claim is None and host.spec.release is None

        await fleet.eventually("its Host is free", free, within=900)
        until_here(world)
        await fleet.machine("m-2")
        claim = await _until_known(fleet, macs)
        assert claim.machine_name == "m-2"


def test_a_release_that_is_recorded_half_way_leaves_no_key_that_counts() -> None:
    assert interrupt_everywhere(_let_go, kinds=KINDS, only=writes_to_hosts) >= 4


@simulated(seeds=1)
async def test_the_wipe_of_a_release_ends_the_key_in_the_write_that_notes_it(world: World) -> None:
    async with speaking(world) as (fleet, macs):
        await fleet.machine("m-1")
        await _until_known(fleet, macs)
        await fleet.api.delete(Machine, "m-1", "default")
        seen: list[str] = []

        async def started() -> bool:
            (host,) = fleet.store.present(Host)
            if host.spec.release is None or host.spec.claim is None:
                return False
            if host.spec.release.wipe != "started":
                return False
            seen.append(host.spec.claim.key_hash)
            return True

        await fleet.eventually("the cloud wipes it", started, within=900, every=0.01)
        assert seen == [""]


# Machines that come from elsewhere


async def _moved(world: World) -> None:
    """As clusterctl moves it, or `paddock adopt` makes it: another uid, no status, and the claim of the one before."""
    async with speaking(world) as (fleet, macs):
        await fleet.machine("m-1")
        await _until_known(fleet, macs)
        await fleet.all_ready(1)
        (before,) = await fleet.machines()
        for process in fleet.operators:
            process.crash()
        await fleet.force_delete("m-1")
        marks = {BOOTSTRAPPED: before.metadata.annotations[BOOTSTRAPPED]}
        meta = ObjectMeta(name="m-1", namespace="default", annotations=marks, finalizers=(FINALIZER,))
        from_here(world)
        await fleet.api.create(msgspec.structs.replace(before, metadata=meta, status=MachineStatus()))
        claim = await _until_known_by(fleet, macs, before.metadata.uid)
        assert claim.key_number >= 2, "the number goes on: the disk is the same"
        until_here(world)
        await fleet.all_ready(1)
        assert len(fleet.macs.bootstraps) == 1
        assert not fleet.wipes


@simulated(seeds=1)
async def test_a_machine_that_is_deleted_right_after_a_move_has_its_mac_introduced_first(world: World) -> None:
    """Only that Mac can say who works there."""
    async with speaking(world, settings={"expect_nodes": True, "inventory_interval": 60.0}) as (fleet, macs):
        await fleet.machine("m-1")
        await node_ready(fleet)
        await _until_known(fleet, macs)
        (before,) = await fleet.machines()
        for process in fleet.operators:
            process.crash()
        await fleet.api.delete(Node, "m-1")
        await fleet.force_delete("m-1")
        marks = {BOOTSTRAPPED: before.metadata.annotations[BOOTSTRAPPED]}
        meta = ObjectMeta(name="m-1", namespace="default", annotations=marks, finalizers=(FINALIZER,))
        await fleet.api.create(msgspec.structs.replace(before, metadata=meta, status=MachineStatus()))
        await fleet.api.delete(Machine, "m-1", "default")
        await _until_known_by(fleet, macs, before.metadata.uid)
        assert not fleet.wipes


async def _until_known_by(fleet: FleetWorld, macs: Speaking, former: str) -> HostClaim:
    async def speaks() -> bool:
        (host,) = fleet.store.present(Host)
        return host.spec.claim is not None and host.spec.claim.machine_uid != former and macs.speaks()

    await fleet.eventually("the Mac speaks for its new machine", speaks, within=900)
    macs.safe()
    (host,) = fleet.store.present(Host)
    assert host.spec.claim is not None
    return host.spec.claim


def test_a_machine_that_comes_from_a_move_or_a_backup_has_its_mac_introduced() -> None:
    assert interrupt_everywhere(_moved, kinds=KINDS, only=writes_to_hosts) >= 2


# Secrecy


@simulated(seeds=1)
async def test_a_key_is_left_nowhere_but_on_its_mac(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with speaking(world) as (fleet, macs):
        fleet.macs.lost_key_answers = 1
        await fleet.machine("m-1")
        await _until_known(fleet, macs)
        await fleet.all_ready(1)
        await fleet.clock.sleep(120)
        left = f"{everything(fleet)}\n{world.trace.text()}\n{caplog.text}"
        assert hash_of(fleet.macs.keys_given[-1]) in left, "the Host has its hash"
        assert "KeyGiven" in left, "its event is there"
        assert len(fleet.macs.keys_given) >= 2
        for key in fleet.macs.keys_given:
            for shape in (key, base64.b64encode(key.encode()).decode(), key[8:-8]):
                assert shape not in left
