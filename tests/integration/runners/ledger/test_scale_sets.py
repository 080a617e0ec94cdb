"""The ledger's side of scale sets: leases with epochs, and assignments that are one job however often they are told."""

from datetime import timedelta

import pytest
from integration.runners.ledger.rig import Bench

from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec
from paddock.runners.ledger.scale_sets import LeaseLostError, Source, is_scale_set_job
from paddock.runners.scale_sets.book import LedgerBook
from paddock.runners.scale_sets.messages import Entry

POOL = RunnerPool(
    metadata=ObjectMeta(name="macos"),
    spec=RunnerPoolSpec(
        image="r:1", fleet_selector="m", dispatch_label="l", runner_labels=("x",), job_source="ScaleSet"
    ),
)
SILENT = timedelta(seconds=30)


async def taken(bench: Bench, account: int, dispatcher: int) -> Source | None:
    since = bench.clock.now() - SILENT
    return await bench.ledger.scale_sets.take("macos", account, "", dispatcher=dispatcher, silent_since=since)


async def source_of(bench: Bench) -> Source:
    await bench.accounts(1)
    dispatcher = await bench.ledger.dispatchers.register("a")
    source = await taken(bench, 1, dispatcher)
    assert source is not None
    return source


def entry(
    kind: str, *, at: str = "2026-01-01T00:00:00Z", runner: str = "", result: str = "", name: str = "build"
) -> Entry:
    return Entry(
        message_type=kind,
        job_id="guid",
        workflow_run_id=7,
        owner_name="org1",
        repository_name="app",
        job_display_name=name,
        scale_set_assign_time=at,
        runner_name=runner or None,
        result=result or None,
    )


async def test_a_source_belongs_to_one_dispatcher_for_as_long_as_it_beats(bench: Bench) -> None:
    await bench.accounts(1)
    first, second = [await bench.ledger.dispatchers.register(name) for name in ("a", "b")]
    held = await taken(bench, 1, first)
    assert held is not None
    assert await taken(bench, 1, second) is None
    bench.clock.advance(31)
    await bench.ledger.dispatchers.beat(first)
    assert await taken(bench, 1, second) is None
    bench.clock.advance(31)
    won = await taken(bench, 1, second)
    assert won is not None
    assert won.epoch == held.epoch + 1


async def test_whoever_lost_the_lease_writes_nothing_more(bench: Bench) -> None:
    rows = bench.ledger.scale_sets
    old = await source_of(bench)
    await rows.record(old, scale_set_id=9, session_id="s")
    bench.clock.advance(60)
    new = await taken(bench, 1, await bench.ledger.dispatchers.register("b"))
    assert new is not None
    assert (new.scale_set_id, new.session_id) == (9, "s")  # so that it can close the session of the one before
    with pytest.raises(LeaseLostError):
        await rows.note(old, "Listening")
    with pytest.raises(LeaseLostError):
        await rows.record(old, scale_set_id=None, session_id="")
    await rows.give_back(old)
    (now,) = await rows.sources()
    assert (now.session_id, now.dispatcher_id) == ("s", new.dispatcher_id)


async def test_the_name_of_a_ledger_is_drawn_once(bench: Bench) -> None:
    rows = bench.ledger.scale_sets
    assert await rows.owner() == await rows.owner() != ""


async def test_an_assignment_is_one_job_however_often_and_in_whatever_order_it_is_told(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    told = [
        entry("JobAssigned"),
        entry("JobStarted", runner="r1"),
        entry("JobCompleted", runner="r1", result="succeeded"),
    ]
    for each in (told[0], told[0], told[2], told[1], told[0], *told):
        await book.apply(source, each, POOL)
    assert await bench.ledger.scale_sets.open(source) == []
    (finished,) = await bench.ledger.overview.recent()
    assert is_scale_set_job(finished.job_id)
    job = await bench.ledger.jobs.get(finished.job_id)
    assert job is not None
    assert (job.status, job.conclusion, job.repository) == ("completed", "success", "org1/app")


async def test_a_job_that_is_assigned_again_is_another_row(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    await book.apply(source, entry("JobAssigned"), POOL)
    await book.apply(source, entry("JobCompleted", result="canceled"), POOL)
    await book.apply(source, entry("JobAssigned", at="2026-01-01T00:05:00Z"), POOL)
    await book.apply(source, entry("JobAssigned"), POOL)
    (open_,) = await bench.ledger.scale_sets.open(source)
    job = await bench.ledger.jobs.get(open_.job_id)
    assert job is not None
    assert job.status == "queued"


async def test_a_word_without_a_moment_means_the_newest_assignment(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    await book.apply(source, entry("JobAssigned"), POOL)
    await book.apply(source, entry("JobStarted", at="", runner="r1"), POOL)
    (row,) = await bench.ledger.scale_sets.open(source)
    assert row.runner_name == "r1"


async def test_a_ghost_is_closed_and_its_late_words_change_nothing(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    await book.apply(source, entry("JobAssigned"), POOL)
    (row,) = await bench.ledger.scale_sets.open(source)
    await book.close_ghost(row, 1, "GitHub counts it no more")
    await book.apply(source, entry("JobAssigned"), POOL)
    job = await bench.ledger.jobs.get(row.job_id)
    assert job is not None
    assert (job.status, job.changed_why) == ("cancelled", "GitHub counts it no more")


async def test_who_may_be_listened_to_is_installed_and_allowed(bench: Bench) -> None:
    await bench.ledger.accounts.enrol(5, "five", 55)
    assert await bench.ledger.scale_sets.listenable() == []
    await bench.ledger.allow_list.allow(5, "five/app", repository_id=51, by="test", why="one of them")
    (partly,) = await bench.ledger.scale_sets.listenable()
    assert (partly.login, partly.whole, partly.repositories) == ("five", False, ["five/app"])
    await bench.ledger.allow_list.allow(5, "five", by="test", why="all")
    (wholly,) = await bench.ledger.scale_sets.listenable()
    assert (wholly.whole, wholly.installation_id) == (True, 55)


async def test_the_room_of_an_account_counts_what_other_pools_hold_and_who_else_wants_the_pool(bench: Bench) -> None:
    source = await source_of(bench)
    room = await bench.ledger.scale_sets.room(source, "macos")
    assert room is not None
    assert (room.elsewhere_vcpus, room.rivals) == (0, 0)
    await bench.accounts(2)
    rival = await taken(bench, 2, source.dispatcher_id or 0)
    assert rival is not None
    await bench.ledger.scale_sets.note(rival, "Listening", assigned=3)
    room = await bench.ledger.scale_sets.room(source, "macos")
    assert room is not None
    assert room.rivals == 1


async def test_an_entry_that_was_set_aside_is_kept_once_and_forgotten_by_age(bench: Bench) -> None:
    source, rows = await source_of(bench), bench.ledger.scale_sets
    for _ in range(2):
        await rows.quarantine(source, message_id=3, digest="d", why="unreadable", body="{")
    assert await rows.forget(bench.clock.now()) == 0
    bench.clock.advance(10)
    assert await rows.forget(bench.clock.now()) == 1
