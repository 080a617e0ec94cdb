"""Webhooks about jobs of scale sets: they announce nothing, and what they say of a runner counts."""

from collections.abc import Sequence
from typing import Any

import pytest
from integration.runners.ledger.rig import Bench
from integration.runners.ledger.test_scale_sets import POOL, entry, source_of
from integration.runners.webhooks.rig import Dispatcher

from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Job
from paddock.runners.ledger.assignments import AssignedJob
from paddock.runners.ledger.scale_sets import Source
from paddock.runners.scale_sets.book import LedgerBook


class Scene:
    """A set's job in the ledger, perhaps handed to a runner, and webhooks beside its queue."""

    def __init__(self, bench: Bench, source: Source) -> None:
        self.ledger, self.source = bench.ledger, source
        self._bench, self._dispatcher = bench, Dispatcher(bench)
        self._assigned_at = bench.clock.now().isoformat()
        self._dispatcher.pools = [POOL]
        self._book = LedgerBook(bench.ledger, bench.clock)

    async def queue_says(self, *kinds: str, **more: Any) -> None:
        for kind in kinds:
            await self._book.apply(self.source, entry(kind, at=self._assigned_at, **more), POOL)

    async def queue_says_without_moment(self, kind: str, **more: Any) -> None:
        await self._book.apply(self.source, entry(kind, at=None, **more), POOL)

    @property
    def pools(self) -> Sequence[RunnerPool] | None:
        """As they are now; POOL at first."""
        return self._dispatcher.pools

    @pools.setter
    def pools(self, pools: Sequence[RunnerPool]) -> None:
        self._dispatcher.pools = pools

    async def webhook_says(
        self,
        action: str,
        runner: str | None,
        *,
        name: str = "build",
        run: int = 7,
        job: int = 77,
        labels: Sequence[str] = ("l", "x"),
    ) -> str:
        body = self._dispatcher.job(
            job, action, labels=labels, run_id=run, name=name, runner_name=runner, completed_at=None
        )
        return (await self._dispatcher.deliver(body))[0]

    async def drained(self) -> int:
        return await self._dispatcher.worker.drain()

    async def handed_to(self, runner: str) -> None:
        await self.ledger.claims.commit(await self._bench.claimed(1, "macos"), runner)

    async def row(self) -> tuple[AssignedJob, Job]:
        ((number,),) = await self._bench.ask("SELECT job_id FROM scale_set_jobs")
        row, job = await self.ledger.assignments.job(number), await self.ledger.jobs.get(number)
        assert row is not None
        assert job is not None
        return row, job


async def scene(bench: Bench) -> Scene:
    return Scene(bench, await source_of(bench))


async def test_no_webhook_announces_a_job_of_a_scale_set(bench: Bench) -> None:
    it = await scene(bench)
    assert [await it.webhook_says(action, None) for action in ("queued", "waiting", "completed")] == [
        "ignored: scale_set"
    ] * 3
    assert await it.webhook_says("in_progress", "stranger") == "ignored: scale_set"
    assert await bench.ask("SELECT job_id FROM jobs") == []
    assert await bench.ask("SELECT job_id FROM completions") == []


async def test_the_number_comes_by_webhook_and_nobody_asks_github_for_it(bench: Bench) -> None:
    it = await scene(bench)
    await it.queue_says("JobAssigned")
    await it.handed_to("r1")
    await it.queue_says("JobStarted", runner="r1")
    assert await it.webhook_says("in_progress", "r1") == "matched"
    row, job = await it.row()
    assert (row.forge_job_id, job.status, job.runner_name) == (77, "running", "r1")


async def test_an_end_that_the_queue_never_told_comes_by_webhook(bench: Bench) -> None:
    it = await scene(bench)
    await it.queue_says("JobAssigned")
    await it.handed_to("r1")
    await it.queue_says("JobStarted", runner="r1")
    for expected in ("completed", "ignored: scale_set"):
        assert await it.webhook_says("completed", "r1") == expected
    row, job = await it.row()
    assert (row.result, row.forge_job_id, job.status, job.conclusion) == ("success", 77, "completed", "success")
    assert await it.ledger.claims.all() == []
    await it.queue_says("JobStarted", "JobCompleted", runner="r1", result="succeeded")
    assert (await it.row())[1] == job


@pytest.mark.parametrize("kind", ["JobStarted", "JobCompleted"])
async def test_an_end_by_webhook_is_the_same_jobs_when_the_queue_tells_no_moment(bench: Bench, kind: str) -> None:
    it = await scene(bench)
    await it.queue_says("JobAssigned")
    await it.handed_to("r1")
    await it.queue_says("JobStarted", runner="r1")
    assert await it.webhook_says("completed", "r1") == "completed"
    _, job = await it.row()
    await it.queue_says_without_moment(kind, runner="r1", result="succeeded")
    assert (await it.row())[1] == job
    assert await bench.ask("SELECT job_id FROM completions") == [(job.job_id,)]


async def test_an_end_without_runner_and_moment_that_is_told_twice_is_one_end(bench: Bench) -> None:
    it = await scene(bench)
    await it.queue_says("JobAssigned")
    for _ in range(2):
        await it.queue_says_without_moment("JobCompleted", result="canceled")
    assert (await it.row())[1].status == "cancelled"


async def test_a_job_that_is_assigned_again_is_another_than_the_one_that_is_over(bench: Bench) -> None:
    it = await scene(bench)
    await it.queue_says("JobAssigned")
    await it.handed_to("r1")
    await it.queue_says("JobStarted", "JobCompleted", runner="r1", result="succeeded")
    await it.queue_says_without_moment("JobStarted", runner="r2")
    assert await bench.ask("SELECT runner_name FROM jobs WHERE status = 'running'") == [("r2",)]


@pytest.mark.parametrize("write", ["jobs.completed", "assignments.finished"])
async def test_an_end_by_webhook_is_whole_whichever_write_of_it_failed_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    it = await scene(bench)
    await it.queue_says("JobAssigned")
    await it.handed_to("r1")
    await it.queue_says("JobStarted", runner="r1")
    room, name = write.split(".")
    with monkeypatch.context() as broken:
        broken.setattr(getattr(it.ledger, room), name, _away)
        await it.webhook_says("completed", "r1")
    bench.clock.advance(61)
    assert await it.drained() == 1
    row, job = await it.row()
    assert (row.result, job.status, job.conclusion) == ("success", "completed", "success")
    assert await it.ledger.claims.all() == []


async def _away(*_arguments: Any, **_named: Any) -> None:
    raise RuntimeError("it died here")


async def test_a_start_by_webhook_counts_and_the_queue_corrects_it(bench: Bench) -> None:
    it = await scene(bench)
    await it.queue_says("JobAssigned")
    await it.handed_to("r1")
    assert await it.webhook_says("in_progress", "r1") == "matched"
    (claim,) = await it.ledger.claims.all()
    assert claim.executing_since is not None
    row, job = await it.row()
    assert (row.runner_name, row.forge_job_id, job.status) == (None, None, "running")
    # Not yet the end: a sibling of the same name cannot be told from it before the queue has spoken.
    assert await it.webhook_says("completed", "r1") == "ignored: scale_set"
    await it.queue_says("JobStarted", runner="r2")
    assert (await it.row())[0].runner_name == "r2"


async def test_a_sibling_that_the_runner_was_given_instead_is_left_to_the_queue(bench: Bench) -> None:
    it = await scene(bench)
    await it.queue_says("JobAssigned")
    await it.handed_to("r1")
    for name, run in (("deploy", 7), ("build", 8)):
        for action in ("in_progress", "completed"):
            assert await it.webhook_says(action, "r1", name=name, run=run) == "ignored: scale_set"
    (claim,) = await it.ledger.claims.all()
    assert claim.executing_since is None
