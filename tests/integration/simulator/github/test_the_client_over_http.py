"""Our own client against the simulated GitHub over real HTTP: every method of the `GitHub`."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from unit.simulator.github.rig import LABELS, Receiver

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.clients.github import Conflict, IncompleteList, Invalid, MintedRunner, NotFound, RunnerPlace, Unavailable
from paddock.clients.github.client import GitHubClient
from paddock.simulator.github import Fault, FaultKind, SimulatedGitHub


@pytest.fixture
async def client(github: SimulatedGitHub, api_url: str) -> AsyncIterator[GitHubClient]:
    async with GitHubClient(github.settings(api_url), SystemClock(), seeded("client")) as client:
        yield client


@pytest.fixture
def acme(github: SimulatedGitHub) -> int:
    return github.account("acme").installation_id


async def mint(client: GitHubClient, installation_id: int, name: str, repository: str = "acme/app") -> MintedRunner:
    return await client.mint(installation_id, repository, name=name, labels=LABELS, work_folder="_work")


async def test_a_mint_is_for_the_organisation(client: GitHubClient, github: SimulatedGitHub, acme: int):
    minted = await mint(client, acme, "mac-1")
    assert minted.place == RunnerPlace(acme, "acme")
    session = github.connect(minted.config.reveal())
    assert (session.runner_id, session.name) == (minted.runner_id, "mac-1")
    with pytest.raises(Conflict):
        await mint(client, acme, "mac-1")


async def test_a_mint_for_a_person_is_for_the_repository(client: GitHubClient, github: SimulatedGitHub):
    bob = github.account("bob").installation_id
    minted = await mint(client, bob, "mac-1", "bob/toy")
    assert minted.place == RunnerPlace(bob, "bob", "toy")


async def test_a_mint_whose_answer_is_lost_may_have_happened(client: GitHubClient, github: SimulatedGitHub, acme: int):
    github.inject(Fault(kind=FaultKind.LOST, operations=("mint",), after_effect=True))
    with pytest.raises(Unavailable) as raised:
        await mint(client, acme, "mac-1")
    assert raised.value.effect_unknown
    with pytest.raises(Conflict):
        await mint(client, acme, "mac-1")


async def test_a_job_is_read_through_its_life(client: GitHubClient, github: SimulatedGitHub, acme: int):
    submitted = github.submit("acme/app", labels=LABELS, name="test-ios", workflow="CI")
    queued = await client.job(acme, "acme/app", submitted.id)
    assert (queued.status, queued.name, queued.workflow_name, queued.labels) == (
        "queued",
        "test-ios",
        "CI",
        tuple(LABELS),
    )
    session = github.connect((await mint(client, acme, "mac-1")).config.reveal())
    assert await session.next_job(5) is not None
    session.progress()
    running = await client.job(acme, "acme/app", submitted.id)
    assert (running.status, running.runner_name, running.steps_done) == ("in_progress", "mac-1", 1)
    session.finish()
    over = await client.job(acme, "acme/app", submitted.id)
    assert (over.status, over.conclusion, over.runner_id) == ("completed", "success", session.runner_id)
    github.prune_job(submitted.id)
    with pytest.raises(NotFound):
        await client.job(acme, "acme/app", submitted.id)


async def test_waiting_jobs_are_found_in_queued_and_in_running_runs(
    client: GitHubClient, github: SimulatedGitHub, acme: int
):
    first = github.submit("acme/app", labels=LABELS)
    second = github.submit("acme/app", labels=LABELS, run_id=first.run_id)
    alone = github.submit("acme/app", labels=LABELS)
    github.submit("acme/web", labels=LABELS)
    session = github.connect((await mint(client, acme, "mac-1")).config.reveal())
    taken = await session.next_job(5)
    assert taken is not None
    waiting = {job.job_id for job in await client.waiting_jobs(acme, "acme/app")}
    assert waiting == {first.id, second.id, alone.id} - {taken.job_id}


async def test_all_runners_are_listed_or_none(client: GitHubClient, github: SimulatedGitHub, acme: int):
    for number in range(105):
        await mint(client, acme, f"mac-{number}")
    place = RunnerPlace(acme, "acme")
    runners = await client.runners(place)
    assert len(runners) == 105
    assert not any(runner.online or runner.busy for runner in runners)
    github.inject(Fault(kind=FaultKind.SHORT_LIST, operations=("list_runners",), times=None))
    with pytest.raises(IncompleteList):
        await client.runners(place)


async def test_a_runner_is_removed_unless_it_is_busy(client: GitHubClient, github: SimulatedGitHub, acme: int):
    place = RunnerPlace(acme, "acme")
    idle = await mint(client, acme, "idle")
    await client.remove_runner(place, idle.runner_id)
    await client.remove_runner(place, idle.runner_id)
    assert github.runners() == []
    github.submit("acme/app", labels=LABELS)
    session = github.connect((await mint(client, acme, "busy")).config.reveal())
    await session.next_job(5)
    with pytest.raises(Conflict):
        await client.remove_runner(place, session.runner_id)


async def test_installations_are_listed(client: GitHubClient, github: SimulatedGitHub, acme: int):
    github.suspend("bob")
    assert [(each.login, each.suspended) for each in await client.installations()] == [("acme", False), ("bob", True)]
    assert (await client.installations())[0].installation_id == acme


async def test_a_failed_delivery_is_seen_and_repeated(
    client: GitHubClient, github: SimulatedGitHub, receiver: Receiver
):
    github.inject(Fault(kind=FaultKind.UNDELIVERED))
    since = SystemClock().now() - timedelta(minutes=1)
    github.submit("acme/app", labels=LABELS)
    async with asyncio.timeout(10):
        while not github.state.attempts:
            await asyncio.sleep(0.01)
        (failed,) = await client.deliveries(since)
        assert (failed.arrived, failed.event, failed.action) == (False, "workflow_job", "queued")
        await client.redeliver(failed.delivery_id)
        while len(github.state.attempts) < 2:
            await asyncio.sleep(0.01)
    again, _ = await client.deliveries(since)
    assert (again.guid, again.arrived, again.redelivery) == (failed.guid, True, True)
    assert receiver.actions == ["queued"]
    with pytest.raises(Invalid):
        await client.redeliver(1)


async def test_the_budget_follows_the_headers(client: GitHubClient, github: SimulatedGitHub, acme: int):
    github.behaviour.calls_per_hour = 6000
    await client.runners(RunnerPlace(acme, "acme"))
    view = next(view for view in client.budgets() if view.installation_id == acme)
    assert (view.limit, view.remaining) == (6000, 5999)
