"""What Tart keeps in `TART_HOME`: VMs, the cache of images, and who runs (an fcntl lock on a VM's `config.json`)."""

import fcntl
import json
import os
import random
import shutil
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Store", "TartError", "Vm", "World", "random_mac"]

_FLOCK = "hhqqi"  # struct flock on Linux


class TartError(Exception):
    """How a command ends: 1 for failures, 2 for a VM that is missing, not running or running already, 64 for usage."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class World:
    """`simulated/world.json`, read at each call. All of it is optional.

    `images`: name → {digest, size (GB), disk (folder that becomes the guest's disk), fault (unauthorized, missing, reset,
    stall), seconds}; without it every image exists. `session` false: no Aqua session. `leaked_slots`: VMs that the kernel
    counts and no process runs; with `leaks_seats` true each VM that ends in order is one more. `boot_seconds`, `guest_agent` (true), `dies_after` (seconds; a crash), `ignores_stop`,
    `wrong_state` (running VMs are listed as stopped).
    """

    def __init__(self, path: Path) -> None:
        try:
            self.values = json.loads(path.read_text())
        except FileNotFoundError:
            self.values = {}

    def get(self, name: str, default: Any) -> Any:
        return self.values.get(name, default)


class Vm:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    @property
    def config(self) -> dict:
        return json.loads((self.folder / "config.json").read_text())

    def write_config(self, config: dict) -> None:
        if self.runner_pid():
            # In place, as Tart does: another file of this name would have no lock.
            (self.folder / "config.json").write_text(json.dumps(config))
            return
        part = self.folder / ".config.json"
        part.write_text(json.dumps(config))
        part.rename(self.folder / "config.json")

    def runner_pid(self) -> int:
        """The process that holds the lock; 0 where none does. Never to be asked by the holder itself: closing any
        descriptor of a file gives up this process's locks on it.
        """
        try:
            fd = os.open(self.folder / "config.json", os.O_RDWR)
        except FileNotFoundError:
            return 0
        try:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        finally:
            os.close(fd)
        return 0 if kind == fcntl.F_UNLCK else pid

    @property
    def state(self) -> str:
        if self.runner_pid():
            return "running"
        return "suspended" if (self.folder / "state.vzvmsave").exists() else "stopped"

    def size(self) -> float:
        """In GB, as the image says: a simulated disk is a sparse nothing."""
        return float(self.config.get("simulatedSize", 0))


class Store:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.vms = home / "vms"
        self.cache = home / "cache" / "OCIs"
        self.tmp = home / "tmp"
        for folder in (self.vms, self.cache, self.tmp):
            folder.mkdir(parents=True, exist_ok=True)
        self.world = World(home / "simulated" / "world.json")

    def vm(self, name: str) -> Vm:
        found = Vm(self.vms / name)
        if "/" in name or name in {"", ".", ".."} or not (found.folder / "config.json").exists():
            raise TartError(f'the specified VM "{name}" does not exist', 2)
        return found

    def all_vms(self) -> list[Vm]:
        return [Vm(folder) for folder in sorted(self.vms.iterdir()) if (folder / "config.json").exists()]

    def create(self, name: str, source: Path) -> Vm:
        """A copy under this name, in place of what had it: prepared in `tmp`, then renamed."""
        if "/" in name or name in {"", ".", ".."}:
            raise TartError("<new-name> should be a local name", 64)
        part = self.tmp / f"{os.getpid()}-{time.time_ns()}"
        shutil.copytree(source, part, symlinks=True, ignore=shutil.ignore_patterns("guest.json", "*.sock"))
        made, old = Vm(part), self.vms / name
        config = made.config
        if config["macAddress"] in {vm.config["macAddress"] for vm in self.all_vms()}:
            config["macAddress"] = random_mac()
        made.write_config(config)
        if old.exists():
            gone = part.with_suffix(".old")
            old.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
        part.rename(old)
        return Vm(old)

    def clear_tmp(self) -> None:
        """What every command but pull and clone does: a pull that was killed cannot be resumed after it."""
        for entry in self.tmp.iterdir():
            if _is_locked(entry):
                continue
            shutil.rmtree(entry, ignore_errors=True)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """One at a time, across processes."""
        fd = os.open(self.home / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _is_locked(folder: Path) -> bool:
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def random_mac() -> str:
    return ":".join(["7e", *(f"{random.randrange(256):02x}" for _ in range(5))])  # noqa: S311 - a MAC is no secret
