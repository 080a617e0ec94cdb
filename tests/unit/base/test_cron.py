"""Times of a cron expression: its fields, its refusals, and the two days a year on which clocks are changed."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.base.cron import CronError, TimeZoneError, parse, time_zone

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "now", "last", "following"),
    [
        ("30 7 * * mon-fri", "2026-11-16 12:00", "2026-11-16 07:30", "2026-11-17 07:30"),
        ("30 7 * * mon-fri", "2026-11-14 12:00", "2026-11-13 07:30", "2026-11-16 07:30"),
        ("30 7 * * 1-5", "2026-11-16 07:30", "2026-11-16 07:30", "2026-11-17 07:30"),
        ("*/20 9-10 * * *", "2026-11-16 10:05", "2026-11-16 10:00", "2026-11-16 10:20"),
        ("5/25 0 * * *", "2026-11-16 00:31", "2026-11-16 00:30", "2026-11-16 00:55"),
        ("0 0 1 jan,JUL *", "2026-11-16 00:00", "2026-07-01 00:00", "2027-01-01 00:00"),
        ("0 0 * * 7", "2026-11-16 00:00", "2026-11-15 00:00", "2026-11-22 00:00"),
        ("0 0 13 * fri", "2026-11-12 00:00", "2026-11-06 00:00", "2026-11-13 00:00"),
        ("0 0 29 2 *", "2026-11-16 00:00", "2024-02-29 00:00", "2028-02-29 00:00"),
    ],
)
def test_the_times_before_and_after_a_moment_are_those_of_crontab(
    cron: str, now: str, last: str, following: str
) -> None:
    assert parse(cron).last(at(now), UTC) == at(last)
    assert parse(cron).next(at(now), UTC) == at(following)


def test_restricted_days_of_month_and_week_suffice_alone_and_a_star_restricts_nothing() -> None:
    either, only_friday = parse("0 0 13 * fri"), parse("0 0 * * fri")

    assert either.on(at("2026-11-06").date())
    assert either.on(at("2026-10-13").date())
    assert not either.on(at("2026-11-07").date())
    assert not only_friday.on(at("2026-10-13").date())


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("@daily", "five fields"),
        ("0 " * 300, "five fields"),
        ("60 * * * *", "minute must be 0 to 59, and is 60"),
        ("0 24 * * *", "hour must be 0 to 23"),
        ("0 0 0 * *", "day of the month must be 1 to 31"),
        ("0 0 * 13 *", "month must be 1 to 12"),
        ("0 0 * * 8", "day of the week must be 0 to 7"),
        ("0 0 * * montag", "day of the week must be 0 to 7, and is montag"),
        ("0 9-8 * * *", "hour runs backwards: 9-8"),
        ("*/0 * * * *", "minute has a step of 0"),
        ("*-5 * * * *", "minute cannot be read: *-5"),
        ("1,,2 * * * *", "minute cannot be read: nothing"),
        ("٣ * * * *", "minute cannot be read"),
        ("0 0 31 2 *", "its day never comes"),
        ("0 0 30 feb *", "its day never comes"),
    ],
)
def test_a_wrong_expression_is_refused_with_the_field_that_is_wrong(cron: str, said: str) -> None:
    with pytest.raises(CronError, match=said.replace("*", r"\*")):
        parse(cron)


@pytest.mark.parametrize("name", ["Mars/Phobos", "Europe", "../etc/passwd", "/etc/localtime", "CEST+", "\0"])
def test_a_time_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(TimeZoneError, match="IANA"):
        time_zone(name)


def test_a_time_zone_is_found_by_its_name_and_none_is_utc() -> None:
    assert time_zone("Europe/Berlin") == BERLIN
    assert time_zone("") is UTC
    assert time_zone("UTC") is UTC


def test_a_time_on_the_clock_moves_in_utc_when_clocks_are_changed() -> None:
    morning = parse("0 8 * * *")

    assert morning.next(at("2026-03-28 12:00"), BERLIN) == at("2026-03-29 06:00")
    assert morning.last(at("2026-03-28 12:00"), BERLIN) == at("2026-03-28 07:00")
    assert morning.next(at("2026-10-24 12:00"), BERLIN) == at("2026-10-25 07:00")


def test_a_time_that_the_clock_jumps_over_is_the_moment_of_the_jump() -> None:
    night = parse("30 2 * * *")

    assert night.next(at("2026-03-28 12:00"), BERLIN) == at("2026-03-29 01:00")
    assert night.last(at("2026-03-29 00:59"), BERLIN) == at("2026-03-28 01:30")
    assert night.next(at("2026-03-29 01:00"), BERLIN) == at("2026-03-30 00:30")


def test_a_time_that_comes_twice_counts_once_the_first_time() -> None:
    night = parse("30 1 * * *")  # New York goes back from 2:00 to 1:00 on the first Sunday of November

    assert night.next(at("2026-11-01 05:00"), NEW_YORK) == at("2026-11-01 05:30")
    assert night.next(at("2026-11-01 05:30"), NEW_YORK) == at("2026-11-02 06:30")
    assert night.last(at("2026-11-01 07:00"), NEW_YORK) == at("2026-11-01 05:30")


@given(
    st.sampled_from(["30 2 * * *", "0 8 * * mon-fri", "*/15 1-3 * * *", "0 0 1 * *", "59 23 31 12 *"]),
    st.sampled_from([UTC, BERLIN, NEW_YORK, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Asia/Kathmandu")]),
    st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)),  # noqa: DTZ001 - hypothesis wants naive bounds
)
def test_last_and_next_enclose_every_moment_and_meet(cron: str, zone: ZoneInfo, naive: datetime) -> None:
    now, times = naive.replace(tzinfo=UTC), parse(cron)
    last, following = times.last(now, zone), times.next(now, zone)

    assert last is not None
    assert following is not None
    assert last <= now < following
    assert times.next(last, zone) == following
    assert times.last(following, zone) == following
    assert times.last(following - timedelta(seconds=1), zone) == last
