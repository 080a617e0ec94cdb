"""`paddock dispatch` as it is deployed: a process of its own, against a cluster over HTTPS and a Postgres."""

import asyncio
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from unit.cli.cluster import running_cluster

from paddock.embedded.postgres import EmbeddedPostgres
from paddock.simulator.github import new_app_key

SECRET = "the webhook's secret"


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[bytes]
    door: str
    operators: str
    output: Path


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    with running_cluster(tmp_path, tmp_path / "authority") as cluster:
        yield cluster.kubeconfig


@pytest_asyncio.fixture
async def running(server: EmbeddedPostgres, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Running]:
    door, operators, output = free_port(), free_port(), tmp_path / "dispatch.log"
    key = tmp_path / "app.pem"
    key.write_text(new_app_key())
    with output.open("wb") as log:
        process = subprocess.Popen(
            [
                Path(sys.executable).with_name("paddock"),
                "dispatch",
                f"--bind-address=127.0.0.1:{door}",
                f"--metrics-bind-address=127.0.0.1:{operators}",
                f"--kubeconfig={kubeconfig}",
            ],
            env={
                **os.environ,
                "PADDOCK_DSN": server.dsn,
                "PADDOCK_GITHUB_APP_ID": "12345",
                "PADDOCK_GITHUB_PRIVATE_KEY_FILE": str(key),
                "PADDOCK_GITHUB_WEBHOOK_SECRET": SECRET,
                "PADDOCK_GITHUB_API_URL": "http://127.0.0.1:9",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    running = Running(process, f"http://127.0.0.1:{door}", f"http://127.0.0.1:{operators}", output)
    try:
        await ready(running)
        yield running
    finally:
        process.kill()
        process.wait()


async def ready(running: Running) -> None:
    async with httpx2.AsyncClient() as http:
        for _ in range(300):
            assert running.process.poll() is None, running.output.read_text()
            try:
                if (await http.get(f"{running.operators}/readyz")).status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.1)
    raise AssertionError(running.output.read_text())


async def test_it_serves_strangers_and_operators_at_doors_of_their_own(running: Running) -> None:
    body = json.dumps({"action": "queued", "zen": "x"}).encode()
    signed = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    hook = {"X-GitHub-Event": "ping", "X-GitHub-Delivery": "d-1", "X-Hub-Signature-256": signed}
    async with httpx2.AsyncClient() as http:
        assert (await http.get(f"{running.operators}/")).status_code == 200
        assert "Paddock" in (await http.get(f"{running.operators}/")).text
        assert (await http.get(f"{running.operators}/api/v1/strip")).json()["running"] == 0
        assert 'paddock_live_kills_total{path="reap"} 0.0' in (await http.get(f"{running.operators}/metrics")).text
        for private in ("/", "/api/v1/strip", "/metrics"):
            assert (await http.get(running.door + private)).status_code == 404
        assert (await http.post(f"{running.door}/webhooks/github", content=body, headers=hook)).is_success
        hook["X-Hub-Signature-256"] = "sha256=" + "0" * 64
        assert (await http.post(f"{running.door}/webhooks/github", content=body, headers=hook)).status_code == 403
        assert (await http.post(f"{running.door}/api/internal/runners/dispatch", json={})).status_code == 401
        # The page answers to its own names alone, so that no other site can make a browser read it.
        for read in ("/", "/api/v1/strip", "/api/v1/queue"):
            refused = await http.get(running.operators + read, headers={"Host": "evil.example"})
            assert (refused.status_code, "--page-host" in refused.text) == (421, True), read
        # The commands come through the API server's proxy, under the name that their kubeconfig has for it.
        through_proxy = {"Host": "cluster.example:6443", "Sec-Paddock-Client": "cli"}
        assert (await http.get(f"{running.operators}/api/v1/strip", headers=through_proxy)).status_code == 200
        concerns = {each["about"]: each for each in (await http.get(f"{running.operators}/api/v1/concerns")).json()}
        assert concerns["database's TLS"]["fix"] == ""
        assert "--internal-bind-address" in concerns["operator to dispatch"]["fix"]
        # Prometheus and the kubelet come by address.
        assert (await http.get(f"{running.operators}/metrics", headers={"Host": "10.0.0.7:8081"})).status_code == 200
    assert SECRET not in running.output.read_text()


async def test_it_ends_at_once_and_cleanly_when_it_is_told_to(running: Running) -> None:
    running.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(running.process.wait, 20) == 0, running.output.read_text()


def test_what_is_missing_is_named_with_its_remedy(kubeconfig: Path) -> None:
    paddock = Path(sys.executable).with_name("paddock")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
    done = subprocess.run(
        [paddock, "dispatch", "--dsn=postgresql:///nowhere", f"--kubeconfig={kubeconfig}"],
        env=bare,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "PADDOCK_GITHUB_APP_ID is not set" in done.stderr
    assert "Traceback" not in done.stderr
