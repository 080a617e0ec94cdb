"""Release to the pool instead of destroying, and a billing-floor fallback that works."""

from datetime import timedelta

import pytest
from incidents.hosts.story import (
    Machine,
    cloud_host,
    events,
    mutations,
    one,
    settings,
    until_gone,
    until_pooled,
)
from unit.hosts.made import NOW, POOL, SERVER_ID, claim, host, machine, release, server

from paddock.hosts.delete import RecordRelease, ending
from paddock.hosts.release import Wait, release_step
from paddock.simulator.cloud import Fault, FaultKind
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World, simulate
from paddock.simulator.seeds import simulated

TERMINATE = {"tuist.dev/release-policy": "terminate"}


async def ready_machine(world: World, *, terminate: bool = False) -> tuple[FleetWorld, str]:
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    if terminate:
        patch = {"metadata": {"annotations": TERMINATE}}
        await fleet.api.merge_patch(Machine, "m-1", patch, namespace="default")
    return fleet, (await one(fleet, "m-1")).status.server_id


def below_its_floor(fleet: FleetWorld, server_id: str) -> None:
    cloud_host(fleet, server_id).deletable_at = fleet.clock.now() + timedelta(days=22)


# Fix 1: the billing floor, in every shape


@pytest.mark.parametrize("shape", ["typed", "bare", "text", "mismatched"])
def test_a_deletion_below_the_billing_floor_is_scheduled_whatever_shape_the_refusal_has(shape: str) -> None:
    """`TestDeleteServer_PreconditionFailedTriggersScheduleDeletion` (typed) and
    `TestDeleteServer_ResponseError412AlsoTriggersScheduleDeletion` (generic).
    """

    async def story(world: World) -> None:
        fleet, server_id = await ready_machine(world, terminate=True)
        fleet.cloud.behaviour.floor_shape = shape  # pyright: ignore[reportAttributeAccessIssue]
        below_its_floor(fleet, server_id)
        await fleet.api.delete(Machine, "m-1", "default")
        await until_gone(fleet, "m-1")

        async def scheduled() -> bool:
            return cloud_host(fleet, server_id).deletion_scheduled

        await fleet.eventually("the deletion is scheduled", scheduled, within=120)
        assert mutations(fleet, server_id, "reinstall", "delete") == []
        assert await events(fleet, "DeletionScheduled")

    simulate(story, seed=f"floor {shape}")


@simulated(seeds=1)
async def test_a_schedule_that_fails_is_tried_again_and_the_failure_is_said(world: World) -> None:
    """`TestDeleteServer_PreconditionFallbackPropagatesNon404UpdateError`."""
    fleet, server_id = await ready_machine(world, terminate=True)
    below_its_floor(fleet, server_id)
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("schedule_deletion",), times=2))
    await fleet.api.delete(Machine, "m-1", "default")
    await until_gone(fleet, "m-1")

    async def scheduled() -> bool:
        return cloud_host(fleet, server_id).deletion_scheduled

    await fleet.eventually("the deletion is scheduled in the end", scheduled, within=300)
    assert await events(fleet, "ReleaseFailed")


@simulated(seeds=1)
async def test_a_server_that_vanished_before_its_deletion_was_scheduled_is_simply_gone(world: World) -> None:
    """`TestDeleteServer_PreconditionFallbackTreats404AsAlreadyGone`."""
    fleet, server_id = await ready_machine(world, terminate=True)
    below_its_floor(fleet, server_id)
    fleet.cloud.inject(Fault(kind=FaultKind.LOST, operations=("schedule_deletion",), times=1))

    async def tried() -> bool:
        return any(entry.operation == "schedule_deletion" for entry in fleet.cloud.audit)

    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.eventually("the schedule was tried", tried, within=120)
    fleet.cloud.delete_host(server_id)

    async def forgotten() -> bool:
        return server_id not in await fleet.hosts()

    await fleet.eventually("the Host object is gone, too", forgotten, within=300)


# Fix 2: release to the pool


@simulated(seeds=2)
async def test_a_release_renames_the_host_into_the_pool_and_wipes_it(world: World) -> None:
    """`TestReleaseToPool_HappyPathRenamesAndReinstalls`, in our order: marker, wipe, pool name."""
    fleet, server_id = await ready_machine(world)
    claimed = len(mutations(fleet))
    await fleet.api.delete(Machine, "m-1", "default")
    await until_pooled(fleet, server_id)
    assert mutations(fleet)[claimed:] == ["rename", "reinstall", "rename"]
    renames = [entry.body["name"] for entry in fleet.cloud.audit if entry.operation == "rename"][-2:]
    assert str(renames[0]).startswith("tuist-release-pending-")
    assert str(renames[1]).startswith(POOL)
    assert cloud_host(fleet, server_id).install == 2


def test_a_release_without_a_pool_prefix_is_never_recorded() -> None:
    """`TestReleaseToPool_RejectsEmptyPoolPrefix`: no call, because there is no release."""
    of = machine(server_id=SERVER_ID)
    decided = ending(of, host(spec={"claim": claim(of)}, cloud_name="m-1"), "")
    assert not isinstance(decided, RecordRelease)


@simulated(seeds=1)
async def test_a_second_wipe_while_one_is_under_way_is_taken_as_done(world: World) -> None:
    """`TestReleaseToPool_SwallowsTransientStateOnReinstall`: the first answer was lost, the cloud is already wiping."""
    fleet, server_id = await ready_machine(world)
    fleet.cloud.inject(Fault(kind=FaultKind.LOST, operations=("reinstall",), after_effect=True))
    await fleet.api.delete(Machine, "m-1", "default")
    await until_pooled(fleet, server_id)
    assert cloud_host(fleet, server_id).install == 2
    assert mutations(fleet, server_id, "reinstall") == ["reinstall"]


@simulated(seeds=1)
async def test_a_host_that_vanished_before_its_rename_lets_the_machine_go_without_a_wipe(world: World) -> None:
    """`TestReleaseToPool_TreatsRename404AsAlreadyGone` (reinstall skipped)."""
    fleet, server_id = await ready_machine(world)
    fleet.operators[0].crash()
    fleet.cloud.delete_host(server_id)
    await fleet.api.delete(Machine, "m-1", "default")
    await until_gone(fleet, "m-1")

    async def forgotten() -> bool:
        return server_id not in await fleet.hosts()

    await fleet.eventually("the Host object is gone, too", forgotten, within=300)
    assert mutations(fleet, server_id, "reinstall") == []


@simulated(seeds=1)
async def test_a_host_that_vanished_before_its_wipe_is_simply_gone(world: World) -> None:
    """`TestReleaseToPool_TreatsReinstall404AsAlreadyGone`."""
    fleet, server_id = await ready_machine(world)
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("reinstall",), times=1))
    await fleet.api.delete(Machine, "m-1", "default")

    async def parked() -> bool:
        return cloud_host(fleet, server_id).name.startswith("tuist-release-pending-")

    await fleet.eventually("the host is parked under its marker", parked, within=60)
    fleet.cloud.delete_host(server_id)

    async def forgotten() -> bool:
        return server_id not in await fleet.hosts()

    await fleet.eventually("the Host object is gone, too", forgotten, within=600)


@simulated(seeds=1)
async def test_a_wipe_that_is_refused_is_said_tried_again_and_never_skipped(world: World) -> None:
    """`TestReleaseToPool_PropagatesNonRecoverableReinstallError`: the host is not pooled before it is wiped."""
    fleet, server_id = await ready_machine(world)
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("reinstall",), times=3))
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(100)
    assert cloud_host(fleet, server_id).name.startswith("tuist-release-pending-")
    assert await events(fleet, "ReleaseFailed")
    await until_pooled(fleet, server_id)
    assert cloud_host(fleet, server_id).install == 2


# Which of the two


def test_a_pool_host_is_released_by_default() -> None:
    """`TestShouldReleaseToPool_PoolAdoptedDefault`."""
    of = machine(server_id=SERVER_ID, spec={"adopt_pool_prefix": POOL})
    assert ending(of, host(spec={"claim": claim(of)}), "") == RecordRelease("pool", POOL)


def test_the_annotation_opts_out_into_termination() -> None:
    """`TestShouldReleaseToPool_PoolAdoptedTerminateOptOut`."""
    of = machine(server_id=SERVER_ID, spec={"adopt_pool_prefix": POOL}, annotations=TERMINATE)
    assert ending(of, host(spec={"claim": claim(of)}), "") == RecordRelease("terminate", POOL)


def test_a_host_that_was_ordered_is_always_terminated() -> None:
    """`TestShouldReleaseToPool_AutoOrderAlwaysTerminate`: here `spec.source: Order` says so, not a missing prefix."""
    of = machine(server_id=SERVER_ID, spec={"source": "Order"})
    for default in ("", POOL):
        decided = ending(of, host(spec={"claim": claim(of)}), default)
        assert isinstance(decided, RecordRelease)
        assert decided.policy == "terminate"


def test_an_unknown_annotation_falls_through_to_the_default() -> None:
    """`TestShouldReleaseToPool_UnknownAnnotationFallsThroughToDefault`."""
    of = machine(server_id=SERVER_ID, annotations={"tuist.dev/release-policy": "recycle"})
    assert ending(of, host(spec={"claim": claim(of)}), POOL) == RecordRelease("pool", POOL)


@simulated(seeds=1)
async def test_deleting_a_pool_machine_never_deletes_its_server(world: World) -> None:
    """`TestReconcileDelete_PoolAdoptedReleasesToPool`, and the plan's `no DeleteServer call`."""
    fleet, server_id = await ready_machine(world)
    await fleet.api.delete(Machine, "m-1", "default")
    await until_gone(fleet, "m-1", within=30)
    assert cloud_host(fleet, server_id).status != "ready" or cloud_host(fleet, server_id).install == 1
    await until_pooled(fleet, server_id)
    assert not any(entry.operation in ("delete", "schedule_deletion") for entry in fleet.cloud.audit)


@simulated(seeds=1)
async def test_deleting_an_annotated_machine_deletes_its_server(world: World) -> None:
    """`TestReconcileDelete_TerminateAnnotationFallsBackToDeleteServer`."""
    fleet, server_id = await ready_machine(world, terminate=True)
    cloud_host(fleet, server_id).deletable_at = fleet.clock.now()
    await fleet.api.delete(Machine, "m-1", "default")
    await until_gone(fleet, "m-1", within=30)

    async def deleted() -> bool:
        return server_id not in fleet.cloud.state.hosts and server_id not in await fleet.hosts()

    await fleet.eventually("server and Host object are gone", deleted, within=600)
    assert mutations(fleet, server_id, "reinstall") == []


@simulated(seeds=1)
async def test_deleting_a_machine_that_ordered_its_host_deletes_the_server(world: World) -> None:
    """`TestReconcileDelete_AutoOrderUsesDeleteServer`."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1", source="Order")
    await fleet.all_ready(1, within=7200)
    server_id = (await one(fleet, "m-1")).status.server_id
    cloud_host(fleet, server_id).deletable_at = fleet.clock.now()
    await fleet.api.delete(Machine, "m-1", "default")

    async def deleted() -> bool:
        return server_id not in fleet.cloud.state.hosts

    await fleet.eventually("the server is deleted", deleted, within=600)


def test_a_machine_never_waits_for_a_billing_floor() -> None:
    """The incident itself: the retry every 60 s, and `helm --wait` behind it. The wait is the Host's, not the Machine's."""
    recorded = host(spec={"claim": claim(), "release": release(policy="terminate", cloud_name="m-1")})
    scheduled = server("m-1", deletion_scheduled=True)
    assert isinstance(release_step(recorded, scheduled, NOW), Wait)
    # `ending` has no branch that waits: it records, skips, or has nothing to do.
    assert ending(machine(server_id=SERVER_ID, annotations=TERMINATE), recorded, POOL) is not None
