"""The inside of a VM: a folder for its disk, programs that a macOS guest has and Linux has not, and its processes.

Every process of a guest carries a variable that names the VM and its boot, so a power-off finds them all, whatever group
or session they moved to. A guardian outlives `tart run` by a moment: when that process is gone, for whatever reason, the
guest's processes go too, as with a real VM.
"""

import json
import os
import signal
import time
import uuid
from pathlib import Path

from .store import Vm

__all__ = ["Guest"]

_MARK = "PADDOCK_SIMULATED_BOOT"
_HANDED_ON = ("PADDOCK_FAKE_RUNNER", "PADDOCK_TICK", "PADDOCK_GRACE", "LANG", "TZ")
_PROGRAMS = {
    "sntp": "exit 0",
    "sudo": 'while [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"',
    "sysctl": '[ "$*" = "-n kern.bootsessionuuid" ] && echo "$' + _MARK + '"',
    "shutdown": "kill -USR1 {pid}",
}
# What GitHub's runner looks like from outside. The hook takes its place; without one the job succeeds at once.
_RUNNER = """#!/bin/bash
[ -z "${PADDOCK_FAKE_RUNNER:-}" ] || exec "$PADDOCK_FAKE_RUNNER" "$@"
[ $# -eq 0 ] || { echo "Unrecognized command-line input arguments: '$*'. For usage refer to: .\\config.cmd --help"; exit 1; }
mkdir -p _diag
echo "listening" >>"_diag/Runner_1-utc.log"
echo "Listening for Jobs"
echo "Job completed with result: Succeeded"
"""


class Guest:
    def __init__(self, vm: Vm) -> None:
        self.vm = vm
        self.disk = vm.folder / "disk"
        self.record = vm.folder / "guest.json"

    # Life

    def boot(self, shares: dict[str, str], *, boot_seconds: float) -> None:
        """The folder as a guest finds it after boot. The calling process is the VM: it ends when it is sent USR1."""
        home = self.disk / "Users" / "admin"
        mounted = self.disk / "Volumes" / "My Shared Files"
        programs = self.disk / "usr" / "local" / "bin"
        for folder in (home, mounted, programs, self.disk / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        for old in mounted.iterdir():
            old.unlink()
        for name, path in shares.items():
            (mounted / name).symlink_to(path if _open_to_others(path) else self.disk / "nowhere")
        for name, body in _PROGRAMS.items():
            _write(programs / name, f"#!/bin/sh\n{body.replace('{pid}', str(os.getpid()))}\n")
        runner = home / "actions-runner" / "run.sh"
        if not runner.exists():
            runner.parent.mkdir(parents=True, exist_ok=True)
            _write(runner, _RUNNER)
        environment = {
            _MARK: f"{uuid.uuid4()}",
            "HOME": str(home),
            "USER": "admin",
            "TMPDIR": str(self.disk / "tmp"),
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "PADDOCK_SHARES": str(mounted),
            "PADDOCK_HALT": str(programs / "shutdown"),
            **{name: os.environ[name] for name in _HANDED_ON if name in os.environ},
        }
        # A login shell of the host's distribution would set another PATH, and with it find the host's own sudo.
        for profile in (".zprofile", ".bash_profile"):
            _write(home / profile, f"export PATH='{environment['PATH']}'\n")
        # A run leaves its control socket, and a second run of the same folder is never reached through it (openai/tart#1220).
        socket = self.vm.folder / "control.sock"
        up = float("inf") if socket.exists() else time.time() + boot_seconds
        socket.touch()
        part = self.record.with_suffix(".part")
        part.write_text(json.dumps({"environment": environment, "up": up}))
        part.rename(self.record)

    def known(self) -> tuple[dict[str, str], float]:
        """The environment of this boot, and when the guest agent answers."""
        record = json.loads(self.record.read_text())
        return record["environment"], record["up"]

    def spawn(self, command: list[str]) -> int:
        """A process in the guest, in a session of its own."""
        environment, _ = self.known()
        program = command[0]
        if program == "/bin/zsh" and not Path(program).exists():
            program = "/bin/bash"  # every guest has a zsh, not every Linux
        arguments = ["/bin/sh", "-c", 'cd && exec "$0" "$@"', program, *command[1:]]
        return os.posix_spawn(arguments[0], arguments, environment, setsid=True, setsigmask=[])

    def start_launch_agents(self) -> None:
        """What a login does for an image that carries a LaunchAgent."""
        environment, _ = self.known()
        agents = Path(environment["HOME"]) / "Library" / "LaunchAgents"
        if agents.is_dir():
            import plistlib

            for path in sorted(agents.glob("*.plist")):
                job = plistlib.loads(path.read_bytes())
                if job.get("RunAtLoad"):
                    self.spawn(job["ProgramArguments"])

    def guard(self) -> tuple[int, int]:
        """Fork the guardian: (its process, the descriptor whose end tells it that the VM is gone)."""
        reading, writing = os.pipe()
        guardian = os.fork()
        if guardian:
            os.close(reading)
            os.set_inheritable(writing, False)
            return guardian, writing
        os.setsid()
        os.close(writing)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        os.read(reading, 1)
        self.power_off()
        os._exit(0)

    def power_off(self) -> None:
        """No process of this boot is left."""
        environment, _ = self.known()
        mark = f"{_MARK}={environment[_MARK]}".encode()
        for _ in range(20):
            left = [pid for pid in _processes_with(mark) if pid != os.getpid()]
            if not left:
                return
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.01)


def _open_to_others(share: str) -> bool:
    """Whether a user of another number than the host's, as the guest's may be, can do with the share what a guest must."""
    mode = Path(share).stat().st_mode
    return mode & 0o005 == 0o005 and (Path(share).name != "status" or mode & 0o002 != 0)


def _processes_with(mark: bytes) -> list[int]:
    found: list[int] = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
            except OSError:
                continue  # it ended, or is another user's
    return found


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
