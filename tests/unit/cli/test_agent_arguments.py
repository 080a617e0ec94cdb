"""The command line of a Mac's launchd job is read by the shipped command, in the simulation, too."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from paddock.cli.simulated_world import agent_command
from paddock.hosts.bootstrap import FleetConfig
from paddock.simulator.agent_payload import DISPATCH, with_node_agent

VALUES = {
    "node_name": "mac-1",
    "kubeconfig": "/etc/paddock/kubeconfig",
    "provider_id": "scaleway://apple-silicon/fr-par-1/1",
    "node_labels": "tuist.dev/fleet=macs,a=b",
    "username": "m1",
}


def arguments(folder: Path) -> list[str]:
    agent = with_node_agent(FleetConfig(), folder).agent
    assert agent is not None
    assert agent.job is not None
    return [each.format(**VALUES) for each in agent.job.arguments[1:]]


def test_the_arguments_that_the_bootstrap_installs_are_those_that_the_shipped_command_takes(tmp_path: Path) -> None:
    command = agent_command(arguments(tmp_path))
    assert command.kubeconfig == VALUES["kubeconfig"]
    settings = command.settings
    assert (settings.node_name, settings.provider_id, settings.dispatch_url) == (
        "mac-1",
        VALUES["provider_id"],
        DISPATCH,
    )
    assert settings.labels == {"tuist.dev/fleet": "macs", "a": "b"}
    assert settings.data == Path("/Users/m1/.paddock/node")
    assert settings.use_softnet, "several simulated accounts fill both seats of a Mac"
    assert settings.max_vms == 2, "what is not said is the command's own default"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [("--surprise=1", "--surprise"), ("--node-labels=a", "label"), ("--max-vms=9", "not in the range")],
)
def test_an_argument_that_the_command_does_not_take_is_refused_as_on_a_mac(
    tmp_path: Path, change: str, complaint: str
) -> None:
    with pytest.raises(click.UsageError, match=complaint):
        agent_command([*arguments(tmp_path), change])


def test_an_agent_without_a_kubeconfig_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="--kubeconfig is missing"):
        agent_command([each for each in arguments(tmp_path) if not each.startswith("--kubeconfig")])
