"""What is on a simulated Mac's disk: real files in a folder that stands for `/`, and what their owners would be.

A reinstall is a new disk. Everything a reboot leaves alone is here, everything else is in `Volatile`.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from paddock.simulator.mac import factory

__all__ = ["Disk", "FileChange", "User"]

_LINKED = ("/etc", "/tmp", "/var")  # noqa: S108 - names on the simulated disk
_FREE = ("/tmp", "/var/tmp", "/var/folders", "/Users/Shared")  # noqa: S108 - as above
_MEMORY = "disk.json"


@dataclass(slots=True)
class User:
    name: str
    uid: int
    password: str
    shell: str = "/bin/zsh"

    @property
    def home(self) -> str:
        return f"/Users/{self.name}"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A path that was created, changed or removed between two looks at the disk."""

    path: str
    what: str


class _Entry(NamedTuple):
    """What tells one state of a path from another. A plain tuple, because a look makes a hundred of them."""

    mode: int
    size: int
    written: int
    inode: int


class _Memory(msgspec.Struct, kw_only=True):
    install: int
    users: dict[str, User]
    owners: dict[int, tuple[str, str]]
    disabled_jobs: set[str]
    signatures: dict[int, str]
    names: dict[str, str]
    power: dict[str, str]
    screen_lock: bool = True
    filevault: bool = False


@dataclass(slots=True)
class Disk:
    """The disk after one install. `owners` holds, by inode, what differs from the rule that homes belong to their users
    and everything else to root; so an owner goes with a file that is moved.
    """

    root: Path
    users: dict[str, User]
    install: int = 1
    owners: dict[int, tuple[str, str]] = field(default_factory=dict)
    disabled_jobs: set[str] = field(default_factory=set)
    signatures: dict[int, str] = field(default_factory=dict)
    """Inode → digest of what the kernel last saw signed there: an overwritten program is killed at its next start."""
    names: dict[str, str] = field(default_factory=dict)
    power: dict[str, str] = field(default_factory=lambda: dict(factory.POWER))
    screen_lock: bool = True
    filevault: bool = False
    _looked: dict[str, _Entry] = field(default_factory=dict)

    @classmethod
    def installed(cls, folder: Path, user: str, password: str, keys: list[str], *, install: int) -> "Disk":
        """A factory-fresh disk, with the project's keys where the cloud puts them; what was in the folder is gone."""
        root = folder / "root"
        if root.exists():
            shutil.rmtree(root)
        users = {user: User(user, 501, password), "root": User("root", 0, "", "/bin/sh")}
        disk = cls(root=root, users=users, install=install)
        root.mkdir(parents=True)
        for name in factory.FOLDERS:
            (root / name.format(user=user)).mkdir()
        for name, target in factory.LINKS.items():
            (root / name).symlink_to(target)
        for name, content in factory.FILES.items():
            (root / name).write_text(content)
        (root / "etc/sudoers").chmod(0o440)
        ssh = root / "Users" / user / ".ssh"
        ssh.chmod(0o700)
        (ssh / "authorized_keys").write_text("")
        (ssh / "scw_authorized_keys").write_text("".join(f"{key}\n" for key in keys))
        disk.look()
        disk.remember()
        return disk

    @classmethod
    def restored(cls, folder: Path, install: int) -> "Disk | None":
        """The disk that an earlier process left in the folder, or None where there is none of this install."""
        place = folder / _MEMORY
        if not place.is_file():
            return None
        memory = msgspec.json.decode(place.read_bytes(), type=_Memory)
        if memory.install != install or not (folder / "root").is_dir():
            return None
        disk = cls(folder / "root", **{name: getattr(memory, name) for name in memory.__struct_fields__})
        disk.look()
        return disk

    def remember(self) -> None:
        """Write down what the files themselves do not say."""
        memory = _Memory(**{name: getattr(self, name) for name in _Memory.__struct_fields__})
        place = self.root.parent / _MEMORY
        content = msgspec.json.encode(memory)
        if not place.is_file() or place.read_bytes() != content:
            place.write_bytes(content)
            place.chmod(0o600)

    # Paths

    def shown(self, path: str) -> str:
        """The path as the Mac knows it: without the folder that stands for `/`, and without `/private`."""
        prefix = str(self.root)
        if path == prefix or path.startswith(prefix + "/"):
            path = path[len(prefix) :] or "/"
        path = os.path.normpath(path)
        if path.startswith("/private/") and path[len("/private") :].startswith(tuple(f"{name}/" for name in _LINKED)):
            return path[len("/private") :]
        return path

    def at(self, path: str) -> Path:
        """Where a path of the Mac really is; paths that already lead into the folder are taken as they are."""
        return self.root / self.shown(path).lstrip("/")

    def owner(self, path: str) -> tuple[str, str]:
        try:
            known = self.owners.get(self.at(path).lstat().st_ino)
        except (FileNotFoundError, NotADirectoryError):
            known = None
        return self._usual_owner(self.shown(path)) if known is None else known

    def own(self, path: str, user: str, group: str) -> None:
        self.owners[self.at(path).lstat().st_ino] = (user, group)

    def _usual_owner(self, shown: str) -> tuple[str, str]:
        person = next(user for user in self.users.values() if user.uid != 0)
        if shown == person.home or shown.startswith(person.home + "/") or _temporary(shown):
            return person.name, "staff"
        return "root", "wheel"

    def free_for(self, path: str, user: str) -> bool:
        """Whether that user may write there without sudo."""
        shown = self.shown(path)
        home = f"/Users/{user}"
        folder = shown.rpartition("/")[0] or "/"
        return _temporary(shown) or shown.startswith(home + "/") or self.owner(folder)[0] == user

    # What changed

    def look(self, actor: str | None = None) -> list[FileChange]:
        """What has changed since the last look, temporary folders aside. New files belong to the one who made them."""
        seen = self._scan()
        before, self._looked = self._looked, seen
        places = {entry.inode: path for path, entry in before.items()}
        changes = [FileChange(path, "removed") for path in before.keys() - seen.keys()]
        for path, entry in seen.items():
            old = before.get(path)
            if old is None or old.inode != entry.inode:
                self._assign(path, entry.inode, places.get(entry.inode), actor)
            if old is None:
                changes.append(FileChange(path, "created"))
            elif old != entry:
                changes.append(FileChange(path, "mode" if _only_mode(old, entry) else "written"))
        present = {entry.inode for entry in seen.values()}
        self.owners = {inode: owner for inode, owner in self.owners.items() if inode in present}
        return sorted((change for change in changes if not _temporary(change.path)), key=lambda change: change.path)

    def _assign(self, path: str, inode: int, source: str | None, actor: str | None) -> None:
        """Settle whose a file is that was not there: whoever was told so, the owner it came with, or its maker."""
        if inode in self.owners:
            return
        usual = self._usual_owner(path)
        if source is not None:
            owner = self._usual_owner(source)
        elif actor is not None:
            owner = (actor, "wheel" if actor == "root" else "staff")
        else:
            return
        if owner[0] != usual[0]:
            self.owners[inode] = owner

    def _scan(self) -> dict[str, _Entry]:
        found: dict[str, _Entry] = {}
        pending = [(str(self.root), ""), (f"{self.root}/private", "")]
        while pending:
            folder, shown = pending.pop()
            try:
                entries = list(os.scandir(folder))
            except (FileNotFoundError, NotADirectoryError):
                continue  # removed by a script while we look
            for entry in entries:
                name = f"{shown}/{entry.name}"
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    # A folder changes with each file in it; the file's own change tells that.
                    found[name] = _Entry(facts.st_mode, 0, 0, facts.st_ino)
                    if name != "/private":
                        pending.append((entry.path, name))
                elif name not in _LINKED:
                    found[name] = _Entry(facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ino)
        return found


def _temporary(shown: str) -> bool:
    return any(shown == place or shown.startswith(place + "/") for place in _FREE)


def _only_mode(old: _Entry, new: _Entry) -> bool:
    return (old.size, old.written, old.inode) == (new.size, new.written, new.inode)
