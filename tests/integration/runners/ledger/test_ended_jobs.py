"""What the jobs that ended come to: counted by the database, within the time that was asked for, by account or repository."""

from datetime import timedelta
from typing import Any

import httpx2
import pytest
from integration.runners.ledger.rig import ACME, BOLT, Bench, job
from starlette.applications import Starlette

from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec
from paddock.runners.http.ended import ended_routes
from paddock.runners.http.job_costs import JobCosts
from paddock.runners.ledger import NewJob, ended_jobs
from paddock.runners.ledger.ended_jobs import Selection
from paddock.runners.ledger.mac_states import MacSeen
from paddock.runners.ledger.samples import MINUTE, FleetNumbers, step_began
from paddock.simulator.transport import InProcessTransport

LINUX = "linux-small"
NIGHT, DAY = 0.11, 0.29


def the_pools() -> list[RunnerPool]:
    """What is there: of the pool mac-exclusive each job has a whole Mac."""
    how = {"image": "i", "fleet_selector": "f", "dispatch_label": "mac", "runner_labels": ("macOS",)}
    return [
        RunnerPool(metadata=ObjectMeta(name="mac-m4"), spec=RunnerPoolSpec(**how)),
        RunnerPool(metadata=ObjectMeta(name="mac-exclusive"), spec=RunnerPoolSpec(**how, isolation="exclusive")),
    ]


def seen(host: str, machine: str, price: float, state: str = "ready") -> MacSeen:
    return MacSeen(host=host, state=state, machine=machine, title=machine, zone="z", fleet="f", price=price)


@pytest.fixture
def client(bench: Bench) -> httpx2.AsyncClient:
    transport = InProcessTransport(Starlette(routes=ended_routes(JobCosts(bench.ledger, the_pools), bench.clock)))
    return httpx2.AsyncClient(transport=transport, base_url="http://paddock/api/v1")


async def life(bench: Bench, one: NewJob, *, waits: float, runs: float, result: str = "success") -> None:
    """From the line to its end; the Pod goes ten seconds later."""
    number = one.job_id
    await bench.queue(one)
    bench.clock.advance(waits)
    await bench.running(number, one.pool)
    await bench.started(one, number)
    bench.clock.advance(runs)
    await bench.completed(one, number, result)
    bench.clock.advance(10)
    await bench.ledger.recovery.pod_stopped(f"uid-{number}", bench.clock.now(), by="test", why="ended")


def now(bench: Bench, number: int, account: int = ACME, **how: Any) -> NewJob:
    age = -(bench.clock.now() - job(1).enqueued_at).total_seconds()
    return job(number, account, age=age, **how)


async def a_morning(bench: Bench) -> None:
    await bench.accounts(ACME, BOLT)
    await life(bench, now(bench, 1), waits=20, runs=100)
    await life(bench, now(bench, 2), waits=40, runs=300, result="failure")
    await life(bench, now(bench, 3, repository="org1/site", pool=LINUX, platform="linux"), waits=0, runs=50)
    bench.clock.advance(3600)
    await life(bench, now(bench, 4, BOLT, pool="mac-exclusive"), waits=10, runs=1000)
    gone = now(bench, 5, BOLT)
    await bench.queue(gone)
    await bench.completed(gone, None, "cancelled")


def day(bench: Bench, **of: str) -> Selection:
    return Selection(since=bench.clock.now() - timedelta(days=1), **of)


async def test_results_times_and_time_on_macs_are_summed_by_account(bench: Bench):
    await a_morning(bench)
    summed = await bench.ledger.ended_jobs.sums("account", day(bench))
    bolt, acme = summed.sums  # who had most of the Macs comes first
    assert (acme.name, acme.jobs, acme.results) == ("org1", 3, {"success": 2, "failure": 1})
    assert (bolt.name, bolt.jobs, bolt.results) == ("org2", 2, {"success": 1, "cancelled": 1})
    assert [round(value or -1) for value in (acme.waited_p50, acme.waited_p95)] == [20, 38]
    assert [round(value or -1) for value in (acme.ran_p50, acme.ran_p95)] == [100, 280]
    assert {pool: round(held) for pool, held in acme.mac_pod_seconds.items()} == {"mac-m4": 420}, "Linux is no Mac"
    assert {pool: round(held) for pool, held in bolt.mac_pod_seconds.items()} == {"mac-exclusive": 1010}


async def test_they_are_summed_by_repository_and_only_of_what_was_asked_for(bench: Bench):
    await a_morning(bench)
    sums = bench.ledger.ended_jobs.sums
    by_repository = {one.name: one.jobs for one in (await sums("repository", day(bench))).sums}
    assert by_repository == {"org1/app": 2, "org1/site": 1, "org2/app": 2}
    of_account = await sums("repository", day(bench, account="ORG1"))
    assert {one.name: one.jobs for one in of_account.sums} == {"org1/app": 2, "org1/site": 1}
    of_both = await sums("account", day(bench, account="org1", repository="Org1/Site"))
    assert [(one.name, one.jobs, one.mac_pod_seconds) for one in of_both.sums] == [("org1", 1, {})]
    assert (await sums("account", day(bench, account="nobody"))).sums == []
    recently = Selection(since=bench.clock.now() - timedelta(minutes=30))
    assert [(one.name, one.jobs) for one in (await sums("account", recently)).sums] == [("org2", 2)]


async def test_the_answer_says_how_far_back_it_counted_and_how_far_back_anything_is_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    await a_morning(bench)
    ends = [one.completed_at for one in await bench.ledger.overview.recent()]
    summed = await bench.ledger.ended_jobs.sums("account", day(bench))
    assert (summed.counted_since, summed.kept_since) == (day(bench).since, ends[-1])
    monkeypatch.setattr(ended_jobs, "MOST_ENDS", 2)
    summed = await bench.ledger.ended_jobs.sums("account", day(bench))
    assert (summed.counted_since, sum(one.jobs for one in summed.sums)) == (ends[1], 2)
    await bench.ledger.history.forget_jobs(bench.clock.now())
    assert (await bench.ledger.ended_jobs.sums("account", day(bench))).kept_since == ends[0]


@pytest.mark.parametrize(("most", "told"), [(2, True), (3, False)])
async def test_names_that_are_left_off_are_told(bench: Bench, monkeypatch: pytest.MonkeyPatch, most: int, told: bool):
    monkeypatch.setattr(ended_jobs, "GROUPS", most)
    await a_morning(bench)
    found = await bench.ledger.ended_jobs.sums("repository", day(bench))
    assert (len(found.sums), found.left_off) == (most, told)
    assert found.sums[0].name == "org2/app", "who had most of the Macs is never left off"


async def test_the_jobs_themselves_are_listed_by_account_repository_and_time(bench: Bench):
    await a_morning(bench)
    newest = bench.ledger.ended_jobs.newest
    assert [one.job_id for one in await newest(day(bench), 100)] == [5, 4, 3, 2, 1]
    assert [one.job_id for one in await newest(day(bench, account="Org1"), 2)] == [3, 2]
    (linux,) = await newest(day(bench, repository="org1/site"), 100)
    assert (linux.job_id, linux.platform, linux.pool) == (3, "linux", LINUX)
    assert await newest(Selection(since=bench.clock.now() + timedelta(seconds=1)), 100) == []


async def test_a_job_that_ran_elsewhere_is_nobodys(bench: Bench):
    await a_morning(bench)
    counted = (await bench.ledger.overview.summary()).completed_last_hour
    for number in (6, 7, 8):
        one = now(bench, number)
        await bench.ledger.jobs.enqueue(one, status="unserved")
        await bench.completed(one, None, "elsewhere")
    by_account = await bench.ledger.ended_jobs.sums("account", day(bench))
    by_repository = await bench.ledger.ended_jobs.sums("repository", day(bench))
    assert [sum(one.jobs for one in found.sums) for found in (by_account, by_repository)] == [5, 5]
    assert len(await bench.ledger.ended_jobs.newest(day(bench), 100)) == 5
    assert [one.job_id for one in await bench.ledger.overview.recent(2)] == [5, 4]
    assert (await bench.ledger.overview.summary()).completed_last_hour == counted
    minute = step_began(bench.clock.now(), MINUTE)
    await bench.ledger.samples.add(minute, FleetNumbers(macs={}, waiting=0, running=0))
    (sample,) = await bench.ledger.samples.since(minute, MINUTE)
    assert "elsewhere" not in sample.ended


async def test_neither_reads_more_than_the_time_that_was_asked_for(bench: Bench):
    """A hundred thousand jobs are kept and one in a hundred of them is asked for: the rest is not touched."""
    await bench.accounts(ACME)
    await bench.ask("ALTER TABLE jobs DISABLE TRIGGER USER")
    await bench.ask(
        "INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, conclusion, repository, runner_name,"
        " enqueued_at, started_at, completed_at, changed_at, changed_by, changed_why)"
        " SELECT n, 1, 'mac-m4', 'macos', 6, 14336, 'completed', 'success', 'org1/app', 'r' || n, t, t, t, t, 'test', 'history'"
        " FROM (SELECT n, %s + (n - 100000) * interval '1 second' AS t FROM generate_series(1, 100000) n) old",
        [bench.clock.now()],
    )
    await bench.ask("ALTER TABLE jobs ENABLE TRIGGER USER")
    await bench.ask(
        "INSERT INTO completions SELECT job_id, 1, 'success', runner_name, completed_at, completed_at FROM jobs"
    )
    await bench.ask(
        "INSERT INTO sessions (pod_uid, pod_name, generation, account_id, job_id, pool, platform, vcpus, memory_mb, runner_name,"
        " repository, workflow_name, started_at, ended_at) SELECT job_id, job_id, job_id, 1, job_id, pool, platform, 6, 1,"
        " runner_name, repository, '', started_at, completed_at FROM jobs"
    )
    await bench.ask("UPDATE sessions SET node_name = 'm-' || (generation %% 50) RETURNING 1", {})
    await bench.ask(
        "INSERT INTO mac_states SELECT 'h-' || n %% 50, t, t + interval '1 minute', 'ready', 'm-' || n %% 50, 'm', 'z', 'f', 0.29"
        " FROM (SELECT n, %s - n * interval '1 minute' AS t FROM generate_series(1, 20000) n) old",
        [bench.clock.now()],
    )
    for table in ("jobs", "completions", "sessions", "mac_states"):
        await bench.ask(f"ANALYZE {table}")  # type: ignore[arg-type]
    asked = {"now": bench.clock.now(), "limit": 1000, "since": bench.clock.now() - timedelta(seconds=1000)}
    for statement in (ended_jobs.BY_ACCOUNT, ended_jobs.BY_REPOSITORY, ended_jobs.CHOSEN):
        for of in ({"account": None, "repository": None}, {"account": "org1", "repository": "org1/none"}):
            plan = "\n".join(line for (line,) in await bench.ask("EXPLAIN ANALYZE " + statement, {**asked, **of}))
            assert "completions_by_age" in plan, plan
            for table in ("completions", "jobs", "sessions", "mac_states"):
                assert f"Seq Scan on {table}" not in plan, plan
    plan = await bench.ask("EXPLAIN " + ended_jobs.EDGE, {"since": asked["since"], "most": 10})
    assert "Seq Scan" not in "\n".join(line for (line,) in plan)


async def a_priced_morning(bench: Bench) -> None:
    """As `a_morning`: job 1 on a Mac of the night's price, 4 on one of the day's; of 2 the Node is known and no price."""
    await bench.ledger.mac_states.observe(
        bench.clock.now() - timedelta(hours=2),
        [seen("h-1", "m-1", NIGHT), seen("h-2", "m-2", DAY), seen("h-3", "m-3", 0.0)],
    )
    await a_morning(bench)
    await bench.ledger.mac_states.place({"uid-1": "m-1", "uid-2": "m-3", "uid-4": "m-2", "uid-3": "linux-node"})


async def test_a_job_costs_its_share_of_its_own_mac_at_the_price_of_then(bench: Bench):
    await a_priced_morning(bench)
    # Since then its Mac has got another price, and another Mac the name of its machine.
    now_there = [seen("h-1", "", 9.0), seen("h-9", "m-1", 9.0), seen("h-2", "m-2", DAY)]
    await bench.ledger.mac_states.observe(bench.clock.now(), now_there)
    costs = JobCosts(bench.ledger, the_pools)
    found = {one.job_id: one for one in await costs.newest(day(bench), 100)}
    assert (found[1].share, found[1].mac_seconds, found[1].price) == (0.5, pytest.approx(55), NIGHT)
    assert found[1].euros == pytest.approx(110 / 3600 * 0.5 * NIGHT, abs=1e-4)
    assert (found[4].share, found[4].euros) == (1.0, pytest.approx(1010 / 3600 * DAY, abs=1e-4)), "a whole Mac"
    assert (found[2].mac_seconds, found[2].euros) == (pytest.approx(155), None), "no price was recorded"
    assert (found[3].mac_seconds, found[3].euros) == (None, None), "Linux is no Mac"
    assert (found[5].mac_seconds, found[5].euros) == (None, None), "no runner took it up"


async def test_one_job_has_one_cost_whoever_asks(bench: Bench, client: httpx2.AsyncClient):
    await a_priced_morning(bench)
    costs = JobCosts(bench.ledger, the_pools)
    listed = {one.job_id: one for one in await costs.recent(100)}
    over_http = {one["job_id"]: one for one in (await client.get("ended/jobs")).json()}
    for job_id, one in listed.items():
        alone = await costs.of_job(job_id)
        assert alone == one
        assert (over_http[job_id].get("euros"), over_http[job_id].get("mac_seconds")) == (one.euros, one.mac_seconds)
    assert await costs.of_job(99) is None
    by_account = (await costs.sums("account", day(bench))).sums
    assert {one.name: one.euros for one in by_account} == {
        "org1": pytest.approx(listed[1].euros, abs=1e-4),
        "org2": pytest.approx(listed[4].euros, abs=1e-4),
    }
    assert {one.name: (round(one.mac_seconds or 0), one.unpriced) for one in by_account} == {
        "org1": (210, 1),
        "org2": (1010, 0),
    }


async def test_a_job_that_runs_has_cost_what_its_pod_has_cost_so_far(bench: Bench):
    await bench.accounts(ACME)
    await bench.ledger.mac_states.observe(bench.clock.now() - timedelta(hours=1), [seen("h-1", "m-1", DAY)])
    costs, one = JobCosts(bench.ledger, the_pools), now(bench, 1)
    await bench.queue(one)
    waiting = await costs.of_job(1)
    assert waiting is not None
    assert (waiting.euros, waiting.mac_seconds) == (None, None)
    await bench.running(1)
    await bench.ledger.mac_states.place({"uid-1": "m-1"})
    await bench.started(one, 1)
    bench.clock.advance(3600)
    runs = await costs.of_job(1)
    assert runs is not None
    assert (runs.node_name, runs.euros) == ("m-1", pytest.approx(DAY / 2, abs=1e-4))


async def test_a_mac_that_was_first_seen_while_its_job_ran_has_that_price(bench: Bench):
    await bench.accounts(ACME)
    one = now(bench, 1)
    await bench.queue(one)
    await bench.running(1)
    await bench.started(one, 1)
    bench.clock.advance(60)
    await bench.ledger.mac_states.observe(bench.clock.now(), [seen("h-1", "m-1", DAY, "busy")])
    await bench.ledger.mac_states.place({"uid-1": "m-1"})
    bench.clock.advance(60)
    found = await JobCosts(bench.ledger, the_pools).of_job(1)
    assert found is not None
    assert found.price == DAY


async def test_over_http_they_are_json_and_a_bad_value_is_named(bench: Bench, client: httpx2.AsyncClient):
    await a_morning(bench)
    summed = (await client.get("ended?by=repository&window=600&account=org2")).json()
    assert [(one["name"], one["results"]) for one in summed["sums"]] == [("org2/app", {"success": 1, "cancelled": 1})]
    assert [one["job_id"] for one in (await client.get("ended/jobs?limit=1")).json()] == [5]
    for query, field in (
        ("by=pool", "by"),
        ("window=5", "window"),
        ("window=forever", "window"),
        ("account=a%00b", "account"),
        ("account=a/b", "account"),
        ("repository=app", "repository"),
        ("repository=" + "a" * 300 + "/b", "repository"),
    ):
        refused = await client.get(f"ended?{query}")
        assert (refused.status_code, refused.json()["field"]) == (400, field), query
    assert (await client.get("ended/jobs?limit=0")).json()["field"] == "limit"


async def test_who_asks_for_more_than_can_be_read_in_time_is_told_to_ask_for_less(
    bench: Bench, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    await a_morning(bench)
    monkeypatch.setattr(ended_jobs, "SECONDS", 1)
    monkeypatch.setattr(ended_jobs, "BY_ACCOUNT", "SELECT pg_sleep(5)")
    refused = await client.get("ended")
    assert (refused.status_code, refused.json()["reason"]) == (400, "too_long")
    assert "ask for a shorter time" in refused.json()["error"]
    assert (await client.get("ended?by=repository")).status_code == 200, "the next one is served"


async def test_one_deadline_counts_for_all_that_is_read_and_for_waiting_for_ones_turn(
    bench: Bench, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    await a_morning(bench)
    monkeypatch.setattr(ended_jobs, "SECONDS", 1)
    with monkeypatch.context() as slow:
        edge = "SELECT NULL::timestamptz AS edge, NULL::timestamptz AS kept_since FROM pg_sleep(0.7)"
        slow.setattr(ended_jobs, "EDGE", edge)
        slow.setattr(ended_jobs, "BY_ACCOUNT", "SELECT pg_sleep(0.7)")
        refused = await client.get("ended")
        assert (refused.status_code, refused.json()["reason"]) == (400, "too_long")
    async with bench.ledger.ended_jobs._turn:
        refused = await client.get("ended")
    assert "others were counting for 1 s: ask again" in refused.json()["error"]
    assert (await client.get("ended")).status_code == 200, "the next one is served"
