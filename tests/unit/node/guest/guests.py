"""A guest on this machine: the shipped script in a real shell, the two shares as folders, a stand-in for GitHub's runner."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from watchdog import end_processes_of

from paddock.node.guest import SCRIPT_NAME, guest_script

# What `run.sh` does before its own lines: says how it was called, so that a test can look for the config.
RUNNER = """#!/bin/bash
echo "called with: $*"
printf '%s' "${ACTIONS_RUNNER_INPUT_JITCONFIG:-none}" >"$HOME/config-in-environment"
echo "trap=${RUNNER_MANUALLY_TRAP_SIG:-} deprecated=${ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE:-}"
mkdir -p _diag
"""
JOB = "ZXlKaElqb2lZaUo5Cg=="


class Guest:
    """One VM's worth of folders, and the script's process."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.shell = shell
        self.home = folder / "home"
        self.env = folder / "My Shared Files" / "env"
        self.status = folder / "My Shared Files" / "status"
        self.bin = folder / "bin"
        self.halts = folder / "halts"
        for made in (self.home, self.env, self.status, self.bin):
            made.mkdir(parents=True)
        # The clock of this machine is not ours to set, nor is this machine to be halted.
        self.program("sudo", 'echo "$*" >>"$HOME/sudo-calls"')
        self.variables = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "PADDOCK_SHARES": str(self.env.parent),
            "PADDOCK_HALT": f"echo halted >>'{self.halts}'",
            "PADDOCK_TICK": "0.1",
            "PADDOCK_GRACE": "1",
        }
        self.put("guest.sh", guest_script())
        self._processes: list[subprocess.Popen[str]] = []

    def program(self, name: str, body: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(0o755)

    def runner(self, body: str, folder: str = "actions-runner") -> Path:
        """An unpacked runner in the image, whose `run.sh` ends with these lines."""
        root = self.home / folder
        (root / "bin").mkdir(parents=True)
        (root / "run.sh").write_text(RUNNER + body + "\n")
        (root / "run.sh").chmod(0o755)
        # A process by the name of GitHub's worker.
        shutil.copy("/bin/sleep", root / "bin" / "Runner.Worker")
        return root

    def put(self, name: str, content: str) -> None:
        """As the host does: by rename, so that the guest never sees half of it."""
        part = self.env / f".{name}"
        part.write_text(content)
        part.rename(self.env / name)

    def start(self) -> "subprocess.Popen[str]":
        started = subprocess.Popen(
            [self.shell, str(self.env / SCRIPT_NAME)],
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._processes.append(started)
        return started

    def run(self) -> int:
        """The script's own exit code, after it has ended."""
        return self.start().wait(timeout=60)

    def said(self, name: str) -> str:
        path = self.status / name
        return path.read_text().strip() if path.exists() else ""

    def stage(self) -> str:
        return self.said("mark").partition(" ")[2]

    @property
    def ended(self) -> tuple[str, str, int]:
        """State, reported code, number of halts."""
        halts = self.halts.read_text().count("halted") if self.halts.exists() else 0
        return self.said("state"), self.said("rc"), halts

    def close(self) -> None:
        """Ends what a test left running: whichever session it moved to, its home is here."""
        end_processes_of(str(self.home))
        for process in self._processes:
            process.wait(timeout=60)
            if process.stdout:
                process.stdout.close()


def wait_until(true: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"did not happen in {seconds} s: {what}"
        time.sleep(0.02)
