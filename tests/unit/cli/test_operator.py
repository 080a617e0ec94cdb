"""`paddock operator`: its flags, its probes, and a clean start and stop as a process."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from doubles.clocks import WITHIN
from unit.cli.cluster import Cluster

from paddock.cli import main
from paddock.cli.host_flags import Duration, host_settings
from paddock.cli.listeners import BindAddress, metrics_app, probes_app
from paddock.cli.operator import command
from paddock.kube.builtin import Lease

FLAGS = {
    "--default-adopt-pool-prefix",
    "--orphan-reclaim-zones",
    "--orphan-reclaim-claim-name-prefix",
    "--orphan-reclaim-interval",
    "--bootstrap-reboot-after",
    "--bootstrap-max-attempts",
    "--leader-elect",
    "--namespace",
    "--watch-filter",
    "--watch-namespace",
    "--metrics-bind-address",
    "--health-probe-bind-address",
    "--kubeconfig",
}


def flags(**given: Any) -> dict[str, Any]:
    return {
        "default_adopt_pool_prefix": "tuist-pool-",
        "orphan_reclaim_zones": "fr-par-1",
        "orphan_reclaim_claim_name_prefix": "",
        "orphan_reclaim_interval": 900.0,
        "bootstrap_reboot_after": 3,
        "bootstrap_max_attempts": 8,
        "namespace": "default",
        "watch_filter": "",
        "watch_namespaces": (),
        "order_cap": 10,
        "order_budget": None,
        "retire_after_quarantines": 0,
        **given,
    }


class TestFlags:
    def test_every_flag_that_the_chart_renders_is_understood(self):
        offered = {name for param in command.params for name in param.opts}
        assert offered >= FLAGS

    def test_the_flags_become_settings(self):
        settings = host_settings(
            flags(
                orphan_reclaim_zones="fr-par-1, fr-par-3",
                orphan_reclaim_claim_name_prefix="tuist-tuist-",
                bootstrap_reboot_after=0,
                bootstrap_max_attempts=5,
                watch_filter="blue",
            )
        )
        assert settings.zones == ("fr-par-1", "fr-par-3")
        assert settings.claim_name_prefix == "tuist-tuist-"
        assert (settings.tiers.reboot_after, settings.tiers.max_attempts) == (0, 5)
        assert settings.watch_filter == "blue"
        assert (settings.lease_duration, settings.renew_deadline) == (40.0, 30.0)

    @pytest.mark.parametrize(
        ("text", "seconds"), [("15m", 900), ("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("500ms", 0.5)]
    )
    def test_durations_are_written_as_go_programs_write_them(self, text: str, seconds: float):
        assert Duration().convert(text, None, None) == seconds

    @pytest.mark.parametrize("text", ["0s", "0m", "999ms"])
    def test_a_sweep_without_a_pause_is_refused_with_the_shortest_one(self, text: str):
        outcome = CliRunner().invoke(main, ["operator", "--orphan-reclaim-interval", text])
        assert outcome.exit_code == 2
        assert f"'{text}' is too short: give 1s or more" in outcome.output

    @pytest.mark.parametrize("text", ["", "15", "m", "15 m", "-1m", "15x"])
    def test_anything_else_is_refused_with_an_example(self, text: str):
        outcome = CliRunner().invoke(main, ["operator", "--orphan-reclaim-interval", text])
        assert outcome.exit_code == 2
        assert "15m" in outcome.output

    @pytest.mark.parametrize(
        ("text", "where"),
        [(":8080", ("0.0.0.0", 8080)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("0", None), ("", None)],
    )
    def test_addresses_are_written_as_controllers_write_them(self, text: str, where: Any):
        assert BindAddress().convert(text, None, None) == where

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--metrics-bind-address", "eighty"],
            ["--metrics-bind-address", ":99999"],
            ["--default-adopt-pool-prefix", "Tuist Pool"],
            ["--default-adopt-pool-prefix", "", "--orphan-reclaim-claim-name-prefix", "tuist-tuist-"],
            ["--orphan-reclaim-claim-name-prefix", "tuist-"],
            ["--bootstrap-reboot-after", "-1"],
        ],
    )
    def test_a_flag_that_cannot_work_is_refused_by_name(self, arguments: list[str]):
        outcome = CliRunner().invoke(main, ["operator", *arguments])
        assert outcome.exit_code == 2
        assert arguments[0] in outcome.output or arguments[-2] in outcome.output

    def test_missing_credentials_are_named(self, cluster: Cluster, monkeypatch: Any):
        for name in ("SCW_SECRET_KEY", "SCW_DEFAULT_PROJECT_ID"):
            monkeypatch.delenv(name, raising=False)
        outcome = CliRunner().invoke(main, ["operator", "--kubeconfig", str(cluster.kubeconfig)])
        assert outcome.exit_code == 1
        assert "SCW_SECRET_KEY" in outcome.output


def get(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=WITHIN) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except URLError:
        return 0, ""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def until(holds: Any) -> bool:
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.1)
    return False


def test_it_starts_leads_answers_its_probes_and_gives_the_lease_back_when_it_is_stopped(
    cluster: Cluster, tmp_path: Path
):
    """The whole process against a real API; the cloud is an address on loopback where nobody listens."""
    metrics, probes, nobody = free_port(), free_port(), free_port()
    environment = {
        **os.environ,
        "SCW_SECRET_KEY": "00000000-0000-4000-8000-000000000000",
        "SCW_DEFAULT_PROJECT_ID": "00000000-0000-4000-8000-000000000001",
        "SCW_API_URL": f"http://127.0.0.1:{nobody}",
    }
    arguments = [
        *("--kubeconfig", str(cluster.kubeconfig)),
        *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
        *("--health-probe-bind-address", f"127.0.0.1:{probes}"),
    ]
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "paddock", "operator", *arguments], env=environment, stdout=out, stderr=out
        )
    try:

        def lease() -> str:
            async def read(client: Any) -> str:
                return "".join(each.spec.holder_identity or "" for each in (await client.list(Lease, "default")).items)

            return cluster.ask(read)

        assert until(lambda: get(f"http://127.0.0.1:{probes}/readyz")[0] == 200), log.read_text()
        assert get(f"http://127.0.0.1:{probes}/healthz") == (200, "ok")
        assert until(lambda: lease().startswith(socket.gethostname())), log.read_text()
        status, text = get(f"http://127.0.0.1:{metrics}/metrics")
        assert status == 200
        assert re.search(r"^scaleway_orphan_servers ", text, re.MULTILINE)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN) == 0, log.read_text()
        assert lease() == ""
        assert "00000000-0000-4000-8000-000000000000" not in log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


async def test_the_probes_say_what_is_not_well():
    import httpx2

    from paddock.base.clock import SystemClock
    from paddock.base.metrics import CollectorRegistry
    from paddock.base.rng import seeded
    from paddock.kube.manager import Manager

    manager = Manager(clock=SystemClock(), rng=seeded("probes"))
    transport = httpx2.ASGITransport(app=probes_app(manager.healthz, manager.readyz))  # pyright: ignore[reportArgumentType]
    async with httpx2.AsyncClient(transport=transport, base_url="http://probes") as client:
        assert (await client.get("/healthz")).status_code == 200
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.text) == (503, "not started")
        manager.stop()
        assert (await client.get("/healthz")).status_code == 503
    transport = httpx2.ASGITransport(app=metrics_app(CollectorRegistry()))  # pyright: ignore[reportArgumentType]
    async with httpx2.AsyncClient(transport=transport, base_url="http://metrics") as client:
        assert (await client.get("/metrics")).status_code == 200


@pytest.mark.parametrize("name", ["operator", "sweep", "detach"])
def test_help_says_what_a_command_does(name: str):
    outcome = CliRunner().invoke(main, [name, "--help"])
    assert outcome.exit_code == 0
    assert len(outcome.output.splitlines()) > 8
    assert name in CliRunner().invoke(main, ["--help"]).output
