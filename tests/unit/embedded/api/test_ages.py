from datetime import UTC, datetime, timedelta

import pytest

from paddock.embedded.api.documents.ages import age, human_duration

NOW = datetime(2026, 6, 12, 7, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"),
        (-1.9, "0s"),
        (-2, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (9 * 60 + 28, "9m28s"),
        (10 * 60, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 5 * 60, "3h5m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (52 * 3600, "2d4h"),
        (8 * 86400, "8d"),
        (2 * 365 * 86400 - 1, "729d"),
        (2 * 365 * 86400, "2y"),
        ((3 * 365 + 10) * 86400, "3y10d"),
        (8 * 365 * 86400, "8y"),
        (100 * 365 * 86400, "100y"),
    ],
)
def test_a_duration_has_two_or_three_figures(seconds, text):
    assert human_duration(timedelta(seconds=seconds)) == text


def test_an_age_counts_from_the_timestamp_to_now():
    assert age("2026-06-12T06:59:34Z", NOW) == "26s"
    assert age("2026-06-12T08:59:00+02:00", NOW) == "60s"
    assert age("2026-06-12T06:59:00.000001Z", NOW) == "59s"


@pytest.mark.parametrize("nothing", [None, ""])
def test_without_a_timestamp_the_age_is_unknown(nothing):
    assert age(nothing, NOW) == "<unknown>"


@pytest.mark.parametrize(
    "wrong", ["zz", "2026-06-12", "2026-06-12T07:00:00", "2030-01-01T00:00:00Z", 7, "2026-13-45T00:00:00Z"]
)
def test_a_timestamp_that_cannot_be_read_or_lies_ahead_is_invalid(wrong):
    assert age(wrong, NOW) == "<invalid>"
