"""What is known of jobs that ended: how long they waited, ran and had their Mac, and what a runner said that died."""

from datetime import timedelta

from integration.runners.ledger.rig import ACME, POOL, Bench, job, pod
from integration.runners.webhooks.rig import Dispatcher
from prometheus_client import CollectorRegistry

from paddock.runners.ledger.job_metrics import JobMetrics
from paddock.runners.pools.retirement import LedgerRetirementApi


def counted(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


async def test_a_life_of_a_job_is_counted_once_however_often_it_is_told(bench: Bench):
    registry = CollectorRegistry()
    bench.ledger.jobs.metrics = JobMetrics(registry)
    await bench.accounts(ACME)
    for _ in range(2):
        await bench.queue(job(7))
    bench.clock.advance(20)
    await bench.running(1)
    bench.clock.advance(10)
    for _ in range(2):
        await bench.started(job(7), 1)
    bench.clock.advance(300)
    for _ in range(2):
        await bench.completed(job(7), 1, "failure")
    await bench.completed(job(8), None, "a word of tomorrow")
    assert counted(registry, "paddock_jobs_enqueued_total", pool=POOL) == 1
    assert counted(registry, "paddock_jobs_started_total", pool=POOL) == 1
    assert counted(registry, "paddock_jobs_completed_total", pool=POOL, conclusion="failure") == 1
    assert counted(registry, "paddock_jobs_completed_total", pool=POOL, conclusion="other") == 1
    assert round(counted(registry, "paddock_job_wait_seconds_sum", pool=POOL)) == 30
    assert counted(registry, "paddock_job_run_seconds_count", pool=POOL) == 1
    assert 300 <= counted(registry, "paddock_job_run_seconds_sum", pool=POOL) <= 310


async def test_a_job_that_ended_says_how_long_it_waited_ran_and_had_its_mac(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(7))
    bench.clock.advance(20)
    await bench.running(1)
    bench.clock.advance(10)
    await bench.started(job(7), 1)
    bench.clock.advance(300)
    await bench.completed(job(7), 1)
    bench.clock.advance(30)
    await bench.ledger.recovery.pod_stopped("uid-1", bench.clock.now(), by="test", why="ended")
    bench.clock.advance(3600)
    (ended,) = await bench.ledger.overview.recent()
    assert (round(ended.waited_seconds or 0), round(ended.ran_seconds or 0)) == (30, 300)
    assert (round(ended.pod_seconds or 0), ended.pod_name, ended.last_lines) == (340, "runner-1", None)


async def test_a_job_that_never_ran_has_no_run(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7), dispatcher.job(7, "completed", conclusion="cancelled"))
    (ended,) = await bench.ledger.overview.recent()
    assert (ended.conclusion, ended.ran_seconds, ended.pod_seconds) == ("cancelled", None, None)


async def test_the_last_lines_of_a_runner_that_died_under_its_job_stay_with_it(bench: Bench):
    async def recheck(jobs: object, pod_uid: str) -> None:
        del jobs, pod_uid

    retirement = LedgerRetirementApi(bench.ledger, bench.clock, recheck=recheck)
    await bench.accounts(ACME)
    await bench.queue(job(7), job(8))
    for number in (1, 2):
        await bench.running(number)
        said = "".join(f"line {line}\n" for line in range(100))
        await bench.ledger.runner_logs.append(f"uid-{number}", 0, said.encode(), ended=True)
    await bench.completed(job(8), 2)
    for number in (1, 2):
        await retirement.stopped(pod(number), bench.clock.now() - timedelta(seconds=1), why="exit 137")
    died = await bench.ledger.sessions.of_pod("uid-1")
    assert died is not None
    assert (died.last_lines or "").splitlines() == [f"line {line}" for line in range(80, 100)]
    well = await bench.ledger.sessions.of_pod("uid-2")
    assert well is not None
    assert well.last_lines is None, "its job was over: there is nothing to explain"
