"""GitHub calls a runner's version too old: when that is believed, and for how long its pool rests."""

from datetime import UTC, datetime, timedelta

import pytest

from paddock.node.guest import RUNNER_TOO_OLD
from paddock.runners.ledger.runner_versions import ENDINGS, RunnerEnding, VersionRefused, version_refused

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


def refused(minute: float, pod: str = "a") -> RunnerEnding:
    return RunnerEnding(pod, at(minute), too_old=True, worked=False)


WORKED = RunnerEnding("w", at(1), too_old=False, worked=True)
LIED = RunnerEnding("l", at(5), too_old=True, worked=True)
"""A job wrote the code: its runner got one, so that GitHub took its version."""
LIVES = RunnerEnding("b", None, too_old=False, worked=False)
FAILED = RunnerEnding("f", at(4), too_old=False, worked=False)


@pytest.mark.parametrize(
    ("newest_first", "expected"),
    [
        ([], None),
        ([WORKED], None),
        ([LIED], None),
        ([LIED, refused(4), refused(3)], None),
        ([WORKED, refused(0)], None),
        ([FAILED, LIVES], None),
        ([refused(4)], (1, at(4), at(4))),
        ([refused(4), refused(3), WORKED, refused(0)], (2, at(3), at(4))),
        ([LIVES, refused(4), FAILED, refused(3), LIED], (2, at(3), at(4))),
    ],
)
def test_the_code_counts_only_for_runners_that_never_got_a_job_and_one_that_works_ends_the_row(
    newest_first: list[RunnerEnding], expected: tuple[int, datetime, datetime] | None
) -> None:
    found = version_refused(newest_first)
    assert (found and (found.pods, found.since, found.latest)) == expected


@pytest.mark.parametrize(("pods", "seconds"), [(1, 30), (2, 60), (5, 480), (6, 900), (60, 900)])
def test_a_pool_rests_longer_each_time_and_never_for_more_than_a_quarter_of_an_hour(pods: int, seconds: int) -> None:
    assert VersionRefused(pods, NOON, NOON, "a").rests_until - NOON == timedelta(seconds=seconds)


def test_the_statement_looks_for_the_guests_own_code() -> None:
    assert f"exit code {RUNNER_TOO_OLD} (" in ENDINGS
