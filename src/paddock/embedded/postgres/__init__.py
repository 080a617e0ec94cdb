"""A Postgres of our own, for a machine that has none running: found, set up, started, watched over and stopped.

It is reached over a socket in a private folder and never over the network, runs never as root, and does not outlive us.
"""

from paddock.embedded.postgres.errors import (
    DataFolderInUseError,
    DataFolderUnusableError,
    DiskFullError,
    PostgresError,
    PostgresNotFoundError,
    PostgresNotStartingError,
)
from paddock.embedded.postgres.supervisor import EmbeddedPostgres, GivenPostgres, PostgresServer

__all__ = [
    "DataFolderInUseError",
    "DataFolderUnusableError",
    "DiskFullError",
    "EmbeddedPostgres",
    "GivenPostgres",
    "PostgresError",
    "PostgresNotFoundError",
    "PostgresNotStartingError",
    "PostgresServer",
]
