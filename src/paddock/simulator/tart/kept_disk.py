"""The agent's part of a simulated Mac's disk: in memory for guests, and in the Mac's own folder for what must outlive us."""

import shutil
from pathlib import Path
from typing import Final

from paddock.simulator.mac.disk import Disk
from paddock.simulator.tart.disk import SimulatedDisk

__all__ = ["KeptDisk"]

_SHARES: Final = frozenset({"env", "status"})


class KeptDisk(SimulatedDisk):
    """Journal and book of goldens are files of the Mac, there again when the simulation is started anew.

    What is in a share belongs to a VM, and VMs end with this process as in a power cut: it stays in memory.
    """

    def __init__(self, disk: Disk, data: Path) -> None:
        super().__init__()
        self._mac = disk
        self._data = data
        place = disk.at(str(data))
        for file in sorted(place.rglob("*")) if place.is_dir() else []:
            path = data / file.relative_to(place)
            if self._kept(path) and file.is_file():
                self.put(path, file.read_bytes())

    async def write(self, path: Path, content: bytes, *, mode: int = 0o600) -> None:
        await super().write(path, content, mode=mode)
        if self._kept(path):
            place = self._mac.at(str(path))
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = place.with_name(f".{place.name}.draft")
            draft.write_bytes(content)
            draft.chmod(mode)
            draft.replace(place)

    async def remove(self, path: Path) -> None:
        await super().remove(path)
        if self._kept(path):
            place = self._mac.at(str(path))
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
            else:
                place.unlink(missing_ok=True)

    def _kept(self, path: Path) -> bool:
        return self._data in path.parents and not _SHARES & set(path.relative_to(self._data).parts)
