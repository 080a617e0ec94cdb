"""Seats for VMs that macOS does not give back: its kernel counts VMs that are gone, until the Mac boots."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from paddock.base.clock import Clock
from paddock.base.explanation import utc
from paddock.base.logs import get_logger
from paddock.node.files import Files
from paddock.node.host import HostFacts

__all__ = ["KERNEL_SEATS", "Leak", "SeatLeaks", "leaked_seats", "refused_for_limit"]

log = get_logger("seats")
KERNEL_SEATS: Final = 2
"""So many macOS VMs the kernel runs at once."""
_REMEMBERED: Final = timedelta(days=1)
_LARGEST: Final = 1 << 16


class Leak(msgspec.Struct, frozen=True):
    """`seats` that were lost at once, in which boot of which macOS."""

    at: datetime
    boot_id: str
    os: str
    seats: int


def refused_for_limit(complaint: str) -> bool:
    return "exceeds the system limit" in complaint


def leaked_seats(alive: int) -> int:
    """How many seats are lost, where the kernel refuses one more VM beside so many that live."""
    return max(0, KERNEL_SEATS - alive)


class SeatLeaks:
    """The leaks of one Mac: those of this boot cost seats, those of the last day say how often it happens."""

    def __init__(self, files: Files, path: Path, clock: Clock, host: HostFacts) -> None:
        self._files = files
        self._path = path
        self._clock = clock
        self._host = host
        self._leaks: tuple[Leak, ...] = ()

    async def load(self) -> None:
        text = await self._files.read(self._path, _LARGEST)
        try:
            self._leaks = msgspec.json.decode(text, type=tuple[Leak, ...]) if text else ()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._leaks = ()  # the next refusal tells again

    @property
    def seats(self) -> int:
        """What this boot has lost."""
        return sum(each.seats for each in self._leaks if each.boot_id == self._host.boot_id)

    async def note(self, seats: int) -> int:
        """So many are lost in all. Gives how many of them were not known; what is known stays until the Mac boots."""
        new = seats - self.seats
        if new <= 0:
            return 0
        now = self._clock.now()
        leak = Leak(now.replace(microsecond=0), self._host.boot_id, self._host.os_image, new)
        kept = (each for each in self._leaks if each.boot_id == self._host.boot_id or now - each.at < _REMEMBERED)
        self._leaks = (*kept, leak)
        log.warning("macOS did not give seats for VMs back", seats=seats, os=leak.os)
        try:
            await self._files.write(self._path, msgspec.json.encode(self._leaks))
        except OSError as error:
            log.warning("the leaked seats are not written", why=str(error))
        return new

    def now(self) -> str:
        """What the Mac lacks until it boots; empty where it lacks nothing."""
        if not self.seats:
            return ""
        since = min(each.at for each in self._leaks if each.boot_id == self._host.boot_id)
        return (
            f"{self._host.os_image} counts {_vms(self.seats)} that {'is' if self.seats == 1 else 'are'} gone since {utc(since)}, "
            f"so that the Mac runs {max(0, KERNEL_SEATS - self.seats)}: a reboot gives the rest back, and comes as soon as no job runs there"
        )

    def often(self) -> str:
        """A macOS that loses more than one seat a day, by its build; empty where none does."""
        now = self._clock.now()
        lately = [each for each in self._leaks if now - each.at < _REMEMBERED]
        for os in {each.os: None for each in lately}:
            lost = sum(each.seats for each in lately if each.os == os)
            if lost > 1:
                return (
                    f"{os} did not give {lost} seats for VMs back within a day: use another build of macOS on this Mac"
                )
        return ""


def _vms(count: int) -> str:
    return "1 VM" if count == 1 else f"{count} VMs"
