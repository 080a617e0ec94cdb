"""The node agent as a payload of simulated Macs: installed and started as on a real one.

The program on the disk is a few lines that stand for the bundle: putting an interpreter on each simulated Mac would say
nothing more. Where launchd runs its job, the simulated world runs the agent's code (`paddock.simulator.agents`).
"""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Final

from paddock.hosts.bootstrap import FleetConfig, LaunchdJob, Payload

__all__ = ["DISPATCH", "LABEL", "with_node_agent"]

LABEL: Final = "dev.paddock.node-agent"
_PROGRAM: Final = "/usr/local/bin/paddock-node-agent"
_AGENT: Final = (
    b"#!/bin/sh\n# Stands for the node agent's bundle: the simulation runs the agent's code itself.\nexec sleep 86400\n"
)
DISPATCH: Final = "http://dispatch.paddock.internal"
"""A name that stays while ports change from start to start; the world knows where it leads."""


def with_node_agent(config: FleetConfig, folder: Path) -> FleetConfig:
    """The configuration with our node agent, started as on a real Mac, unless it names an agent itself."""
    if config.agent is not None:
        return config
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "paddock-node-agent"
    source.write_bytes(_AGENT)
    agent = Payload(
        name="paddock-node-agent",
        source=str(source),
        sha256=hashlib.sha256(_AGENT).hexdigest(),
        install_to=_PROGRAM,
        agent=True,
        job=LaunchdJob(
            label=LABEL,
            arguments=(
                _PROGRAM,
                "--node-name={node_name}",
                "--kubeconfig={kubeconfig}",
                "--provider-id={provider_id}",
                "--node-labels={node_labels}",
                "--data=/Users/{username}/.paddock/node",
                f"--dispatch-url={DISPATCH}",
            ),
            run_as="login",
        ),
    )
    return replace(config, payloads=(*config.payloads, agent))
