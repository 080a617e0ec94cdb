"""Which windows of a pool are open, what they add, and what is said about those that cannot be read."""

from datetime import UTC, datetime

import pytest

from paddock.runners.api import Autoscaling, WarmWindow
from paddock.runners.ledger import PoolSignals
from paddock.runners.pools.scaling import Desired, desired
from paddock.runners.pools.warm_windows import schedule, scheduled

OFFICE = WarmWindow(
    name="office", start="30 7 * * mon-fri", end="0 19 * * mon-fri", time_zone="Europe/Berlin", min_warm_pool_floor=6
)
NIGHTLY = WarmWindow(start="0 2 * * *", duration_minutes=90, min_replicas=12)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def rules(*windows: WarmWindow, enabled: bool = True, limit: int = 20) -> Autoscaling:
    return Autoscaling(enabled=enabled, min_warm_pool_floor=1, max_replicas=limit, warm_windows=windows)


def wanted(scaling: Autoscaling, now: str, *, claimed: int = 0) -> Desired:
    return desired(PoolSignals("pool", claimed, 0, 0, 0, 0.0, 0), scaling, schedule(scaling, at(now)))


def said(scaling: Autoscaling, now: str) -> tuple[str, str, str]:
    found = scheduled(scaling, schedule(scaling, at(now)))
    assert found is not None
    return found.status, found.reason, found.message


@pytest.mark.parametrize(
    ("now", "floor"),
    [
        ("2026-11-16 06:29", 1),
        ("2026-11-16 06:30", 6),
        ("2026-11-16 17:59", 6),
        ("2026-11-16 18:00", 1),
        ("2026-11-15 12:00", 1),
        ("2026-07-13 05:30", 6),
        ("2026-07-13 17:00", 1),
    ],
    ids=["before", "opens", "last minute", "closes", "Sunday", "opens in summer", "closes in summer"],
)
def test_a_window_is_open_from_its_start_until_its_end_on_the_clocks_of_its_zone(now: str, floor: int) -> None:
    assert wanted(rules(OFFICE), now, claimed=2).replicas == 2 + floor


def test_the_floor_of_an_open_window_is_beyond_the_load_and_the_sentence_names_the_window() -> None:
    want = wanted(rules(OFFICE), "2026-11-16 12:00", claimed=3)

    assert (want.load, want.warm, want.replicas) == (3, 9, 9)
    assert "6 to stay warm (office)" in want.why


def test_min_replicas_of_an_open_window_include_busy_ones() -> None:
    scaling = rules(NIGHTLY)

    assert wanted(scaling, "2026-11-16 02:00").replicas == 12
    assert wanted(scaling, "2026-11-16 02:00", claimed=10).replicas == 12
    assert wanted(scaling, "2026-11-16 02:00", claimed=15).replicas == 16
    assert wanted(scaling, "2026-11-16 03:30").replicas == 1
    assert "window 0 asks for at least 12" in wanted(scaling, "2026-11-16 02:00").why


def test_no_window_lifts_a_pool_above_max_replicas_or_below_its_own_floor() -> None:
    low = WarmWindow(start="0 0 * * *", duration_minutes=1440, min_replicas=1)
    scaling = Autoscaling(enabled=True, min_warm_pool_floor=4, max_replicas=5, warm_windows=(low, NIGHTLY))

    want = wanted(scaling, "2026-11-16 02:30")
    assert (want.warm, want.replicas) == (5, 5)
    assert wanted(scaling, "2026-11-16 12:00").replicas == 4


def test_the_highest_of_windows_that_are_open_together_counts() -> None:
    more = WarmWindow(name="release", start="0 10 16 nov *", duration_minutes=60, min_warm_pool_floor=9)

    assert wanted(rules(OFFICE, more), "2026-11-16 10:30").replicas == 9
    assert wanted(rules(OFFICE, more), "2026-11-16 11:00").replicas == 6


def test_a_duration_is_time_that_passes_also_on_the_night_when_clocks_are_changed() -> None:
    night = WarmWindow(
        name="night", start="0 1 * * *", duration_minutes=180, time_zone="Europe/Berlin", min_warm_pool_floor=5
    )
    scaling = rules(night)

    # 25 October 2026: from 3:00 back to 2:00; the window opens at 1:00 (23:00 UTC) and is open for three hours.
    assert [wanted(scaling, f"2026-10-{when}").replicas for when in ("24 23:00", "25 01:59", "25 02:00")] == [5, 5, 1]
    # 29 March 2026: from 2:00 to 3:00; 1:00 is 0:00 UTC.
    assert [wanted(scaling, f"2026-03-29 {when}").replicas for when in ("00:00", "02:59", "03:00")] == [5, 5, 1]


def test_an_end_on_the_clock_follows_the_clock_and_a_skipped_end_closes_at_the_jump() -> None:
    night = WarmWindow(
        name="night", start="0 1 * * *", end="30 2 * * *", time_zone="Europe/Berlin", min_warm_pool_floor=5
    )
    scaling = rules(night)

    assert [wanted(scaling, f"2026-03-29 {when}").replicas for when in ("00:00", "00:59", "01:00")] == [5, 5, 1]
    # In autumn 2:30 comes twice: the first one closes it, and the second opens nothing.
    moments = ("24 23:00", "25 00:29", "25 00:30", "25 01:15")
    assert [wanted(scaling, f"2026-10-{when}").replicas for when in moments] == [5, 5, 1, 1]


def test_a_window_over_midnight_or_over_a_week_end_is_one_window() -> None:
    over = WarmWindow(start="0 22 * * fri", end="0 6 * * mon", min_warm_pool_floor=3)

    moments = ("13 21:59", "13 22:00", "15 12:00", "16 05:59", "16 06:00")
    assert [wanted(rules(over), f"2026-11-{when}").replicas for when in moments] == [1, 3, 3, 3, 1]


def test_the_condition_says_which_window_is_open_until_when_and_which_comes_next() -> None:
    status, reason, message = said(rules(OFFICE, NIGHTLY), "2026-11-16 12:00")

    assert (status, reason) == ("True", "Open")
    assert message == (
        "office is open until 2026-11-16 18:00 UTC and keeps 6 warm beyond the load; "
        "window 1 opens next, at 2026-11-17 02:00 UTC, with at least 12 Pods"
    )
    assert said(rules(OFFICE), "2026-11-15 12:00")[1:] == (
        "Closed",
        "no window is open; office opens next, at 2026-11-16 06:30 UTC, with 6 warm beyond the load",
    )


@pytest.mark.parametrize(
    ("window", "sentence"),
    [
        (WarmWindow(start="0 25 * * *", duration_minutes=5, min_replicas=1), "warmWindows[1].start is '0 25 * * *'"),
        (WarmWindow(start="0 5 * * *", end="soon", min_replicas=1), "warmWindows[1].end is 'soon'"),
        (
            WarmWindow(start="0 5 * * *", duration_minutes=5, time_zone="Mars/Phobos", min_replicas=1),
            "warmWindows[1].timeZone is 'Mars/Phobos' and cannot be used: no time zone of the IANA list",
        ),
        (WarmWindow(start="0 5 * * *", min_replicas=1), "needs one of end and durationMinutes, and has neither"),
        (WarmWindow(start="0 5 * * *", end="0 6 * * *", duration_minutes=5, min_replicas=1), "and has both"),
        (WarmWindow(start="0 5 * * *", end="0 5 * * *", min_replicas=1), "would never close"),
        (WarmWindow(start="0 5 * * *", duration_minutes=5), "set minWarmPoolFloor or minReplicas"),
    ],
)
def test_a_window_that_cannot_be_read_is_named_by_its_field_and_the_others_count(
    window: WarmWindow, sentence: str
) -> None:
    scaling = rules(OFFICE, window)
    status, reason, message = said(scaling, "2026-11-16 12:00")

    assert (status, reason) == ("False", "WindowRefused")
    assert message.startswith("spec.autoscaling.warmWindows[1]")
    assert sentence in message
    assert "office is open" in message
    assert wanted(scaling, "2026-11-16 12:00").replicas == 6


def test_windows_of_a_pool_that_is_not_autoscaled_are_refused_with_the_remedy() -> None:
    status, reason, message = said(rules(OFFICE, enabled=False), "2026-11-16 12:00")

    assert (status, reason) == ("False", "AutoscalingDisabled")
    assert "set it to true" in message


def test_nothing_is_said_of_a_pool_without_windows() -> None:
    assert scheduled(rules(), schedule(rules(), at("2026-11-16 12:00"))) is None
