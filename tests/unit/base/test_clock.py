"""Time is injected: the loop's clock follows its loop, and timestamps read as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.base.clock import LoopClock, SystemClock, parse_rfc3339, rfc3339, rfc3339_micro
from paddock.simulator.loop import run

moments = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone


def test_a_day_passes_on_the_loop_clock_without_a_real_wait() -> None:
    async def a_day() -> tuple[datetime, float]:
        clock = LoopClock(datetime(2026, 1, 1, tzinfo=UTC))
        before = clock.monotonic()
        await clock.sleep(86400 - 1)
        return clock.now(), clock.monotonic() - before

    now, passed = run(a_day, seed=1, limit=100_000)
    assert passed == pytest.approx(86399)
    assert now == datetime(2026, 1, 1, 23, 59, 59, tzinfo=UTC)


async def test_the_system_clock_knows_its_zone_and_never_runs_backwards() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    before = clock.monotonic()
    await clock.sleep(-5)
    assert clock.monotonic() >= before


@given(moments)
def test_a_moment_survives_being_written_and_read(moment: datetime) -> None:
    assert parse_rfc3339(rfc3339_micro(moment)) == moment
    assert parse_rfc3339(rfc3339(moment)) == moment.replace(microsecond=0)


def test_another_zone_is_written_as_utc() -> None:
    paris = datetime(2026, 6, 12, 9, 6, 59, 1, tzinfo=timezone(timedelta(hours=2)))
    assert rfc3339(paris) == "2026-06-12T07:06:59Z"
    assert rfc3339_micro(paris) == "2026-06-12T07:06:59.000001Z"
    assert parse_rfc3339("2026-06-12T09:06:59+02:00") == datetime(2026, 6, 12, 7, 6, 59, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-06-12T07:06:59", "2026-13-01T00:00:00Z"])
def test_what_is_no_moment_or_has_no_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own message, all are ValueErrors by promise
        parse_rfc3339(text)
