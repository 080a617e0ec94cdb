"""The Mac under the agent, asked through its own programs; on Linux, where tests run, through what Linux has instead."""

import asyncio
import os
import platform
import re
import shutil
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

from paddock.base.programs import ProgramTimeoutError, run_program
from paddock.node.host import Disk, HostFacts

__all__ = ["MacHost"]

_SECONDS = 10.0
_UUID = re.compile(rb'"IOPlatformUUID"\s*=\s*"([0-9A-Fa-f-]{36})"')
_BOOT = re.compile(r"sec\s*=\s*(\d+)")


class MacHost:
    """`volume` is where VMs lie. `address` is what the API server is told, if anything."""

    def __init__(self, volume: Path, *, address: str = "") -> None:
        self._volume = volume
        self._address = address

    async def facts(self) -> HostFacts:
        return await (self._mac() if sys.platform == "darwin" else asyncio.to_thread(self._linux))

    async def disk(self) -> Disk:
        usage = await asyncio.to_thread(shutil.disk_usage, self._volume)
        return Disk(usage.free, usage.total)

    async def session_problem(self) -> str:
        """Since macOS 15 a VM needs the unlocked login keychain of its user, in practice an Aqua session."""
        if sys.platform != "darwin":
            return ""
        uid = os.getuid()
        shown = await self._ask("launchctl", "print", f"gui/{uid}")
        if shown is not None and b"session = Aqua" in shown:
            return ""
        return (
            f"the user with number {uid} has no Aqua session, so that no VM can start: "
            "check automatic login, then log the user in or reboot the Mac when no VM runs"
        )

    async def _mac(self) -> HostFacts:
        platform_uuid = _UUID.search(await self._must("ioreg", "-rd1", "-c", "IOPlatformExpertDevice"))
        boot = _BOOT.search((await self._must("sysctl", "-n", "kern.boottime")).decode())
        if platform_uuid is None or boot is None:
            raise OSError("ioreg or sysctl does not tell who this Mac is")
        return HostFacts(
            machine_id=platform_uuid[1].decode(),
            boot_id=(await self._must("sysctl", "-n", "kern.bootsessionuuid")).decode().strip(),
            booted_at=datetime.fromtimestamp(int(boot[1]), UTC),
            cpus=os.cpu_count() or 1,
            memory_bytes=int(await self._must("sysctl", "-n", "hw.memsize")),
            os_image=f"macOS {platform.mac_ver()[0]} ({(await self._must('sysctl', '-n', 'kern.osversion')).decode().strip()})",
            kernel=platform.release(),
            address=self._address,
            hostname=socket.gethostname(),
        )

    def _linux(self) -> HostFacts:
        machine = Path("/etc/machine-id")
        # The kernel's own word: computed from the clock, a clock that is set would look like a reboot.
        lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
        booted = datetime.fromtimestamp(next(int(words[1]) for words in lines if words[0] == "btime"), UTC)
        return HostFacts(
            machine_id=machine.read_text().strip() if machine.exists() else socket.gethostname(),
            boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            booted_at=booted,
            cpus=os.cpu_count() or 1,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            os_image=platform.system(),
            kernel=platform.release(),
            address=self._address,
            hostname=socket.gethostname(),
        )

    async def _must(self, *command: str) -> bytes:
        out = await self._ask(*command)
        if out is None:
            raise OSError(f"{command[0]} failed")
        return out

    async def _ask(self, *command: str) -> bytes | None:
        try:
            ended = await run_program(command, seconds=_SECONDS)
        except ProgramTimeoutError as error:
            raise OSError(str(error)) from error
        return ended.out if ended.code == 0 else None
