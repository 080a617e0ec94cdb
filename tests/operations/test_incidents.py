"""Incidents happen to a real fleet in virtual time, and `status` names the true cause first. They are recorded for the unit tests."""

import asyncio
import os

import pytest
from integration.schemas import Schemas
from operations.incidents import INCIDENTS, Stage
from operations.judges import ended
from operations.world import OperationsWorld
from unit.views.recorded import Recorded

from paddock.base.clock import SystemClock
from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.kube.builtin import Node, Pod
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.database import prepare
from paddock.simulator.process import World, simulate


async def look(world: OperationsWorld, name: str, cause: str) -> Recorded:
    """All that `status` reads, as it is now."""
    store, service = world.store, world.service
    alive = world.dispatch.running and service is not None
    return Recorded(
        incident=name,
        cause=cause,
        second=INCIDENTS[name].second,
        now=world.clock.now(),
        hosts=store.present(ScalewayAppleSiliconHost),
        machines=store.present(Machine),
        fleets=store.present(MacFleet),
        pools=store.present(RunnerPool),
        pods=store.present(Pod),
        nodes=store.present(Node),
        summary=await service.queue.summary() if alive and service is not None else None,
        told=list(world.hosts.inventory.problems.values()) if world.hosts is not None else [],
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", INCIDENTS)
def test_status_names_the_true_cause_first(schemas: Schemas, name: str) -> None:
    incident, schema = INCIDENTS[name], schemas.take()
    asyncio.run(prepare(schemas.dsn, schema=schema, clock=SystemClock()))
    seen: list[Recorded] = []

    async def run(world: World) -> None:
        fleet = OperationsWorld(world, schemas.dsn, schema, macs=incident.macs, spare=incident.spare, expect_nodes=True)
        stage = Stage(fleet)
        await fleet.begin()
        pushing = asyncio.create_task(stage.run())
        stage.seconds = incident.seconds
        await stage.begin(incident.macs, incident.busy)
        stage.wanted = incident.jobs
        cause = await incident.strike(stage)
        await stage.pause(incident.after)
        seen.append(await look(fleet, name, cause))
        await ended(pushing)
        fleet.end()

    simulate(run, seed=1)
    asyncio.run(schemas.give_back(schema))
    [recorded] = seen
    if os.environ.get("PADDOCK_WRITE_INCIDENTS"):
        recorded.write()
    assert recorded.right() is not incident.missed, (recorded.first(), recorded.cause)
