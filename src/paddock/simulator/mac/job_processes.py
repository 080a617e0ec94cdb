"""Kept-alive jobs of a simulated Mac as real processes: what launchd would run is run, and run again when it ends.

A process here has no disk of its own, so its absolute paths are led into the Mac's: in its arguments, and in `HOME`. It finds
the Mac's programs by `ROOT`, as every script of a simulated Mac does. All processes are of one account, so what the Mac's own
kernel would refuse is asked of the Mac's disk before the start: a folder that the job's user does not own cannot be written.
"""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from paddock.simulator.mac.launchd import Launchd, LaunchdHost, LoadedJob

__all__ = ["JobProcesses", "JobsHost"]

_PATH_ARGUMENT = re.compile(r"(?P<flag>--[a-z-]+=)?(?P<path>/[^:]*)")
_WRITTEN = ("--data", "--shares")
_LOOK = 0.1


class JobsHost(LaunchdHost, Protocol):
    """A Mac whose jobs may run for real."""

    powered: bool
    launchd: Launchd


class JobProcesses:
    """Set it as a Mac's `job_keeper`, and call `end` when the Mac goes down.

    `moved` leads folders of the Mac to other places than its disk: what a process writes all the time there would look as if
    some script had written it. `more` holds further arguments by label. `throttle` is launchd's wait between two starts.
    """

    def __init__(
        self,
        mac: JobsHost,
        *,
        moved: Mapping[str, Path] | None = None,
        more: Mapping[str, Sequence[str]] | None = None,
        throttle: float = 1.0,
    ) -> None:
        self._mac = mac
        self._moved = dict(moved or {})
        self._more = dict(more or {})
        self._throttle = throttle
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.respawns = True
        """False lets a job that ended stay down, as a launchd that takes its time would."""

    def pid(self, label: str) -> int | None:
        """The process of a job, while it runs."""
        process = self._running.get(label)
        return None if process is None or process.poll() is not None else process.pid

    def start(self, job: LoadedJob) -> None:
        self.stop(job)
        log = self._at(str(job.settings.get("StandardOutPath") or "/dev/null"))
        log.parent.mkdir(parents=True, exist_ok=True)
        words = [*map(self._led, job.program), *self._more.get(job.label, ())]
        if refusal := self._refusal(job):
            words = ["/bin/sh", "-c", 'echo "$0" >&2; exit 1', refusal]
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - the Mac's own plist names it
                words,
                cwd=self._mac.disk.root,
                env=self._environment(job),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running[job.label] = process
        job.pid, job.exit_status = process.pid, None
        self._mac.chore(self._watch(job, process))

    def stop(self, job: LoadedJob) -> None:
        """End the job's process group, at once. What moved to a session of its own goes on, as on a Mac."""
        process = self._running.pop(job.label, None)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            job.pid = None

    def end(self) -> None:
        """The Mac goes dark: whatever runs with this Mac's disk as its root is gone, sessions of its own included."""
        self._running.clear()
        mark = f"ROOT={self._mac.disk.root}".encode()
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if process.name.isdigit() and mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)

    async def _watch(self, job: LoadedJob, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None:  # noqa: ASYNC110 - a process of its own tells no event loop
            await asyncio.sleep(_LOOK)
        if self._running.get(job.label) is not process:
            return
        job.pid, job.exit_status = None, process.returncode
        await asyncio.sleep(self._throttle)
        while not self.respawns:  # noqa: ASYNC110 - a test sets it
            await asyncio.sleep(_LOOK)
        if self._running.get(job.label) is process and self._mac.powered:
            self._mac.launchd.start(job)

    def _led(self, word: str) -> str:
        form = _PATH_ARGUMENT.fullmatch(word)
        return word if form is None else f"{form['flag'] or ''}{self._at(form['path'])}"

    def _at(self, path: str) -> Path:
        for prefix, place in self._moved.items():
            if path == prefix or path.startswith(f"{prefix}/"):
                return place / path[len(prefix) :].lstrip("/")
        return self._mac.disk.at(path)

    def _refusal(self, job: LoadedJob) -> str:
        user = str(job.settings.get("UserName") or "root")
        for word in job.program if user != "root" else ():
            flag, _, path = word.partition("=")
            if flag not in _WRITTEN:
                continue
            place = path
            while not self._mac.disk.at(place).exists():
                place = place.rpartition("/")[0] or "/"
            if self._mac.disk.owner(place)[0] != user:
                return f"{path}: Permission denied ({place} is not {user}'s)"
        return ""

    def _environment(self, job: LoadedJob) -> dict[str, str]:
        given = job.settings.get("EnvironmentVariables") or {}
        environment = {str(name): str(value) for name, value in given.items()}
        root = str(self._mac.disk.root)
        if home := environment.get("HOME"):
            environment["HOME"] = str(self._mac.disk.at(home))
        environment["PATH"] = f"{root}/usr/local/bin:{environment.get('PATH', '/usr/bin:/bin')}"
        return {**environment, "ROOT": root}
