"""A job of a scale set is one row, whatever its pool has become since and whenever a webhook speaks of it."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest
from integration.runners.ledger.rig import Bench
from integration.runners.ledger.test_scale_sets import POOL, source_of
from integration.runners.webhooks.rig import MAC, Dispatcher
from integration.runners.webhooks.test_scale_set_evidence import Scene
from msgspec.structs import replace

from paddock.clients.github import GitHubJob
from paddock.runners.api import RunnerPool
from paddock.runners.webhooks.reconciled import enqueue_from_github

WEBHOOK = replace(POOL, spec=replace(POOL.spec, job_source="Webhook"))
SUCCESSOR = replace(WEBHOOK, metadata=replace(POOL.metadata, name="macos-2"))
OLD_LABEL_LISTED = replace(POOL, spec=replace(POOL.spec, dispatch_label="m", runner_labels=("x", "l")))
RENAMED = replace(POOL, spec=replace(POOL.spec, dispatch_label="m"))
RELABELLED = replace(POOL, spec=replace(POOL.spec, runner_labels=("y",)))

CHANGES = {
    "its old label among its labels": ([OLD_LABEL_LISTED], ("l", "x")),
    "a job without the dispatch label": ([POOL], ("x",)),
    "two pools of its label": ([POOL, replace(POOL, metadata=replace(POOL.metadata, name="other"))], ("l", "x")),
    "webhooks": ([WEBHOOK], ("l", "x")),
    "webhooks, in another pool": ([SUCCESSOR], ("l", "x")),
    "another label": ([RENAMED], ("l", "x")),
    "another label of its runners": ([RELABELLED], ("l", "x")),
    "gone": ([], ("l", "x")),
}


async def assigned(bench: Bench) -> Scene:
    it = Scene(bench, await source_of(bench))
    await bench.ledger.scale_sets.record(replace(it.source, scale_set_id=9, asked_labels=["L", "x", "paddock-1"]))
    await it.queue_says("JobAssigned")
    return it


async def started(bench: Bench) -> Scene:
    it = await assigned(bench)
    await it.handed_to("r1")
    await it.queue_says("JobStarted", runner="r1")
    return it


async def rows(bench: Bench) -> list[tuple[Any, ...]]:
    return await bench.ask("SELECT status, runner_name FROM jobs ORDER BY job_id")


def listed(bench: Bench, **more: Any) -> GitHubJob:
    said = {"run_id": 7, "name": "build", "created_at": bench.clock.now() - timedelta(minutes=2)} | more
    return GitHubJob(job_id=77, status="queued", labels=("l", "x"), **said)


@pytest.mark.parametrize("action", ["queued", "in_progress", "completed"])
@pytest.mark.parametrize(("pools", "labels"), CHANGES.values(), ids=CHANGES)
async def test_a_webhook_about_a_running_job_makes_no_second_row_and_queues_nothing(
    bench: Bench, pools: Sequence[RunnerPool], labels: Sequence[str], action: str
) -> None:
    it = await started(bench)
    it.pools = pools
    await it.webhook_says(action, None if action == "queued" else "r1", labels=labels)
    ((status, runner_name),) = await rows(bench)
    # Where nothing about it looks like ours any more, its end is left to the queue.
    assert status in (("running", "completed") if action == "completed" else ("running",))
    assert runner_name == "r1"


@pytest.mark.parametrize(("pools", "labels"), CHANGES.values(), ids=CHANGES)
async def test_deliveries_in_any_order_and_again_end_alike(
    bench: Bench, pools: Sequence[RunnerPool], labels: Sequence[str]
) -> None:
    it = await started(bench)
    it.pools = pools
    for order in permutations(("queued", "in_progress", "completed")):
        for action in order:
            await it.webhook_says(action, None if action == "queued" else "r1", labels=labels)
    await it.queue_says("JobCompleted", runner="r1", result="succeeded")
    await it.webhook_says("queued", None, labels=labels)
    assert await rows(bench) == [("completed", "r1")]
    assert await bench.ledger.claims.all() == []


async def test_a_start_by_webhook_before_the_queues_word_gives_no_second_pod_the_job(bench: Bench) -> None:
    it = await assigned(bench)
    await it.handed_to("r1")
    it.pools = [WEBHOOK]
    assert await it.webhook_says("in_progress", "r1") == "matched"
    await it.queue_says("JobStarted", runner="r1")
    assert await rows(bench) == [("running", "r1")]


@pytest.mark.parametrize("pool", [WEBHOOK, SUCCESSOR], ids=["switched", "succeeded"])
async def test_an_assigned_job_is_queued_by_no_late_webhook_and_by_no_list(bench: Bench, pool: RunnerPool) -> None:
    it = await assigned(bench)
    it.pools = [pool]
    assert await it.webhook_says("queued", None) == "ignored: scale_set"
    assert not await enqueue_from_github(bench.ledger, lambda: [pool], bench.clock)(1001, "org1/app", listed(bench))
    assert await rows(bench) == [("queued", None)]


async def test_a_job_whose_assignment_is_over_is_served_by_its_pool_of_webhooks(bench: Bench) -> None:
    it = await assigned(bench)
    await it.queue_says("JobCompleted", result="canceled")
    announce = enqueue_from_github(bench.ledger, lambda: [WEBHOOK], bench.clock)
    assert await announce(1001, "org1/app", listed(bench))
    assert (await bench.claimed(2, "macos")).job_id == 77


async def test_a_job_that_was_made_after_the_change_is_queued_at_once(bench: Bench) -> None:
    it = await assigned(bench)
    it.pools = [WEBHOOK]
    bench.clock.advance(120)
    assert await it.webhook_says("queued", None) == "queued"
    assert [status for status, _ in await rows(bench)] == ["queued", "queued"]


async def test_jobs_of_other_runs_and_pools_are_queued_at_once(bench: Bench) -> None:
    it = await assigned(bench)
    it.pools = [WEBHOOK, MAC]
    assert await it.webhook_says("queued", None, run=8) == "queued"
    assert await it.webhook_says("queued", None, job=78, labels=("paddock-macos",)) == "queued"


async def test_the_announcement_of_a_job_that_ran_comes_too_late(bench: Bench) -> None:
    it = await started(bench)
    await it.queue_says("JobCompleted", runner="r1", result="succeeded")
    it.pools = [WEBHOOK]
    for action, runner in (("completed", "r1"), ("queued", None)):
        assert await it.webhook_says(action, runner) == "ignored: scale_set"
    assert await rows(bench) == [("completed", "r1")]


async def test_a_job_that_a_webhook_announced_goes_on_when_its_pool_gets_a_queue(bench: Bench) -> None:
    it = Scene(bench, await source_of(bench))
    it.pools = [WEBHOOK]
    assert await it.webhook_says("queued", None) == "queued"
    await it.handed_to("r1")
    it.pools = [POOL]
    assert await it.webhook_says("in_progress", "r1") == "matched"
    assert await it.webhook_says("completed", "r1") == "completed"
    assert await rows(bench) == [("completed", "r1")]
    assert await bench.ledger.claims.all() == []


@pytest.mark.parametrize("action", ["in_progress", "completed"])
async def test_a_row_that_a_webhook_made_is_over_when_a_runner_of_the_set_has_its_job(
    bench: Bench, action: str
) -> None:
    it = Scene(bench, await source_of(bench))
    it.pools = [WEBHOOK]
    assert await it.webhook_says("queued", None) == "queued"
    await bench.ask("UPDATE jobs SET not_before = now() + interval '1 day' RETURNING 1")  # no Pod takes this one
    await it.queue_says("JobAssigned")
    await it.handed_to("r1")
    await it.queue_says("JobStarted", runner="r1")
    it.pools = [POOL]
    assert await it.webhook_says(action, "r1") in ("matched", "completed")
    ended, served = await bench.ask("SELECT status, conclusion FROM jobs ORDER BY job_id")
    assert ended == ("completed", "elsewhere")
    assert served[0] == ("running" if action == "in_progress" else "completed")


async def test_an_account_without_a_set_costs_no_question_about_its_runners(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    asked: list[int] = []

    async def runner(account_id: int, _name: str) -> None:
        asked.append(account_id)

    monkeypatch.setattr(bench.ledger.overview, "runner", runner)
    await dispatcher.deliver(*(dispatcher.job(7, action, runner_name="r") for action in ("in_progress", "completed")))
    assert asked == []
