"""A DSN with a slip in it is refused without being quoted: it holds a password."""

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
