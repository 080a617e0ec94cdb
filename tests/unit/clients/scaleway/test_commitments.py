"""A monthly commitment ends at the anniversaries of its order, and what ends with it is told by that date."""

from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from paddock.clients.scaleway.model import Commitment, Server, next_anniversary

_MOMENTS = st.datetimes(datetime(2021, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - they get UTC


def at(month: int, day: int, year: int = 2026) -> datetime:
    return datetime(year, month, day, 8, 30, tzinfo=UTC)


def test_the_anniversary_is_the_day_of_the_order_or_the_last_of_a_month_that_is_too_short() -> None:
    assert next_anniversary(at(3, 5), at(3, 5)) == at(4, 5)
    assert next_anniversary(at(3, 5), at(4, 5) - timedelta(seconds=1)) == at(4, 5)
    assert next_anniversary(at(3, 5), at(4, 5)) == at(5, 5)
    assert next_anniversary(at(1, 31), at(2, 1)) == at(2, 28)
    assert next_anniversary(at(1, 31), at(2, 28)) == at(3, 31)
    assert next_anniversary(at(12, 31, 2025), at(1, 1)) == at(1, 31)


@given(_MOMENTS, _MOMENTS)
def test_it_lies_ahead_by_a_month_at_most(ordered: datetime, now: datetime) -> None:
    end = next_anniversary(ordered, now)
    assert end > now
    assert end > ordered
    assert end - max(now, ordered) <= timedelta(days=31)
    assert end.time() == ordered.time()


def test_only_a_monthly_commitment_has_one_cancelled_or_not() -> None:
    ordered = {"id": "i", "name": "n", "created_at": "2026-03-05T08:30:00.5Z"}

    def until(**commitment: object) -> datetime | None:
        return msgspec.convert({**ordered, **commitment}, Server, strict=False).committed_until(at(3, 20))

    assert until(commitment={"type": "renewed_monthly", "cancelled": False}) == at(4, 5)
    assert until(commitment={"type": "renewed_monthly", "cancelled": True}) == at(4, 5)
    assert until(commitment={"type": "duration_24h", "cancelled": False}) is None
    assert until(commitment={"type": "none", "cancelled": False}) is None
    assert until(commitment=None) is None
    assert until() is None
    assert Server("i", "n", commitment=Commitment("renewed_monthly")).committed_until(at(3, 20)) is None
