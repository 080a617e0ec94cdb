"""Starts programs for a test run and guarantees that none of them outlives it.

Three nets, each for what the one before it misses: `close()` in a finalizer stops
everything in reverse order; `atexit` does the same when no finalizer ran; a guard
process kills everything when this process died without a chance to do either.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

GUARD = Path(__file__).with_name("guard.py")
STOP_SECONDS = 5.0
TAIL_LINES = 12
# klog marks errors and fatal errors with E or F and a date, etcd logs JSON, and flag
# errors are plain sentences.
TELLING_STARTS = ("E0", "E1", "F0", "F1", "Error", "panic:", "fatal", "Err:")
TELLING_PARTS = ('"level":"error"', '"level":"fatal"', '"level":"panic"')


class ControlPlaneError(Exception):
    """The test control plane is not usable; the message carries the explaining log lines."""


@dataclass(frozen=True)
class Program:
    """One running program and the file its output goes to."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)

    def check_alive(self) -> None:
        """Raises `ControlPlaneError` with the telling log lines if the program has ended."""
        status = self.process.poll()
        if status is not None:
            raise ControlPlaneError(f"{self.name} ended with status {status}.\n{self.explanation()}")

    def explanation(self) -> str:
        return f"From the log of {self.name}:\n{telling_lines(self.log.read_text(errors='replace'))}"


def telling_lines(log: str) -> str:
    """The last complaints of a log, then its last lines: what a reader would look for."""
    lines = log.strip().splitlines()
    end = lines[-TAIL_LINES:]
    complaints = [
        line
        for line in lines[:-TAIL_LINES]
        if line.startswith(TELLING_STARTS) or any(part in line for part in TELLING_PARTS)
    ]
    chosen = [*complaints[-TAIL_LINES:], *end]
    return "\n".join(f"  {line[:600]}" for line in chosen) or "  (empty)"


class Supervisor:
    """Owns one private folder and the programs started in it; close it exactly like a file.

    `close()` may be called again and from `atexit`; after it neither a program nor the
    folder is left. Not for use from several threads.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="paddock-kube-"))
        self.programs: list[Program] = []
        self._guard: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        try:
            # Its own session: a signal sent to the test run's process group, which may
            # be what ends that run, must not take the guard with it.
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._order(f"folder {self.folder}")
        except BaseException:
            self.close()
            raise

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Program:
        """Start a program in a process group of its own, its output in `<name>.log`."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        program = Program(name, process, log, tuple(command), dict(environment))
        self.programs.append(program)
        self._order(f"watch {process.pid}")
        return program

    def kill(self, program: Program) -> None:
        """End the program's group with SIGKILL, and reap it."""
        _signal_group(program, signal.SIGKILL)
        program.process.wait()
        self.stop(program)

    def restart(self, program: Program) -> Program:
        """Start the same command again; whether it is ready is yours to ask."""
        return self.start(program.name, program.command, program.environment)

    def stop(self, program: Program) -> None:
        """Ask the program's group to end, insist after a few seconds, and reap it."""
        if program.process.poll() is None:
            _signal_group(program, signal.SIGTERM)
            try:
                program.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                _signal_group(program, signal.SIGKILL)
                program.process.wait()
        self.programs.remove(program)
        # Told after the reaping: the number can belong to a stranger only from now on,
        # and the guard acts only if this process dies in between.
        self._order(f"forget {program.process.pid}")

    def close(self) -> None:
        try:
            for program in reversed(self.programs.copy()):
                self.stop(program)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._dismiss_guard()
            atexit.unregister(self.close)

    def _order(self, line: str) -> None:
        if self._guard is None or self._guard.stdin is None:
            return
        try:
            self._guard.stdin.write(f"{line}\n".encode())
            self._guard.stdin.flush()
        except BrokenPipeError:
            # Somebody killed the guard: the other two nets still hold, and stopping
            # the programs matters more than reporting it.
            self._guard = None

    def _dismiss_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        # If programs are left because stopping them failed, the guard is not dismissed:
        # closing its pipe then makes it kill them.
        guard.communicate(b"" if self.programs else b"dismissed\n")


def _signal_group(program: Program, number: signal.Signals) -> None:
    try:
        os.killpg(program.process.pid, number)
    except ProcessLookupError:
        # It ended between our look and our signal, which is what was wanted.
        return
