"""The two folders that a VM shares with its host: `env`, which the guest reads, and `status`, which it writes.

`status` is hostile: a job's code may put anything there. Only regular files are read, never through a link, at most a few
kilobytes, and only words that we know are believed.

Everybody may enter both, because the guest's user need not have the number of the host's, and virtiofs may compare the two. On
the host nobody gets that far: the folders around them (the journal's, the volume's) are open to the agent's user alone.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from paddock.base.readable import readable
from paddock.base.secrets import Secret
from paddock.node.files import Files

__all__ = ["LONGEST_MESSAGE", "Guest", "GuestState", "Shares", "readable_tail"]

GuestState = str
LONGEST_MESSAGE: Final = 4096
"""Kubernetes keeps no longer termination message."""
_STATES: Final = ("booted", "ready", "job", "done")
_MARK = re.compile(r"\d{1,12} (?:waiting|starting|listening|running|finishing)")
_CODE = re.compile(r"\d{1,3}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHORT: Final = 256
_READABLE: Final = 0o644
_ENTERED: Final = 0o755
_WRITABLE: Final = 0o777


class Guest(msgspec.Struct, frozen=True):
    """What the guest says of itself. `readable` is False where the share could not be read: then nothing follows from it."""

    readable: bool = True
    state: GuestState | None = None
    rc: int | None = None
    mark: str | None = None

    @property
    def spoke(self) -> bool:
        return self.state is not None or self.rc is not None

    @property
    def ready(self) -> bool:
        return self.state in ("ready", "job", "done")


class Shares:
    """The shares of one VM. `status` may lie on another volume than `env`, one with a quota."""

    def __init__(self, files: Files, folder: Path, status: Path | None = None) -> None:
        self._files = files
        self.env = folder / "env"
        self.status = status or folder / "status"

    async def prepare(
        self, variables: Mapping[str, str], script: bytes, runner_archive: Path | None = None, *, anew: bool
    ) -> None:
        """Both folders exist, and `env` holds what the guest starts with. `anew` empties them first: a run begins clean.

        Never call it with `anew` for a VM that may run: the guest would lose its job.
        """
        if anew:
            await self._files.remove(self.env)
            await self._files.remove(self.status)
        await self._files.make_folder(self.env, mode=_ENTERED)
        await self._files.make_folder(self.status, mode=_WRITABLE)
        await self._files.write(self.env / "env", environment(variables).encode(), mode=_READABLE)
        if runner_archive is not None:
            await self._files.copy(runner_archive, self.env / "runner.tar.gz")
        # Last, because the guest starts as soon as it finds the script.
        await self._files.write(self.env / "guest.sh", script, mode=_ENTERED)

    async def hand_over(self, config: Secret) -> None:
        """Give the guest its job: one rename, so that it has the whole config or none."""
        await self._files.write(self.env / "job", config.reveal().encode() + b"\n", mode=_READABLE)

    async def handed(self) -> bool:
        return await self._files.exists(self.env / "job")

    async def take_back(self) -> None:
        """The runner has its config: nothing in the VM needs to read it again."""
        await self._files.remove(self.env / "job")

    async def ask_to_halt(self) -> None:
        await self._files.write(self.env / "stop", b"stop\n", mode=_READABLE)

    async def guest(self) -> Guest:
        """What the guest says now. Never raises: a share that cannot be read is `readable=False`."""
        try:
            state = _word(await self._files.read(self.status / "state", _SHORT))
            code = _word(await self._files.read(self.status / "rc", _SHORT))
            mark = _word(await self._files.read(self.status / "mark", _SHORT))
        except OSError:
            return Guest(readable=False)
        return Guest(
            state=state if state in _STATES else None,
            rc=int(code) if _CODE.fullmatch(code) and int(code) < 256 else None,
            mark=mark if _MARK.fullmatch(mark) else None,
        )

    async def log(self, limit: int) -> bytes | None:
        """The last `limit` bytes of the guest's log, raw; None where there is none, OSError where it cannot be read."""
        return await self._files.tail(self.status / "log", limit)

    async def log_part(self, first: int, limit: int) -> tuple[int, bytes] | None:
        """The size of the guest's log and bytes of it from `first` on, raw; None and OSError as for `log`."""
        return await self._files.part(self.status / "log", first, limit)

    async def log_tail(self) -> str:
        """The end of the guest's log as text that may be shown to anybody; empty where there is none."""
        try:
            return readable_tail(await self._files.tail(self.status / "log", LONGEST_MESSAGE) or b"")
        except OSError:
            return ""

    async def remove(self) -> None:
        """Both folders are gone: no share outlives its VM."""
        await self._files.remove(self.env)
        await self._files.remove(self.status)


def environment(variables: Mapping[str, str]) -> str:
    """Lines `NAME='value'` for sh to source; a value may hold anything but a zero byte."""
    lines = [
        f"{name}='{value.replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))}'"
        for name, value in variables.items()
        if _VARIABLE.fullmatch(name) and "\0" not in value
    ]
    return "".join(f"{line}\n" for line in lines)


def readable_tail(raw: bytes, limit: int = LONGEST_MESSAGE) -> str:
    """The end of a log without control characters (a terminal obeys them), at most `limit` bytes of UTF-8."""
    return readable(raw).encode()[-limit:].decode("utf-8", "ignore")


def _word(raw: bytes | None) -> str:
    return (raw or b"").decode("ascii", "replace").strip()
