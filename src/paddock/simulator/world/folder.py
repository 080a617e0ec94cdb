"""The world's own folder: who holds it, and where its sockets are."""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["COMMAND", "Sockets", "WorldFolder", "WorldRunningError"]

COMMAND: Final = "simulated-world"
"""The word by which a world's process is known in a list of processes."""
_LONGEST: Final = 90
"""The kernel's limit for the path of a socket is 103 bytes on the stricter of our systems; the longest name is appended."""
_LOCK_WITHIN: Final = 2.0


class WorldRunningError(Exception):
    """Another world works with this data folder."""


@dataclass(frozen=True, slots=True)
class Sockets:
    """One unix socket for each service, in a folder that only its owner may enter."""

    folder: Path

    @property
    def control(self) -> Path:
        return self.folder / "control"

    @property
    def scaleway(self) -> Path:
        return self.folder / "scaleway"

    @property
    def github(self) -> Path:
        return self.folder / "github"


@dataclass(frozen=True, slots=True)
class WorldFolder:
    """`world` in the data folder."""

    data: Path

    @property
    def root(self) -> Path:
        return self.data / "world"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def attached(self) -> Path:
        """Where Paddock was last."""
        return self.root / "attached.json"

    @property
    def _lock(self) -> Path:
        return self.root / "lock"

    @property
    def _pointer(self) -> Path:
        return self.root / "sockets"

    def make(self) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(0o700)

    # For the world

    @contextmanager
    def held(self) -> Iterator[Sockets]:
        """Be the one world of this folder for the length of the block; WorldRunningError where another is."""
        self.make()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _locked(descriptor)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            sockets = self._new_sockets()
            try:
                yield sockets
            finally:
                self._pointer.unlink(missing_ok=True)
                shutil.rmtree(sockets.folder, ignore_errors=True)
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def _new_sockets(self) -> Sockets:
        if (left := self.sockets()) is not None:
            shutil.rmtree(left.folder, ignore_errors=True)  # of a world that was killed
        folder = self.root.resolve() / "run"
        if len(os.fsencode(folder)) > _LONGEST:
            folder = Path(tempfile.mkdtemp(prefix="paddock-world-"))
        folder.mkdir(mode=0o700, exist_ok=True)
        draft = self._pointer.with_suffix(".draft")
        draft.write_text(f"{folder}\n", encoding="utf-8")
        draft.replace(self._pointer)
        return Sockets(folder)

    # For whoever looks for it

    def sockets(self) -> Sockets | None:
        """Where the sockets are, if a world ever said so and did not end in order."""
        try:
            return Sockets(Path(self._pointer.read_text(encoding="utf-8").strip()))
        except OSError:
            return None

    def taken(self) -> bool:
        """Whether a world holds this folder now."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    def holder(self) -> int | None:
        """The process ID of the world that holds this folder; None where none does, 0 where it has not said so yet."""
        if not self.taken():
            return None
        said = self._lock.read_text(encoding="ascii", errors="replace").strip()
        pid = int(said) if said.isdigit() else 0
        return pid if pid and _is_a_world(pid) else 0


def _locked(descriptor: int) -> None:
    # Whoever looks for us takes the lock for a moment, so the first refusal proves nothing.
    deadline = time.monotonic() + _LOCK_WITHIN
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                raise WorldRunningError("another simulated world works with this data folder") from None
            time.sleep(0.05)
        else:
            return


def _is_a_world(pid: int) -> bool:
    """Whether that process is one of ours: the number may be a killed world's, and another program's by now."""
    shown = subprocess.run(  # noqa: S603 - a number is its only argument
        ["ps", "-o", "command=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
        capture_output=True,
        check=False,
    )
    return COMMAND.encode() in shown.stdout
