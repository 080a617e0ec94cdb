"""A real `paddock up --simulate`, started as a person would start it, and everything a person can see of it."""

from __future__ import annotations

import base64
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec
import psutil
import yaml
from doubles.github_judge import JobSeen, counted_kills, judge
from prometheus_client.parser import text_string_to_metric_families

from paddock.simulator.world.folder import COMMAND, WorldFolder

Json = dict[str, Any]
T = TypeVar("T")

PADDOCK = Path(sys.executable).with_name("paddock")
INFRASTRUCTURE = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default"
HOSTS = f"{INFRASTRUCTURE}/scalewayapplesiliconhosts"
MACHINES = f"{INFRASTRUCTURE}/scalewayapplesiliconmachines"
START_WITHIN = 60.0
STOP_WITHIN = 15.0


def eventually(what: str, seen: Callable[[], T | None], within: float = 90.0, every: float = 0.1) -> T:
    """What `seen` gives as soon as it is true; the failure says what was waited for."""
    deadline = time.monotonic() + within
    while True:
        if found := seen():
            return found
        assert time.monotonic() < deadline, f"not within {within:.0f} s: {what}"
        time.sleep(every)


class Instance:
    """One running Paddock. Ports are chosen by the system unless they are given."""

    def __init__(self, data: Path, *options: str, port: int = 0, kube_port: int = 0) -> None:
        self.data = data
        self._output = data.with_name(f"{data.name}.output")
        command = [str(PADDOCK), "up", "--simulate", "--data", str(data), "--speed", "200"]
        command += ["--port", str(port), "--kube-port", str(kube_port), *options]
        self._complaints = data.with_name(f"{data.name}.errors")
        with self._output.open("wb") as output, self._complaints.open("wb") as complaints:
            # A session of its own: signals reach it as those of a terminal would, and not the tests.
            self.process = subprocess.Popen(
                command, stdout=output, stderr=complaints, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._tree: set[psutil.Process] = set()
        self.ended_by_others = 0
        """How many jobs the test itself may have ended, say by a power cut: GitHub's judgement allows for them."""

    # What it says

    @property
    def output(self) -> str:
        return self._output.read_text(encoding="utf-8")

    @property
    def complaints(self) -> str:
        return self._complaints.read_text(encoding="utf-8")

    def started(self) -> Instance:
        """Wait until it says where everything is."""
        eventually("paddock up says that it is up", self._said, START_WITHIN, every=0.05)
        self.tree()
        return self

    def _said(self) -> bool:
        assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.output}{self.complaints}"
        return "Ctrl-C" in self.output

    @property
    def page(self) -> str:
        found = re.search(r"^ +page +(http://127\.0\.0\.1:\d+/)$", self.output, re.MULTILINE)
        assert found, self.output
        return found[1]

    @property
    def kubeconfig(self) -> Path:
        found = re.search(r"^ +kubeconfig +(\S+)$", self.output, re.MULTILINE)
        assert found, self.output
        return Path(found[1])

    # What it serves

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(self.page.rstrip("/") + path, trust_env=False, timeout=10.0)

    def metric(self, name: str) -> float | None:
        """The sum over all labels of a metric; None while there is none."""
        families = text_string_to_metric_families(self.get("/metrics").raise_for_status().text)
        values = [sample.value for family in families for sample in family.samples if sample.name == name]
        return sum(values) if values else None

    def api(self, *, token: str | None = None) -> httpx2.Client:
        """A client of its Kubernetes API with what the kubeconfig says; an empty token means none."""
        told = yaml.safe_load(self.kubeconfig.read_bytes())
        cluster, user = told["clusters"][0]["cluster"], told["users"][0]["user"]
        tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        shown = user["token"] if token is None else token
        headers = {"Authorization": f"Bearer {shown}"} if shown else {}
        return httpx2.Client(base_url=cluster["server"], verify=tls, headers=headers, trust_env=False, timeout=10.0)

    def items(self, path: str) -> list[Json]:
        with self.api() as api:
            return api.get(path).raise_for_status().json()["items"]

    def states(self) -> dict[str, str]:
        """The state of every Host by its name, as `kubectl get sash` shows it."""
        return {host["metadata"]["name"]: host.get("status", {}).get("state", "") for host in self.items(HOSTS)}

    def bound(self, *, ready: bool = False) -> dict[str, str]:
        """The server of every Machine that has one, by the Machine's name; on request only of those that are ready."""
        told = {machine["metadata"]["name"]: machine.get("status", {}) for machine in self.items(MACHINES)}
        return {
            name: status["serverID"]
            for name, status in told.items()
            if status.get("serverID") and (status.get("ready") or not ready)
        }

    def all_bound(self, count: int, *, ready: bool = False, within: float = 120.0) -> dict[str, str]:
        """Wait until so many machines have a host, or are ready."""

        def seen() -> dict[str, str] | None:
            bound = self.bound(ready=ready)
            return bound if len(bound) == count else None

        return eventually(f"{count} machines {'are ready' if ready else 'have a host'}", seen, within, every=0.2)

    def cloud(self) -> dict[str, Json]:
        """The simulated cloud's servers by id, as last saved."""
        saved = msgspec.json.decode((self.data / "simulation.json").read_bytes())
        return saved["hosts"]

    def control(self) -> httpx2.Client:
        """The control API of the simulated world."""
        sockets = WorldFolder(self.data).sockets()
        assert sockets is not None, "there is no world"
        transport = httpx2.HTTPTransport(uds=str(sockets.control), verify=False)
        return httpx2.Client(base_url="http://127.0.0.1", transport=transport, timeout=10.0)

    def submit(self, count: int, *, duration: float) -> set[int]:
        """So many jobs for Macs, of so many simulated seconds."""
        order = {"repository": "acme/app", "labels": ["tuist-macos"], "duration": duration}
        with self.control() as control:
            return {control.post("/jobs", json=order).raise_for_status().json()["id"] for _ in range(count)}

    def github_jobs(self) -> dict[int, Json]:
        """Every job as GitHub knows it."""
        with self.control() as control:
            return {job["id"]: job for job in control.get("/jobs").raise_for_status().json()}

    def judge(self) -> None:
        """GitHub's view of every job agrees with our count of kills."""
        jobs = [
            JobSeen(job["id"], job["status"], job["conclusion"], job["starts"], job["lost"])
            for job in self.github_jobs().values()
        ]
        judge(jobs, counted=counted_kills(self.get("/metrics").raise_for_status().text), others=self.ended_by_others)

    # How it ends

    def tree(self) -> set[psutil.Process]:
        """Every process that it ever started, as far as it was looked at."""
        try:
            root = psutil.Process(self.process.pid)
            self._tree |= {root, *root.children(recursive=True)}
        except psutil.NoSuchProcess:
            pass
        return self._tree

    def databases(self) -> set[int]:
        """The processes of its Postgres that live now."""
        return {each.pid for each in self.tree() if _lives(each) and _name(each) == "postgres"}

    def left_over(self, *, world: bool = True) -> list[str]:
        """Processes of it that still live, on request without those of the simulated world, which outlives a kill."""
        return [_name(each) for each in self._tree if _lives(each) and (world or not _of_the_world(each))]

    def interrupt(self) -> int:
        """Ctrl-C, as a terminal sends it: to the whole process group."""
        return self._end(lambda: os.killpg(self.process.pid, signal.SIGINT))

    def terminate(self) -> int:
        return self._end(self.process.terminate)

    def _end(self, ask: Callable[[], None]) -> int:
        self.tree()
        ask()
        return self.process.wait(STOP_WITHIN)

    def kill(self) -> None:
        """As the kernel does when memory is short: no clean-up of ours runs."""
        self.tree()
        self.process.kill()
        self.process.wait(STOP_WITHIN)

    def world(self) -> psutil.Process | None:
        """The simulated world's process, whoever started it."""
        pid = WorldFolder(self.data).holder()
        return psutil.Process(pid) if pid else None

    def dispose(self, *, world: bool = True) -> None:
        """Whatever a test did, nothing of this instance lives on; on request only its world does."""
        self.tree()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for each in self._tree:
            if _lives(each) and (world or not _of_the_world(each)):
                each.kill()
        if world and (left := self.world()) is not None:
            for each in [left, *left.children(recursive=True)]:
                each.kill()


def _of_the_world(process: psutil.Process) -> bool:
    try:
        return any(COMMAND in each.cmdline() for each in [process, *process.parents()])
    except psutil.NoSuchProcess:
        return False


def _name(process: psutil.Process) -> str:
    """Also of one that ends at this moment."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return f"process {process.pid}"


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def running(
    data: Path, *options: str, port: int = 0, kube_port: int = 0, world_stays: bool = False
) -> Iterator[Instance]:
    """An instance that is up, for as long as the block lasts; with `world_stays` its simulated world may live longer."""
    instance = Instance(data, *options, port=port, kube_port=kube_port)
    try:
        yield instance.started()
        if instance.process.poll() is None and instance.world() is not None:
            instance.judge()
    finally:
        instance.dispose(world=not world_stays)
