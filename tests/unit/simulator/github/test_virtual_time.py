"""GitHub, its webhooks, runners and a workload on an event loop whose time jumps."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from unit.simulator.github.rig import LABELS, Receiver

from paddock.base.clock import LoopClock
from paddock.base.rng import seeded
from paddock.clients.github.client import GitHubClient
from paddock.simulator.github import GitHubBehaviour, RunnerGoneError, SimulatedGitHub, Workload
from paddock.simulator.process import World, simulate
from paddock.simulator.seeds import simulated
from paddock.simulator.transport import InProcessTransport

REPOS = ("acme/app", "acme/web", "bob/toy")


def new_github(
    clock: LoopClock, seed: int, receiver: Receiver, behaviour: GitHubBehaviour | None = None
) -> SimulatedGitHub:
    github = SimulatedGitHub(clock, seeded(seed), behaviour=behaviour)
    github.add_organization("acme", "app", "web")
    github.add_user("bob", "toy")
    github.deliver_to("http://127.0.0.1/webhooks/github", InProcessTransport(receiver))
    return github


async def a_morning(seed: int, behaviour: GitHubBehaviour | None = None) -> tuple[SimulatedGitHub, Receiver]:
    """Three hours of work on twelve runners a place, each replaced when its job is over."""
    clock, receiver = LoopClock(), Receiver()
    github = new_github(clock, seed, receiver, behaviour)
    workload = Workload(github, seeded(seed + 1), clock, repos=REPOS, labels=LABELS, rate=1.0)
    tasks = [asyncio.create_task(github.run()), asyncio.create_task(workload.run())]
    async with GitHubClient(github.settings(), clock, seeded(seed + 2), github.transport()) as client:

        async def keep_serving(number: int, repository: str) -> None:
            installation = github.account(repository.partition("/")[0]).installation_id
            for turn in range(10_000):
                name = f"{repository.replace('/', '-')}-{number}-{turn}"
                minted = await client.mint(installation, repository, name=name, labels=LABELS, work_folder="_work")
                session = github.connect(minted.config.reveal())
                with suppress(RunnerGoneError):
                    while await session.run_one(3600) is None:
                        pass

        for number in range(12):
            tasks += [asyncio.create_task(keep_serving(number, repository)) for repository in ("acme/app", "bob/toy")]
        await clock.sleep(3 * 3600)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await github.aclose()
    return github, receiver


@pytest.mark.slow
def test_a_morning_of_work_passes_quickly_and_twice_the_same():
    async def scenario(world: World) -> tuple[list[bytes], Counter[str]]:
        del world
        github, receiver = await a_morning(1)
        jobs = github.state.jobs.values()
        assert sum(job.status == "completed" for job in jobs) > 120
        assert github.pending() < 30
        return [body for _, body in receiver.received], Counter(receiver.actions)

    first, actions = simulate(scenario, seed=1).result
    second, _ = simulate(scenario, seed=1).result
    assert first == second
    assert actions["queued"] >= actions["in_progress"] >= actions["completed"] > 120


@pytest.mark.slow
@simulated(2)
async def test_no_habit_of_deliveries_changes_what_becomes_of_jobs(seed: int):
    habits = GitHubBehaviour(unsent=0.05, undelivered=0.05, repeated=0.1, delayed=0.1, overtaken=0.1, flapping=0.2)
    github, receiver = await a_morning(seed, habits)
    over = [job for job in github.state.jobs.values() if job.status == "completed"]
    assert len(over) > 120
    assert {job.conclusion for job in over} <= {"success", "failure"}
    assert receiver.received


@simulated(1)
async def test_a_receiver_that_is_silent_is_given_ten_seconds():
    clock, receiver = LoopClock(), Receiver()
    receiver.silent = True
    github = new_github(clock, 5, receiver)
    running = asyncio.create_task(github.run())
    github.submit("acme/app", labels=LABELS)
    await clock.sleep(30)
    running.cancel()
    (attempt,) = github.state.attempts.values()
    assert (attempt.status, attempt.duration) == ("timed out", pytest.approx(10.0))
    await github.aclose()


@simulated(1)
async def test_a_workload_keeps_what_waits_below_its_bound():
    clock = LoopClock()
    github = new_github(clock, 7, Receiver())
    workload = Workload(github, seeded(8), clock, repos=REPOS, labels=LABELS, rate=30.0, pending_limit=10)
    task = asyncio.create_task(workload.run())
    for _ in range(60):
        await clock.sleep(60)
        assert github.pending() <= 13  # a run brings at most four jobs
    task.cancel()
    jobs = list(github.state.jobs.values())
    assert {job.repository for job in jobs} <= set(REPOS)
    assert all(40 <= job.duration <= 1500 for job in jobs)
    await github.aclose()


@pytest.mark.parametrize(
    "wrong", [{"repos": (), "labels": LABELS, "rate": 1.0}, {"repos": REPOS, "labels": LABELS, "rate": 0.0}]
)
async def test_a_workload_says_what_it_needs(wrong: dict):
    github = SimulatedGitHub(LoopClock(), seeded(1))
    with pytest.raises(ValueError, match=r"repository|above zero"):
        Workload(github, seeded(1), LoopClock(), **wrong)
