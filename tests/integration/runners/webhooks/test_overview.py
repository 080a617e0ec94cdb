"""What people are told: how long the line is, why each job waits, what runs, what ran and how long it took."""

from datetime import timedelta
from typing import Any

import httpx2
import pytest
import structlog
from integration.runners.ledger.rig import ACME, BOLT, POOL, Bench, job, pod
from msgspec import to_builtins
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from paddock.cli.doctor.waiting import job_checks
from paddock.runners.http.job_costs import JobCosts
from paddock.runners.http.readonly import readonly_routes
from paddock.runners.ledger import Fence, LedgerUnavailableError, Pod
from paddock.runners.ledger.queue_metrics import QueueCollector
from paddock.simulator.transport import InProcessTransport


async def why(bench: Bench) -> dict[int, tuple[str, int | None]]:
    return {one.job_id: (one.reason, one.position) for one in await bench.ledger.overview.queue()}


async def test_the_strip_of_an_empty_ledger_is_zeros(bench: Bench):
    summary = await bench.ledger.overview.summary()
    assert (summary.oldest_dispatchable_seconds, summary.dispatchable, summary.running) == (0.0, 0, 0)


async def test_the_strip_tells_what_may_run_from_what_is_withheld_and_what_rests(bench: Bench):
    await bench.accounts(ACME, BOLT)
    await bench.queue(*(job(n, age=100) for n in range(1, 6)), job(20, BOLT, age=50), job(21, BOLT, age=500))
    failed = await bench.claimed("x")
    await bench.ledger.claims.mint_failed(failed, by="test", why="502")
    await bench.claimed("a")
    await bench.running("b")
    summary = await bench.ledger.overview.summary()
    assert summary.dispatchable + summary.withheld + summary.resting == 5
    assert (summary.resting, summary.claimed, summary.running, summary.sessions_open) == (1, 1, 1, 1)
    await bench.completed(job(30), None, "cancelled")
    assert (await bench.ledger.overview.summary()).completed_last_hour == 1
    bench.clock.advance(3601)
    assert (await bench.ledger.overview.summary()).completed_last_hour == 0


async def test_the_oldest_that_may_run_is_not_one_that_is_withheld(bench: Bench):
    await bench.accounts(ACME, BOLT)
    await bench.queue(job(1, age=900), job(2, age=900), job(3, age=900))
    await bench.claimed("a")
    await bench.claimed("b")
    assert (await bench.ledger.overview.summary()).oldest_dispatchable_seconds == 0
    await bench.queue(job(4, BOLT, age=60))
    summary = await bench.ledger.overview.summary()
    assert summary.oldest_dispatchable_seconds == pytest.approx(60, abs=0.01)
    assert (summary.dispatchable, summary.withheld) == (1, 1)


async def test_time_that_an_accounts_own_limit_cost_is_no_wait_of_a_job_that_may_run(bench: Bench):
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.queue(job(1, age=900), job(2, age=900))
    await bench.running("a")
    queue = QueueCollector(bench.ledger, lambda: [POOL], bench.clock)
    await queue.look()
    bench.clock.advance(10)
    await bench.completed(job(1), "a")
    await queue.look()
    bench.clock.advance(20)
    assert (await bench.ledger.overview.summary()).oldest_dispatchable_seconds == pytest.approx(930, abs=1)
    assert (await queue.summary()).oldest_dispatchable_seconds == pytest.approx(20, abs=1)
    assert (await queue.of_pool(POOL)).oldest_dispatchable_seconds == pytest.approx(20, abs=1), "so says why pool"
    registry = CollectorRegistry()
    registry.register(queue)
    waited = registry.get_sample_value("paddock_queue_oldest_dispatchable_seconds", {"pool": POOL})
    assert waited == pytest.approx(20, abs=1)


async def test_an_account_that_is_not_on_the_list_is_said_once_in_the_log_in_why_and_by_doctor(bench: Bench):
    await bench.accounts(ACME, BOLT)
    await bench.ledger.allow_list.deny(BOLT, "org2", by="test", why="nobody asked for it")
    queue = QueueCollector(bench.ledger, lambda: [POOL], bench.clock)
    await bench.queue(job(1), job(2, BOLT), job(3, BOLT))
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            await queue.look()
    (line,) = [line for line in lines if "not on the allow list" in line["event"]]
    assert line["jobs"] == 2
    assert "paddock accounts allow NAME" in line["remedy"]
    waiting = await bench.ledger.overview.queue()
    login = next(each.login for each in waiting if each.job_id == 2)
    assert f"`paddock accounts allow {login}` allows it" in next(each.why for each in waiting if each.job_id == 2)
    (check,) = job_checks(to_builtins(waiting))
    assert (check.state, check.about, check.fix) == ("problem", f"account {login}", f"paddock accounts allow {login}")
    assert "2 jobs are kept and not run" in check.found
    await bench.ledger.allow_list.allow(BOLT, "org2", by="test", why="they paid")
    with structlog.testing.capture_logs() as lines:
        await queue.look()
    assert lines == []
    assert [each.state for each in job_checks(to_builtins(await bench.ledger.overview.queue()))] == ["ok"]


async def test_each_waiting_job_says_why_it_waits_and_its_place_is_the_one_it_gets(bench: Bench):
    await bench.accounts(ACME, BOLT)
    await bench.queue(job(1, age=30), job(2, age=20), job(3, age=10), job(4, BOLT, age=5))
    assert await why(bench) == {
        1: ("in_line", 1),
        4: ("in_line", 2),
        2: ("in_line", 3),
        3: ("behind_its_account", None),
    }
    order = [(await bench.claimed(n)).job_id for n in range(3)]
    assert order == [1, 4, 2]
    assert await why(bench) == {3: ("limit_reached", None)}
    (waiting,) = await bench.ledger.overview.queue()
    assert waiting.why == "The account org1 is at its macos limit: 12 of 12 vCPU and 28672 of 28672 MB are held."
    assert waiting.waiting_seconds == pytest.approx(10, abs=0.01)


async def test_a_job_that_rests_says_until_when_and_after_what(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(1))
    claim = await bench.claimed("a")
    await bench.ledger.claims.mint_failed(claim, by="test", why="GitHub answered 502", retry_after=90)
    (waiting,) = await bench.ledger.overview.queue()
    assert waiting.reason == "resting"
    assert waiting.until == bench.clock.now() + timedelta(seconds=90)
    assert "1 failed mint: GitHub answered 502" in waiting.why


@pytest.mark.parametrize(("scope", "reason"), [("account", "account_resting"), ("repository", "repository_resting")])
async def test_a_job_whose_account_or_repository_rests_says_so(bench: Bench, scope: Any, reason: str):
    await bench.accounts(ACME)
    await bench.queue(job(1), job(2, repository="org1/other" if scope == "account" else "org1/app"))
    claim = await bench.claimed("a")
    await bench.ledger.claims.mint_failed(claim, by="test", why="403", scope=scope, retry_after=90)
    assert (await why(bench))[2] == (reason, None)


async def test_jobs_that_can_never_run_say_what_to_do(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(1, vcpus=24), job(2, age=8 * 86_400))
    await bench.ask("DELETE FROM limits WHERE platform = 'linux'")
    await bench.queue(job(3, platform="linux"))
    found = await why(bench)
    assert {number: reason for number, (reason, _) in found.items()} == {
        1: "larger_than_limit",
        2: "too_old",
        3: "limit_missing",
    }


async def test_a_short_page_says_when_a_job_is_further_back(bench: Bench):
    await bench.accounts(ACME, vcpus=1200, memory_mb=10_000_000)
    await bench.accounts(BOLT, vcpus=1200, memory_mb=10_000_000)
    await bench.queue(*(job(n, age=100 - n) for n in range(1, 6)), job(9, BOLT))
    queue = await bench.ledger.overview.queue(2)
    assert [(one.job_id, one.reason) for one in queue] == [(1, "in_line"), (2, "far_back")]


async def test_what_runs_and_what_ran_last(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(1, age=10), job(2))
    await bench.running("a")
    await bench.running("b")
    await bench.started(job(1), "a")
    first, second = await bench.ledger.overview.running()
    assert (first.job_id, first.pod_uid, first.login) == (1, "uid-a", "org1")
    assert (first.executing_since, second.executing_since) == (bench.clock.now(), None)
    bench.clock.advance(60)
    await bench.completed(job(1), "a")
    assert [(one.job_id, one.conclusion) for one in await bench.ledger.overview.recent()] == [(1, "success")]
    assert [one.job_id for one in await bench.ledger.overview.running()] == [2]


async def test_latency_by_stage_comes_from_the_jobs_of_the_window(bench: Bench):
    await bench.accounts(ACME, vcpus=1200, memory_mb=10_000_000)
    for n in range(1, 11):
        await bench.queue(job(n, age=-(bench.clock.now() - job(0).enqueued_at).total_seconds()))
        bench.clock.advance(n)
        claim = await bench.claimed(n)
        bench.clock.advance(2)
        await bench.ledger.claims.commit(claim, f"runner-{n}-mint")
        bench.clock.advance(3)
        await bench.started(job(n), n)
        await bench.completed(job(n), n)
    stages = {stage.name: stage for stage in await bench.ledger.overview.latency()}
    assert stages["queued_to_claimed"].count == 10
    assert stages["queued_to_claimed"].p50 == pytest.approx(5.5, abs=0.01)
    assert stages["claimed_to_running"].p99 == pytest.approx(2, abs=0.01)
    assert stages["running_to_started"].p50 == pytest.approx(3, abs=0.01)
    assert stages["total"].p50 == pytest.approx(10.5, abs=0.01)
    bench.clock.advance(7200)
    assert [(stage.count, stage.p50) for stage in await bench.ledger.overview.latency()] == [(0, None)] * 4


async def test_accounts_show_what_they_hold_beside_what_they_may(bench: Bench):
    await bench.accounts(ACME, BOLT)
    await bench.queue(job(1, BOLT), job(2, BOLT))
    await bench.claimed("a")
    fullest = (await bench.ledger.overview.accounts())[0]
    assert (fullest.login, fullest.platform, fullest.used_vcpus, fullest.limit_vcpus) == ("org2", "macos", 6, 12)
    assert (fullest.claims, fullest.queued) == (1, 1)


async def test_looking_never_writes_and_is_cut_off(bench: Bench):
    async with bench.ledger.overview._looking() as connection:
        ((writes,),) = await (await connection.execute("SHOW transaction_read_only")).fetchall()
        ((limit,),) = await (await connection.execute("SHOW statement_timeout")).fetchall()
    assert (writes, limit) == ("on", "3s")
    assert await bench.ask("SELECT count(*) FROM transitions") == [(0,)]


async def test_no_statement_reads_the_history_from_end_to_end(bench: Bench):
    from paddock.runners.ledger import overview as o
    from paddock.runners.ledger.ended_jobs import NEWEST
    from paddock.runners.ledger.waiting_load import WAITING

    await bench.accounts(ACME)
    await bench.ask(
        "INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository,"
        " enqueued_at, started_at, completed_at, changed_at, changed_by, changed_why)"
        " SELECT n, 1, 'mac-m4', 'macos', 6, 14336, 'completed', 'success', 'org1/app', t, t, t, t, 'test', 'history'"
        " FROM (SELECT n, timestamptz '2026-05-01 00:00Z' + n * interval '1 second' AS t"
        " FROM generate_series(1, 20000) n) old"
    )
    await bench.ask("INSERT INTO completions SELECT job_id, 1, 'success', 'r', completed_at, completed_at FROM jobs")
    await bench.queue(job(30_001), job(30_002))
    await bench.running("a")
    await bench.ask("ANALYZE jobs")
    await bench.ask("ANALYZE completions")
    now = bench.clock.now()
    statements: list[tuple[Any, dict[str, Any]]] = [
        (o.SUMMARY, {"now": now, "allowed": []}),
        (WAITING, {"now": now}),
        (o.IN_LINE + o.WHY_IT_WAITS, {"now": now, "limit": 100, "deep": 100}),
        (o.THE_JOB + o.WHY_IT_WAITS, {"now": now, "job_id": 30_002, "deep": 100}),
        (o.RUNNING, {"limit": 100}),
        (NEWEST, {"limit": 100, "now": now}),
        (o.LATENCY, {"since": now - timedelta(hours=1), "samples": 10_000}),
        (o.ACCOUNTS, {"limit": 100}),
    ]
    for statement, params in statements:
        plan = "\n".join(line for (line,) in await bench.ask("EXPLAIN " + statement, params))
        assert "Seq Scan on jobs" not in plan, plan
        assert "Seq Scan on completions" not in plan, plan


# As JSON


@pytest.fixture
def client(bench: Bench) -> httpx2.AsyncClient:
    numbers = QueueCollector(bench.ledger, tuple, bench.clock).summary
    transport = InProcessTransport(
        Starlette(routes=readonly_routes(bench.ledger, numbers, JobCosts(bench.ledger, tuple)))
    )
    return httpx2.AsyncClient(transport=transport, base_url="http://paddock/api/v1")


async def test_every_page_answers_json_that_is_not_cached(bench: Bench, client: httpx2.AsyncClient):
    await bench.accounts(ACME)
    await bench.queue(job(1), job(2), job(3))
    await bench.running("a")
    for path in (
        "strip",
        "queue",
        "running",
        "recent",
        "latency",
        "accounts",
        "heals",
        "claims",
        "jobs/1",
        "jobs/2",
        "pods/uid-a",
    ):
        response = await client.get(path)
        assert (response.status_code, response.headers["content-type"]) == (200, "application/json"), path
        assert response.headers["cache-control"] == "no-store"
        assert response.json() is not None


async def test_a_job_page_tells_its_whole_life(bench: Bench, client: httpx2.AsyncClient):
    await bench.accounts(ACME)
    await bench.queue(job(1))
    assert (await client.get("jobs/1")).json()["waiting"]["why"].startswith("Next in line")
    await bench.running("a")
    await bench.started(job(1), "a")
    await bench.completed(job(1), "a")
    page = (await client.get("jobs/1")).json()
    assert (page["job"]["status"], page["completion"]["conclusion"], page["waiting"]) == ("completed", "success", None)
    assert [one["pod_uid"] for one in page["sessions"]] == ["uid-a"]
    lines = [line["became"] for line in page["transitions"] if line["subject"] == "job"]
    assert lines == ["queued", "claimed", "running", "completed"]


async def test_a_pod_page_tells_claim_fence_and_session(bench: Bench, client: httpx2.AsyncClient):
    await bench.accounts(ACME)
    await bench.queue(job(1))
    await bench.running("a")
    page = (await client.get("pods/uid-a")).json()
    assert (page["claim"]["state"], page["fence"], page["session"]["job_id"]) == ("running", None, 1)
    await bench.ledger.fences.raise_fence(pod("b"), by="test", why="reaped")
    assert (await client.get("pods/uid-b")).json()["fence"]["why"] == "reaped"


async def test_a_pod_is_found_by_its_name_long_after_it_is_gone(bench: Bench, client: httpx2.AsyncClient):
    await bench.accounts(ACME)
    await bench.queue(job(1))
    await bench.running("a")
    await bench.started(job(1), "a")
    await bench.completed(job(1), "a")
    await bench.ledger.sessions.end("uid-a", bench.clock.now(), by="test", why="the Pod has ended")
    page = (await client.get("pods/runner-a")).json()
    assert (page["uid"], page["name"], page["claim"]) == ("uid-a", "runner-a", None)
    assert page == (await client.get("pods/uid-a")).json()


async def test_a_pod_that_was_retired_without_a_job_keeps_its_name_and_the_reason(
    bench: Bench, client: httpx2.AsyncClient
):
    fence = await bench.ledger.fences.raise_fence(pod("b"), by="test", why="the pool has one too many")
    assert isinstance(fence, Fence)
    await bench.ledger.fences.lift(fence, by="test", why="the Pod is gone")
    page = (await client.get("pods/runner-b")).json()
    assert (page["uid"], page["name"], page["fence"]) == ("uid-b", "runner-b", None)
    assert [(line["became"], line["why"]) for line in page["transitions"]] == [
        ("fenced", "the pool has one too many"),
        ("lifted", "the Pod is gone"),
    ]


async def test_a_name_that_was_used_twice_means_the_last_pod_that_bore_it(bench: Bench, client: httpx2.AsyncClient):
    for uid in ("first", "second"):
        await bench.ledger.fences.raise_fence(Pod(uid=uid, name="again"), by="test", why=uid)
        bench.clock.advance(60)
    assert (await client.get("pods/again")).json()["uid"] == "second"
    assert (await client.get("pods/first")).json()["fence"]["why"] == "first"


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("jobs/99", 404, "unknown_job"),
        ("pods/nobody", 404, "unknown_pod"),
        ("jobs/abc", 400, "bad_field"),
        ("jobs/0", 400, "bad_field"),
        ("jobs/9223372036854775808", 400, "bad_field"),
        ("pods/a%00b", 400, "bad_field"),
        ("queue?limit=0", 400, "bad_field"),
        ("queue?limit=1001", 400, "bad_field"),
        ("recent?limit=many", 400, "bad_field"),
        ("latency?window=5", 400, "bad_field"),
    ],
)
async def test_what_is_wrong_with_a_question_is_said_as_json(
    client: httpx2.AsyncClient, path: str, status: int, reason: str
):
    response = await client.get(path)
    assert (response.status_code, response.json()["reason"]) == (status, reason)


async def test_while_the_ledger_is_away_people_are_asked_to_come_again(
    bench: Bench, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    async def away() -> None:
        raise LedgerUnavailableError("the database went away")

    monkeypatch.setattr(bench.ledger.overview, "summary_and_line", away)
    response = await client.get("strip")
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")


async def test_a_log_is_read_by_pod_and_by_the_job_that_it_ran(bench: Bench, client: httpx2.AsyncClient):
    await bench.accounts(ACME)
    await bench.queue(job(1))
    await bench.running("a")
    await bench.ledger.runner_logs.append("uid-a", 0, b"one\n\x1b[31mtwo\n")
    for path in ("pods/uid-a/log", "jobs/1/log"):
        shown = await client.get(path)
        assert (shown.status_code, shown.text) == (200, "one\n[31mtwo\n"), path
        assert shown.headers["content-type"].startswith("text/plain")
        assert (await client.get(path, params={"tail": "1"})).text == "[31mtwo\n"
    for path in ("pods/uid-b/log", "jobs/2/log"):
        missing = await client.get(path)
        assert missing.status_code == 404
        assert "no log is kept" in missing.text
    assert (await client.get("jobs/x/log")).status_code == 400
