"""Caps, the breaker, and what a row of looks proves."""

from datetime import UTC, datetime, timedelta

import pytest

from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.breaker import Attempts, Streaks, implausible, within_caps
from paddock.runners.healing.evidence import redacted

NOW = datetime(2026, 6, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SETTINGS = HealingSettings()


@pytest.mark.parametrize(
    ("proven", "pool_size", "allowed"), [(1, 1, 1), (5, 3, 1), (5, 39, 1), (5, 40, 2), (30, 400, 20), (60, 4000, 25)]
)
def test_a_pass_undoes_a_share_of_a_pool_and_one_at_least(proven: int, pool_size: int, allowed: int) -> None:
    chosen, put_off = within_caps(list(range(proven)), lambda _: "pool", {"pool": pool_size}, SETTINGS)
    assert chosen == list(range(allowed))
    assert put_off == proven - allowed


def test_pools_do_not_use_up_each_others_share() -> None:
    chosen, put_off = within_caps(["a1", "a2", "b1"], lambda name: name[0], {"a": 10, "b": 10}, SETTINGS)
    assert (chosen, put_off) == (["a1", "b1"], 1)


@pytest.mark.parametrize(
    ("looked", "gone", "stops"), [(9, 9, False), (10, 5, False), (10, 6, True), (1000, 501, True), (0, 0, False)]
)
def test_most_things_gone_at_once_is_a_wrong_read(looked: int, gone: int, stops: bool) -> None:
    assert implausible(looked, gone, SETTINGS) is stops


def test_a_streak_lasts_while_it_is_looked_at() -> None:
    streaks = Streaks(3 * MINUTE)
    assert streaks.seen("a", NOW) == NOW
    assert streaks.seen("a", NOW + 3 * MINUTE) == NOW
    assert streaks.seen("a", NOW + 7 * MINUTE) == NOW + 7 * MINUTE, "what happened in the gap is not known"
    streaks.broken("a")
    assert streaks.seen("a", NOW + 8 * MINUTE) == NOW + 8 * MINUTE


def test_a_clock_that_went_back_begins_a_streak_anew() -> None:
    streaks = Streaks(3 * MINUTE)
    streaks.seen("a", NOW)
    assert streaks.seen("a", NOW - MINUTE) == NOW - MINUTE


def test_streaks_of_what_is_gone_are_forgotten() -> None:
    streaks = Streaks(3 * MINUTE)
    streaks.seen("a", NOW)
    streaks.seen("b", NOW)
    streaks.keep_only(frozenset({"a"}))
    assert streaks.seen("a", NOW + MINUTE) == NOW
    assert streaks.seen("b", NOW + MINUTE) == NOW + MINUTE


def test_long_runs_are_blotted_out_of_what_is_kept() -> None:
    assert redacted("config eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9eyJhbGciOi end") == "config *** end"
    assert redacted("exit code 137: no space left on device") == "exit code 137: no space left on device"


def test_what_was_tried_and_is_still_there_goes_behind_all_others() -> None:
    attempts = Attempts()
    assert attempts.in_order(["a", "b", "c"], str) == ["a", "b", "c"]
    attempts.tried("a")
    attempts.tried("b")
    assert attempts.in_order(["a", "b", "c"], str) == ["c", "a", "b"]
    attempts.tried("c")
    attempts.tried("a")
    assert attempts.in_order(["a", "b", "c"], str) == ["b", "c", "a"]
    assert attempts.in_order(["c"], str) == ["c"], "what is gone is forgotten"
    assert attempts.in_order(["a", "c"], str) == ["a", "c"]
