"""Removing a folder that a job filled, whatever it holds."""

import os
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["remove_tree"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Level(msgspec.Struct):
    """A folder on the way down: which it is, and which of its folders are left."""

    identity: tuple[int, int]
    folders: list[str]


def remove_tree(path: Path) -> None:
    """The folder is gone with all it holds, and nothing outside it. OSError where something cannot be removed.

    It needs two descriptors however deep the folders are, no path longer than the folder's own, and no free space. Folders
    that were closed to us are opened. Nobody may write into it meanwhile: its VM is gone.
    """
    path.chmod(0o700)
    here = os.open(path, _FOLDER)
    try:
        levels = [_Level(_identity(here), _without_files(here))]
        while True:
            if levels[-1].folders:
                here = _go(here, levels[-1].folders[-1])
                levels.append(_Level(_identity(here), _without_files(here)))
                continue
            levels.pop()
            if not levels:
                break
            here = _go(here, "..")
            if _identity(here) != levels[-1].identity:
                raise OSError(f"{path}: a folder was moved while it was removed")
            os.rmdir(levels[-1].folders.pop(), dir_fd=here)
    finally:
        os.close(here)
    path.rmdir()


def _go(here: int, name: str) -> int:
    if name != "..":
        # It was no link when it was listed, and opening it would refuse one.
        os.chmod(name, 0o700, dir_fd=here)
    there = os.open(name, _FOLDER, dir_fd=here)
    os.close(here)
    return there


def _identity(descriptor: int) -> tuple[int, int]:
    facts = os.fstat(descriptor)
    return facts.st_dev, facts.st_ino


def _without_files(descriptor: int) -> list[str]:
    """Remove all that is no folder, links too; gives the folders."""
    with os.scandir(descriptor) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, folder in entries:
        if not folder:
            os.unlink(name, dir_fd=descriptor)
    return [name for name, folder in entries if folder]
