"""Jobs from their webhook to their end, through everything that goes wrong on the way: none is lost, none is killed."""

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from integration.runners.jobs.world import World

from paddock.embedded.postgres import EmbeddedPostgres
from paddock.kube.builtin import Pod
from paddock.runners.api import OWNER_LABEL
from paddock.simulator.github import Fault, FaultKind
from paddock.simulator.pods import Hang

_schemas = itertools.count()


@pytest_asyncio.fixture
async def world(server: EmbeddedPostgres) -> AsyncIterator[World]:
    async with World(server.dsn, f"jobs_{next(_schemas)}", macs=3).living() as world:
        yield world


async def finished(world: World, within: float = 40.0) -> None:
    await world.until("every job is over in every ledger", world.all_done, within=within)
    assert {world.github.job(job.id).conclusion for job in world.submitted} == {"success"}
    await world.nothing_is_left()


@pytest.mark.slow
async def test_a_burst_of_jobs_flows_through_a_few_macs(world: World) -> None:
    world.submit(9)
    await finished(world)


@pytest.mark.slow
async def test_lost_repeated_and_reordered_webhooks_lose_no_job(world: World) -> None:
    behaviour = world.github.behaviour
    behaviour.undelivered, behaviour.repeated, behaviour.overtaken = 0.2, 0.3, 0.3
    world.submit(8)
    await finished(world, within=60.0)


@pytest.mark.slow
@pytest.mark.parametrize("hang", [Hang.NEVER_REGISTERS, Hang.LOSES_ANSWER, Hang.HANGS_AFTER_JOB, Hang.RETRIES_NOISILY])
async def test_a_runner_that_goes_wrong_costs_no_job(world: World, hang: Hang) -> None:
    world.pods.runner_faults.next.append(hang)
    world.submit(4)
    await finished(world, within=60.0)


@pytest.mark.slow
async def test_a_dispatch_process_that_dies_is_followed_by_one_that_knows_everything(world: World) -> None:
    world.submit(6)
    await world.until(
        "a job is under way", lambda: any(world.github.job(j.id).status == "in_progress" for j in world.submitted)
    )
    await world.kill_dispatch()
    world.submit(3)
    await world.clock.sleep(1.0)
    world.start_dispatch()
    await finished(world, within=60.0)


@pytest.mark.slow
async def test_a_pod_that_is_deleted_by_hand_gives_its_job_back(world: World) -> None:
    world.submit(3, seconds=300.0)

    async def busy() -> list[Pod]:
        return [pod for pod in (await world.client.list(Pod)).items if OWNER_LABEL in pod.metadata.labels]

    await world.until("Pods are busy", busy)
    victim = (await busy())[0]
    world.ended_by_others = 1
    await world.client.delete(
        Pod, victim.metadata.name, victim.metadata.namespace, uid=victim.metadata.uid, grace_period=0
    )
    await world.until("every job is over in every ledger", world.all_done, within=60.0)
    await world.nothing_is_left()


async def test_github_refusing_to_mint_rests_the_job_and_serves_it_later(world: World) -> None:
    world.github.inject(Fault(kind=FaultKind.UNAVAILABLE, operations=("mint",), times=2))
    world.submit(3)
    await finished(world, within=60.0)
