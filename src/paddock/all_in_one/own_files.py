"""Whether the files that this process was started from are still those: an update of the checkout or of its environment replaces them,
and from then on parts fail that nobody would connect with it (Postgres misses its libraries, a module is loaded late).
"""

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Final

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.http.concern import Concern

__all__ = ["OwnFiles", "loaded_files", "replaced_concern", "stamps"]

log = get_logger("up")
_EVERY: Final = 30.0

Stamp = tuple[int, int, int]


def loaded_files(modules: Iterable[ModuleType]) -> frozenset[Path]:
    """The files of Paddock's modules that are loaded, and one file of each library."""
    named = ((module.__name__, getattr(module, "__file__", None)) for module in modules)
    return frozenset(Path(file) for name, file in named if file and (name.startswith("paddock.") or "." not in name))


def stamps(files: Iterable[Path]) -> dict[Path, Stamp | None]:
    """What each file is now; None for one that is gone."""
    return {file: _stamp(file) for file in files}


def _stamp(file: Path) -> Stamp | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class OwnFiles:
    """What became of them, at the last look. It is logged once, and shown for as long as it is so."""

    def __init__(self, clock: Clock, before: Mapping[Path, Stamp | None]) -> None:
        self._clock = clock
        self._before = before
        self._concern: Concern | None = None

    @classmethod
    def of_this_process(cls, clock: Clock) -> "OwnFiles":
        return cls(clock, stamps(loaded_files(tuple(sys.modules.values()))))

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY)
            self.judge(await asyncio.to_thread(stamps, self._before))

    def judge(self, now: Mapping[Path, Stamp | None]) -> None:
        known, self._concern = self._concern, replaced_concern(self._before, now, self._concern, self._clock.now())
        if self._concern is not None and known is None:
            log.error(self._concern.found, remedy=self._concern.fix)

    def concerns(self) -> Sequence[Concern]:
        return [] if self._concern is None else [self._concern]


def replaced_concern(
    before: Mapping[Path, Stamp | None], now: Mapping[Path, Stamp | None], known: Concern | None, moment: datetime
) -> Concern | None:
    """What it means that files of a process that runs are not what they were; None where they are.  (pure)"""
    changed = sorted(file for file, stamp in before.items() if stamp is not None and now.get(file) != stamp)
    if not changed:
        return None
    what = "removed" if all(now.get(file) is None for file in changed) else "replaced"
    found = f"{len(changed)} files that Paddock was started from were {what} ({changed[0]}), so parts of it may fail"
    since = known.since if known is not None else moment
    return Concern(about="own files", found=found, fix="stop it and start it again", weight="soon", since=since)
