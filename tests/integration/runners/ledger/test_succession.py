"""A scale set that goes to another pool takes its assignments along; jobs that no Pod has follow it."""

import pytest
from integration.runners.ledger.rig import Bench
from integration.runners.ledger.test_scale_sets import POOL, SILENT, entry
from msgspec.structs import replace

from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.scale_sets import LeaseLostError, Source
from paddock.runners.scale_sets.book import LedgerBook

HEIR = RunnerPool(metadata=ObjectMeta(name="heir"), spec=POOL.spec)


async def source_of(bench: Bench, pool: str, dispatcher: int) -> Source:
    since = bench.clock.now() - SILENT
    source = await bench.ledger.scale_sets.take(pool, 1, "", dispatcher=dispatcher, silent_since=since)
    assert source is not None
    return source


async def before(bench: Bench) -> tuple[Source, Source, LedgerBook]:
    """The former pool's source has set 9 and a job of it; the heir's has nothing yet."""
    await bench.accounts(1)
    first, second = [await bench.ledger.dispatchers.register(name) for name in ("a", "b")]
    former = replace(await source_of(bench, "macos", first), scale_set_id=9, session_id="s", asked_labels=["l"])
    await bench.ledger.scale_sets.record(former)
    book = LedgerBook(bench.ledger, bench.clock)
    await book.apply(former, entry("JobAssigned"), POOL)
    return former, await source_of(bench, "heir", second), book


async def test_set_session_and_assignments_go_over_together(bench: Bench) -> None:
    former, heir, book = await before(bench)
    assert await book.holder(heir, 9) == "macos"
    assert await book.holder(former, 9) is None
    mine = await book.inherit(heir, 9)
    assert (mine.scale_set_id, mine.session_id, mine.asked_labels) == (9, "s", ["l"])
    (row,) = await book.open(mine)
    assert row.source_id == mine.source_id
    assert await book.open(former) == []
    assert await bench.ledger.assignments.unfinished() == [("heir", 1, "")]
    with pytest.raises(LeaseLostError):
        await bench.ledger.scale_sets.record(former)


async def test_a_message_that_comes_again_after_that_is_the_same_job(bench: Bench) -> None:
    _, heir, book = await before(bench)
    mine = await book.inherit(heir, 9)
    (row,) = await book.open(mine)
    await book.apply(mine, entry("JobAssigned"), HEIR)
    await book.apply(mine, entry("JobStarted", runner="heir-1"), HEIR)
    (again,) = await book.open(mine)
    assert (again.job_id, again.runner_name) == (row.job_id, "heir-1")


async def test_whoever_lost_the_lease_inherits_nothing_and_a_second_time_changes_nothing(bench: Bench) -> None:
    _, heir, book = await before(bench)
    with pytest.raises(LeaseLostError):
        await book.inherit(replace(heir, epoch=heir.epoch - 1), 9)
    assert await book.holder(heir, 9) == "macos"
    mine = await book.inherit(heir, 9)
    assert await book.inherit(mine, 9) == mine


async def test_a_waiting_job_follows_to_the_pool_that_has_its_set(bench: Bench) -> None:
    _, heir, book = await before(bench)
    succession = bench.ledger.succession
    assert await succession.left_behind() == []
    (row,) = await book.open(await book.inherit(heir, 9))
    assert await succession.left_behind() == ["heir"]
    assert await succession.follow(POOL) == 0
    assert await succession.follow(HEIR) == 1
    job = await bench.ledger.jobs.get(row.job_id)
    assert job is not None
    assert (job.pool, job.status) == ("heir", "queued")
    assert await succession.follow(HEIR) == 0
    assert await succession.left_behind() == []
