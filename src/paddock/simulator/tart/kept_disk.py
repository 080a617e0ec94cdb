"""A simulated Mac's disk as the agent, Tart and guests use it: in memory, and in the Mac's own folder for the next start."""

import shutil
from dataclasses import fields
from pathlib import Path
from typing import Final

import msgspec

from paddock.simulator.mac.calls import Log
from paddock.simulator.mac.disk import Disk
from paddock.simulator.tart.disk import SimulatedDisk
from paddock.simulator.tart.machines import Ledger, SimulatedTart, _Machine

__all__ = ["KeptDisk", "KeptTart"]

_FLEETING: Final = frozenset({"guest.sh", "log", "mark", ".ballast"})
"""Rewritten at every start, or every few seconds: nothing is decided from them after a power cut."""

_REMEMBERED: Final = 100


class KeptDisk(SimulatedDisk):
    """What is below `data` is in the Mac's files, too, and there again when the simulation is started anew."""

    def __init__(self, disk: Disk, data: Path) -> None:
        super().__init__()
        self._mac = disk
        self._data = data
        self._loaded = False
        place = disk.at(str(data))
        for each in sorted(place.rglob("*")) if place.is_dir() else []:
            path = data / each.relative_to(place)
            if each.is_dir():
                self.folders.update([path, *path.parents])
            elif not each.name.endswith(".draft"):
                self.put(path, each.read_bytes())
        self._loaded = True

    async def make_folder(self, path: Path, *, mode: int = 0o700) -> None:
        await super().make_folder(path, mode=mode)
        self._make_place(path)

    def make(self, path: Path) -> bool:
        made = super().make(path)
        self._make_place(path)
        return made

    def put(self, path: Path, content: bytes) -> None:
        super().put(path, content)
        if not self._loaded or not self._kept(path) or path.name in _FLEETING:
            return
        place = self._mac.at(str(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.draft")
        draft.write_bytes(content)
        draft.chmod(0o600)
        draft.replace(place)

    def _make_place(self, path: Path) -> None:
        if self._kept(path):
            self._mac.at(str(path)).mkdir(parents=True, exist_ok=True)

    def _drop(self, path: Path) -> None:
        super()._drop(path)
        if self._kept(path):
            place = self._mac.at(str(path))
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
            else:
                place.unlink(missing_ok=True)

    def _kept(self, path: Path) -> bool:
        return self._data in path.parents


class KeptTart(SimulatedTart):
    """Images and VMs lie on the Mac's disk: a power cut ends what runs, and none of them is lost. `book` lists them."""

    book: Path
    kept: KeptDisk

    def keep(self, disk: KeptDisk, book: Path) -> None:
        """Have what the book lists, and write each change into it from now on."""
        self.kept, self.book = disk, book
        # Nobody judges this Mac afterwards, and it may run for weeks.
        self.ledger = Ledger(**{each.name: Log(_REMEMBERED) for each in fields(Ledger)})
        if (content := disk.files.get(book)) is not None:
            images, vms = msgspec.json.decode(content, type=tuple[list[str], dict[str, str]])
            self.cache.update(images)
            self.vms.update({name: _Machine(name, source) for name, source in vms.items()})

    async def pull(self, image: str) -> None:
        await super().pull(image)
        self._note()

    async def clone(self, source: str, name: str) -> None:
        await super().clone(source, name)
        self._note()

    async def delete(self, name: str) -> None:
        await super().delete(name)
        self._note()

    def _note(self) -> None:
        vms = {name: vm.source for name, vm in self.vms.items()}
        self.kept.put(self.book, msgspec.json.encode((sorted(self.cache), vms)))
