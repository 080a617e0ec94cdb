"""Where things are: the folder that the user named, and what had to go elsewhere because the server cannot reach it.

    <folder>/lock            held for as long as a supervisor lives
    <folder>/data            the database, owned by the server's account
    <folder>/run             the socket
    <folder>/pg_*.conf       who may log in
    <folder>/postgres.log    what the server says
    <folder>/elsewhere       only when root runs us from a place that the server's account cannot enter, such as root's
                             home: the name of a folder below /var/lib/paddock that holds `data` instead

The last case never opens up a folder of yours. Removing `<folder>` forgets its database then, too, but leaves the folder
below /var/lib/paddock for you to remove: losing sight of a pointer is no reason to destroy data.
"""

import os
import random
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from paddock.base.logs import get_logger
from paddock.base.rng import kube_suffix
from paddock.embedded.postgres.account import OsAccount, choose_account
from paddock.embedded.postgres.binaries import Binaries, candidates, choose, runs_as, wheel_parts
from paddock.embedded.postgres.errors import DataFolderUnusableError, PostgresNotFoundError

__all__ = ["SHARED_ROOT", "Placement", "data_folder", "make_home", "place", "socket_folder"]

_log = get_logger("postgres")

SHARED_ROOT = Path("/var/lib/paddock")
_POINTER = "elsewhere"
_ORIGIN = "origin"
# The kernel's limit for the path of a socket, on the stricter of our systems, less the name that Postgres appends.
_LONGEST_SOCKET_FOLDER = 103 - len("/.s.PGSQL.5432")


@dataclass(frozen=True, slots=True)
class Placement:
    """Everything that is needed to start a server."""

    account: OsAccount
    binaries: Binaries
    data: Path


def data_folder(folder: Path) -> Path:
    """Where the database of this folder is or will be."""
    pointer = folder / _POINTER
    return Path(pointer.read_text(encoding="utf-8").strip()) if pointer.exists() else folder / "data"


def place(folder: Path, rng: random.Random, shared_root: Path = SHARED_ROOT) -> Placement:
    """Choose account, programs and data folder so that the one can use the others; an error names what is in the way.

    `folder` exists and is held by the caller.
    """
    data = data_folder(folder)
    account = choose_account(data)
    version = data / "PG_VERSION"
    fitting = choose(list(candidates()), int(version.read_text(encoding="ascii")) if version.exists() else None)
    if account.lent and not account.reaches(folder) and data == folder / "data":
        data = _elsewhere(folder, rng, shared_root)
    for binaries in fitting:
        if not account.lent or runs_as(binaries, account):
            return Placement(account, binaries, data)
    for binaries in fitting:
        if binaries.from_wheel:
            return Placement(account, _copied(binaries, shared_root), data)
    raise PostgresNotFoundError(
        f"the account {account.name} cannot run {fitting[0].postgres}: install your system's postgresql, "
        "start Paddock as an ordinary user, or give a DSN"
    )


def socket_folder(folder: Path, account: OsAccount) -> Path:
    """A folder that only the server's account may enter, with a path short enough for a socket.

    Below the data folder where that works; else a fresh temporary one, which the caller removes when the server is gone.
    """
    own = folder / "run"
    # A comma or a quote would make several folders of one, to Postgres and to its clients.
    plain = not {",", '"'} & set(str(own))
    if plain and len(os.fsencode(own)) <= _LONGEST_SOCKET_FOLDER and account.reaches(folder):
        own.mkdir(mode=0o700, exist_ok=True)
        account.give(own)
        return own
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 - mkdtemp makes a private folder below
        if len(os.fsencode(parent)) + len("/paddock-12345678") > _LONGEST_SOCKET_FOLDER:
            continue
        if account.reaches(Path(parent)) and os.access(parent, os.W_OK):
            made = Path(tempfile.mkdtemp(prefix="paddock-", dir=parent))
            account.give(made)
            return made
    raise DataFolderUnusableError(
        f"{folder} has too long a path for a socket, and no temporary folder will do: choose a data folder whose path "
        f"has fewer than {_LONGEST_SOCKET_FOLDER - len('/run')} characters, or set TMPDIR to a short one"
    )


def _elsewhere(folder: Path, rng: random.Random, shared_root: Path) -> Path:
    """A data folder that the server can reach, and the pointer to it.

    The pointer is written first: should we die in between, the next start makes the folder that it names.
    """
    _shared(shared_root, folder)
    for origin in shared_root.glob(f"*/{_ORIGIN}"):
        if origin.read_text(encoding="utf-8").strip() == str(folder):
            _log.warning(
                "an earlier database of this folder is left over; remove it if you do not need it", at=origin.parent
            )
    home = shared_root / f"{folder.parent.name.lstrip('.') or 'data'}-{kube_suffix(rng, 8)}"
    pointer = folder / _POINTER
    draft = pointer.with_suffix(".new")
    draft.write_text(f"{home / 'data'}\n", encoding="utf-8")
    draft.replace(pointer)
    return home / "data"


def make_home(data: Path, folder: Path) -> None:
    """Make the folder that holds the data, and note in it whose it is if it is not the user's own."""
    home = data.parent
    if home == folder:
        return
    home.mkdir(exist_ok=True)
    home.chmod(0o711)  # ours alone, made above: whatever the umask says, the server's account has to pass through
    (home / _ORIGIN).write_text(f"{folder}\n", encoding="utf-8")


def _copied(binaries: Binaries, shared_root: Path) -> Binaries:
    """The wheel's programs, copied once to where the server's account can run them."""
    parts = wheel_parts(binaries)
    assign = int(binaries.postgres.stat().st_mtime)
    home = shared_root / f"postgres-{binaries.major}-{assign}"
    package = binaries.folder.parent.parent
    if not home.exists():
        _shared(shared_root, binaries.folder)
        draft = Path(tempfile.mkdtemp(prefix=".postgres-", dir=shared_root))
        for part in parts:
            shutil.copytree(part, draft / part.relative_to(package.parent), symlinks=True)
        for path in (draft, *draft.rglob("*")):
            if not path.is_symlink():  # a strict umask may have closed the originals to other accounts
                runnable = path.is_dir() or path.stat().st_mode & 0o100
                path.chmod(0o755 if runnable else 0o644)
        try:
            draft.rename(home)  # complete or not there
        except OSError:
            shutil.rmtree(draft)  # another process was quicker
            if not home.exists():
                raise
    return replace(binaries, folder=home / binaries.folder.relative_to(package.parent), from_wheel=False)


def _shared(shared_root: Path, unreachable: Path) -> None:
    if shared_root.exists():
        return
    try:
        shared_root.mkdir()
        shared_root.chmod(0o755)
    except OSError as error:
        raise DataFolderUnusableError(
            f"Postgres cannot run as root, its account cannot enter {unreachable}, and {shared_root} cannot be made "
            f"({error.strerror}): choose a data folder that other accounts may enter, start Paddock as an ordinary "
            "user, or give a DSN"
        ) from error
