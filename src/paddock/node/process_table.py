"""Whether a VM lives, by three witnesses: its recorded process, the lock on its config, and the process table."""

import errno
import fcntl
import os
import struct
import sys
from pathlib import Path

__all__ = ["lock_is_held", "runs_vm"]

_DARWIN = "qqihh"  # l_start, l_len, l_pid, l_type, l_whence
_LINUX = "hhqqi"  # l_type, l_whence, l_start, l_len, l_pid


def lock_is_held(path: Path) -> bool:
    """Whether a process holds a lock on the file; asks only, takes nothing. False where there is no file; else OSError."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if sys.platform == "darwin":
            asked = struct.pack(_DARWIN, 0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
            return struct.unpack(_DARWIN, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[3] != fcntl.F_UNLCK
        asked = struct.pack(_LINUX, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        return struct.unpack(_LINUX, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    finally:
        os.close(descriptor)


def runs_vm(table: str, name: str) -> bool:
    """Whether the process table (`ps -o args=`) shows `tart run NAME`. The name is a whole word: vm-1 is not vm-12."""
    for line in table.splitlines():
        words = line.split()
        if any(
            word == "run" and words[place + 1 : place + 2] == [name] and "tart" in words[place - 1]
            for place, word in enumerate(words)
            if place > 0
        ):
            return True
    return False
