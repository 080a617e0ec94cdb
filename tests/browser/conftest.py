"""Real browsers on real servers: `paddock up --simulate`, and a fixture world of a thousand Macs."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser.chromium import ARGUMENTS, chromium
from browser.looking import Looker
from playwright.sync_api import Browser, expect, sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_TIMEOUT = 180.0
# What is expected is there at once on a machine that has time, and later on one that builds something else meanwhile.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The accessibility checker's script; without it no test passes."""
    fetched = subprocess.run([sys.executable, ROOT / "hack/axe/fetch.py"], capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        pytest.fail(fetched.stderr)
    return Path(fetched.stdout.strip()).read_text()


@pytest.fixture(scope="session")
def artefacts() -> Path:
    """Where pictures are kept; git does not look there."""
    folder = ROOT / "artefacts"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a living simulation."""
    folder = tmp_path_factory.mktemp("up")
    port = _free_port()
    command = [
        *(sys.executable, "-m", "paddock", "up", "--simulate", "--hosts", "8", "--seed", "7"),
        *("--data", str(folder / "data"), "--port", str(port), "--kube-port", "0", "--log-level", "warning"),
    ]
    with _running(command, folder / "log", f"http://127.0.0.1:{port}") as address:
        yield address


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a fixture world of a thousand Macs and five thousand Pods."""
    port = _free_port()
    command = [sys.executable, str(HERE / "fixture_server.py"), str(port), "1000", "5000"]
    with _running(command, tmp_path_factory.mktemp("large") / "log", f"http://127.0.0.1:{port}") as address:
        yield address


@pytest.fixture
def looker(browser: Browser, up: str) -> Iterator[Looker]:
    with Looker.opened(browser, up) as one:
        yield one


@contextlib.contextmanager
def _running(command: list[str], log: Path, address: str) -> Iterator[str]:
    with log.open("wb") as said:
        process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + _TIMEOUT
        while not _answers(address):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{' '.join(command[:4])} does not answer:\n{log.read_text()[-3000:]}")
            time.sleep(0.3)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
