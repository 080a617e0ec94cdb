"""What is remembered of goldens: the image that each holds, when a Pod last wanted it, and whether its disk can be trusted.

The book saves work: a golden that it does not know is used, and one that it distrusts is fetched anew.
"""

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from paddock.base.clock import Clock
from paddock.base.explanation import span
from paddock.base.logs import get_logger
from paddock.node.files import Files
from paddock.node.names import golden_name

__all__ = ["SETTLED_AFTER", "GoldenBook", "Kept", "distrusted_for"]

log = get_logger("goldens")
SETTLED_AFTER: Final = timedelta(hours=1)
"""A golden that is so old when the Mac loses its power has no holes left."""
_USED_AGAIN: Final = timedelta(minutes=5)
_LARGEST: Final = 1 << 20


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """One golden. `whole` is False from before its pull until its disk is flushed; `boot_id` is that of the boot in which it was
    made, until it has settled; `closed` says that the agent ended in order, as before an orderly shutdown.
    """

    image: str
    used_at: datetime
    whole: bool = True
    made_at: datetime | None = None
    boot_id: str = ""
    closed: bool = False
    tart: str = ""


def distrusted_for(kept: Kept, boot_id: str, tart: str) -> str:
    """Why a golden, and the cached image with which it shares its blocks, is fetched anew; empty where it is used."""
    if kept.boot_id and kept.boot_id != boot_id and not (kept.whole and kept.closed):
        made = f"{span(SETTLED_AFTER)} old" if kept.whole else "whole"
        return f"the Mac went down before it was {made}, so that its disk may have holes"
    was, now = _numbers(kept.tart), _numbers(tart)
    if was and now and now < was:
        return f"Tart {kept.tart} made it, and the older {tart} may fail on it"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)+", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


class GoldenBook:
    """The book of one Mac. What cannot be written is remembered until the agent ends."""

    def __init__(self, files: Files, path: Path, clock: Clock, *, boot_id: str, tart: str) -> None:
        self._files = files
        self._path = path
        self._clock = clock
        self._boot_id = boot_id
        self._tart = tart
        self._kept: dict[str, Kept] = {}
        self._distrusted: dict[str, str] = {}

    async def load(self) -> None:
        text = await self._files.read(self._path, _LARGEST)
        try:
            self._kept = msgspec.json.decode(text, type=dict[str, Kept]) if text else {}
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._kept = {}  # a day is counted anew, no more
        whys = {name: distrusted_for(kept, self._boot_id, self._tart) for name, kept in self._kept.items()}
        self._distrusted = {name: why for name, why in whys.items() if why}
        for name, kept in self._kept.items():
            if kept.closed and kept.boot_id == self._boot_id:
                self._kept[name] = replace(kept, closed=False)
            elif kept.closed and name not in self._distrusted:
                self._kept[name] = replace(kept, closed=False, boot_id="")
        if self._kept:
            await self._write()

    def __contains__(self, name: object) -> bool:
        return name in self._kept

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._kept)

    @property
    def distrusted(self) -> dict[str, str]:
        """By golden: why it is to be fetched anew."""
        return self._distrusted

    def usable(self, name: str) -> bool:
        kept = self._kept.get(name)
        return name not in self._distrusted and kept is not None and kept.whole

    def image_of(self, name: str) -> str:
        return self._kept[name].image if name in self._kept else ""

    def since(self, name: str) -> datetime:
        """When the golden was last used."""
        return self._kept[name].used_at if name in self._kept else self._clock.now()

    def found(self, name: str) -> None:
        """A golden that nobody remembers was flushed just now. Its day begins. It is no young one: each pull is booked first."""
        self._kept[name] = Kept("", self._clock.now(), tart=self._tart)

    async def begin(self, image: str) -> None:
        """Its pull is about to begin."""
        await self._put(Kept(image, self._clock.now(), whole=False, boot_id=self._boot_id, tart=self._tart))

    async def finish(self, image: str) -> None:
        """It is pulled, cloned and flushed."""
        now = self._clock.now()
        await self._put(Kept(image, now, made_at=now, boot_id=self._boot_id, tart=self._tart))

    async def used(self, image: str) -> None:
        """A Pod was cloned from it just now."""
        kept, now = self._kept.get(golden_name(image)), self._clock.now()
        if kept is None or not kept.image or now - kept.used_at > _USED_AGAIN:
            await self._put(replace(kept, image=image, used_at=now) if kept is not None else Kept(image, now))

    async def forget(self, name: str) -> None:
        self._distrusted.pop(name, None)
        if self._kept.pop(name, None) is not None:
            await self._write()

    async def settle(self) -> None:
        """What has been whole for long enough outlives a power cut from now on."""
        limit = self._clock.now() - SETTLED_AFTER
        old = {
            name: replace(kept, boot_id="")
            for name, kept in self._kept.items()
            if kept.boot_id == self._boot_id and kept.whole and (kept.made_at or limit) <= limit
        }
        if old:
            self._kept |= old
            await self._write()

    async def close(self) -> None:
        """The agent ends in order. A Mac that shuts down in order writes its disks before it does."""
        if self._kept:
            self._kept = {name: replace(kept, closed=kept.whole) for name, kept in self._kept.items()}
            await self._write()

    async def _put(self, kept: Kept) -> None:
        self._kept[golden_name(kept.image)] = kept
        await self._write()

    async def _write(self) -> None:
        """A disk that is full must not hold up a pull, a Pod or making room."""
        try:
            await self._files.write(self._path, msgspec.json.encode(self._kept))
        except OSError as error:
            log.warning("the book of the goldens is not written", why=str(error))
