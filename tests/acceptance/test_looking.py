"""What a person sees of `paddock up --simulate`: the page, health, metrics, the live stream and the API."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest
from acceptance.instance import HOSTS, PADDOCK, Instance, eventually, running
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.slow

FLEET = ("--hosts", "5", "--seed", "7")


@pytest.fixture(scope="module")
def paddock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running(tmp_path_factory.mktemp("looking") / "first", *FLEET) as instance:
        yield instance


def test_it_says_where_the_page_and_the_kubeconfig_are_and_what_to_type(paddock: Instance) -> None:
    assert paddock.get("/").status_code == 200
    assert paddock.kubeconfig == paddock.data / "kubeconfig"
    assert paddock.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert f"kubectl --kubeconfig {paddock.kubeconfig} get samm,sash,rpool,pods" in paddock.output


def test_the_page_shows_every_host_of_the_cloud_within_seconds(paddock: Instance) -> None:
    def shown() -> bool:
        return paddock.get("/").text.count('class="tile"') == 5

    eventually("the page shows five Macs", shown, within=15)
    text = paddock.get("/").text
    for state in paddock.states().values():
        assert state, "every host has got a verdict"
    assert "simulated cloud" in text


def test_it_is_healthy_and_its_metrics_can_be_scraped(paddock: Instance) -> None:
    eventually("it is healthy", lambda: paddock.get("/healthz").status_code == 200)
    assert paddock.get("/healthz").text == "ok"
    answer = paddock.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert "scaleway_orphan_servers" in names
    assert any(name.startswith("paddock_") for name in names)
    assert paddock.metric("paddock_event_loop_longest_lag_seconds"), "how long its event loop was away is measured"


def test_an_open_page_is_sent_every_part_at_once(paddock: Instance) -> None:
    with httpx2.stream("GET", f"{paddock.page}live", trust_env=False, timeout=20.0) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines).startswith("id: ")
        assert next(lines) == "event: parts"
        parts = msgspec.json.decode(next(lines).removeprefix("data: "))
    assert {"light", "summary", "problems", "fleet", "queue", "money", "events"} <= set(parts)


def test_only_the_token_of_the_kubeconfig_opens_the_api(paddock: Instance) -> None:
    for wrong in ("", "guessed"):
        with paddock.api(token=wrong) as stranger:
            refused = stranger.get(HOSTS)
            assert refused.status_code == 401
            assert refused.json()["reason"] == "Unauthorized"
    with paddock.api() as administrator:
        assert administrator.get(HOSTS).status_code == 200


def test_the_whole_fleet_becomes_ready(paddock: Instance) -> None:
    ready = paddock.all_bound(5, ready=True)
    assert len(set(ready.values())) == 5, "no host serves two machines"
    names = {server["id"]: server["name"] for server in paddock.cloud().values()}
    eventually(
        "the saved cloud shows the machines' names",
        lambda: (
            {server["id"]: server["name"] for server in paddock.cloud().values()}
            == {server_id: name for name, server_id in ready.items()}
        ),
        within=10,
    )
    assert set(names) == set(ready.values())


def test_a_port_in_use_is_one_clear_line(paddock: Instance, tmp_path: Path) -> None:
    taken = re.search(r":(\d+)/$", paddock.page)
    assert taken
    refused = _refused("--port", taken[1], "--kube-port", "0", "--data", str(tmp_path / "other"))
    assert f"127.0.0.1:{taken[1]}" in refused
    assert "--port" in refused


def test_a_data_folder_in_use_is_one_clear_line_and_the_running_one_is_left_alone(paddock: Instance) -> None:
    certificate = (paddock.data / "pki" / "server.crt").read_bytes()
    refused = _refused("--port", "0", "--kube-port", "0", "--data", str(paddock.data))
    assert "in use by another Paddock" in refused
    assert str(paddock.process.pid) in refused
    assert (paddock.data / "pki" / "server.crt").read_bytes() == certificate
    assert paddock.get("/healthz").status_code == 200


def _refused(*options: str) -> str:
    done = subprocess.run(
        [PADDOCK, "up", "--simulate", *options], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("paddock: ")
    return line


@pytest.mark.slow
def test_a_second_instance_runs_beside_it_and_the_same_seed_makes_the_same_macs(
    paddock: Instance, tmp_path: Path
) -> None:
    before = paddock.databases()
    with running(tmp_path / "second", *FLEET) as second:
        assert second.page != paddock.page
        eventually("the second one knows its Macs", lambda: len(second.states()) == 5, within=20)
        assert set(second.states()) == set(paddock.states())
        assert second.interrupt() == 0
        eventually("nothing of it lives on", lambda: not second.left_over(), within=1.0)
    assert paddock.get("/healthz").status_code == 200
    assert min(before) in paddock.databases(), "the server itself; its children come and go"
