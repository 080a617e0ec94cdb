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
from paddock.hosts.bootstrap.pins import known_version

TART = ("--tart-url", "https://files.example/tart.tar.gz", "--tart-sha256", "b" * 64)
SOFTNET = ("--softnet-url", "https://files.example/softnet.tar.gz", "--softnet-sha256", "c" * 64)
NOTHING: dict[str, Any] = {"fleet_config": None, "agent_bundle": None}


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "PADDOCK_BUNDLE",
        "PADDOCK_TART_URL",
        "PADDOCK_TART_SHA256",
        "PADDOCK_TART_VERSION",
        "PADDOCK_ACCEPT_TART_LICENCE",
        "PADDOCK_SOFTNET_URL",
        "PADDOCK_SOFTNET_SHA256",
        "PADDOCK_SOFTNET_VERSION",
    ):
        monkeypatch.delenv(name, raising=False)


def problems(*words: str, said: str = "problem") -> dict[str, str]:
    outcome = CliRunner().invoke(main, ["config", "check", "operator", *words, "-o", "json"])
    return {value["field"]: value[said] for value in json.loads(outcome.output)["items"]}


def test_a_fleet_without_softnet_is_no_mistake_and_is_told_what_it_would_be_good_for(tmp_path: Path) -> None:
    assert problems()["--softnet-version"] == ""
    assert "one account at a time" in problems(said="note")["--softnet-version"]
    assert problems(*SOFTNET, said="note")["--softnet-version"] == ""
    (tmp_path / "fleet.yaml").write_text("{}\n")
    assert problems("--fleet-config", str(tmp_path / "fleet.yaml"), said="note")["--softnet-version"] == ""
    shown = CliRunner().invoke(main, ["config", "check", "operator"]).output
    assert "· operator: --softnet-version: without Softnet a Mac runs jobs of one account at a time" in shown


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
    assert "--accept-tart-licence" in found["--tart-version"]
    assert "--tart-sha256" in found["--tart-version"]
    found = problems("--agent-bundle", str(bundle(tmp_path / "b")), *TART)
    assert found["--agent-bundle"] == ""
    assert found["--tart-version"] == ""


def test_whoever_names_the_known_version_and_accepts_its_licence_types_no_sum(tmp_path: Path) -> None:
    taken = {"agent_bundle": bundle(tmp_path / "b"), "tart_version": known_version("tart"), "accept_tart_licence": True}
    tart, softnet, _ = fleet_config(NOTHING | taken | {"softnet_version": known_version("softnet")}).payloads
    assert tart.source.endswith(f"/{known_version('tart')}/tart.tar.gz")
    assert softnet.source.endswith(f"/{known_version('softnet')}/softnet.tar.gz")
    words = (
        "--tart-version",
        known_version("tart"),
        "--accept-tart-licence",
        "--softnet-version",
        known_version("softnet"),
    )
    assert problems(*words)["--tart-version"] == ""
    assert problems(*words, said="note")["--softnet-version"] == ""


def test_a_fleet_file_needs_neither(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("{}\n")
    found = problems("--fleet-config", str(tmp_path / "fleet.yaml"))
    assert (found["--agent-bundle"], found["--tart-version"]) == ("", "")


@pytest.mark.parametrize(
    ("words", "field", "said"),
    [
        (("--agent-bundle", "/no/such/bundle"), "--agent-bundle", "No such file"),
        (("--tart-url", "http://files.example/t"), "--tart-url", "https"),
        (("--tart-url", "https://files.example/t"), "--tart-sha256", "64 hex digits"),
        (("--tart-version", known_version("tart")), "--accept-tart-licence", "FSL-1.1-ALv2"),
        (("--tart-version", "9.9.9", "--accept-tart-licence"), "--tart-version", "--tart-sha256 of 9.9.9"),
        (("--tart-sha256", "b" * 64), "--tart-url", "without an address"),
        (("--softnet-version", "9.9.9"), "--softnet-version", known_version("softnet")),
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
    assert "make bundle" in agent.fix
    assert "of the release" in agent.fix
    bundle(image)
    told = {
        "PADDOCK_TART_VERSION": known_version("tart"),
        "PADDOCK_ACCEPT_TART_LICENCE": "true",
        "PADDOCK_SOFTNET_URL": "https://files.example/s",
        "PADDOCK_SOFTNET_SHA256": "c" * 64,
    }
    agent, tart, softnet = node_agent(told, image)
    assert (agent.state, tart.state, softnet.state) == ("ok", "ok", "ok")
    assert known_version("tart") in tart.found
    assert "https://files.example/s" in softnet.found
    assert node_agent(told | {"PADDOCK_SOFTNET_SHA256": "0"}, image)[2].state == "problem"
    _, tart, _ = node_agent(told | {"PADDOCK_ACCEPT_TART_LICENCE": "false"}, image)
    assert (tart.state, "--accept-tart-licence" in tart.found) == ("problem", True)
    image.write_bytes(b"nonsense")
    assert node_agent({}, image)[0].state == "problem"
