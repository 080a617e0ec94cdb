"""Whatever keeps a process from starting is one sentence with a remedy, alone or in a group of errors."""

import errno

import pytest

from paddock.base.dsn import problem_of_dsn
from paddock.base.migrations import NewerDatabaseError
from paddock.cli.start_errors import why_it_cannot_start
from paddock.embedded.store import StoreUnavailableError
from paddock.runners.ledger import LedgerUnavailableError

REFUSED = (
    'connection to server at "127.0.0.1", port 1 failed: Connection refused\n\tIs the server running on that host?'
)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StoreUnavailableError(REFUSED), "--dsn"),
        (LedgerUnavailableError(REFUSED), "--dsn"),
        (
            NewerDatabaseError("this database is at migration 9 and this release knows 8: start the newer release"),
            "newer",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/data/server"),
            "/data/server: No space left on device: free",
        ),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "/data: Disk quota exceeded: free some space"),
        (PermissionError(errno.EACCES, "Permission denied", "/data"), "must be yours to write"),
    ],
)
def test_each_is_one_line_with_its_remedy_also_from_inside_a_group(error: Exception, said: str):
    for raised in (error, ExceptionGroup("unhandled errors in a TaskGroup", [ExceptionGroup("inner", [error])])):
        told = why_it_cannot_start(raised, folder="/data")
        assert told is not None
        assert said in told
        assert "\n" not in told


def test_a_mistake_of_ours_is_not_dressed_up():
    assert why_it_cannot_start(KeyError("x"), folder="/data") is None
    assert why_it_cannot_start(OSError(errno.EIO, "Input/output error")) is None


@pytest.mark.parametrize(
    "dsn", ["hello swordfish", "postgresql://u:pa@swordfish@h/x", "postgresql://u:p/swordfish@h/x"]
)
def test_a_dsn_that_cannot_be_meant_is_refused_without_quoting_it(dsn: str):
    told = problem_of_dsn(dsn)
    assert told is not None
    assert "swordfish" not in told
    assert problem_of_dsn("postgresql://u:p%40ss@h:5432/x") is None
