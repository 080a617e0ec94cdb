"""The journal: what the agent is about to do with each VM, written before it does it.

One folder a VM. The entry in `pod.json` names the step; the effect of the step follows the write. Whatever dies in between,
the next agent finds the intent, looks at the world, and goes on.
"""

import errno
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from paddock.base.logs import get_logger
from paddock.clients.gateway.messages import End
from paddock.node.files import Files

__all__ = ["Entry", "Exit", "Journal", "Life", "Stage", "Stop", "StopReason"]

log = get_logger("node journal")
_LARGEST_ENTRY = 256 * 1024
_BALLAST = ".ballast"
_LIFE = "life.json"
_BALLAST_BYTES = 4 * 1024 * 1024


@cache
def _ballast() -> bytes:
    """No zeros: a file system may keep those without taking any room."""
    return b"\xa5" * _BALLAST_BYTES


class Stage(StrEnum):
    """How far a Pod's VM is. Each is written before the effect that it names."""

    ACCEPTED = "accepted"
    CLONING = "cloning"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    CLEARED = "cleared"


class StopReason(StrEnum):
    """Why the agent ends a VM. There is no other reason."""

    DELETED = "Deleted"
    POD_GONE = "PodGone"
    DRAINED = "Drained"
    REFUSED = "Refused"
    NEVER_READY = "NeverReady"
    HALT_FAILED = "HaltFailed"


class Stop(msgspec.Struct, frozen=True, omit_defaults=True):
    """The recorded intent to end a VM: why, and how long the guest may take to halt by itself."""

    reason: StopReason
    grace: float
    message: str = ""


class Exit(msgspec.Struct, frozen=True):
    """What the wrapper recorded when `tart run` ended. Zero says nothing about the guest: Tart ends 0 for a crash, too."""

    code: int
    at: datetime


class Life(msgspec.Struct, frozen=True):
    """One life of the agent: `folder` is a random word of the data folder, `number` counts the agent's starts in it."""

    folder: str
    number: int


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One Pod's VM. `attempt` counts runs; `boot_id` is the host's at the newest run.

    `cluster` is the uid of the cluster whose Pod this is, empty until it is known: another cluster's word that the Pod does
    not exist says nothing. `ready_at` is when the guest first said so, `asking_at` since when dispatch is asked for its job, `cut_off_at` since when
    dispatch cannot be reached any more.
    """

    uid: str
    namespace: str
    name: str
    container: str
    image: str
    vm: str
    stage: Stage
    accepted_at: datetime
    cluster: str = ""
    cpu: int | None = None
    memory_mb: int | None = None
    seats: int = 1
    """How many VMs' places it takes: two, where no other tenant may be beside it."""
    attempt: int = 0
    softnet: bool = False
    """Whether its VM was started behind Softnet."""
    boot_id: str = ""
    started_at: datetime | None = None
    running_at: datetime | None = None
    ready_at: datetime | None = None
    asking_at: datetime | None = None
    cut_off_at: datetime | None = None
    handed_at: datetime | None = None
    stop: Stop | None = None
    end: End | None = None

    @property
    def holds_seat(self) -> bool:
        """Whether its VM may be running: from before the first run until its end is proven."""
        return self.stage in (Stage.STARTING, Stage.RUNNING)

    @property
    def asks(self) -> bool:
        """Whether it waits for a job, or had one: the guest is ready, and dispatch is asked in the Pod's name."""
        return self.handed_at is not None or (self.asking_at is not None and self.cut_off_at is None)

    @property
    def over(self) -> bool:
        return self.stage in (Stage.ENDED, Stage.CLEARED)


class Journal:
    """All entries, in memory and on disk. `put` and `forget` return once the disk has it; readers see the memory."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._root = root
        self._entries: dict[str, Entry] = {}
        self.unreadable: set[str] = set()
        """Folders whose entry does not decode: they are kept, and their VMs are not touched."""

    async def load(self) -> None:
        """Read every entry. An entry that does not decode is named in `unreadable`, and stays where it is."""
        await self._files.make_folder(self._root)
        self._entries.clear()
        self.unreadable.clear()
        for uid in await self._files.names(self._root):
            if uid == _BALLAST:
                continue
            text = await self._files.read(self._root / uid / "pod.json", _LARGEST_ENTRY)
            if text is None:
                continue  # a folder without an entry: the agent died before its first write, and nothing began
            try:
                entry = msgspec.json.decode(text, type=Entry)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                log.error("an entry of the journal cannot be read; its VM is left alone", uid=uid, why=str(error))  # noqa: TRY400
                self.unreadable.add(uid)
                continue
            self._entries[entry.uid] = entry

    @property
    def complaint(self) -> str:
        """What a person is told of entries that do not decode; empty where there are none."""
        if not self.unreadable:
            return ""
        listed = ", ".join(str(self._root / uid) for uid in sorted(self.unreadable)[:3])
        return (
            f"{len(self.unreadable)} entries of the agent's journal cannot be read ({listed}), so that their VMs are left alone: "
            "install the agent's version that wrote them, or stop each VM with tart, remove its folder and restart the agent"
        )

    def folder(self, uid: str) -> Path:
        return self._root / uid

    def get(self, uid: str) -> Entry | None:
        return self._entries.get(uid)

    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries.values())

    async def put(self, entry: Entry) -> Entry:
        """Record the entry. The caller performs the effect that it names only after this returns.

        A step towards the end of a VM finds room on a full disk, too: its end may be what frees the disk.
        """
        folder = self._root / entry.uid
        await self._write(folder, "pod.json", msgspec.json.encode(entry), last=entry.stop is not None or entry.over)
        self._entries[entry.uid] = entry
        return entry

    async def begin_life(self, word: str) -> Life:
        """Count this start of the agent, before anybody outside learns of it. `word` names a data folder that has no name yet."""
        folder = self._root.parent
        try:
            before = msgspec.json.decode(await self._files.read(folder / _LIFE, _LARGEST_ENTRY) or b"", type=Life)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            before = Life(word, 0)
        life = Life(before.folder, before.number + 1)
        await self._write(folder, _LIFE, msgspec.json.encode(life), last=True)
        return life

    async def _write(self, folder: Path, name: str, content: bytes, *, last: bool) -> None:
        """`last`: it must find room on a full disk, too."""
        try:
            await self._files.make_folder(folder)
            await self._files.write(folder / name, content)
        except OSError as error:
            if not last or error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            log.warning("the disk is full; what was kept for this is given up", file=str(folder / name))
            await self._files.remove(self._root / _BALLAST)
            await self._files.make_folder(folder)
            await self._files.write(folder / name, content)

    async def keep_ballast(self) -> None:
        """A file of a few MiB is there, to be given up when the disk is full. Where there is no room now, the next call tries."""
        try:
            if not await self._files.exists(self._root / _BALLAST):
                await self._files.write(self._root / _BALLAST, _ballast())
        except OSError as error:
            log.warning("nothing can be kept for a full disk", why=str(error))

    async def forget(self, uid: str) -> None:
        """Remove the folder. The entry's file goes first, so that a crash leaves no entry whose shares are gone."""
        folder = self._root / uid
        await self._files.remove(folder / "pod.json")
        self._entries.pop(uid, None)
        await self._files.remove(folder)
