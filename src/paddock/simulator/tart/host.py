"""What a simulated Mac tells of itself."""

import errno
from datetime import datetime

from paddock.base.clock import Clock
from paddock.node.host import Disk, HostFacts
from paddock.simulator.mac.agent_tools import machine_id_of

__all__ = ["SimulatedHost"]


class SimulatedHost:
    """A Mac mini with eight cores and 16 GB. `reboot` gives it another bootID."""

    def __init__(self, name: str, clock: Clock, *, address: str = "", boots: int = 1) -> None:
        self._clock = clock
        self.machine_id = machine_id_of(name)
        self.boots = boots
        self.booted_at: datetime = clock.now()
        self.disk_free = 300 * 10**9
        self.disk_total = 500 * 10**9
        self.no_session = ""
        self.egress_open = ""
        self.broken = False
        self.address = address
        self.name = name

    def reboot(self) -> None:
        self.boots += 1
        self.booted_at = self._clock.now()

    async def facts(self) -> HostFacts:
        return HostFacts(
            machine_id=self.machine_id,
            boot_id=f"boot-{self.boots}-of-{self.name}",
            booted_at=self.booted_at,
            cpus=8,
            memory_bytes=16 * 1024**3,
            os_image="macOS 26.3 (25D125)",
            kernel="25.3.0",
            address=self.address,
            hostname=self.name,
        )

    async def disk(self) -> Disk:
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        return Disk(self.disk_free, self.disk_total)

    async def session_problem(self) -> str:
        return self.no_session

    async def egress_problem(self, now: datetime) -> str:
        del now
        return self.egress_open

    async def filevault_problem(self) -> str:
        return ""
