"""A DSN with a slip in it is refused without being quoted: it holds a password."""

from typing import Any

import pytest

from paddock.runners.ledger import InvalidEntryError
from paddock.runners.ledger.database import make_pool


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql//me:hunter2@localhost/db",
        "postgresql://me:hunter2@secret@localhost/db",
        "postgresql://me:hunter2/secret@localhost/db",
        "host=localhost password=hunter2 bogus=secret",
    ],
)
def test_a_dsn_that_cannot_be_read_is_refused_without_its_password(dsn: str) -> None:
    with pytest.raises(InvalidEntryError) as refused:
        make_pool(dsn, schema="ledger")
    assert "hunter" not in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "dsn",
    ["postgresql://me:h%40nter@localhost:5432/db", "host=/run/postgres user=me", "postgresql://a,b:5432,c:5433/db", ""],
)
async def test_a_dsn_that_can_be_meant_is_not_refused(dsn: str) -> None:
    make_pool(dsn, schema="ledger")


def _options(dsn: str) -> dict[str, Any]:
    options = make_pool(dsn, schema="ledger").kwargs
    assert isinstance(options, dict)
    return options


async def test_a_server_that_vanishes_without_a_word_is_noticed_within_seconds() -> None:
    """By the system's defaults a statement would wait for two hours, and a pass of healing with it."""
    said = _options("postgresql://me@localhost/db")
    assert said["keepalives_idle"] + said["keepalives_interval"] * said["keepalives_count"] < 15
    assert said["tcp_user_timeout"] < 15_000
    assert said["connect_timeout"] < 15


async def test_what_the_dsn_says_about_a_lost_server_counts() -> None:
    said = _options("postgresql://me@localhost/db?keepalives_idle=60&connect_timeout=30")
    assert not {"keepalives_idle", "connect_timeout"} & said.keys()
    assert "tcp_user_timeout" in said
