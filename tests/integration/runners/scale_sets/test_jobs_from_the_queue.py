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
from paddock.runners.webhooks.reconciled import enqueue_from_github

_schemas = itertools.count()


class ScaleSetWorld(World):
    """The world of jobs whose pool asks GitHub; no webhook leads anywhere, unless it is `told`."""

    told = False

    async def _pool(self) -> None:
        if not self.told:
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


async def test_a_rerun_that_github_does_not_announce_is_woken_by_one_runner(world: ScaleSetWorld) -> None:
    world.submit(1)
    await finished(world)
    world.github.behaviour.unannounced_reruns = True
    again = world.github.rerun(world.submitted[0].id)
    world.submitted.append(again)
    assert again.scale_set_id
    (waiting,) = await world.github_client.waiting_jobs(world.account.installation_id, "acme/app")
    (pool,) = (await world.client.list(RunnerPool)).items
    announce = enqueue_from_github(world.ledger, lambda: [pool], world.clock)
    assert (again.assignments, len(await world.rows())) == (0, 1)
    assert await announce(world.account.installation_id, "acme/app", waiting)
    assert not await announce(world.account.installation_id, "acme/app", waiting)
    await finished(world)
    assert again.assignments == 1
    assert len(await world.rows()) == 2


@pytest.mark.slow
async def test_no_account_runs_more_than_its_limit_at_any_moment_and_none_is_starved(world: ScaleSetWorld) -> None:
    bolt = world.github.add_organization("bolt", "app")
    await world.ledger.accounts.enrol(bolt.id, "bolt", bolt.installation_id)
    await world.ledger.allow_list.allow(bolt.id, "bolt", by="test", why="as the test needs it")
    for account, macs in ((world.account.id, 2), (bolt.id, 1)):
        room = {"vcpus": 6 * macs, "memory_mb": 14_336 * macs}
        await world.ledger.limits.set(account, "macos", **room, by="test", why="so many Macs")
    world.submit(5, seconds=60.0)
    theirs = [world.github.submit("bolt/app", labels=(LABEL,), duration=60.0, name=f"bolt {n}") for n in range(3)]
    world.submitted += theirs
    most: dict[str, int] = {"acme": 0, "bolt": 0}

    async def done() -> bool:
        for login, before in most.items():
            running = [j for j in world.submitted if j.repository.startswith(login) and j.status == "in_progress"]
            most[login] = max(before, len(running))
        return await world.all_done()

    await world.until("every job is over", done, within=90.0)
    assert 1 <= most["acme"] <= 2
    assert most["bolt"] == 1
    # Whoever has the smaller limit did not wait for the whole line of the other.
    ends = {job.name: job.completed_at for job in world.submitted if job.completed_at is not None}
    assert ends["bolt 0"] < max(end for name, end in ends.items() if not name.startswith("bolt"))
    await finished(world)


@pytest.mark.slow
async def test_jobs_whose_rows_were_lost_with_the_ledger_run_without_being_assigned_again(world: ScaleSetWorld) -> None:
    world.github.behaviour.assignment_life = 3600.0 * 60
    limits, account = world.ledger.limits, world.account.id
    await limits.set(account, "macos", vcpus=1, memory_mb=1024, by="test", why="nothing is handed out for now")
    world.submit(1)

    async def waits() -> bool:
        return len(await world.rows()) == 1

    await world.until("it waits here", waits)
    await world.until(
        "and is acknowledged", lambda: not any(s.messages or s.said for s in world.github.state.scale_sets.values())
    )
    await world.kill_dispatch()
    async with await psycopg.AsyncConnection.connect(world.dsn) as connection:
        for table in ("scale_set_jobs", "jobs"):
            await connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(world.schema, table)))
    await limits.set(account, "macos", vcpus=600, memory_mb=14_336_000, by="test", why="as it was")
    world.start_dispatch()
    await finished(world)
    (row,) = await world.rows()
    assert (row.job_name, row.repository) == ("job 0", "acme/app")
    assert world.github.job(world.submitted[0].id).assignments == 1


@pytest.mark.slow
async def test_a_pool_whose_source_is_changed_serves_what_was_assigned_and_its_set_goes(world: ScaleSetWorld) -> None:
    world.submit(1, seconds=240.0)
    await world.until("it runs", lambda: world.github.job(world.submitted[0].id).status == "in_progress")
    await world.client.merge_patch(RunnerPool, POOL, {"spec": {"jobSource": "Webhook"}}, namespace="default")
    await finished(world)
    await world.until("the set is gone at GitHub", lambda: not world.github.state.scale_sets)
    (source,) = await world.ledger.scale_sets.sources()
    assert (source.state, source.scale_set_id) == ("Stopped", None)
    await world.client.merge_patch(RunnerPool, POOL, {"spec": {"jobSource": "ScaleSet"}}, namespace="default")
    await world.until("there is a set again", lambda: bool(world.github.state.scale_sets))
    world.submit(1)
    await finished(world)


async def test_a_pool_that_comes_back_under_another_name_has_the_set_and_the_jobs_of_the_one_that_went(
    world: ScaleSetWorld,
) -> None:
    world.github.behaviour.assignment_life = 3600.0 * 60
    limits, account = world.ledger.limits, world.account.id
    await limits.set(account, "macos", vcpus=1, memory_mb=1024, by="test", why="nothing is handed out for now")
    world.submit(1)

    async def waits() -> bool:
        return len(await world.rows()) == 1

    await world.until("it waits here", waits)
    (pool,) = (await world.client.list(RunnerPool)).items
    former = next(iter(world.github.state.scale_sets))
    await world.client.delete(RunnerPool, POOL, namespace="default")
    await world.client.create(
        RunnerPool(metadata=ObjectMeta(name="successor", namespace="default"), spec=pool.spec),
    )

    async def follows() -> bool:
        return (await world.rows())[0].pool == "successor"

    await world.until("the job follows its set", follows)
    await limits.set(account, "macos", vcpus=600, memory_mb=14_336_000, by="test", why="as it was")
    await finished(world)
    assert list(world.github.state.scale_sets) == [former]
    assert world.github.job(world.submitted[0].id).assignments == 1
    states = {source.pool: (source.state, source.scale_set_id) for source in await world.ledger.scale_sets.sources()}
    assert states == {POOL: ("Stopped", None), "successor": ("Listening", former)}


async def test_siblings_that_were_given_each_others_runner_both_end_right(world: ScaleSetWorld) -> None:
    world.github.deal({})  # no runner is given a job before each has the other's
    world.submit(2, seconds=120.0)
    rows = dict[int, str]()
    minted = dict[int, str]()

    async def both_have_a_runner() -> bool:
        rows.update({row.job_id: row.job_name for row in await world.rows()})
        open_now = {one.job_id: one.runner_name for one in await world.ledger.sessions.open() if one.job_id in rows}
        minted.clear()
        minted.update({number: open_now[number] for number in rows if number in open_now})
        return len(minted) == 2

    await world.until("both have a runner", both_have_a_runner, within=60.0)
    first, second = rows
    at_github = {job.name: job.id for job in world.submitted}
    world.github.deal({minted[first]: at_github[rows[second]], minted[second]: at_github[rows[first]]})
    await finished(world)
    sessions = {one.pod_uid: one for number in rows for one in await world.ledger.sessions.of_job(number)}.values()
    executed = {session.job_id: session.executed_job_id for session in sessions if session.executed_job_id}
    assert executed == {first: second, second: first}
    runners = {job.name: job.runner_name for job in (world.github.job(one.id) for one in world.submitted)}
    assert runners == {rows[first]: minted[second], rows[second]: minted[first]}
    assert {row.job_name: row.runner_name for row in await world.rows()} == runners


async def test_a_completion_that_comes_while_the_runner_works_on_ends_no_pod(world: ScaleSetWorld) -> None:
    world.github.behaviour.early_completion = True
    (job,) = world.submit(1, seconds=600.0)  # ten seconds here: five times what a Pod is left after its job

    async def told() -> bool:
        return any(row.status in FINISHED for row in await world.rows())

    await world.until("the queue says that it is over", told)
    assert world.github.job(job.id).status == "in_progress"
    await finished(world)
    assert world.github.job(job.id).lost_since is None
