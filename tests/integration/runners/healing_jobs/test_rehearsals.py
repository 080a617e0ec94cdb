"""What `paddock leaks` says: what recovery would do now, with all that it remembers, and without a trace."""

from collections.abc import Callable
from typing import Any

import pytest
from integration.runners.healing_jobs.scripted import ORGANISATION, REPOSITORY, Cluster, runner, stub_github, world
from integration.runners.ledger.rig import ACME, Bench, job

from paddock.base.rng import seeded
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.healer import Healer
from paddock.runners.healing.offline_runners import OfflineRunners
from paddock.runners.healing.orphaned_jobs import OrphanedJobs
from paddock.runners.healing.queued_jobs import LongQueued
from paddock.runners.healing.worker import Worker
from paddock.runners.ledger import Ledger, LedgerUnavailableError

DAY = 86_400.0
DRY = HealingSettings(report_only=frozenset({"*"}))
Make = Callable[[Ledger, HealingSettings], Worker]


async def _rehearsed(bench: Bench, make: Make) -> tuple[Healer, Worker]:
    worker = make(bench.ledger, HealingSettings())
    healer = Healer([worker], bench.ledger, bench.clock, seeded(1), rehearsals=[make(bench.ledger.reading(), DRY)])
    return healer, worker


async def _plan(healer: Healer, worker: Worker) -> list[str]:
    report = (await healer.plan())[worker.name]
    assert (report.healed, report.failed) == ((), ())
    return [heal.kind for heal in report.reported]


async def _kinds(healer: Healer, worker: Worker) -> list[str]:
    report = await healer.once(worker)
    assert report is not None
    return [heal.kind for heal in report.healed]


@pytest.mark.parametrize("kind", ["queued", "orphans", "offline"])
async def test_a_rehearsal_says_at_once_what_the_next_pass_does(bench: Bench, kind: str):
    await bench.accounts(ACME)
    github, cluster = stub_github(), Cluster("uid-1")
    await bench.queue(job(10, age=700))
    if kind != "queued":
        await bench.running(1)
    if kind == "offline":
        await bench.ledger.recovery.pod_stopped("uid-1", bench.clock.now(), by="controller", why="stopped")
        cluster = Cluster("uid-other")
        github.places = {ORGANISATION: [runner(1)]}
    makers: dict[str, Make] = {
        "queued": lambda ledger, settings: LongQueued(ledger, github, settings, bench.clock),
        "orphans": lambda ledger, settings: OrphanedJobs(ledger, github, cluster, settings, bench.clock),
        "offline": lambda ledger, settings: OfflineRunners(ledger, github, cluster, settings, bench.clock),
    }
    healer, worker = await _rehearsed(bench, makers[kind])
    bench.clock.advance(100)
    assert await _kinds(healer, worker) == []
    for _ in range(12):
        said, before = await _plan(healer, worker), await world(bench)
        assert await world(bench) == before
        if done := await _kinds(healer, worker):
            assert said == done
            return
        assert said == []
        bench.clock.advance(60)
    pytest.fail("nothing was ever done")


async def test_a_rehearsal_redates_no_job(bench: Bench):
    await bench.accounts(ACME)
    github = stub_github()
    github.waiting = {REPOSITORY: []}
    await bench.queue(job(10, age=DAY + 60))
    github.says(10, "queued")
    healer, worker = await _rehearsed(bench, lambda ledger, settings: LongQueued(ledger, github, settings, bench.clock))
    before = await bench.ledger.jobs.get(10)
    assert await _plan(healer, worker) == []
    assert await bench.ledger.jobs.get(10) == before
    assert await _kinds(healer, worker) == []
    after = await bench.ledger.jobs.get(10)
    assert before is not None
    assert after is not None
    assert after.enqueued_at > before.enqueued_at, "the pass itself does"


async def test_a_ledger_that_is_only_read_refuses_every_write(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    reading: Any = bench.ledger.reading()
    assert (await reading.jobs.get(10)).status == "queued"
    with pytest.raises(LedgerUnavailableError):
        await reading.accounts.enrol(ACME, "another")
    with pytest.raises(LedgerUnavailableError):
        await reading.jobs.settle(10, conclusion="stale", by="test", why="a rehearsal may not")
    assert await bench.status(10) == "queued"
