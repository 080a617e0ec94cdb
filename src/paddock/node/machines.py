"""Tart, as the agent uses it: one Protocol, one tree of errors, and what each call promises."""

from enum import Enum
from pathlib import Path
from typing import Protocol

import msgspec

__all__ = [
    "Download",
    "Liveness",
    "PullError",
    "Resources",
    "Run",
    "Tart",
    "TartError",
    "TartTimeoutError",
    "Vm",
    "VmMissingError",
    "VmRunningError",
]


class TartError(Exception):
    """A call of Tart failed. Whether it had its effect is unknown: look before you repeat what cannot be repeated."""


class TartTimeoutError(TartError):
    """Tart did not end within its deadline and was killed."""


class VmMissingError(TartError):
    """There is no VM of that name."""


class VmRunningError(TartError):
    """The VM runs, so that this cannot be done to it."""


class PullError(TartError):
    """An image could not be fetched. The message is the registry's or Tart's own."""


class Liveness(Enum):
    """Whether a VM lives. UNKNOWN is treated as alive: a probe that fails proves nothing."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


class Vm(msgspec.Struct, frozen=True):
    """One line of `tart list`. `running` is Tart's word, which was wrong before: never a reason to delete."""

    name: str
    source: str = "local"
    running: bool = False
    size_gb: float = 0.0


class Download(msgspec.Struct, frozen=True):
    """The disk that a pull writes: the bytes that are on this Mac's disk, and the size that it has with its holes."""

    here: int
    size: int


class Resources(msgspec.Struct, frozen=True):
    cpu: int | None = None
    memory_mb: int | None = None


class Run(msgspec.Struct, frozen=True):
    """One run of a VM: its folder in the journal, which run it is, and the two folders that it shares with the guest."""

    folder: Path
    attempt: int
    env: Path
    status: Path


class Tart(Protocol):
    """The VMs of one Mac. Every call but a pull ends within a deadline of its own; a call that fails raises TartError."""

    async def version(self) -> str: ...

    async def machines(self) -> tuple[Vm, ...]:
        """Every local VM and every cached image. Complete, or an error."""
        ...

    async def pull(self, image: str) -> None:
        """Fetch an image into the cache, for as long as that takes; repeating it costs little. Cancelling it ends it."""
        ...

    async def downloads(self) -> dict[str, Download]:
        """The disks that pulls write now, and those that clones pass through for a moment, by a name that stays the same."""
        ...

    async def flush(self, name: str) -> None:
        """What the VM's files hold survives a power cut."""
        ...

    async def clone(self, source: str, name: str) -> None:
        """Make `name` a copy of `source`, replacing a VM of that name. Never call it for a VM that may run."""
        ...

    async def configure(self, name: str, resources: Resources) -> None:
        """Give a stopped VM its CPUs, its memory, and a MAC address and serial number that no other VM has."""
        ...

    async def run(self, name: str, run: Run) -> None:
        """Start the VM in a session of its own; it outlives the agent. For one attempt it happens at most once."""
        ...

    async def began(self, name: str, run: Run) -> bool:
        """Whether this attempt was begun. OSError or TartError where that cannot be told."""
        ...

    async def liveness(self, name: str, folder: Path) -> Liveness:
        """Whether the VM lives, by its recorded process, its lock and the process table. Never raises."""
        ...

    async def execute(self, name: str, command: tuple[str, ...]) -> int:
        """Run a command in the guest through its agent; gives the command's exit code."""
        ...

    async def stop(self, name: str) -> None:
        """Power the VM off. A VM that does not run is success."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a stopped VM or a cached image; VmRunningError while it runs; one that is missing is success."""
        ...
