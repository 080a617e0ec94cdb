"""No program and no folder of a control plane outlives the test run, however that run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kube.controlplane import PORT_ATTEMPTS, running_control_plane
from kube.supervision import ControlPlaneError, Supervisor, telling_lines

TESTS = Path(__file__).resolve().parents[1]
RUN_THAT_NEVER_ENDS = """
import os, time
from kube.supervision import Supervisor
supervisor = Supervisor()
program = supervisor.start("sleeper", ["sleep", "600"], os.environ)
print(program.process.pid, supervisor.folder, flush=True)
time.sleep(600)
"""

HEALTHY_ETCD = """
import http.server, socketserver, sys
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def address_string(self):
        return "unix"
path = next(a for a in sys.argv if a.startswith("--listen-client-urls=")).partition("unix://")[2]
socketserver.UnixStreamServer(path, Healthy).serve_forever()
"""


def is_gone(pid: int) -> bool:
    """True also for a zombie that only waits for the init process to notice it."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip() in {"", "Z", "Zs"}


def becomes_true_within(seconds: float, look: Callable[[], bool]) -> bool:
    deadline = time.perf_counter() + seconds
    while not look():
        if time.perf_counter() > deadline:
            return False
        time.sleep(0.02)
    return True


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_test_run_ended_by_a_signal_leaves_no_program_and_no_folder(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN_THAT_NEVER_ENDS],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        assert not is_gone(int(pid))
        run.send_signal(number)
    assert becomes_true_within(30.0, lambda: is_gone(int(pid)))
    assert becomes_true_within(30.0, lambda: not Path(folder).exists())


def test_closing_stops_every_program_and_may_be_repeated() -> None:
    supervisor = Supervisor()
    pids = [supervisor.start(name, ["sleep", "600"], os.environ).process.pid for name in ("first", "second")]
    supervisor.close()
    supervisor.close()
    assert all(is_gone(pid) for pid in pids)
    assert not supervisor.folder.exists()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folders of control planes go during the test, so that a forgotten one is seen."""
    folder = Path(tempfile.mkdtemp(prefix="pk-"))  # short: sockets in it have a limited length
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def binaries(tmp_path: Path, scratch: Path) -> Iterator[Path]:
    """An etcd that is healthy and leaves its process id; the server is for the test to write."""
    folder = tmp_path / "binaries"
    folder.mkdir()
    (tmp_path / "etcd.py").write_text(HEALTHY_ETCD)
    script(folder / "etcd", f"echo $$ >> '{tmp_path}/pids'\nexec '{sys.executable}' '{tmp_path}/etcd.py' \"$@\"")
    yield folder
    assert all(is_gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())
    assert list(scratch.iterdir()) == []
    scratch.rmdir()


def test_a_start_that_fails_halfway_says_why_and_leaves_nothing(binaries: Path) -> None:
    script(binaries / "kube-apiserver", 'echo "Error: unknown flag: --hooves" >&2; exit 1')
    complaint = r"kube-apiserver ended with status 1(?s:.)*unknown flag: --hooves"
    with pytest.raises(ControlPlaneError, match=complaint), running_control_plane(binaries):
        pytest.fail("a control plane without a server must not be handed out")


def test_a_port_that_somebody_else_took_is_given_up_for_another_a_few_times(binaries: Path, tmp_path: Path) -> None:
    taken = 'echo "Error: listen tcp: bind: address already in use" >&2; exit 1'
    script(binaries / "kube-apiserver", f"echo \"$@\" | tr ' ' '\\n' | grep secure-port >> '{tmp_path}/ports'\n{taken}")
    with pytest.raises(ControlPlaneError, match="address already in use"), running_control_plane(binaries):
        pytest.fail("a control plane without a server must not be handed out")
    assert len((tmp_path / "ports").read_text().splitlines()) == PORT_ATTEMPTS


def test_the_complaint_is_shown_even_if_much_was_logged_after_it() -> None:
    log = "\n".join(["I0101 fine"] * 50 + ["E0101 the port is taken"] + ["I0101 stopping"] * 50)
    assert "the port is taken" in telling_lines(log)
    assert len(telling_lines(log).splitlines()) < 30
