"""The real `tart`: a program that is run, with a deadline for each command."""

import asyncio
import fcntl
import os
import re
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgspec

from paddock.base.processes import process_exists
from paddock.base.programs import Ended, ProgramTimeoutError, run_program
from paddock.node.machines import (
    Download,
    Liveness,
    PullError,
    Resources,
    Run,
    TartError,
    TartTimeoutError,
    Vm,
    VmMissingError,
    VmRunningError,
)
from paddock.node.process_table import lock_is_held, runs_vm

__all__ = ["TartProcess"]

_QUERY: Final = 30.0
_COPY: Final = 300.0
_SET: Final = 60.0
_STOP: Final = 60.0
_EXEC: Final = 15.0
_BEGIN: Final = 5.0
_STOP_TIMEOUT: Final = 30
_OPTIONS: Final = (
    "--no-graphics",
    # A clipboard that guests share with their host is one that they share with each other.
    "--no-clipboard",
    "--no-audio",
    # A clone that is thrown away needs no sync: after a power cut no clone is run again.
    "--root-disk-opts",
    "caching=cached,sync=none",
)
_WRAPPER = re.compile(r"(\d+) (.+)")


class TartProcess:
    """`program` is the path of the binary inside its app bundle; `home` is TART_HOME."""

    def __init__(
        self,
        program: Path,
        home: Path,
        *,
        options: tuple[str, ...] = _OPTIONS,
        environ: Mapping[str, str] | None = None,
        softnet: Path | None = None,
    ) -> None:
        """With `softnet`, VMs of one Mac cannot read each other's traffic; its program is found by PATH."""
        self._program = str(program)
        self._home = home
        self._options = (*options, "--net-softnet") if softnet is not None else options
        # Tart prunes the cache when it likes, and would prune images that we count on.
        base = dict(os.environ if environ is None else environ)
        if softnet is not None:
            base["PATH"] = f"{softnet.parent}{os.pathsep}{base.get('PATH', os.defpath)}"
        self._env = {**base, "TART_HOME": str(home), "TART_NO_AUTO_PRUNE": "1"}
        self._wrapper = resources.files("paddock.node").joinpath("vm-wrapper.sh").read_text()
        self._children: set[asyncio.subprocess.Process] = set()
        self._proven: dict[tuple[int, str], bool] = {}

    # Queries

    async def version(self) -> str:
        return (await self._tart("--version", seconds=_QUERY)).out.decode("utf-8", "replace").strip()

    async def machines(self) -> tuple[Vm, ...]:
        ended = await self._tart("list", "--format", "json", seconds=_QUERY)
        try:
            lines = msgspec.json.decode(ended.out, type=list[dict[str, Any]])
            return tuple(_vm(line) for line in lines)
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise TartError(f"tart list printed what cannot be read: {error}") from error

    async def began(self, name: str, run: Run) -> bool:
        del name
        return await asyncio.to_thread(os.path.lexists, run.folder / f"run.{run.attempt}")

    async def liveness(self, name: str, folder: Path) -> Liveness:
        """The cheap witness first; only a VM that seems gone costs a look at everything."""
        try:
            if await self._wrapper_lives(folder):
                return Liveness.ALIVE
            if await asyncio.to_thread(lock_is_held, self._home / "vms" / name / "config.json"):
                return Liveness.ALIVE
            table = await run_program(("ps", "-A", "-ww", "-o", "args="), seconds=_QUERY)
        except (OSError, ProgramTimeoutError, ValueError):
            return Liveness.UNKNOWN
        if table.code != 0:
            return Liveness.UNKNOWN
        return Liveness.ALIVE if runs_vm(table.out.decode("utf-8", "replace"), name) else Liveness.GONE

    async def _wrapper_lives(self, folder: Path) -> bool:
        try:
            text = await asyncio.to_thread((folder / "wrapper").read_text)
        except FileNotFoundError:
            return False
        match = _WRAPPER.fullmatch(text.strip())
        if match is None:
            return False
        pid, started = int(match[1]), match[2]
        if not process_exists(pid):
            self._proven.pop((pid, started), None)
            return False
        if (pid, started) not in self._proven:
            # Numbers are given anew: only the start time says that it is the same process. Proven once, it stays so
            # while the number exists without a gap that we would see.
            shown = await run_program(("ps", "-o", "lstart=", "-p", str(pid)), seconds=_QUERY, env=_c_locale())
            self._proven[pid, started] = shown.out.decode("utf-8", "replace").split() == started.split()
        return self._proven[pid, started]

    # Effects

    async def pull(self, image: str) -> None:
        try:
            # 90 GB take a day on a slow line: whoever waits sees by `downloads` whether it gets on.
            await self._tart("pull", image, "--concurrency", "4", seconds=None)
        except TartError as error:
            raise PullError(str(error)) from error

    async def downloads(self) -> dict[str, Download]:
        return await asyncio.to_thread(_disks_in, self._home / "tmp")

    async def flush(self, name: str) -> None:
        try:
            await asyncio.to_thread(_flush, self._home / "vms" / name)
        except FileNotFoundError as error:
            raise VmMissingError(f"the VM {name} is not there") from error
        except OSError as error:
            raise TartError(f"the disk of {name} cannot be flushed: {error.strerror}") from error

    async def clone(self, source: str, name: str) -> None:
        await self._tart("clone", source, name, seconds=_COPY)

    async def configure(self, name: str, resources: Resources) -> None:
        words = ["--random-mac", "--random-serial"]
        if resources.cpu is not None:
            words += ["--cpu", str(resources.cpu)]
        if resources.memory_mb is not None:
            words += ["--memory", str(resources.memory_mb)]
        await self._tart("set", name, *words, seconds=_SET)

    async def run(self, name: str, run: Run) -> None:
        shares = ("--dir", f"env:{run.env}:ro", "--dir", f"status:{run.status}")
        words = (self._program, "run", name, *self._options, *shares)
        try:
            # A session of its own: neither launchd's end of the agent nor a Ctrl-C reaches it.
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                self._wrapper,
                "paddock-vm",
                str(run.folder),
                str(run.attempt),
                *words,
                env=self._env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise TartError(f"the VM's wrapper cannot be started: {error.strerror}") from error
        self._children.add(process)
        asyncio.get_running_loop().create_task(self._reap(process))
        try:
            async with asyncio.timeout(_BEGIN):
                while not await self.began(name, run):  # noqa: ASYNC110 - another process makes the folder
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise TartTimeoutError(f"the wrapper of {name} did not begin within {_BEGIN:.0f} s") from None

    async def _reap(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        self._children.discard(process)

    async def execute(self, name: str, command: tuple[str, ...]) -> int:
        return (await self._run("exec", name, *command, seconds=_EXEC)).code

    async def stop(self, name: str) -> None:
        try:
            await self._tart("stop", name, "--timeout", str(_STOP_TIMEOUT), seconds=_STOP)
        except VmMissingError:
            return  # not there, or not running

    async def delete(self, name: str) -> None:
        try:
            await self._tart("delete", name, seconds=_COPY)
        except VmMissingError:
            return

    async def _tart(self, *words: str, seconds: float | None) -> Ended:
        ended = await self._run(*words, seconds=seconds)
        if ended.code == 0:
            return ended
        said = _last_line(ended.err) or _last_line(ended.out) or "without a word"
        text = f"tart {words[0]} ended with {ended.code}: {said}"
        # The code first: a text may name a VM or an image of any name.
        match ended.code:
            case 2:
                raise (VmRunningError if "already running" in said else VmMissingError)(text)
            case 1 if said.endswith("is running"):
                raise VmRunningError(text)
            case _:
                raise TartError(text)

    async def _run(self, *words: str, seconds: float | None) -> Ended:
        try:
            return await run_program((self._program, *words), seconds=seconds, env=self._env)
        except ProgramTimeoutError as error:
            raise TartTimeoutError(str(error)) from error
        except OSError as error:
            raise TartError(f"{self._program}: cannot be run: {error.strerror}") from error


def _vm(line: dict[str, Any]) -> Vm:
    # `Size` was a text in one version and a number in another: it is only shown, so what does not fit is zero.
    try:
        size = float(line.get("Size") or 0)
    except (TypeError, ValueError):
        size = 0.0
    running = bool(line.get("Running")) or line.get("State") == "running"
    return Vm(str(line["Name"]), "local" if str(line["Source"]).lower() == "local" else "OCI", running, size)


def _flush(folder: Path) -> None:
    """On a Mac fsync leaves the bytes in the drive's own memory: F_FULLFSYNC asks the drive to write them."""
    for path in (*sorted(folder.iterdir()), folder):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if sys.platform == "darwin" and path != folder:
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            else:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _disks_in(folder: Path) -> dict[str, Download]:
    """A pull writes its disk here, as long as the image from its first moment and full of holes. Nothing of VMs that run."""
    found: dict[str, Download] = {}
    try:
        for entry in os.scandir(folder):
            try:
                facts = os.lstat(Path(entry.path) / "disk.img")
            except (FileNotFoundError, NotADirectoryError):
                continue  # it was renamed to its place meanwhile
            found[f"{facts.st_ino}"] = Download(facts.st_blocks * 512, facts.st_size)
    except FileNotFoundError:
        pass
    return found


def _last_line(raw: bytes) -> str:
    lines = [line.strip() for line in raw.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _c_locale() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}
