"""The client against the simulated GitHub, over the wire's own shapes."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from doubles.clocks import SteppedClock

from paddock.base.rng import seeded
from paddock.clients.github import (
    BudgetSpent,
    Conflict,
    Forbidden,
    GitHubClient,
    GroupRefused,
    NotFound,
    RateLimited,
    RunnerPlace,
    Unauthenticated,
    Unavailable,
)
from paddock.simulator.github import Fault, FaultKind, SimulatedGitHub

LABELS = ["self-hosted", "macOS", "paddock"]


@pytest.fixture
def simulated(clock: SteppedClock) -> SimulatedGitHub:
    simulated = SimulatedGitHub(clock, seeded("the twin"))
    simulated.add_organization("acme", "app")
    simulated.add_user("bob", "toy")
    return simulated


@pytest.fixture
async def client(simulated: SimulatedGitHub, clock: SteppedClock) -> AsyncIterator[GitHubClient]:
    async with GitHubClient(simulated.settings(), clock, seeded("the client"), simulated.transport()) as client:
        yield client


async def minted(
    client: GitHubClient, simulated: SimulatedGitHub, repository: str = "acme/app", name: str = "runner-1"
):
    installation = simulated.account(repository.partition("/")[0]).installation_id
    return await client.mint(installation, repository, name=name, labels=LABELS, work_folder="/work")


async def test_a_job_goes_from_the_queue_to_its_end(
    client: GitHubClient, simulated: SimulatedGitHub, clock: SteppedClock
):
    installation = simulated.account("acme").installation_id
    job = simulated.submit("acme/app", labels=LABELS, duration=60)
    simulated.submit("acme/app", labels=LABELS, run_id=job.run_id)
    assert [found.status for found in await client.waiting_jobs(installation, "acme/app")] == ["queued", "queued"]

    runner = await minted(client, simulated)
    session = simulated.connect(runner.config.reveal())
    assignment = await session.next_job(30)
    assert assignment is not None
    running = await client.job(installation, "acme/app", assignment.job_id)
    assert (running.status, running.runner_name) == ("in_progress", "runner-1")
    (listed,) = await client.runners(runner.place)
    assert (listed.runner_id, listed.online, listed.busy) == (runner.runner_id, True, True)
    with pytest.raises(Conflict):
        await client.remove_runner(runner.place, runner.runner_id)
    # Its run is in progress now, and the other job of that run still waits.
    assert len(await client.waiting_jobs(installation, "acme/app")) == 1


async def test_a_personal_account_gets_the_repositorys_runners(client: GitHubClient, simulated: SimulatedGitHub):
    runner = await minted(client, simulated, "bob/toy")
    assert runner.place == RunnerPlace(simulated.account("bob").installation_id, "bob", "toy")
    await client.remove_runner(runner.place, runner.runner_id)
    await client.remove_runner(runner.place, runner.runner_id)
    assert await client.runners(runner.place) == []


async def test_a_name_is_used_up_even_if_the_answer_is_lost(client: GitHubClient, simulated: SimulatedGitHub):
    simulated.inject(Fault(kind=FaultKind.LOST, operations=("mint",), after_effect=True))
    with pytest.raises(Unavailable) as raised:
        await minted(client, simulated)
    assert raised.value.effect_unknown
    with pytest.raises(Conflict):
        await minted(client, simulated)
    await minted(client, simulated, name="runner-2")


@pytest.mark.parametrize("kind", [FaultKind.RATE_LIMITED, FaultKind.SECONDARY_LIMIT, FaultKind.PRIMARY_LIMIT])
async def test_a_limit_is_honoured_until_it_is_over(
    client: GitHubClient, simulated: SimulatedGitHub, clock: SteppedClock, kind: FaultKind
):
    simulated.inject(Fault(kind=kind, operations=("mint",)))
    with pytest.raises(RateLimited) as raised:
        await minted(client, simulated)
    with pytest.raises(BudgetSpent):
        await minted(client, simulated, name="runner-2")
    clock.step(raised.value.retry_after + 1)
    await minted(client, simulated, name="runner-3")


async def test_suspended_and_uninstalled_are_told_apart_and_neither_is_not_found(
    client: GitHubClient, simulated: SimulatedGitHub
):
    installation = simulated.account("acme").installation_id
    job = simulated.submit("acme/app", labels=LABELS)
    await client.job(installation, "acme/app", job.id)
    simulated.suspend("acme")
    assert [found.suspended for found in await client.installations()] == [True, False]
    with pytest.raises((Forbidden, Unauthenticated)):
        await client.job(installation, "acme/app", job.id)
    simulated.suspend("acme", suspended=False)
    simulated.uninstall("acme")
    with pytest.raises(Unauthenticated):
        await client.job(installation, "acme/app", job.id)
    assert [found.login for found in await client.installations()] == ["bob"]


async def test_a_job_that_github_forgot_is_not_found(client: GitHubClient, simulated: SimulatedGitHub):
    job = simulated.submit("acme/app", labels=LABELS)
    simulated.prune_job(job.id)
    with pytest.raises(NotFound):
        await client.job(simulated.account("acme").installation_id, "acme/app", job.id)


async def test_hundreds_of_runners_are_listed(client: GitHubClient, simulated: SimulatedGitHub, clock: SteppedClock):
    for number in range(230):
        clock.step(1)
        await minted(client, simulated, name=f"runner-{number}")
    assert len(await client.runners(RunnerPlace(simulated.account("acme").installation_id, "acme"))) == 230


async def test_tokens_are_replaced_as_hours_pass(client: GitHubClient, simulated: SimulatedGitHub, clock: SteppedClock):
    for number in range(8):
        await minted(client, simulated, name=f"runner-{number}")
        clock.step(1900)


async def test_a_delivery_that_failed_is_seen_and_asked_for_again(
    client: GitHubClient, simulated: SimulatedGitHub, clock: SteppedClock
):
    simulated.deliver_to("http://127.0.0.1/", None)
    simulated.inject(Fault(kind=FaultKind.UNDELIVERED, times=None))
    simulated.submit("acme/app", labels=LABELS)
    clock.step(30)
    await simulated.deliver_due()
    since = clock.now() - timedelta(minutes=5)
    (delivery,) = await client.deliveries(since)
    assert not delivery.arrived
    assert (delivery.event, delivery.action) == ("workflow_job", "queued")
    await client.redeliver(delivery.delivery_id)
    clock.step(30)
    await simulated.deliver_due()
    again, first = await client.deliveries(since)
    assert again.redelivery
    assert again.guid == first.guid
    await simulated.aclose()


async def test_a_pools_group_brings_its_runner_only_jobs_of_repositories_that_it_is_open_to(
    client: GitHubClient, simulated: SimulatedGitHub
):
    simulated.add_repository("acme/web")
    group = simulated.add_group("acme", "macs", "app")
    installation = simulated.account("acme").installation_id

    async def mint(repository: str, name: str):
        return await client.mint(installation, repository, name=name, labels=LABELS, work_folder="/w", group="macs")

    runner = await mint("acme/app", "runner-1")
    assert simulated.state.runners[runner.runner_id].group_id == group.id
    with pytest.raises(GroupRefused, match="closed to acme/web"):
        await mint("acme/web", "runner-2")
    assert [one.name for one in await client.runners(runner.place)] == ["runner-1"]


async def test_where_the_default_group_is_closed_a_job_runs_on_a_runner_of_its_repository(
    client: GitHubClient, simulated: SimulatedGitHub
):
    simulated.account("acme").permissions["administration"] = "write"
    simulated.close_default_group("acme")
    job = simulated.submit("acme/app", labels=LABELS)
    runner = await minted(client, simulated)
    assert runner.place.repository == "app"
    assignment = await simulated.connect(runner.config.reveal()).next_job(30)
    assert assignment is not None
    assert assignment.job_id == job.id


async def test_a_repository_is_found_by_name_and_known_by_number(client: GitHubClient, simulated: SimulatedGitHub):
    known = simulated.state.repository("acme/app")
    assert known is not None
    found = await client.repository(simulated.account("acme").installation_id, "acme/app")
    assert (found.repository_id, found.owner_id) == (known.id, simulated.account("acme").id)
    with pytest.raises(NotFound):
        await client.repository(simulated.account("acme").installation_id, "bob/toy")
