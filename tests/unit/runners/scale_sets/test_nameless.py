"""How many rows are missing, beside what GitHub counts; and which rows stand for nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from paddock.clients.github.scaleset import ScaleSetStatistics
from paddock.runners.ledger.assignments import NAMELESS, NUDGED, OpenAssignment
from paddock.runners.scale_sets.nameless import Correction, CountWatch, difference, left_behind

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
APART = timedelta(seconds=15)


def row(
    number: int = 1,
    *,
    minutes: float = 1,
    nameless: bool = False,
    nudged: bool = False,
    handed: bool = False,
    started: bool = False,
    by_webhook: bool = False,
) -> OpenAssignment:
    at = NOW - timedelta(minutes=minutes)
    return OpenAssignment(
        job_id=number,
        source_id=1,
        assignment=f"{number}",
        workflow_run_id=0 if nameless or nudged else 7,
        assigned_at=at,
        runner_name=None,
        started_at=at if started else None,
        finished_at=None,
        result=None,
        forge_job_id=None,
        job_guid=NUDGED if nudged else (NAMELESS if nameless else "guid"),
        handed_at=at if handed or started else None,
        executing_since=at if by_webhook else None,
    )


def counts(assigned: int, *, running: int = 0, idle: int = 0) -> ScaleSetStatistics:
    return ScaleSetStatistics(total_assigned_jobs=assigned, total_running_jobs=running, total_idle_runners=idle)


@pytest.mark.parametrize(
    ("counted", "rows", "expected"),
    [
        (counts(3), [], 3),
        (counts(3, running=3), [], 0),  # what runs needs no runner
        (counts(3), [row(1), row(2, handed=True)], 1),
        (counts(2, running=1), [row(1, started=True)], 1),  # a running row is not a waiting one
        (counts(3, idle=1), [], 2),  # a runner that nobody knows takes one of them
        (counts(3, idle=1), [row(1, handed=True)], 2),  # this runner is the row's own
        (counts(1, idle=4), [], 0),
        (counts(1), [row(1), row(2)], -1),
        (counts(1, idle=4), [row(1), row(2)], -1),
        (counts(0), [row(1, nudged=True)], 0),  # its job is not counted before its runner comes
        (counts(1), [row(1, nudged=True)], 0),
        (counts(0), [row(1, nudged=True), row(2)], -1),
        (
            counts(1, running=1),
            [row(1, handed=True, by_webhook=True)],
            0,
        ),  # it runs, whatever the queue has not said yet
        (counts(0, running=2), [], 0),  # statistics that contradict themselves
    ],
)
def test_what_is_missing_is_what_waits_there_less_what_is_known_or_served(
    counted: ScaleSetStatistics, rows: list[OpenAssignment], expected: int
) -> None:
    assert difference(counted, rows) == expected


def test_what_waited_in_vain_is_not_waited_for_again() -> None:
    assert difference(counts(3), [], in_vain=2) == 1
    assert difference(counts(3), [], in_vain=5) == 0


def test_nothing_is_made_on_one_reading_and_the_smaller_of_two_counts() -> None:
    watch = CountWatch(APART)
    assert watch.judge(counts(3), [], NOW) == Correction()
    assert watch.suspects
    assert watch.judge(counts(5), [], NOW + APART / 2) == Correction()
    assert watch.judge(counts(4), [row()], NOW + APART) == Correction(make=3, at_most=4)
    assert not watch.suspects
    assert watch.judge(counts(4), [], NOW + APART) == Correction()


@pytest.mark.parametrize("between", [counts(1), counts(0)])
def test_a_reading_that_agrees_or_errs_the_other_way_begins_anew(between: ScaleSetStatistics) -> None:
    watch, rows = CountWatch(APART), [row()]
    watch.judge(counts(2), rows, NOW)
    assert watch.judge(between, rows, NOW + APART) == Correction()
    assert watch.judge(counts(2), rows, NOW + 2 * APART) == Correction()
    assert watch.judge(counts(2), rows, NOW + 3 * APART).make == 1


def test_when_the_count_sinks_nameless_rows_end_first_and_those_that_no_pod_has_before_others() -> None:
    watch = CountWatch(APART)
    rows = [row(1), row(2, nameless=True, handed=True), row(3, nameless=True), row(4, minutes=20)]
    watch.judge(counts(1), rows, NOW)
    ended = watch.judge(counts(1), rows, NOW + APART).endings
    assert [ending.row.job_id for ending in ended] == [3, 2, 4]
    assert not any(ending.in_vain for ending in ended)


def test_a_row_with_a_name_is_ended_for_a_count_only_when_it_is_old() -> None:
    watch, rows = CountWatch(APART), [row(1, minutes=14), row(2, minutes=16), row(3, minutes=90, started=True)]
    watch.judge(counts(0), rows, NOW)
    assert [ending.row.job_id for ending in watch.judge(counts(0), rows, NOW + APART).endings] == [2]


def test_a_nameless_row_that_github_gives_no_job_ends_in_vain_and_is_not_replaced_in_the_same_breath() -> None:
    watch = CountWatch(APART)
    old = row(1, nameless=True, minutes=10, handed=True)
    found = watch.judge(counts(1), [old], NOW)
    assert [(ending.row.job_id, ending.in_vain) for ending in found.endings] == [(1, True)]
    assert found.make == 0
    assert watch.judge(counts(1), [], NOW + APART, in_vain=1) == Correction()


def test_a_nudged_row_outlives_a_count_of_nothing_and_ends_in_vain_after_ten_minutes() -> None:
    watch, young = CountWatch(APART), row(1, nudged=True, minutes=9)
    for reading in range(4):
        assert watch.judge(counts(0), [young], NOW + reading * APART / 2) == Correction()
    (ending,) = watch.judge(counts(0), [row(1, nudged=True, minutes=10, handed=True)], NOW).endings
    assert ending.in_vain


def test_a_row_that_waits_for_room_is_not_in_vain_however_long() -> None:
    waiting = [row(1, nameless=True, minutes=90), row(2, nudged=True, minutes=90)]
    watch = CountWatch(APART)
    for reading in range(3):
        assert watch.judge(counts(1), waiting, NOW + reading * APART) == Correction()


@pytest.mark.parametrize("by_webhook", [False, True])
def test_no_row_that_a_pod_has_is_ended_because_the_word_of_its_start_was_lost(by_webhook: bool) -> None:
    rows = [row(1, minutes=90, handed=True, by_webhook=by_webhook)]
    watch = CountWatch(APART)
    for reading in range(3):
        assert watch.judge(counts(1, running=1), rows, NOW + reading * APART) == Correction()


def test_where_no_pool_asks_any_more_rows_that_were_to_wake_a_job_end_unless_a_pod_has_them() -> None:
    waits, held, counted = row(1, nudged=True), row(2, nudged=True, handed=True), row(3, nameless=True)
    assert [ending.row for ending in left_behind([waits, held, counted])] == [waits]
