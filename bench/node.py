"""The node agent as it is shipped: its own process, the guest script, and a stand-in for Tart; API and dispatch are here."""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil

from paddock.base.clock import SystemClock
from paddock.base.http_server import Tls, bind, listening
from paddock.base.rng import unseeded
from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.certificates import Certificates
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.kubeconfig import write_kubeconfig
from paddock.embedded.store.memory import MemoryStore
from paddock.kube import config as kube_config
from paddock.kube.builtin import Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import KubeError
from paddock.kube.objects import ObjectMeta
from paddock.simulator.tart_program import install

from .table import Row, amount

__all__ = ["bundle", "jobs", "resting"]

_ROOT = Path(__file__).resolve().parent.parent
_NODE = "bench-mac"
_IMAGE = "registry.example/team/macos-base:latest"
_JOB = "ZXlKaElqb2lZaUo5Cg=="
_LONGEST = 60.0
_HOW = "real time; agent in a process of its own, stand-in for Tart"
_TIMED_TART = """#!/bin/sh
# Notes when each call began and ended, so that what Tart costs can be left out.
printf '%s begin %s\\n' "$(date +%s.%N)" "$*" >>"{calls}"
[ "$1" != run ] || exec "{tart}" "$@"
"{tart}" "$@"
code=$?
printf '%s end %s\\n' "$(date +%s.%N)" "$*" >>"{calls}"
exit $code
"""
_RUNNER = """#!/bin/sh
date +%s.%N >>"{started}"
sleep 0.2
"""


def resting(quick: bool) -> Iterator[Row]:
    yield from asyncio.run(_resting(15.0 if quick else 60.0))


def jobs(quick: bool) -> Iterator[Row]:
    yield from asyncio.run(_jobs(3 if quick else 10))


def bundle(quick: bool) -> Iterator[Row]:
    del quick
    built = sorted((_ROOT / "dist").glob("paddock-node-agent-*.tar.*"))
    if not built:
        yield Row("node", "bundle, packed", "-", "MB", "must be at most 60; none is built here: make bundle")
    for path in built:
        with tarfile.open(path) as archive:
            files = sum(member.isfile() for member in archive)
        yield Row(
            "node", "bundle, packed", amount(path.stat().st_size / 1e6), "MB", f"at most 60; {path.name}, {files} files"
        )


class Mac:
    """One agent, its stand-ins, and what was seen of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        self.started = folder / "started"
        self.writes = 0
        self.jobs = 0
        self.answered: list[float] = []
        self.client: Client
        self.process: psutil.Process

    async def dispatch(self, scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive()).get("more_body"):
            if message["type"] == "http.disconnect":
                return None
        path = scope["path"]
        if path.endswith("/pods/log"):
            return await _answer(send, 200, {"next": 0})
        if path.endswith("/pods/progress"):
            return await _answer(send, 204)
        wait = dict(scope["headers"]).get(b"prefer", b"wait=0").partition(b"=")[2]
        deadline = time.monotonic() + float(wait)
        try:
            while not self.jobs and time.monotonic() < deadline:
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            return None  # the bench ends, and with it the request that is held
        if not self.jobs:
            return await _answer(send, 204)
        self.jobs -= 1
        self.answered.append(time.time())
        return await _answer(send, 200, {"encoded_jit_config": _JOB, "owner": "acme", "workflow_job_id": 7})

    def counting(self, app: Any) -> Any:
        """The application, with what the agent writes to the API counted."""

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            agents = dict(scope.get("headers") or ()).get(b"user-agent", b"")
            if scope["method"] != "GET" and b"bench" not in agents and scope["path"].startswith(("/api/v1", "/apis/")):
                self.writes += 1
            await app(scope, receive, send)

        return counted

    async def pod(self, name: str) -> float:
        """Make a Pod that is bound to this Mac; gives the moment."""
        await self.client.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace="default")))
        source = {"audience": "dispatch", "expirationSeconds": 3600, "path": "token"}
        spec = {
            "nodeName": _NODE,
            "restartPolicy": "Never",
            "serviceAccountName": name,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "runner", "image": _IMAGE, "resources": {"limits": {"tuist.dev/vm": "1"}}}],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": source}]}}],
        }
        bound = time.time()
        await self.client.create({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Pod.RESOURCE)
        return bound

    async def gone(self, name: str) -> None:
        """Delete a Pod, and wait until nothing is left of its VM."""
        await self.client.delete(Pod, name, "default")
        deadline = time.monotonic() + _LONGEST
        while list((self.folder / "data" / "vms").glob("*/pod.json")):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} is not gone within {_LONGEST:.0f} s")
            await asyncio.sleep(0.05)

    async def until(self, name: str, holds: Callable[[Pod], bool], what: str) -> Pod:
        deadline = time.monotonic() + _LONGEST
        while not holds(pod := await self.client.get(Pod, name, "default")):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} is not {what} within {_LONGEST:.0f} s: {pod.status}")
            await asyncio.sleep(0.02)
        return pod

    def called(self) -> list[tuple[float, str, str]]:
        found = [line.split(" ", 2) for line in self.calls.read_text().splitlines()]
        return [(float(at), edge, call) for at, edge, call in found]


async def _answer(send: Any, code: int, body: Any = None) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode() if body is not None else b""})


@asynccontextmanager
async def _mac() -> AsyncIterator[Mac]:
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as root:
        mac = Mac(Path(root))
        tart = install(mac.folder / "bin")
        timed = mac.folder / "tart"
        timed.write_text(_TIMED_TART.format(calls=mac.calls, tart=tart))
        runner = mac.folder / "runner"
        runner.write_text(_RUNNER.format(started=mac.started))
        for program in (timed, runner):
            program.chmod(0o755)
        clock, rng = SystemClock(), unseeded()
        certificates = Certificates.ensure(mac.folder / "pki", clock.now())
        token = Secret("bench-admin")
        plane = ControlPlane(MemoryStore(), clock, rng, admin_token=token, signing_key=generate_key())
        api, service = bind(0, "port"), bind(0, "port")
        tls = Tls(certificates.certificate, certificates.key)
        url = f"https://127.0.0.1:{api.getsockname()[1]}"
        kubeconfig = mac.folder / "kubeconfig"
        write_kubeconfig(kubeconfig, url=url, authority=certificates.authority, token=token)
        async with (
            listening(mac.counting(plane.app), api, tls),
            listening(mac.counting(mac.dispatch), service),
            plane.running(),
            Client(kube_config.from_kubeconfig(kubeconfig), user_agent="bench") as client,
        ):
            mac.client = client
            dispatch = f"http://127.0.0.1:{service.getsockname()[1]}"
            with _agent(mac, kubeconfig, dispatch, timed, runner) as process:
                mac.process = process
                await _ready(mac)
                yield mac


@contextmanager
def _agent(mac: Mac, kubeconfig: Path, dispatch: str, tart: Path, runner: Path) -> Iterator[psutil.Process]:
    folder = mac.folder
    command = [
        *(sys.executable, "-m", "paddock", "node-agent", "--node-name", _NODE, "--kubeconfig", str(kubeconfig)),
        *("--dispatch-url", dispatch, "--data", str(folder / "data"), "--tart", str(tart)),
        *("--tart-home", str(folder / "tart-home"), "--log-file", str(folder / "agent.log")),
    ]
    environment = os.environ | {
        "HOME": str(folder),
        "TART_HOME": str(folder / "tart-home"),
        "PADDOCK_FAKE_RUNNER": str(runner),
    }
    with subprocess.Popen(command, env=environment, cwd=_ROOT) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(timeout=20)
            # VMs outlive their agent, so they are stopped here, before their folders go.
            for vm in (folder / "tart-home" / "vms").glob("pdk-*"):
                subprocess.run(
                    [str(tart), "stop", vm.name, "--timeout", "1"],
                    env=environment,
                    check=False,
                    capture_output=True,
                    timeout=20,
                )


async def _ready(mac: Mac) -> None:
    """The agent has registered and holds the image: a first VM has run, so that no pull is counted later."""
    deadline = time.monotonic() + _LONGEST
    while True:
        try:
            await mac.pod("first")
            break
        except KubeError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
    await mac.until("first", _is_ready, "ready")
    mac.jobs += 1
    await mac.until("first", _is_over, "over")
    await mac.gone("first")


def _is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def _is_over(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


async def _resting(watched: float) -> list[Row]:
    rows: list[Row] = []
    async with _mac() as mac:
        for vms in (0, 2):
            for number in range(vms):
                await mac.pod(f"rests-{number}")
            for number in range(vms):
                await mac.until(f"rests-{number}", _is_ready, "ready")
            await asyncio.sleep(5.0)
            writes, cpu = mac.writes, mac.process.cpu_times()
            await asyncio.sleep(watched)
            used = mac.process.cpu_times()
            busy = 100 * (used.user + used.system - cpu.user - cpu.system) / watched
            minute = 60.0 / watched * (mac.writes - writes)
            with_vms = f"{vms} VMs that wait for a job" if vms else "no VM"
            over = f"{with_vms}, over {watched:.0f} s; {_HOW}"
            memory = mac.process.memory_info().rss / 2**20
            rows += [
                Row("node", f"CPU at rest, {vms} VMs", amount(busy), "% of a core", f"below 1; {over}"),
                Row("node", f"memory at rest, {vms} VMs", amount(memory), "MiB", f"below 100; {over}"),
                Row(
                    "node",
                    f"API writes at rest, {vms} VMs",
                    amount(minute),
                    "/min",
                    f"at most 10, 6 are Leases; {over}",
                ),
            ]
    return rows


async def _jobs(count: int) -> list[Row]:
    to_start: list[float] = []
    whole: list[float] = []
    to_runner: list[float] = []
    async with _mac() as mac:
        for number in range(count):
            name = f"job-{number}"
            bound = await mac.pod(name)
            await mac.until(name, _is_ready, "ready")
            calls = [each for each in mac.called() if each[0] >= bound]
            began = next(at for at, edge, call in calls if edge == "begin" and call.startswith("run "))
            whole.append(began - bound)
            to_start.append(began - bound - _of_tart(calls, began))
            mac.jobs += 1
            pod = await mac.until(name, _is_over, "over")
            assert pod.status.phase == "Succeeded", pod.status
            runners = [float(line) for line in mac.started.read_text().split()]
            to_runner.append(runners[-1] - mac.answered[-1])
            await mac.gone(name)
    of = f"median and worst of {count}; {_HOW}"
    return [
        Row(
            "node",
            "Pod bound to VM asked to start",
            _both(to_start),
            "ms",
            f"at most 300; without the calls of Tart before it (with them {_both(whole)}); {of}",
        ),
        Row("node", "answer of dispatch to runner started", _both(to_runner), "ms", f"at most 500; {of}"),
    ]


def _of_tart(calls: list[tuple[float, str, str]], until: float) -> float:
    """Seconds that calls of Tart took that ended before, of those that make this VM: clone and set."""
    spent, open_since = 0.0, {}
    for at, edge, call in calls:
        if not re.match(r"(clone|set) ", call) or at > until:
            continue
        if edge == "begin":
            open_since[call] = at
        elif call in open_since:
            spent += at - open_since.pop(call)
    return spent


def _both(seconds: list[float]) -> str:
    return f"{amount(1000 * statistics.median(seconds))} / {amount(1000 * max(seconds))}"
