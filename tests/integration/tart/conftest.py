import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from watchdog import end_processes_of

from paddock.simulator.tart_program import install

IMAGE = "registry.example/team/macos-base:latest"


class TartHome:
    """A home of Tart's with the stand-in on a PATH of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "tart"
        self.shares = folder / "shares"
        self.program = install(folder / "bin")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TART_HOME": str(self.home),
            "PADDOCK_TICK": "0.1",
            "PADDOCK_GRACE": "1",
        }
        self.started: list[subprocess.Popen[str]] = []

    def world(self, **values: Any) -> None:
        path = self.home / "simulated" / "world.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self.program), *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=15, check=False)

    def json(self, *arguments: str) -> Any:
        done = self(*arguments, "--format", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def share(self, vm: str, name: str) -> Path:
        path = self.shares / vm / name
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        return path

    def run(self, vm: str) -> "subprocess.Popen[str]":
        """`tart run` with the two shares of the contract, in the background."""
        dirs = [f"env:{self.share(vm, 'env')}:ro", f"status:{self.share(vm, 'status')}"]
        command = [str(self.program), "run", vm, "--no-graphics", *(word for one in dirs for word in ("--dir", one))]
        pipe = subprocess.PIPE
        started = subprocess.Popen(command, env=self.environment, stdout=pipe, stderr=pipe, text=True)
        self.started.append(started)
        return started

    def up(self, vm: str) -> "subprocess.Popen[str]":
        """A fresh VM of this name that runs and answers."""
        assert self("clone", IMAGE, vm).returncode == 0
        running = self.run(vm)
        wait_until(lambda: self("exec", vm, "true").returncode == 0, f"{vm} answers")
        return running

    def close(self) -> None:
        end_processes_of(str(self.home))
        for process in self.started:
            process.communicate(timeout=60)


@pytest.fixture
def tart(tmp_path: Path) -> Iterator[TartHome]:
    made = TartHome(tmp_path)
    yield made
    made.close()


def wait_until(true: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"did not happen in {seconds} s: {what}"
        time.sleep(0.02)
