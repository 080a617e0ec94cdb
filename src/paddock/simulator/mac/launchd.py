"""Jobs on a simulated Mac: what is loaded in which domain, what runs, and why something does not.

A job that is kept alive stands for a program that would run for ever, so it is not really started, unless the Mac has a
`JobKeeper`: it runs if its program is there, can be executed and has a valid signature. A job that does its work and ends is really run, with bash or as the
stand-in it names, so that what a boot does to the Mac is what the files on its disk say.
"""

import hashlib
import plistlib
import xml.parsers.expat
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from paddock.simulator.mac.execution import CommandExecution, ExecutionHost
from paddock.simulator.mac.factory import SYSTEM_JOBS

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["JobKeeper", "Launchd", "LaunchdHost", "LoadedJob", "read_plist"]

# Beyond what any real machine gives out, so that a script that signals one of these never hits a process of ours.
_FIRST_PID = 5_000_000
_SHELLS = {"/bin/bash", "/bin/sh", "/bin/zsh"}
_OF_THE_SYSTEM = ("/sbin/", "/bin/", "/usr/bin/", "/usr/sbin/", "/usr/libexec/", "/System/")


@dataclass(slots=True)
class LoadedJob:
    """One loaded job. `reason` says why it does not run, in launchd's words."""

    label: str
    domain: str
    path: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    pid: int | None = None
    runs: int = 0
    exit_status: int | None = None
    reason: str = ""

    @property
    def state(self) -> Literal["running", "not running"]:
        return "running" if self.pid is not None else "not running"

    @property
    def kept_alive(self) -> bool:
        return bool(self.settings.get("KeepAlive"))

    @property
    def program(self) -> list[str]:
        words = [str(word) for word in self.settings.get("ProgramArguments") or []]
        if isinstance(path := self.settings.get("Program"), str):
            return [path, *words[1:]]
        return words


def read_plist(place: "Path") -> dict[str, Any] | None:
    """The dictionary in a property list, or None where there is none that can be read."""
    try:
        content = plistlib.loads(place.read_bytes())
    except (OSError, plistlib.InvalidFileException, xml.parsers.expat.ExpatError, ValueError):
        return None
    return content if isinstance(content, dict) else None


class JobKeeper(Protocol):
    """Runs kept-alive jobs for real. Both set the job's `pid` and its `exit_status`; a job that ends is started again."""

    def start(self, job: LoadedJob) -> None: ...

    def stop(self, job: LoadedJob) -> None: ...


class LaunchdHost(ExecutionHost, Protocol):
    """What launchd needs of its Mac."""

    session_user: str | None
    job_keeper: JobKeeper | None
    commands_as_root: Counter[str]

    def uid(self, user: str) -> int: ...

    def chore(self, work: Coroutine[Any, Any, None]) -> None: ...


class Launchd:
    """The jobs of one boot."""

    def __init__(self, mac: LaunchdHost) -> None:
        self._mac = mac
        self._pids = _FIRST_PID
        self.jobs: dict[tuple[str, str], LoadedJob] = {}
        for label in SYSTEM_JOBS:
            self.jobs["system", label] = LoadedJob(label, "system", pid=self._pid())

    def _pid(self) -> int:
        self._pids += 7
        return self._pids

    def job(self, label: str, domain: str = "system") -> LoadedJob | None:
        return self.jobs.get((domain, label))

    def boot(self) -> None:
        """Load what is installed for every boot, and for the session if there is one."""
        self._load_folder("/Library/LaunchDaemons", "system")
        self.begin_session()

    def begin_session(self) -> None:
        mac = self._mac
        if mac.session_user is not None:
            domain = f"gui/{mac.uid(mac.session_user)}"
            self._load_folder("/Library/LaunchAgents", domain)
            self._load_folder(f"/Users/{mac.session_user}/Library/LaunchAgents", domain)

    def end_session(self) -> None:
        """Everything that ran in a graphical session ends with it."""
        for key in [key for key in self.jobs if key[0].startswith("gui/")]:
            del self.jobs[key]

    def _load_folder(self, folder: str, domain: str) -> None:
        place = self._mac.disk.at(folder)
        for file in sorted(place.glob("*.plist")) if place.is_dir() else []:
            settings = read_plist(file)
            label = None if settings is None else settings.get("Label")
            if settings is None or not isinstance(label, str):
                continue
            if label not in self._mac.disk.disabled_jobs and (domain, label) not in self.jobs:
                self.load(domain, f"{folder}/{file.name}", settings)

    # One job

    def load(self, domain: str, path: str, settings: dict[str, Any]) -> LoadedJob:
        job = LoadedJob(str(settings["Label"]), domain, path, settings)
        self.jobs[domain, job.label] = job
        if settings.get("RunAtLoad") or job.kept_alive:
            self.start(job)
        return job

    def unload(self, job: LoadedJob) -> None:
        self.jobs.pop((job.domain, job.label), None)
        if self._mac.job_keeper is not None:
            self._mac.job_keeper.stop(job)

    def start(self, job: LoadedJob) -> None:
        """Start a job that does not run. What cannot start says why in `reason`."""
        job.runs += 1
        job.reason = self._obstacle(job)
        if job.reason:
            job.pid, job.exit_status = None, 78
            return
        if job.kept_alive and job.program and self._mac.job_keeper is not None:
            self._mac.job_keeper.start(job)
            return
        if job.kept_alive or not job.program:
            job.pid, job.exit_status = self._pid(), None
            return
        job.pid = self._pid()
        self._mac.chore(self._work(job))

    def stop(self, job: LoadedJob, status: int = 0) -> None:
        if self._mac.job_keeper is not None:
            self._mac.job_keeper.stop(job)
        job.pid, job.exit_status = None, status

    def run_interval_jobs(self) -> None:
        """One round of every job that runs at intervals, as if its time had come."""
        for job in list(self.jobs.values()):
            if job.settings.get("StartInterval") and job.pid is None:
                self.start(job)

    def _obstacle(self, job: LoadedJob) -> str:
        if not job.program:
            return ""
        user = job.settings.get("UserName")
        if isinstance(user, str) and user not in self._mac.disk.users:
            return f"no such user {user}"
        path = _script(job.program) or job.program[0]
        if path.startswith(_OF_THE_SYSTEM):
            return ""
        place = self._mac.disk.at(path)
        if not place.is_file():
            return f"no such file {path}"
        if path == job.program[0] and not place.stat().st_mode & 0o111:
            return f"permission denied {path}"
        return "OS_REASON_CODESIGNING" if self._tampered(place) else ""

    def _tampered(self, place: "Path") -> bool:
        """Whether a program was overwritten in place since it last ran: the kernel remembers the old signature."""
        content = place.read_bytes()
        if content.startswith(b"#!"):
            return False
        digest, inode = hashlib.sha256(content).hexdigest(), place.stat().st_ino
        return self._mac.disk.signatures.setdefault(inode, digest) != digest

    async def _work(self, job: LoadedJob) -> None:
        """Run a job that ends by itself, with a real shell, and note how it ended."""
        mac = self._mac
        user = str(job.settings.get("UserName") or ("root" if job.domain == "system" else mac.username))
        execution = await CommandExecution.start(mac, _command(mac, job.program), user=user)
        if user == "root":
            mac.commands_as_root[execution.session] += 1  # what changes meanwhile may be its doing
        ended = await execution.converse(_nothing(), _ignored, _ignored)
        job.pid, job.exit_status = None, ended.status


def _script(program: list[str]) -> str | None:
    """The file that a shell is asked to run, if one is."""
    if program[0] in _SHELLS:
        return next((word for word in program[1:] if not word.startswith("-")), None) if "-c" not in program else None
    return None


def _command(mac: LaunchdHost, program: list[str]) -> list[str]:
    """The program with its paths led into the simulated disk; tools of the system are found on the PATH by their name."""
    first, *rest = program
    if first in _SHELLS:
        script = _script(program)
        return ["/bin/bash", *(str(mac.disk.at(word)) if word == script else word for word in rest)]
    if first.startswith(_OF_THE_SYSTEM):
        return ["/bin/bash", "-c", '"$0" "$@"', first.rsplit("/", 1)[1], *rest]
    return [str(mac.disk.at(first)), *rest]


async def _nothing() -> AsyncIterator[bytes]:
    for piece in ():
        yield piece


def _ignored(data: bytes) -> None:
    del data
