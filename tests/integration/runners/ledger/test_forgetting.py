"""History is bounded by age; what is open stays, however old it is."""

from datetime import timedelta

import pytest
from integration.runners.ledger.rig import ACME, Bench, job, pod
from prometheus_client import CollectorRegistry

from paddock.runners.api.settings import Retention
from paddock.runners.ledger import Moved, retention
from paddock.runners.ledger.retention import RetentionWorker

DAYS = 86_400.0


def keeper(bench: Bench, registry: CollectorRegistry | None = None) -> RetentionWorker:
    return RetentionWorker(bench.ledger, Retention(), bench.clock, registry or CollectorRegistry())


async def a_whole_life(bench: Bench, number: int) -> None:
    """Queued, run, completed, and its Pod has ended."""
    name = f"of-{number}"
    await bench.queue(job(number))
    await bench.running(name)
    await bench.started(job(number), name)
    await bench.completed(job(number), name)
    await bench.ledger.sessions.end(f"uid-{name}", bench.clock.now(), by="test", why="it has ended")


async def test_what_ended_long_ago_is_forgotten_and_what_is_open_stays_however_old(bench: Bench):
    await bench.accounts(ACME)
    await a_whole_life(bench, 1)
    await bench.queue(job(2))
    await bench.running("open")
    await bench.queue(job(3))
    bench.clock.advance(401 * DAYS)
    gone = await keeper(bench).forget()
    assert (gone["jobs"], gone["sessions"]) == (1, 1)
    assert await bench.ledger.jobs.get(1) is None
    assert await bench.ledger.sessions.of_pod("uid-of-1") is None
    still = [one for one in [await bench.ledger.jobs.get(2), await bench.ledger.jobs.get(3)] if one is not None]
    assert [one.status for one in still] == ["running", "queued"]
    assert await bench.ledger.sessions.of_pod("uid-open") is not None
    assert await bench.ledger.claims.of_pod("uid-open") is not None


async def test_what_is_young_enough_is_kept_to_the_last_line(bench: Bench):
    await bench.accounts(ACME)
    await a_whole_life(bench, 1)
    lines = await bench.ledger.transitions.of_job(1)
    bench.clock.advance(29 * DAYS)
    assert not any((await keeper(bench).forget()).values())
    assert await bench.ledger.transitions.of_job(1) == lines


async def test_the_log_goes_before_the_jobs_and_a_tombstone_outlives_every_redelivery(bench: Bench):
    await bench.accounts(ACME)
    await a_whole_life(bench, 1)
    bench.clock.advance(31 * DAYS)
    gone = await keeper(bench).forget()
    assert gone["log"] > 0
    assert gone["jobs"] == 0
    assert await bench.ledger.transitions.of_job(1) == []
    assert await bench.ledger.jobs.enqueue(job(1), by="late") is Moved.FINISHED


async def test_a_tombstone_of_a_job_that_was_never_announced_goes_by_its_age_as_well(bench: Bench):
    await bench.accounts(ACME)
    await bench.completed(job(7), None, "cancelled")
    bench.clock.advance(401 * DAYS)
    assert (await keeper(bench).forget())["jobs"] == 1
    assert await bench.ledger.jobs.completion(7) is None


async def test_more_than_a_bite_is_forgotten_bite_by_bite_with_a_pause_after_each(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retention, "_BITE", 2)
    await bench.accounts(ACME)
    for number in range(1, 6):
        await bench.completed(job(number), None, "success")
    bench.clock.advance(401 * DAYS)
    before = bench.clock.monotonic()
    registry = CollectorRegistry()
    assert (await keeper(bench, registry).forget())["jobs"] == 5
    assert bench.clock.monotonic() > before
    assert registry.get_sample_value("paddock_ledger_forgotten_total", {"what": "jobs"}) == 5


async def test_deliveries_that_were_handled_go_after_three_days_and_those_that_wait_stay(bench: Bench):
    for name in ("handled", "waits"):
        await bench.ledger.deliveries.store(name, "workflow_job", b"{}")
    taken = {delivery.delivery_id: delivery for delivery in await bench.ledger.deliveries.take()}
    await bench.ledger.deliveries.settle(taken["handled"], "done")
    bench.clock.advance(2 * DAYS)
    assert (await keeper(bench).forget())["deliveries"] == 0
    bench.clock.advance(1.1 * DAYS)
    assert (await keeper(bench).forget())["deliveries"] == 1
    assert await bench.ledger.deliveries.known(["handled", "waits"]) == {"waits"}


async def test_a_fence_that_still_stands_keeps_the_session_of_its_pod(bench: Bench):
    await bench.accounts(ACME)
    await a_whole_life(bench, 1)
    await bench.ledger.fences.raise_fence(pod("of-1"), by="test", why="being reaped")
    bench.clock.advance(401 * DAYS)
    assert (await keeper(bench).forget())["sessions"] == 0


@pytest.mark.parametrize("field", ["log", "jobs"])
def test_history_cannot_be_kept_for_less_than_a_redelivery_may_take(field: str):
    with pytest.raises(ValueError, match=f"{field} is kept for 6 days: at least 7"):
        Retention(**{field: timedelta(days=6)})
