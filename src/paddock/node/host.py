"""What the Mac itself tells: who it is, since when it is up, what it has, and whether a VM could start on it."""

from datetime import datetime
from typing import Protocol

import msgspec

__all__ = ["Disk", "Host", "HostFacts"]


class HostFacts(msgspec.Struct, frozen=True):
    """What does not change while the Mac is up."""

    machine_id: str
    boot_id: str
    booted_at: datetime
    cpus: int
    memory_bytes: int
    os_image: str = "macOS"
    kernel: str = ""
    address: str = ""
    hostname: str = ""


class Disk(msgspec.Struct, frozen=True):
    """The volume that holds the VMs."""

    free: int
    total: int

    @property
    def free_share(self) -> float:
        return self.free / self.total if self.total else 1.0


class Host(Protocol):
    """One Mac. Every method raises OSError where it cannot find out; nothing follows from that."""

    async def facts(self) -> HostFacts: ...

    async def disk(self) -> Disk: ...

    async def session_problem(self) -> str:
        """Why no VM could start for want of a login session, and the remedy; empty where there is one."""
        ...

    async def egress_problem(self, now: datetime) -> str:
        """Why a VM would reach what the fleet forbids, and the remedy; empty where it would not, or nothing is forbidden."""
        ...

    async def filevault_problem(self) -> str:
        """Why the Mac would not come back from a reboot; empty where its disk is not locked at the start."""
        ...
