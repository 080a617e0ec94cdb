"""What keeps a long-running command from starting, as one sentence with its remedy. A mistake of ours stays a traceback."""

import errno
from collections.abc import Iterator

__all__ = ["why_it_cannot_start"]

_FULL = {errno.ENOSPC, errno.EDQUOT}


def why_it_cannot_start(error: BaseException, *, folder: object = "") -> str | None:
    """The sentence for what was raised, alone or in a group; None for what nobody but us can mend.

    `folder` is the data folder of the command, if it has one: what the file system refused is said of it.
    """
    for leaf in _leaves(error):
        if (told := _sentence(leaf, folder)) is not None:
            return told
    return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _sentence(error: BaseException, folder: object) -> str | None:
    from paddock.all_in_one.world_process import WorldError
    from paddock.base.http_server import PortInUseError
    from paddock.base.migrations import MigrationError
    from paddock.clients import github, scaleway
    from paddock.embedded.folder import DataFolderError
    from paddock.embedded.postgres import PostgresError
    from paddock.embedded.store import StoreError, StoreUnavailableError
    from paddock.kube.errors import ConfigError
    from paddock.runners.ledger import LedgerError, LedgerUnavailableError

    known = (
        PortInUseError,
        PostgresError,
        WorldError,
        StoreError,
        LedgerError,
        MigrationError,
        ConfigError,
        DataFolderError,
    )
    if isinstance(error, (StoreUnavailableError, LedgerUnavailableError)):
        # libpq explains itself in several lines and asks whether the server runs: the first line says it.
        first = str(error).partition("\n")[0].rstrip(" .")
        return f"{first}: see that the Postgres of --dsn runs and lets this user in"
    if isinstance(error, (*known, scaleway.SettingsError, github.SettingsError)):
        return str(error).strip()
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"{error.filename or folder or 'the disk'}: {error.strerror}: free some space, or choose another folder with --data"
    if isinstance(error, PermissionError) and folder:
        told = f"{error.filename or folder}: {error.strerror}"
        return f"{told}: the data folder must be yours to write; choose another with --data"
    return None
