"""The life of jobs and runners: offers, stealing, losses, cancellations, and what survives a restart."""

import asyncio
from collections import Counter

import pytest
from doubles.clocks import SteppedClock
from unit.simulator.github.rig import LABELS, Rig

from paddock.base.rng import seeded
from paddock.simulator.github import RunnerGoneError, RunnerRefusedError, SimulatedGitHub


async def test_a_runner_takes_a_job_and_vanishes_with_it(rig: Rig):
    job, session = await rig.running(duration=120, name="test-ios")
    assert rig.github.job(job.id).status == "in_progress"
    session.finish("failure")
    ended = rig.github.job(job.id)
    assert (ended.status, ended.conclusion, ended.runner_name) == ("completed", "failure", session.name)
    assert rig.github.runners() == []
    with pytest.raises(RunnerGoneError):
        await session.next_job(1)


async def test_a_runner_runs_a_job_for_as_long_as_it_takes(rig: Rig):
    job = rig.github.submit("acme/app", labels=LABELS, duration=100, conclusion="failure")
    session = await rig.runner()
    assert await session.run_one(10) == "failure"
    ended = rig.github.job(job.id)
    assert ended.started_at is not None
    assert ended.completed_at is not None
    assert (ended.completed_at - ended.started_at).total_seconds() == pytest.approx(100)


async def test_speed_shortens_jobs(rig: Rig):
    rig.github.behaviour.speed = 60
    assert rig.github.submit("acme/app", labels=LABELS, duration=300).duration == 5


async def test_a_config_works_once(rig: Rig):
    config = (await rig.mint()).json()["encoded_jit_config"]
    session = rig.github.connect(config)
    with pytest.raises(RunnerRefusedError, match="used before"):
        rig.github.connect(config)
    session.disconnect()
    with pytest.raises(RunnerRefusedError):
        rig.github.connect(config)
    with pytest.raises(RunnerRefusedError):
        rig.github.connect("bm90aGluZw==")


async def test_a_config_that_nobody_uses_is_dropped_after_a_day(rig: Rig):
    config = (await rig.mint()).json()["encoded_jit_config"]
    rig.clock.step(86400)
    assert rig.github.runners() == []
    with pytest.raises(RunnerRefusedError):
        rig.github.connect(config)


async def test_a_runner_that_is_unregistered_learns_it_when_it_asks(rig: Rig):
    session = await rig.runner()
    await rig.call("DELETE", f"/orgs/acme/actions/runners/{session.runner_id}")
    with pytest.raises(RunnerGoneError):
        await session.next_job(1)


async def test_labels_and_places_must_fit(rig: Rig):
    rig.github.account("acme").permissions["administration"] = "write"
    rig.github.submit("acme/app", labels=[*LABELS, "xl"])
    rig.github.submit("bob/toy", labels=LABELS)
    anywhere = await rig.runner()
    web = await rig.runner("repos/acme/web")
    assert await anywhere.next_job(30) is None
    assert await web.next_job(30) is None
    bigger = await rig.runner(labels=[*LABELS, "XL", "extra"])
    assert await bigger.next_job(30) is not None
    toy = await rig.runner("repos/bob/toy", as_="bob")
    assert await toy.next_job(30) is not None


async def test_jobs_go_to_any_runner_that_fits():
    """Which runner gets a job is drawn by lot, so that the one minted for it often gets another or none."""
    winners: Counter[int] = Counter()
    for seed in range(30):
        rig = Rig()
        rig.github._queue._rng.seed(seed)
        sessions = [await rig.runner() for _ in range(3)]
        rig.clock.step(5)
        rig.github.tick()
        rig.github.submit("acme/app", labels=LABELS)
        rig.clock.step(5)
        taken = [await session.next_job(0) for session in sessions]
        winners[next(place for place, job in enumerate(taken) if job is not None)] += 1
        await rig.aclose()
    assert set(winners) == {0, 1, 2}


async def test_a_job_is_given_once(rig: Rig):
    rig.github.submit("acme/app", labels=LABELS)
    sessions = [await rig.runner() for _ in range(4)]
    taken = await asyncio.gather(*(session.next_job(20) for session in sessions))
    assert sum(job is not None for job in taken) == 1


async def test_a_runner_that_does_not_take_its_offer_loses_it(rig: Rig):
    hung = await rig.runner()
    rig.clock.step(5)
    job = rig.github.submit("acme/app", labels=LABELS)
    rig.clock.step(5)
    assert rig.github.job(job.id).offered_to == hung.runner_id
    healthy = await rig.runner()
    taken = await healthy.next_job(90)
    assert taken is not None
    assert taken.job_id == job.id


async def test_a_job_whose_runner_falls_silent_fails_after_ten_minutes(rig: Rig):
    job, session = await rig.running()
    session.disconnect()
    rig.clock.step(599)
    assert rig.github.job(job.id).status == "in_progress"
    rig.clock.step(1)
    assert rig.github.job(job.id).conclusion == "failure"
    assert rig.github.runners() == []
    session.finish("success")
    assert rig.github.job(job.id).conclusion == "failure"


async def test_an_idle_runner_that_falls_silent_is_offline(rig: Rig):
    session = await rig.runner()
    session.disconnect()
    assert [(runner.online, runner.busy) for runner in rig.github.runners()] == [(False, False)]


async def test_a_job_cancelled_while_it_waits_had_no_runner(rig: Rig):
    job = rig.github.submit("acme/app", labels=LABELS)
    rig.github.cancel(job.id)
    assert (job.status, job.conclusion, job.runner_name) == ("completed", "cancelled", "")
    session = await rig.runner()
    assert await session.next_job(10) is None


async def test_an_offered_job_can_be_cancelled_and_the_runner_gets_the_next(rig: Rig):
    session = await rig.runner()
    rig.clock.step(5)
    job = rig.github.submit("acme/app", labels=LABELS)
    rig.clock.step(5)
    rig.github.tick()
    rig.github.cancel(job.id)
    other = rig.github.submit("acme/app", labels=LABELS)
    taken = await session.next_job(10)
    assert taken is not None
    assert taken.job_id == other.id


async def test_a_running_job_is_cancelled_when_its_runner_obeys_or_later(rig: Rig):
    job, session = await rig.running()
    rig.github.cancel(job.id)
    assert session.cancelled
    session.finish("success")
    assert rig.github.job(job.id).conclusion == "cancelled"
    stubborn, _ = await rig.running()
    rig.github.cancel(stubborn.id)
    rig.clock.step(300)
    assert rig.github.job(stubborn.id).conclusion == "cancelled"


async def test_a_job_that_waits_for_a_day_is_cancelled(rig: Rig):
    job = rig.github.submit("acme/app", labels=LABELS)
    rig.clock.step(86399)
    assert rig.github.job(job.id).status == "queued"
    rig.clock.step(1)
    assert rig.github.job(job.id).conclusion == "cancelled"


async def test_a_job_can_be_forgotten_at_any_time(rig: Rig):
    waiting = rig.github.submit("acme/app", labels=LABELS)
    rig.github.prune_job(waiting.id)
    finished, first = await rig.running()
    abandoned, second = await rig.running()
    for job in (finished, abandoned):
        rig.github.prune_job(job.id)
    first.finish()
    second.disconnect()
    rig.clock.step(2 * 86400)
    assert rig.github.state.jobs == {}
    assert rig.github.runners() == []


async def test_a_job_that_needs_approval_waits_for_it(rig: Rig):
    job = rig.github.submit("acme/app", labels=LABELS, waiting=True)
    session = await rig.runner()
    assert await session.next_job(10) is None
    rig.github.approve(job.id)
    assert await session.next_job(10) is not None


async def test_a_job_of_a_protected_environment_waits_for_its_approval_and_others_do_not(rig: Rig):
    rig.github.protect("acme/app", "production")
    held = rig.github.submit("acme/app", labels=LABELS, environment="production")
    free = rig.github.submit("acme/app", labels=LABELS, environment="staging")
    assert (held.status, free.status) == ("waiting", "queued")
    rig.github.reject(held.id)
    assert (held.status, held.conclusion, held.runner_name) == ("completed", "failure", "")


async def test_nobody_approves_for_thirty_days_and_the_job_fails(rig: Rig):
    job = rig.github.submit("acme/app", labels=LABELS, waiting=True)
    rig.clock.step(30 * 86400 - 1)
    assert rig.github.job(job.id).status == "waiting"
    rig.clock.step(2)
    rig.github.tick()
    assert job.conclusion == "failure"


async def test_a_saved_github_goes_on_without_the_processes_of_before(rig: Rig):
    running, _ = await rig.running()
    waiting = rig.github.submit("acme/app", labels=LABELS)
    await rig.mint(name="unused")
    again = SteppedClock(rig.clock.now())
    restored = SimulatedGitHub.from_json(rig.github.to_json(), again, seeded("later"))
    assert restored.private_key == rig.github.private_key
    again.step(600)
    assert restored.job(running.id).conclusion == "failure"
    assert restored.job(waiting.id).status == "queued"
    assert [runner.name for runner in restored.runners()] == ["unused"]


async def test_a_saved_github_can_be_moved_to_a_clock_that_starts_anew(rig: Rig):
    job = rig.github.submit("acme/app", labels=LABELS)
    rig.clock.step(3600)
    fresh = SteppedClock()
    restored = SimulatedGitHub.from_json(rig.github.to_json(), fresh, seeded("later"), rebase=True)
    assert (fresh.now() - restored.job(job.id).created_at).total_seconds() == 3600
