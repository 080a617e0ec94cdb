"""One rule for waiting: it grows, it is capped, jitter only lengthens, and the other side is never undercut."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.base.backoff import LONGEST_ADVICE, Backoff, retry_after
from paddock.base.rng import seeded

backoffs = st.builds(
    Backoff,
    base=st.floats(0.01, 10.0),
    cap=st.floats(10.0, 600.0),
    factor=st.floats(1.0, 4.0),
    jitter=st.floats(0.0, 1.0),
)
failures = st.integers(-3, 10_000)


@given(backoffs, failures, st.integers())
def test_a_wait_is_between_the_plain_wait_and_the_plain_wait_with_all_its_jitter(
    backoff: Backoff, count: int, seed: int
) -> None:
    plain = min(backoff.cap, backoff.base * backoff.factor ** min(max(count, 1) - 1, 62))
    wait = backoff.delay(count, seeded(seed))
    assert plain <= wait <= plain * (1 + backoff.jitter)


@given(backoffs, failures, st.integers())
def test_no_wait_is_longer_than_the_cap_with_its_jitter(backoff: Backoff, count: int, seed: int) -> None:
    assert backoff.delay(count, seeded(seed)) <= backoff.cap * (1 + backoff.jitter)


@given(backoffs, st.integers(1, 500))
def test_without_jitter_a_later_failure_never_waits_less(backoff: Backoff, count: int) -> None:
    plain = Backoff(backoff.base, backoff.cap, backoff.factor, 0.0)
    assert plain.delay(count, seeded(0)) <= plain.delay(count + 1, seeded(0))


@given(backoffs, failures, st.floats(0.0, 100_000.0))
def test_what_the_other_side_asked_for_is_never_undercut(backoff: Backoff, count: int, asked: float) -> None:
    assert backoff.delay(count, seeded(1), retry_after=asked) >= asked


def test_clients_that_failed_together_do_not_come_back_together() -> None:
    waits = {Backoff().delay(3, seeded(seed)) for seed in range(50)}
    assert len(waits) == 50


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        ("1.5", 1.5),
        ("soon", None),
        ("-3", None),
        ("\xb2", None),
        ("99999999", LONGEST_ADVICE),
        ("9" * 400, LONGEST_ADVICE),
        ("Mon, 01 Jun 2026 12:00:30 GMT", 30.0),
        ("Mon, 01 Jun 2026 11:00:00 GMT", 0.0),
        ("Mon, 01 Jun 9999 11:00:00 GMT", LONGEST_ADVICE),
        (f"Mon, 01 Jun {'9' * 30} 11:00:00 GMT", None),
    ],
)
def test_what_a_server_asks_for_is_a_number_or_a_date_and_never_more_than_an_hour(
    header: str | None, expected: float | None
) -> None:
    assert retry_after(header, datetime(2026, 6, 1, 12, 0, tzinfo=UTC)) == expected
