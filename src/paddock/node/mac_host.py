"""The Mac under the agent, asked through its own programs; on Linux, where tests run, through what Linux has instead."""

import asyncio
import os
import platform
import re
import shutil
import socket
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from paddock.base.explanation import utc
from paddock.base.programs import Ended, ProgramTimeoutError, run_program
from paddock.node.host import Disk, HostFacts

__all__ = ["MacHost", "has_session"]

_SECONDS = 10.0
_EGRESS = Path("/var/run/tuist-egress")
_EGRESS_OLD = timedelta(minutes=5)
_UUID = re.compile(rb'"IOPlatformUUID"\s*=\s*"([0-9A-Fa-f-]{36})"')
_BOOT = re.compile(r"sec\s*=\s*(\d+)")


class MacHost:
    """`volume` is where VMs lie. `address` is what the API server is told, if anything; `egress` is where it is written
    whether the rules for VMs are in force.
    """

    def __init__(self, volume: Path, *, address: str = "", egress: Path = _EGRESS) -> None:
        self._volume = volume
        self._egress = egress
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
        ask = ("launchctl", "print", f"gui/{uid}")
        # Some versions of macOS answer root alone; and root who may not be asked is no answer.
        for command in (ask, ("sudo", "-n", *ask)):
            found = has_session(await self._run(*command))
            if found:
                return ""
        if found is None:
            raise OSError("launchctl does not tell whether there is a login session")
        return (
            f"the user with number {uid} has no Aqua session, so that no VM can start: "
            "check automatic login, then log the user in or reboot the Mac when no VM runs"
        )

    async def egress_problem(self, now: datetime) -> str:
        """What the helper that loads the rules each minute has written; nothing where the fleet has no such rules."""
        try:
            text = await asyncio.to_thread(self._egress.read_text)
            told = datetime.fromtimestamp((await asyncio.to_thread(self._egress.stat)).st_mtime, UTC)
        except FileNotFoundError:
            return ""
        if text.startswith("armed\n") and now - told < _EGRESS_OLD:
            return ""
        why = "could not be loaded" if text.startswith("open\n") else "are looked after by nobody"
        return (
            f"the packet filter's rules for VMs {why} (last told {utc(told)}), so that no VM starts; "
            "they are loaded again each minute: look at `sudo pfctl -s rules`, or reboot the Mac when no VM runs"
        )

    async def filevault_problem(self) -> str:
        if sys.platform != "darwin" or b"FileVault is On" not in await self._must("fdesetup", "status"):
            return ""
        return "FileVault is on, so that this Mac waits for a password at its next start and is lost: `sudo fdesetup disable`"

    async def machine_id(self) -> str:
        """What no other Mac has, and a reinstall leaves. Raises OSError."""
        if sys.platform != "darwin":
            return await asyncio.to_thread(_linux_id)
        found = _UUID.search(await self._must("ioreg", "-rd1", "-c", "IOPlatformExpertDevice"))
        if found is None:
            raise OSError("ioreg does not tell which Mac this is")
        return found[1].decode()

    async def _mac(self) -> HostFacts:
        boot = _BOOT.search((await self._must("sysctl", "-n", "kern.boottime")).decode())
        if boot is None:
            raise OSError("sysctl does not tell since when this Mac runs")
        return HostFacts(
            machine_id=await self.machine_id(),
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
        # The kernel's own word: computed from the clock, a clock that is set would look like a reboot.
        lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
        booted = datetime.fromtimestamp(next(int(words[1]) for words in lines if words[0] == "btime"), UTC)
        return HostFacts(
            machine_id=_linux_id(),
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
        ended = await self._run(*command)
        return ended.out if ended.code == 0 else None

    async def _run(self, *command: str) -> Ended:
        try:
            return await run_program(command, seconds=_SECONDS)
        except ProgramTimeoutError as error:
            raise OSError(str(error)) from error


def _linux_id() -> str:
    machine = Path("/etc/machine-id")
    return machine.read_text().strip() if machine.exists() else socket.gethostname()


def has_session(ended: Ended) -> bool | None:
    """Whether launchctl shows a graphical session; None where it does not tell. (pure)"""
    if ended.code == 0:
        return b"session = Aqua" in ended.out
    return False if b"Could not find domain" in ended.out + ended.err else None
