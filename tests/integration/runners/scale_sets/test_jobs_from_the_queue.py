"""Jobs from GitHub's message queue to their success, without a webhook: only GitHub and the Macs are played."""

import itertools
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio
from integration.runners.jobs.world import FLEET, LABEL, POOL, World
from psycopg import sql

from paddock.embedded.postgres import EmbeddedPostgres
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec
from paddock.runners.ledger import FINISHED, Job
from paddock.runners.ledger.scale_sets import is_scale_set_job

_schemas = itertools.count()


class ScaleSetWorld(World):
    """The world of jobs whose pool asks GitHub; no webhook leads anywhere."""

    async def _pool(self) -> None:
        self.github.deliver_to("")
        await self.ledger.allow_list.allow(self.account.id, "acme", by="test", why="as the test needs it")
        await self.client.create(
            RunnerPool(
                metadata=ObjectMeta(name=POOL, namespace="default"),
                spec=RunnerPoolSpec(
                    image="runner:1",
                    fleet_selector=FLEET,
                    dispatch_label=LABEL,
                    runner_labels=("self-hosted", "macOS"),
                    replicas=self.macs,
                    job_source="ScaleSet",
                ),
            )
        )

    async def all_done(self) -> bool:
        """Every job is over at GitHub, and so is every row; no claim and no session is left open."""
        if any(self.github.job(job.id).status != "completed" for job in self.submitted):
            return False
        rows = await self.rows()
        done = [row for row in rows if row.conclusion == "success"]
        if len(done) != len(self.submitted) or any(row.status not in FINISHED for row in rows):
            return False
        return not await self.ledger.claims.all() and not await self.ledger.sessions.open()

    async def rows(self) -> list[Job]:
        """Every job of the ledger."""
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            statement = sql.SQL("SELECT job_id FROM {} ORDER BY job_id").format(sql.Identifier(self.schema, "jobs"))
            found = await (await connection.execute(statement)).fetchall()
        return [job for (number,) in found if (job := await self.ledger.jobs.get(number)) is not None]


@pytest_asyncio.fixture
async def world(server: EmbeddedPostgres) -> AsyncIterator[ScaleSetWorld]:
    world = ScaleSetWorld(server.dsn, f"scale_sets_{next(_schemas)}", macs=3)
    async with world.living():
        yield world


async def finished(world: ScaleSetWorld) -> None:
    await world.until("every job is over in every ledger", world.all_done, within=60.0)
    assert {world.github.job(job.id).conclusion for job in world.submitted} == {"success"}
    assert {world.github.job(job.id).starts for job in world.submitted} == {1}
    assert all(is_scale_set_job(row.job_id) for row in await world.rows())
    await world.nothing_is_left()


async def test_a_job_goes_from_the_queue_to_success_with_dispatch_killed_in_the_middle(world: ScaleSetWorld) -> None:
    world.submit(2, seconds=120.0)
    await world.until(
        "a job is under way", lambda: any(world.github.job(job.id).status == "in_progress" for job in world.submitted)
    )
    await world.kill_dispatch()
    world.submit(2)
    world.start_dispatch()
    await finished(world)
    (source,) = await world.ledger.scale_sets.sources()
    assert source.state == "Listening"
    assert world.github.state.scale_sets[source.scale_set_id or 0].messages == []


@pytest.mark.slow
async def test_more_jobs_than_macs_flow_through(world: ScaleSetWorld) -> None:
    world.submit(9)
    await finished(world)
