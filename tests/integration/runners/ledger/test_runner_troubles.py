"""Runners that go wrong again and again are found by what the ledger holds of them; one that went wrong once is not."""

from datetime import timedelta

from integration.runners.ledger.rig import ACME, BOLT, Bench, job

from paddock.runners.ledger.views import RunnerTrouble

KILLED = "the Pod ended with exit code 137 (Error): out of memory; killed\nsecond line"


async def kinds(bench: Bench) -> dict[str, RunnerTrouble]:
    return {one.kind: one for one in await bench.ledger.runner_troubles.now()}


async def at_work(bench: Bench, *numbers: int) -> None:
    """Runners that GitHub has seen at their jobs."""
    await bench.accounts(ACME, vcpus=600, memory_mb=10**6)
    for number in numbers:
        one = job(number)
        await bench.queue(one)
        await bench.running(number)
        await bench.started(one, number)


async def test_several_heals_of_one_kind_are_told_with_the_latest_pod_and_a_single_one_is_not(bench: Bench) -> None:
    await at_work(bench, 1, 2, 3, 4)
    for number in range(1, 5):
        bench.clock.advance(10.0)
        await bench.ledger.heals.record("hung_runner", f"runner-{number}", "it hangs", pod_uid=f"uid-{number}")
    await bench.ledger.heals.record("finished_job_pod", "runner-4", "it does not end", pod_uid="uid-4")
    found = await kinds(bench)
    assert set(found) == {"hung_runner"}
    assert (found["hung_runner"].pods, found["hung_runner"].pod) == (4, "runner-4")
    bench.clock.advance(timedelta(minutes=16).total_seconds())
    assert await kinds(bench) == {}, "what is over is not told"


async def test_a_few_among_very_many_are_no_trouble(bench: Bench) -> None:
    await at_work(bench, *range(1, 42))
    for number in range(1, 5):
        await bench.ledger.heals.record("hung_runner", f"runner-{number}", "it hangs", pod_uid=f"uid-{number}")
    assert await kinds(bench) == {}


async def test_a_pod_that_ended_before_its_job_has_died_in_it(bench: Bench) -> None:
    await at_work(bench, 1, 2, 3, 4, 5)
    bench.clock.advance(30.0)
    await bench.completed(job(5), 5)
    bench.clock.advance(5.0)
    for number in range(1, 6):
        await bench.ledger.sessions.end(f"uid-{number}", ended_at=bench.clock.now(), by="test", why=KILLED)
    assert await kinds(bench) == {}, "GitHub's word may be on its way"
    bench.clock.advance(120.0)
    await bench.completed(job(1), 1, "failure")
    found = (await kinds(bench))["died_in_job"]
    assert found.pods == 4, "the fifth one's job was over before"
    assert found.said == "the Pod ended with exit code 137 (Error): out of memory; killed"


async def test_a_pod_that_ended_well_or_that_was_taken_away_has_not_died_in_its_job(bench: Bench) -> None:
    await at_work(bench, 1, 2, 3, 4, 5, 6)
    for number in (1, 2, 3):
        await bench.ledger.sessions.end(
            f"uid-{number}", ended_at=bench.clock.now(), by="test", why="the Pod ended with exit code 0"
        )
    for number in (4, 5, 6):
        await bench.ledger.sessions.end(f"uid-{number}", ended_at=bench.clock.now(), by="test", why="the Pod is gone")
    bench.clock.advance(120.0)
    assert await kinds(bench) == {}


async def test_runners_that_say_that_nothing_moves_in_their_jobs_stand_still(bench: Bench) -> None:
    await at_work(bench, 1, 2, 3, 4, 5)
    for minute in range(12):
        for number in range(1, 5):
            await bench.ledger.progress.note(f"uid-{number}", "1767225970 running")
        await bench.ledger.progress.note("uid-5", f"{1767225970 + 60 * minute} running")
        bench.clock.advance(60.0)
    found = (await kinds(bench))["still_in_job"]
    assert (found.pods, found.handed) == (4, 5)
    bench.clock.advance(600.0)
    assert await kinds(bench) == {}, "a runner that fell silent is not shown to stand still by that"


async def test_an_account_that_github_took_away_is_named_for_a_day_where_it_ran_jobs(bench: Bench) -> None:
    await at_work(bench, 1)
    await bench.accounts(BOLT)
    troubles = bench.ledger.runner_troubles
    assert await troubles.not_installed() == []
    for number in (ACME, BOLT):
        await bench.ledger.accounts.enrol(number, f"org{number}", installation_id=None)
    assert await troubles.not_installed() == [f"org{ACME}"]
    bench.clock.advance(timedelta(days=1, minutes=1).total_seconds())
    assert await troubles.not_installed() == []
