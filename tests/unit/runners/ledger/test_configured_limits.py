"""Limits as they are written in flags."""

import pytest

from paddock.runners.api.settings import ConfiguredLimit
from paddock.runners.ledger.configured_limits import limit_of


def test_a_limit_names_account_platform_and_size() -> None:
    assert limit_of("acme/macos=12,28672") == ConfiguredLimit("acme", "macos", 12, 28672)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("acme=12,28672", "is not a limit such as"),
        ("acme/macos=12", "is not a limit such as"),
        ("acme/windows=12,28672", "must be one of linux, macos"),
        ("acme/macos=0,28672", "would hold every job back"),
        ("/macos=1,1", "is not a limit such as"),
    ],
)
def test_a_limit_that_cannot_be_read_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        limit_of(text)
