"""An interpreter as a folder that may be moved: from a python-build-standalone archive, or from the one that runs this.

The archive is the way to a Mac (`install_only_stripped`, linked to `@executable_path`). The running interpreter is for
tests and trials on Linux: its C libraries (OpenSSL and the like) stay the machine's, so that bundle runs on machines like
this one, which its manifest says.
"""

import hashlib
import re
import shutil
import sys
import tarfile
import urllib.request
from pathlib import Path

from agent_bundle.elf import is_elf, with_relative_search_path

__all__ = ["InterpreterError", "fetched", "from_archive", "from_running"]

_UNUSED = frozenset(
    {
        "__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages",
        "pydoc_data", "venv", "turtle.py",
    }
)  # fmt: skip
_UNUSED_LIKE = re.compile(r"config-.*|_tkinter.*|_test.*|_ctypes_test.*|_xx.*|_dbm.*|_gdbm.*|.*\.a|.*\.o|.*\.pyc")


class InterpreterError(Exception):
    """There is no interpreter to build from; the text says what to give."""


def fetched(url: str, sha256: str, folder: Path) -> Path:
    """The archive behind an https URL, proven by its checksum, in `folder`."""
    if not url.startswith("https://"):
        raise InterpreterError(f"{url}: expected an https URL")
    path = folder / url.rpartition("/")[2]
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, path.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except OSError as error:
        raise InterpreterError(f"{url} cannot be fetched: {error}") from error
    return _proven(path, sha256)


def from_archive(archive: Path, sha256: str, target: Path) -> str:
    """Unpack what the agent needs of an archive whose entries lie below `python/`; the interpreter's version."""
    _proven(archive, sha256)
    unpacked = target.with_name("unpacked")
    with tarfile.open(archive) as tar:
        _extract(tar, unpacked)
    try:
        return _trimmed(unpacked / "python", target)
    finally:
        shutil.rmtree(unpacked)


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Unpack below `folder` and nowhere else."""
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
        return
    # Python before 3.11.4, as Debian 12 has it, knows no filter: what that would refuse is refused here, entry by entry,
    # because where a path leads depends on the links that were unpacked before it.
    folder.mkdir(parents=True, exist_ok=True)
    inside = folder.resolve()
    for entry in tar.getmembers():
        path = inside / entry.name
        ends = [path.resolve() if not entry.issym() else path.parent.resolve() / path.name]
        if entry.issym():
            ends.append((path.parent.resolve() / entry.linkname).resolve())
        elif entry.islnk():
            ends.append((inside / entry.linkname).resolve())
        kind = entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()
        if not kind or not all(end.is_relative_to(inside) for end in ends):
            raise InterpreterError(f"{entry.name}: an entry of the archive leads out of its folder, or is no file")
        tar.extract(entry, inside)


def from_running(target: Path) -> str:
    """The interpreter that runs this, copied; on Linux alone, where its own libraries can be made relative."""
    if sys.platform != "linux":
        raise InterpreterError("only on Linux a bundle is built from the running interpreter: give an archive")
    prefix = Path(sys.base_prefix)
    if Path("/usr") == prefix:
        raise InterpreterError("the running interpreter is the system's own and cannot be moved: give an archive")
    version = _trimmed(prefix, target)
    for path in sorted(target.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if is_elf(data):
            depth = len(path.parent.relative_to(target).parts)
            changed = with_relative_search_path(data, "$ORIGIN/" + "../" * depth + "lib")
        else:
            # What was configured where it was built; the archives of python-build-standalone say this, too.
            changed = data.replace(str(prefix).encode(), b"/install")
        if changed != data:
            path.write_bytes(changed)
    return version


def _proven(path: Path, sha256: str) -> Path:
    if not path.is_file():
        raise InterpreterError(f"there is no interpreter archive {path}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 and found != sha256:
        raise InterpreterError(f"{path.name} has the SHA-256 {found}, expected was {sha256}")
    return path


def _trimmed(source: Path, target: Path) -> str:
    """Copy program, library and standard library; no headers, tools, tests, caches or installed packages."""
    (library,) = sorted((source / "lib").glob("python3.*")) or [None]
    if library is None:
        raise InterpreterError(f"{source} holds no lib/python3.*: is it an install_only archive?")
    name = library.name
    (target / "bin").mkdir(parents=True)
    shutil.copy2(source / "bin" / name, target / "bin" / name)
    (target / "bin" / "python3").symlink_to(name)
    for shared in sorted((source / "lib").glob("libpython3.*")):
        if (not shared.is_symlink() and "so.1.0" in shared.name) or shared.suffix == ".dylib":
            (target / "lib").mkdir(exist_ok=True)
            shutil.copy2(shared, target / "lib" / shared.name)
    shutil.copytree(library, target / "lib" / name, ignore=_ignored, symlinks=True)
    (target / "lib" / name / "site-packages").mkdir()
    header = source / "include" / name / "patchlevel.h"
    found = re.search(r'PY_VERSION\s+"([^"]+)"', header.read_text()) if header.is_file() else None
    return found[1] if found else name.removeprefix("python")


def _ignored(_: str, names: list[str]) -> set[str]:
    return {name for name in names if name in _UNUSED or _UNUSED_LIKE.fullmatch(name)}
