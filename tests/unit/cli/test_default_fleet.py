"""What the operator and `paddock up` say about a fleet without a fleet file: bundle, Tart and Softnet, each with its remedy."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from unit.hosts.bootstrap.test_agent_bundle import bundle

from paddock.cli import main
from paddock.cli.doctor.node_agent import node_agent
from paddock.cli.host_flags import fleet_config

TART = ("--tart-url", "https://files.example/tart.tar.gz", "--tart-sha256", "b" * 64)
SOFTNET = ("--softnet-url", "https://files.example/softnet.tar.gz", "--softnet-sha256", "c" * 64)
NOTHING: dict[str, Any] = {"fleet_config": None, "agent_bundle": None}


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "PADDOCK_BUNDLE",
        "PADDOCK_TART_URL",
        "PADDOCK_TART_SHA256",
        "PADDOCK_SOFTNET_URL",
        "PADDOCK_SOFTNET_SHA256",
    ):
        monkeypatch.delenv(name, raising=False)


def problems(*words: str, said: str = "problem") -> dict[str, str]:
    outcome = CliRunner().invoke(main, ["config", "check", "operator", *words, "-o", "json"])
    return {value["field"]: value[said] for value in json.loads(outcome.output)["items"]}


def test_a_fleet_without_softnet_is_no_mistake_and_is_told_what_it_would_be_good_for(tmp_path: Path) -> None:
    assert problems()["--softnet-url"] == ""
    assert "one account at a time" in problems(said="note")["--softnet-url"]
    assert problems(*SOFTNET, said="note")["--softnet-url"] == ""
    (tmp_path / "fleet.yaml").write_text("{}\n")
    assert problems("--fleet-config", str(tmp_path / "fleet.yaml"), said="note")["--softnet-url"] == ""
    shown = CliRunner().invoke(main, ["config", "check", "operator"]).output
    assert "· operator: --softnet-url: without Softnet a Mac runs jobs of one account at a time" in shown


def test_softnet_comes_before_the_agent_which_is_told_where_it_is(tmp_path: Path) -> None:
    named = {"agent_bundle": bundle(tmp_path / "b"), "softnet_url": SOFTNET[1], "softnet_sha256": SOFTNET[3]}
    fleet = fleet_config(NOTHING | named)
    softnet, agent = fleet.payloads
    assert (softnet.name, softnet.source, softnet.sha256, softnet.form) == (
        "softnet",
        SOFTNET[1],
        SOFTNET[3],
        "tarball",
    )
    assert fleet.virtual_machines is not None
    path = fleet.virtual_machines.softnet
    assert path == f"{softnet.install_to}/current/softnet"
    assert agent.job is not None
    assert f"--softnet={path}" in agent.job.arguments
    without = fleet_config(NOTHING | {"agent_bundle": bundle(tmp_path / "b")})
    assert without.agent is not None
    assert without.agent.job is not None
    assert not any("softnet" in each for each in without.agent.job.arguments)


def test_config_check_names_what_is_missing(tmp_path: Path) -> None:
    found = problems()
    assert "make bundle" in found["--agent-bundle"]
    assert "--tart-sha256" in found["--tart-url"]
    found = problems("--agent-bundle", str(bundle(tmp_path / "b")), *TART)
    assert found["--agent-bundle"] == ""
    assert found["--tart-url"] == ""


def test_a_fleet_file_needs_neither(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("{}\n")
    found = problems("--fleet-config", str(tmp_path / "fleet.yaml"))
    assert (found["--agent-bundle"], found["--tart-url"]) == ("", "")


@pytest.mark.parametrize(
    ("words", "field", "said"),
    [
        (("--agent-bundle", "/no/such/bundle"), "--agent-bundle", "No such file"),
        (("--tart-url", "http://files.example/t"), "--tart-url", "https"),
        (("--tart-url", "https://files.example/t"), "--tart-sha256", "64 hex digits"),
        (("--tart-url", "https://files.example/t", "--tart-sha256", "0" * 64), "--tart-sha256", "docs/examples/values"),
        (("--softnet-url", "http://files.example/s"), "--softnet-url", "https"),
        (("--softnet-url", "https://files.example/s"), "--softnet-sha256", "64 hex digits"),
    ],
)
def test_bad_input_is_named_by_its_flag(words, field: str, said: str) -> None:
    assert said in problems(*words)[field]


def test_simulated_macs_keep_their_own_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.hosts.bootstrap.agent_bundle.DEFAULT_BUNDLE", bundle(tmp_path / "b"))
    assert fleet_config(NOTHING | {"simulate": True}).agent is None
    real = fleet_config(NOTHING | {"simulate": False, "runner_dispatch_url": "https://d.example"})
    assert real.agent is not None
    assert real.agent.job is not None
    assert "--dispatch-url=https://d.example" in real.agent.job.arguments


def test_doctor_says_what_the_image_lacks(tmp_path: Path) -> None:
    image = tmp_path / "share" / "bundle.tar.gz"
    (elsewhere,) = node_agent({}, image)
    assert elsewhere.state == "unknown"
    image.parent.mkdir()
    agent, tart, softnet = node_agent({}, image)
    assert (agent.state, tart.state, softnet.state) == ("problem", "problem", "ok")
    assert "one account at a time" in softnet.found
    assert "MACOS_PYTHON_URL" in agent.fix
    bundle(image)
    told = {"PADDOCK_TART_URL": "https://files.example/t", "PADDOCK_SOFTNET_URL": "https://files.example/s"}
    agent, tart, softnet = node_agent(told, image)
    assert (agent.state, tart.state, softnet.state) == ("ok", "ok", "ok")
    assert "https://files.example/s" in softnet.found
    assert node_agent(told | {"PADDOCK_SOFTNET_SHA256": "0" * 64}, image)[2].state == "problem"
    _, tart, _ = node_agent({"PADDOCK_TART_URL": "https://files.example/t", "PADDOCK_TART_SHA256": "0" * 64}, image)
    assert (tart.state, "placeholder of docs/examples/values.yaml" in tart.found) == ("problem", True)
    image.write_bytes(b"nonsense")
    assert node_agent({}, image)[0].state == "problem"
