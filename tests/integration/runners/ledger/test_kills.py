"""A job that ended because of us is one row, however often it is reported; the row outlives every process."""

from datetime import timedelta

from integration.runners.ledger.rig import ACME, Bench, job, pod
from prometheus_client import CollectorRegistry

from paddock.runners.api.settings import Retention
from paddock.runners.ledger import GivenUp
from paddock.runners.ledger.retention import RetentionWorker

DAY = timedelta(days=1)


def given_up(bench: Bench, number: int, path: str = "force", ago: timedelta = timedelta(0)) -> GivenUp:
    one = pod(number)
    return GivenUp(
        key=one.uid,
        at=bench.clock.now() - ago,
        path=path,
        pod_uid=one.uid,
        pod_name=one.name,
        account="acme",
        machine="blue-1",
        why="machine default/blue-1 was deleted",
    )


async def test_two_reports_of_a_kill_are_one_row(bench: Bench) -> None:
    first = given_up(bench, 1)
    assert await bench.ledger.kills.record([first, given_up(bench, 2)]) == 2
    bench.clock.advance(60)
    assert await bench.ledger.kills.record([given_up(bench, 1, "drain_timeout")]) == 0
    rows = {row.kill_key: row for row in await bench.ledger.kills.newest()}
    assert (rows["uid-1"].path, rows["uid-1"].at) == ("force", first.at), "the first report stands"
    assert await bench.ledger.kills.record([]) == 0


async def test_a_row_names_the_job_that_the_pod_ran(bench: Bench) -> None:
    await bench.accounts(ACME)
    await bench.queue(job(7))
    await bench.running(1)
    await bench.started(job(7), 1)
    await bench.ledger.kills.record([given_up(bench, 1), given_up(bench, 2)])
    assert {row.pod_name: row.job_id for row in await bench.ledger.kills.newest()} == {"runner-1": 7, "runner-2": None}


async def test_a_clock_that_is_ahead_kills_nobody_tomorrow(bench: Bench) -> None:
    await bench.ledger.kills.record([given_up(bench, 1, ago=-DAY)])
    (row,) = await bench.ledger.kills.newest()
    assert row.at == row.recorded_at == bench.clock.now()


async def test_the_summary_counts_the_last_day_and_tells_apart_what_a_person_gave_up(bench: Bench) -> None:
    calm = await bench.ledger.overview.summary()
    assert (calm.killed_last_day, calm.forced_last_day, calm.killed_since) == (0, 0, None)
    wrong = given_up(bench, 3, "reap", timedelta(hours=3))
    kills = [given_up(bench, 1), given_up(bench, 2, "drain_timeout"), wrong, given_up(bench, 4, "reap", 2 * DAY)]
    await bench.ledger.kills.record(kills)
    summary = await bench.ledger.overview.summary()
    assert (summary.killed_last_day, summary.forced_last_day, summary.killed_since) == (3, 2, wrong.at)
    assert await bench.ledger.kills.count_by_path(bench.clock.now() - 3 * DAY) == {
        "force": 1,
        "drain_timeout": 1,
        "reap": 2,
    }


async def test_kills_are_kept_as_long_as_jobs(bench: Bench) -> None:
    keeper, kept = RetentionWorker(bench.ledger, Retention(), bench.clock, CollectorRegistry()), Retention().jobs
    await bench.ledger.kills.record([given_up(bench, 1, ago=kept - DAY), given_up(bench, 2, ago=kept + DAY)])
    assert (await keeper.forget())["kills"] == 1
    assert [row.pod_name for row in await bench.ledger.kills.newest()] == ["runner-1"]
