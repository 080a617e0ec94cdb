"""`paddock dispatch` as it is deployed: a process of its own, against a cluster over HTTPS and a Postgres."""

import asyncio
import hashlib
import hmac
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from integration.runners.processes.cut_way import PASSWORD
from psycopg.conninfo import make_conninfo
from unit.cli.cluster import running_cluster

from paddock.base.clock import SystemClock
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.simulator.github import new_app_key

PADDOCK = Path(sys.executable).with_name("paddock")
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


@contextmanager
def dispatch(dsn: str, kubeconfig: Path, folder: Path) -> Iterator[Running]:
    """One life of the process."""
    door, operators = free_port(), free_port()
    output = folder / f"dispatch-{door}.log"
    key = folder / "app.pem"
    key.write_text(new_app_key())
    with output.open("wb") as log:
        process = subprocess.Popen(
            [
                PADDOCK,
                "dispatch",
                f"--bind-address=127.0.0.1:{door}",
                f"--metrics-bind-address=127.0.0.1:{operators}",
                f"--kubeconfig={kubeconfig}",
            ],
            env={
                **os.environ,
                "PADDOCK_DSN": dsn,
                "PADDOCK_GITHUB_APP_ID": "12345",
                "PADDOCK_GITHUB_PRIVATE_KEY_FILE": str(key),
                "PADDOCK_GITHUB_WEBHOOK_SECRET": SECRET,
                "PADDOCK_GITHUB_API_URL": "http://127.0.0.1:9",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Running(process, f"http://127.0.0.1:{door}", f"http://127.0.0.1:{operators}", output)
    finally:
        process.kill()
        process.wait()


@pytest_asyncio.fixture
async def running(server: EmbeddedPostgres, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Running]:
    with dispatch(server.dsn, kubeconfig, tmp_path) as running:
        await ready(running)
        yield running


async def ready(running: Running, path: str = "/readyz") -> None:
    async with httpx2.AsyncClient() as http:
        for _ in range(300):
            assert running.process.poll() is None, running.output.read_text()
            try:
                if (await http.get(f"{running.operators}{path}")).status_code == 200:
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
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
    done = subprocess.run(
        [PADDOCK, "dispatch", "--dsn=postgresql:///nowhere", f"--kubeconfig={kubeconfig}"],
        env=bare,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "PADDOCK_GITHUB_APP_ID is not set" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def short_folder() -> Iterator[Path]:
    # The name of a socket may have a hundred characters: a test's own folder is too deep.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


async def test_it_starts_while_postgres_is_killed_and_serves_jobs_once_it_is_back(
    kubeconfig: Path, tmp_path: Path, short_folder: Path
) -> None:
    clock, rng = SystemClock(), random.Random(1)
    postgres = EmbeddedPostgres(short_folder / "pg", clock=clock, rng=rng)
    await postgres.start()
    dsn = make_conninfo(postgres.dsn, password=PASSWORD)
    try:
        with dispatch(dsn, kubeconfig, tmp_path) as before:
            await ready(before)
            await postgres.stop()
        with dispatch(dsn, kubeconfig, tmp_path) as running:
            await ready(running, "/healthz")
            async with httpx2.AsyncClient() as http:
                refused = await http.post(f"{running.door}/webhooks/github", json={})
                assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
                assert (await http.get(f"{running.operators}/readyz")).status_code == 503
            said = await asyncio.gather(
                *(asyncio.to_thread(_asked, command, kubeconfig, running) for command in ("status", "doctor"))
            )
            for answer in said:
                assert "the ledger's database does not answer" in answer
                assert "tries again by itself" in answer
            await postgres.start()
            await ready(running)
            async with httpx2.AsyncClient() as http:
                assert (await http.post(f"{running.door}/webhooks/github", json={})).status_code == 401
            running.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(running.process.wait, 20) == 0, running.output.read_text()
            text = running.output.read_text()
            assert PASSWORD not in f"{said}{text}"
            assert text.count("the ledger cannot be opened") == 1
            assert "Traceback" not in text
    finally:
        await postgres.stop()


def _asked(command: str, kubeconfig: Path, running: Running) -> str:
    asked = [PADDOCK, command, f"--kubeconfig={kubeconfig}", f"--server={running.operators}"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    # Sentences are folded at the width of a terminal.
    return " ".join((done.stdout + done.stderr).split())


def test_a_dsn_that_is_none_ends_it_at_once_with_a_sentence_that_quotes_nothing(
    kubeconfig: Path, tmp_path: Path
) -> None:
    with dispatch(f"postgresql://u:pa@{PASSWORD}@h/x", kubeconfig, tmp_path) as running:
        assert running.process.wait(60) == 1
        text = running.output.read_text()
    assert "percent-encoded" in text
    assert PASSWORD not in text
    assert "Traceback" not in text
