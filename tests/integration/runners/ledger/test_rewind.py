"""The ledger as it was: told from the log, whatever has happened since."""

from datetime import timedelta

import httpx2
import pytest
from integration.runners.ledger.rig import ACME, BOLT, START, Bench, job, pod
from starlette.applications import Starlette

from paddock.runners.http.rewind import rewind_route
from paddock.runners.ledger import Fence
from paddock.simulator.transport import InProcessTransport


def at(seconds: float):
    return START + timedelta(seconds=seconds)


async def a_busy_minute(bench: Bench) -> None:
    """0 s: jobs 1 and 2 wait. 10 s: 1 is claimed. 20 s: 1 runs. 30 s: a Pod is fenced. 40 s: 1 is over. 50 s: it is gone."""
    await bench.accounts(ACME, BOLT)
    await bench.queue(job(1), job(2, BOLT))
    bench.clock.advance(10)
    claim = await bench.claimed("a")
    bench.clock.advance(10)
    await bench.ledger.claims.commit(claim, "runner-a-mint")
    await bench.started(job(1), "a")
    bench.clock.advance(10)
    fence = await bench.ledger.fences.raise_fence(pod("idle"), by="pool", why="one too many")
    assert isinstance(fence, Fence)
    bench.clock.advance(10)
    await bench.completed(job(1), "a")
    bench.clock.advance(10)
    await bench.ledger.fences.lift(fence, by="pool", why="the Pod is gone")
    bench.clock.advance(3600)


@pytest.mark.parametrize(
    ("seconds", "states", "retired"),
    [
        (-1, {}, 0),
        (5, {1: "queued", 2: "queued"}, 0),
        (15, {1: "claimed", 2: "queued"}, 0),
        (25, {1: "running", 2: "queued"}, 0),
        (35, {1: "running", 2: "queued"}, 1),
        (45, {2: "queued"}, 1),
        (55, {2: "queued"}, 0),
        (3600, {2: "queued"}, 0),
    ],
)
async def test_every_moment_is_told_as_it_was_an_hour_later(
    bench: Bench, seconds: float, states: dict[int, str], retired: int
):
    await a_busy_minute(bench)
    then = await bench.ledger.rewind.to(at(seconds))
    assert {one.job_id: one.state for one in then.jobs} == states
    assert len(then.fences) == retired
    assert sum(pool.queued + pool.claimed + pool.running for pool in then.pools) == len(states)


async def test_a_job_is_told_with_its_reason_then_and_what_became_of_it(bench: Bench):
    await a_busy_minute(bench)
    ran = next(one for one in (await bench.ledger.rewind.to(at(25))).jobs if one.job_id == 1)
    assert (ran.since, ran.pod_uid, ran.now, ran.conclusion) == (at(20), "uid-a", "completed", "success")
    (pool,) = (await bench.ledger.rewind.to(at(25))).pools
    assert (pool.queued, pool.running) == (1, 1)
    assert pool.oldest_queued_seconds == pytest.approx(25, abs=0.01)


async def test_a_job_whose_end_was_heard_of_late_was_open_here_until_then(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(1))
    ended = bench.clock.now() + timedelta(seconds=10)
    bench.clock.advance(3600)
    await bench.ledger.jobs.completed(
        1, account_id=ACME, conclusion="success", completed_at=ended, runner_name=None, job=job(1)
    )
    bench.clock.advance(60)
    assert [one.state for one in (await bench.ledger.rewind.to(at(1800))).jobs] == ["queued"]
    assert (await bench.ledger.rewind.to(at(3620))).jobs == []


async def test_the_log_around_a_moment_is_shown_oldest_first_and_no_wider_than_asked(bench: Bench):
    await a_busy_minute(bench)
    then = await bench.ledger.rewind.to(at(20), around=timedelta(seconds=10))
    moments = [line.at for line in then.lines]
    assert moments == sorted(moments)
    assert (moments[0], moments[-1]) == (at(10), at(30))


async def test_what_is_asked_over_http_is_answered_with_a_sentence_that_has_the_numbers(bench: Bench):
    await a_busy_minute(bench)
    app = Starlette(routes=[rewind_route(bench.ledger, bench.clock)])
    async with httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://ledger/api/v1/at/") as client:
        found = (await client.get("2026-06-01T12:00:35Z")).json()
        assert found["known"] is True
        assert found["sentence"] == (
            "at 2026-06-01 12:00:35 UTC, 60 min ago: 1 job waited (the oldest for 34 s), 0 were being handed over, "
            "1 ran; 1 Pod was being retired"
        )
        early = (await client.get("2026-05-01T00:00:00Z")).json()
        assert early["known"] is False
        assert (
            "the log does not go back to 2026-05-01 00:00:00 UTC, it begins at 2026-06-01 12:00:00 UTC"
            in early["sentence"]
        )
        for wrong in ("yesterday", "2026-06-01T12:00:35", "2027-01-01T00:00:00Z"):
            refused = await client.get(wrong)
            assert (refused.status_code, refused.json()["field"]) == (400, "moment")
        assert (await client.get("2026-06-01T12:00:35Z?around=4000")).json()["field"] == "around"
