"""Who goes first: fairness between accounts, and backoff for what keeps failing."""

import itertools
import math
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from integration.runners.ledger.rig import ACME, BOLT, CRUX, POOL, Bench, job, pod

from paddock.runners.ledger import Outcome
from paddock.runners.ledger.signals import SIGNALS


async def test_within_an_account_the_oldest_goes_first_and_equals_by_number(bench: Bench):
    await bench.accounts(ACME, vcpus=60, memory_mb=500_000)
    await bench.queue(job(12, age=1), job(11, age=5), job(10, age=1))
    assert [(await bench.claimed(n)).job_id for n in range(3)] == [11, 10, 12]


async def test_a_noisy_account_cannot_starve_the_others(bench: Bench):
    await bench.accounts(ACME, BOLT, CRUX, vcpus=600, memory_mb=5_000_000)
    await bench.queue(*(job(100 + n, ACME, age=500 - n) for n in range(30)))
    await bench.queue(job(200, BOLT, age=2), job(201, BOLT, age=1), job(300, CRUX))
    order = [(await bench.claimed(n)).account_id for n in range(6)]
    assert order == [ACME, BOLT, CRUX, ACME, BOLT, ACME]


async def test_one_batch_is_as_fair_as_one_pod_after_the_other(bench: Bench):
    await bench.accounts(ACME, BOLT, CRUX, vcpus=600, memory_mb=5_000_000)
    await bench.queue(*(job(100 + n, ACME, age=500 - n) for n in range(30)))
    await bench.queue(job(200, BOLT, age=2), job(201, BOLT, age=1), job(300, CRUX))
    answers = await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(6)])
    assert [answer.account_id for answer in answers] == [ACME, BOLT, CRUX, ACME, BOLT, ACME]


async def test_a_share_is_measured_by_what_the_account_may_hold(bench: Bench):
    await bench.accounts(ACME, vcpus=120, memory_mb=5_000_000)
    await bench.accounts(BOLT, vcpus=12, memory_mb=5_000_000)
    await bench.queue(*(job(100 + n, ACME, age=500 - n) for n in range(30)))
    await bench.queue(*(job(200 + n, BOLT, age=900 - n) for n in range(30)))
    answers = await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(12)])
    accounts = [answer.account_id for answer in answers]
    # Ten times the limit, ten times the share: BOLT's second job comes when ACME holds half of its own.
    assert (accounts.count(ACME), accounts.count(BOLT)) == (10, 2)
    assert accounts[0] == BOLT


async def test_the_scarcer_of_vcpu_and_memory_decides_the_share(bench: Bench):
    await bench.accounts(ACME, vcpus=600, memory_mb=30_000)
    await bench.accounts(BOLT, vcpus=60, memory_mb=5_000_000)
    await bench.queue(job(100, ACME, age=9), job(101, ACME, age=8), job(200, BOLT, age=2), job(201, BOLT, age=1))
    answers = await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(3)])
    assert [answer.job_id for answer in answers] == [100, 200, 201]  # ACME's memory is half used after one


async def test_an_account_at_its_limit_does_not_hold_up_the_line(bench: Bench):
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.accounts(BOLT)
    await bench.queue(*(job(100 + n, ACME, age=500) for n in range(50)), job(200, BOLT))
    await bench.claimed(1)
    assert (await bench.claimed(2)).account_id == BOLT
    assert (await bench.claim(3)).outcome is Outcome.EMPTY


async def test_a_job_too_large_for_what_is_left_does_not_hold_up_the_smaller_ones_behind_it(bench: Bench):
    await bench.accounts(ACME, vcpus=12, memory_mb=500_000)
    await bench.queue(job(10, age=9), job(11, age=8, vcpus=12), job(12, age=7))
    assert (await bench.claimed(1)).job_id == 10
    assert (await bench.claimed(2)).job_id == 12


async def test_a_job_that_cannot_be_minted_lets_the_others_pass_and_comes_back(bench: Bench):
    await bench.accounts(ACME, vcpus=60, memory_mb=500_000)
    await bench.queue(job(10, age=9), job(11))
    poison = await bench.claimed(1)
    assert poison.job_id == 10
    ended = await bench.ledger.claims.mint_failed(poison, by="dispatch", why="422 from GitHub")
    assert ended.requeued
    assert (await bench.claimed(1)).job_id == 11
    assert (await bench.claim(2)).outcome is Outcome.EMPTY
    bench.clock.advance(10)
    again = await bench.claimed(2)
    assert (again.job_id, again.mint_failures) == (10, 1)


async def test_the_pause_grows_with_every_failure_up_to_a_quarter_of_an_hour(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    pauses = []
    for _ in range(12):
        claim = await bench.claimed(1)
        await bench.ledger.claims.mint_failed(claim, by="dispatch", why="422")
        row = await bench.ledger.jobs.get(10)
        assert row is not None
        assert row.not_before is not None
        pauses.append((row.not_before - bench.clock.now()).total_seconds())
        bench.clock.moment = row.not_before
    assert 5 <= pauses[0] <= 6.25
    assert all(late > early for early, late in itertools.pairwise(pauses[:7]))
    assert max(pauses) <= 900 * 1.25


async def test_a_mint_that_works_forgets_the_failures(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.ledger.claims.mint_failed(await bench.claimed(1), by="dispatch", why="422")
    bench.clock.advance(10)
    claim = await bench.running(1)
    await bench.ledger.claims.release(claim, by="orphaned runners", why="never registered")
    assert (await bench.claimed(2)).mint_failures == 0


async def test_what_github_asked_for_is_waited_for(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.ledger.claims.mint_failed(await bench.claimed(1), by="dispatch", why="429", retry_after=600)
    bench.clock.advance(599)
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    bench.clock.advance(2)
    await bench.claimed(1)


async def test_a_broken_installation_sets_its_account_back_and_nobody_else(bench: Bench):
    await bench.accounts(ACME, BOLT, vcpus=60, memory_mb=500_000)
    await bench.queue(job(10, age=9), job(11, age=8), job(12, age=7), job(20, BOLT), job(21, BOLT))
    broken = await bench.claimed(1)
    assert broken.account_id == ACME
    await bench.ledger.claims.mint_failed(broken, by="dispatch", why="403", scope="account")
    assert [(await bench.claimed(n)).account_id for n in (1, 2)] == [BOLT, BOLT]
    assert (await bench.claim(3)).outcome is Outcome.EMPTY
    bench.clock.advance(10)
    assert (await bench.claimed(3)).account_id == ACME


async def test_a_repository_that_is_gone_sets_back_its_own_jobs_only_until_a_mint_works(bench: Bench):
    await bench.accounts(ACME, vcpus=60, memory_mb=500_000)
    gone = "org1/gone"
    await bench.queue(job(10, age=9, repository=gone), job(11, age=8, repository=gone), job(12))
    await bench.ledger.claims.mint_failed(await bench.claimed(1), by="dispatch", why="404", scope="repository")
    assert (await bench.claimed(1)).job_id == 12
    assert (await bench.claim(2)).outcome is Outcome.EMPTY
    bench.clock.advance(10)
    failing = await bench.claimed(2)
    await bench.ledger.claims.mint_failed(failing, by="dispatch", why="404", scope="repository")
    bench.clock.advance(8)
    assert (await bench.claim(3)).outcome is Outcome.EMPTY  # the second pause is longer
    bench.clock.advance(30)
    await bench.running(3)
    assert await bench.ask("SELECT * FROM setbacks") == []
    assert (await bench.claimed(4)).repository == gone


async def test_signals_count_only_what_may_run_now(bench: Bench):
    await bench.accounts(ACME, vcpus=12, memory_mb=500_000)
    await bench.accounts(BOLT, vcpus=60, memory_mb=500_000)
    await bench.queue(*(job(100 + n, ACME, age=60) for n in range(5)), job(200, BOLT, age=30))
    await bench.running(1)
    signals = await bench.ledger.signals.of_pool(POOL)
    assert (signals.claimed, signals.occupied, signals.queued, signals.withheld) == (1, 1, 2, 3)
    assert 59 < signals.oldest_dispatchable_seconds <= 60
    held = (await bench.ledger.claims.all())[0]
    assert held.job_id is not None
    await bench.completed(job(held.job_id, held.account_id), 1)
    signals = await bench.ledger.signals.of_pool(POOL)
    assert (signals.claimed, signals.occupied) == (0, 1)  # the Pod is still tearing down
    assert signals.p95_concurrent_last_hour == 1
    await bench.ledger.sessions.end("uid-1", bench.clock.now(), by="controller", why="stopped")
    assert (await bench.ledger.signals.of_pool(POOL)).occupied == 0


async def test_a_pool_nobody_heard_of_has_no_load(bench: Bench):
    signals = await bench.ledger.signals.of_pool("nowhere")
    assert (signals.claimed, signals.occupied, signals.queued, signals.withheld) == (0, 0, 0, 0)
    assert signals.p95_concurrent_last_hour == 0


async def test_a_session_that_never_closed_stops_counting_after_the_longest_job(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    await bench.completed(job(10), 1)
    bench.clock.advance(timedelta(hours=6, minutes=1).total_seconds())
    assert (await bench.ledger.signals.of_pool(POOL)).occupied == 0


async def _sessions(bench: Bench, spans: Sequence[tuple[float, float | None]]) -> None:
    """Sessions by how many seconds ago each began and ended; None has not."""
    now = bench.clock.now()
    began = [now - timedelta(seconds=start) for start, _ in spans]
    ended = [None if end is None else now - timedelta(seconds=end) for _, end in spans]
    await bench.ask(
        "INSERT INTO sessions (pod_uid, pod_name, generation, account_id, pool, platform, vcpus, memory_mb, runner_name, repository,"
        " workflow_name, started_at, ended_at) SELECT 'uid-' || n, 'runner-' || n, n, %s, %s, 'macos', 6, 14336, 'runner-' || n,"
        " 'org1/app', 'build', began, ended FROM unnest(%s::timestamptz[], %s::timestamptz[]) WITH ORDINALITY AS s (began, ended, n)"
        " RETURNING pod_uid",
        [ACME, POOL, began, ended],
    )


@pytest.mark.parametrize("seed", range(8))
async def test_the_signal_of_the_last_hour_is_what_each_minute_saw(bench: Bench, seed: int):
    await bench.accounts(ACME)
    rng = random.Random(seed)
    starts = [rng.choice([rng.uniform(0, 30_000), 60.0 * rng.randrange(80)]) for _ in range(rng.randrange(60))]
    spans = [(start, rng.choice([None, rng.uniform(0, start), start, 0.0])) for start in starts]
    await _sessions(bench, spans)
    longest, minutes = 6 * 3600.0, []
    for minute in range(0, 3600, 60):
        open_then = [
            start - longest if end is None else end for start, end in spans if minute <= start < longest + 3600
        ]
        minutes.append(sum(end < minute + 60 for end in open_then))
    saw = sorted(number for number in minutes if number)
    expected = saw[math.ceil(0.95 * len(saw)) - 1] if saw else 0
    assert (await bench.ledger.signals.of_pool(POOL)).p95_concurrent_last_hour == expected


async def test_the_signals_look_at_each_session_once_and_not_for_every_minute(bench: Bench):
    """The autoscaler asks every few seconds, and a large pool has a hundred thousand sessions in seven hours."""
    await bench.accounts(ACME)
    await _sessions(bench, [(n, max(0.0, n - 600.0)) for n in range(0, 25_000, 10)])
    params = {"pool": POOL, "now": bench.clock.now(), "longest": timedelta(hours=6)}
    async with await bench.connect() as connection:
        await connection.execute("ANALYZE sessions")
        cursor = await connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {SIGNALS}", params)
        ((plan,),) = await cursor.fetchall()
    assert _touched(plan[0]["Plan"]) < 10 * 2500


def _touched(node: dict[str, Any]) -> float:
    """Rows that a plan's nodes gave or threw away, added up."""
    thrown = sum(number for name, number in node.items() if name.startswith("Rows Removed"))
    here = (node["Actual Rows"] + thrown) * node["Actual Loops"]
    return here + sum(_touched(child) for child in node.get("Plans", ()))
