"""The two API servers that are measured side by side, each in processes of its own."""

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from paddock.embedded.definitions import our_definitions

from .wire import Door

__all__ = ["Server", "embedded_server", "real_server"]

_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    door: Door
    memory: Callable[[], float]
    """Megabytes that all its processes use; pages that they share are counted once."""


@contextmanager
def embedded_server() -> Iterator[Server]:
    # Not below a folder that is closed to the account that Postgres runs as.
    folder = Path(tempfile.mkdtemp(prefix="paddock-bench-"))
    folder.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.embedded_server", str(folder / "data")],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield Server("embedded API", Door(**told), lambda: _memory([process.pid]))
    finally:
        process.communicate(timeout=20)
        shutil.rmtree(folder)


@contextmanager
def real_server() -> Iterator[Server]:
    """kube-apiserver over an etcd that waits for the disk; raises what tests/kube raises when there is none."""
    sys.path.insert(0, str(_ROOT / "tests"))
    controlplane: Any = importlib.import_module("kube.controlplane")
    with controlplane.running_control_plane(controlplane.provide_binaries(), durable=True, controllers=False) as plane:
        with plane.client() as http:
            for definition in our_definitions():
                http.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition).raise_for_status()
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                path = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/scalewayapplesiliconhosts"
                if http.get(path).is_success:
                    break
                time.sleep(0.1)
        authority = plane.ca_file.read_text(encoding="utf-8")
        pids = list(plane.processes.values())
        yield Server("kube-apiserver", Door(plane.url, authority, plane.token), lambda: _memory(pids))


def _memory(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            info = process.memory_full_info()
            total += getattr(info, "pss", info.uss)
    return total / 1e6
