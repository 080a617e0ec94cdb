"""A pull beside VMs that run: it may take hours and the disk's free space, but neither the last of the space nor ever a standstill."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from paddock.base.clock import Clock
from paddock.base.explanation import span
from paddock.base.tasks import end as end_task
from paddock.node.host import Disk
from paddock.node.machines import Download, PullError, Tart, TartError

__all__ = ["SCARCE", "SILENCE", "Progress", "ended_for", "grown", "pull_beside_vms"]

SCARCE: Final = 0.05
"""Below this share of free space a pull is given up: the rest is for the VMs that run."""
SILENCE: Final = 600.0
"""A pull of which nothing arrives for so long has come to a standstill. However long it takes in all is no reason to end it."""
_LOOK_EVERY: Final = 5.0
_RESUMED: Final = 5
_GB: Final = 10**9


class Progress(msgspec.Struct, frozen=True):
    """How a pull is: what is on the disk of how much at most, the seconds it has taken, and since it last grew."""

    here: int = 0
    size: int = 0
    lasted: float = 0.0
    quiet: float = 0.0

    def __str__(self) -> str:
        """`12.3 of at most 50.0 GB are here`: an image's disk has holes, which never arrive. Empty while nothing is known."""
        return f"{self.here / _GB:.1f} of at most {self.size / _GB:.1f} GB are here" if self.size else ""


def ended_for(progress: Progress, disk: Disk | None) -> str:
    """Why a pull is ended before its time; empty where it goes on. A disk that could not be looked at is no reason."""
    if disk is not None and disk.free_share < SCARCE:
        return f"the pull left less than {SCARCE:.0%} of the disk free, and was ended: free some space"
    if progress.quiet >= SILENCE:
        so_far = f" ({progress})" if progress.size else ""
        return f"nothing of the image has arrived for {span(SILENCE)}{so_far}, so that the pull was ended"
    return ""


def grown(before: Mapping[str, Download], now: Mapping[str, Download]) -> bool:
    """Whether a disk that was there grew. One that is new says nothing: a clone is whole from its first moment."""
    return any(name in before and each.here > before[name].here for name, each in now.items())


async def pull_beside_vms(
    tart: Tart,
    image: str,
    look: Callable[[], Awaitable[Disk]],
    clock: Clock,
    told: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Pull the image and look at it and the disk meanwhile. PullError where the pull fails or was ended.

    A pull that got on before it broke off is repeated at once: Tart goes on with what is there until its next other command
    has cleared it away.
    """
    for left in range(_RESUMED, -1, -1):
        pull = _Pull(tart, image, look, clock, told)
        try:
            await pull.run()
        except PullError:
            if not pull.grew or pull.scarce or not left:
                raise
        else:
            return


class _Pull:
    """One call of `tart pull`."""

    def __init__(
        self,
        tart: Tart,
        image: str,
        look: Callable[[], Awaitable[Disk]],
        clock: Clock,
        told: Callable[[Progress], None],
    ) -> None:
        self._tart = tart
        self._image = image
        self._look = look
        self._clock = clock
        self._told = told
        self.grew = False
        self.scarce = False

    async def run(self) -> None:
        pull, why = asyncio.create_task(self._tart.pull(self._image), name=f"pull of {self._image}"), ""
        began = moved = self._clock.monotonic()
        seen: Mapping[str, Download] = {}
        disk: Disk | None = None
        try:
            while not why:
                await asyncio.wait([pull], timeout=_LOOK_EVERY)
                if pull.done():
                    break
                now, disk = self._clock.monotonic(), None
                try:
                    before, seen = seen, await self._tart.downloads()
                    if grown(before, seen):
                        self.grew, moved = True, now
                    disk = await self._look()
                except (TartError, OSError):
                    moved = now  # what could not be looked at is no standstill
                here = max(seen.values(), key=lambda each: each.size, default=Download(0, 0))
                progress = Progress(here.here, here.size, now - began, now - moved)
                self._told(progress)
                why = ended_for(progress, disk)
        finally:
            await end_task(pull)
        if not why or not pull.cancelled():
            return pull.result()
        if disk is not None and disk.free_share < SCARCE:
            self.scarce = True
            # Tart removes what a killed pull left with its next command.
            with suppress(TartError, OSError):
                await self._tart.machines()
                await self._look()
        raise PullError(why)
