"""The ledger's side of scale sets: leases with epochs, and assignments that are one job however often they are told."""

from datetime import timedelta

import pytest
from integration.runners.ledger.rig import Bench
from msgspec.structs import replace

from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec
from paddock.runners.ledger import Outcome
from paddock.runners.ledger.scale_sets import LeaseLostError, Source, is_scale_set_job
from paddock.runners.scale_sets.book import LedgerBook
from paddock.runners.scale_sets.decisions import capacity
from paddock.runners.scale_sets.messages import Entry
from paddock.runners.scale_sets.metrics import SourceCollector

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
    kind: str,
    *,
    at: str | None = "2026-01-01T00:00:00Z",
    runner: str = "",
    result: str = "",
    name: str = "build",
    taken: str | None = None,
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
        runner_assign_time=taken,
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
    await rows.record(replace(old, scale_set_id=9, session_id="s"))
    bench.clock.advance(60)
    new = await taken(bench, 1, await bench.ledger.dispatchers.register("b"))
    assert new is not None
    assert (new.scale_set_id, new.session_id) == (9, "s")  # so that it can close the session of the one before
    with pytest.raises(LeaseLostError):
        await rows.note(old, "Listening")
    with pytest.raises(LeaseLostError):
        await rows.record(replace(old, scale_set_id=None, session_id=""))
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
    assert await bench.ledger.assignments.open(source) == []
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
    (open_,) = await bench.ledger.assignments.open(source)
    job = await bench.ledger.jobs.get(open_.job_id)
    assert job is not None
    assert job.status == "queued"


async def test_a_word_without_a_moment_means_the_newest_assignment(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    await book.apply(source, entry("JobAssigned"), POOL)
    await book.apply(source, entry("JobStarted", at="", runner="r1"), POOL)
    (row,) = await bench.ledger.assignments.open(source)
    assert row.runner_name == "r1"


async def test_a_ghost_is_closed_and_its_late_words_change_nothing(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    await book.apply(source, entry("JobAssigned"), POOL)
    (row,) = await bench.ledger.assignments.open(source)
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
    assert (room.weight, room.rivals) == (1, 1)
    await bench.ledger.precedence.set(2, "org2", weight=3, by="test", why="they pay for it")
    await bench.ledger.precedence.set(source.account_id, "org", weight=2, by="test", why="they pay for it")
    room = await bench.ledger.scale_sets.room(source, "macos")
    assert room is not None
    assert (room.weight, room.rivals) == (2, 3)


async def test_two_sets_of_an_account_are_not_promised_its_limit_twice(bench: Bench) -> None:
    await bench.accounts(1)  # two Macs
    dispatcher = await bench.ledger.dispatchers.register("a")
    since, book = bench.clock.now() - SILENT, LedgerBook(bench.ledger, bench.clock)
    large = replace(POOL, spec=replace(POOL.spec, replicas=20))
    sources: list[Source] = []
    for name in ("org1/app", "org1/lib"):
        source = await bench.ledger.scale_sets.take("macos", 1, name, dispatcher=dispatcher, silent_since=since)
        assert source is not None
        sources.append(source)

    async def asked() -> list[int]:
        return [capacity(await book.room(source, "macos"), large, draining=False) for source in sources]

    assert await asked() == [2, 2]
    for n in range(2):
        at = (bench.clock.now() - timedelta(seconds=n + 1)).isoformat()
        await book.apply(sources[0], replace(entry("JobAssigned", at=at), workflow_run_id=n + 1), large)
        assert await asked() == [2, 1]  # what waits in the one is not the other's to promise, and each must be seen
    for n in range(2):
        await bench.running(n, "macos")
        assert await asked() == [2, 1]


async def test_a_repositorys_own_limit_holds_for_jobs_of_a_scale_set(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    await bench.ledger.allow_list.limit_repository(
        1, 77, "Org1/App", "macos", vcpus=6, memory_mb=14_336, by="test", why="one at a time"
    )
    for seconds in (2, 1):
        at = bench.clock.now() - timedelta(seconds=seconds)
        await book.apply(source, entry("JobAssigned", at=at.isoformat()), POOL)
    assert [(await bench.claim(number, "macos")).outcome for number in range(2)] == [Outcome.CLAIMED, Outcome.EMPTY]


async def test_an_entry_that_was_set_aside_is_kept_once_and_forgotten_by_age(bench: Bench) -> None:
    source, rows = await source_of(bench), bench.ledger.scale_sets
    for _ in range(2):
        await rows.quarantine(source, message_id=3, digest="d", why="unreadable", body="{")
    assert await rows.forget(bench.clock.now()) == 0
    bench.clock.advance(10)
    assert await rows.forget(bench.clock.now()) == 1


async def test_the_oldest_assignment_that_no_runner_took_is_known_for_each_pool(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    assert await bench.ledger.assignments.oldest() == {}
    at = bench.clock.now() - timedelta(minutes=4)
    await book.apply(source, entry("JobAssigned", at=at.isoformat()), POOL)
    await book.apply(source, entry("JobAssigned", at=bench.clock.now().isoformat()), POOL)
    assert await bench.ledger.assignments.oldest() == {"macos": at}
    await book.apply(source, entry("JobStarted", at=at.isoformat(), runner="r1"), POOL)
    assert await bench.ledger.assignments.oldest() == {"macos": bench.clock.now()}


async def test_session_age_and_open_assignments_are_shown_for_each_pool(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    collector = SourceCollector(bench.ledger, bench.clock)
    await bench.ledger.scale_sets.record(
        replace(source, scale_set_id=9, session_id="s", session_since=bench.clock.now())
    )
    await bench.ledger.scale_sets.note(source, "Listening")
    for at in ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"):
        await book.apply(source, entry("JobAssigned", at=at), POOL)
    assert await bench.ledger.assignments.count_open() == {"macos": 2}
    await book.apply(source, entry("JobCompleted", at="2026-01-01T00:00:00Z", result="canceled"), POOL)
    bench.clock.advance(90)
    await collector.look()
    shown = {sample.name: sample.value for metric in collector.collect() for sample in metric.samples}
    assert shown["paddock_scale_set_session_age_seconds"] == 90.0
    assert shown["paddock_scale_set_open_assignments"] == 1
    await bench.ledger.scale_sets.give_back(source)
    await collector.look()
    names = {sample.name for metric in collector.collect() for sample in metric.samples}
    assert "paddock_scale_set_session_age_seconds" not in names, "no session stands"
