"""The node agent, and Softnet, as payloads of simulated Macs: installed and started as on a real one.

The programs on the disk are a few lines that stand for the bundle and for Softnet: putting an interpreter on each simulated
Mac would say nothing more. Where launchd runs its job, the simulated world runs the agent's code (`paddock.simulator.agents`).
"""

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from paddock.hosts.bootstrap import FleetConfig, LaunchdJob, Payload
from paddock.hosts.bootstrap.agent_bundle import SOFTNET, softnet_payload

__all__ = ["DISPATCH", "LABEL", "with_node_agent"]

LABEL: Final = "dev.paddock.node-agent"
_PROGRAM: Final = "/usr/local/bin/paddock-node-agent"
_AGENT: Final = b"""#!/bin/sh
# Stands for the node agent's bundle: the simulation runs the agent's code itself.
case " $* " in *" take-key "*) exec paddock-take-key "$@" ;; esac
exec sleep 86400
"""
DISPATCH: Final = "http://dispatch.paddock.internal"
"""A name that stays while ports change from start to start; the world knows where it leads."""


_SOFTNET: Final = (
    b"#!/bin/sh\n# Stands for Softnet: simulated VMs have no network to be kept apart on.\nexec sleep 86400\n"
)


def with_node_agent(config: FleetConfig, folder: Path) -> FleetConfig:
    """The configuration with our node agent behind Softnet, started as on a real Mac, unless it names an agent itself."""
    if config.agent is not None:
        return config
    folder.mkdir(parents=True, exist_ok=True)
    config = _with_softnet(config, folder)
    vms = config.virtual_machines
    softnet = (f"--softnet={vms.softnet}",) if vms is not None and vms.softnet else ()
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
                *softnet,
            ),
            run_as="login",
        ),
    )
    return replace(config, payloads=(*config.payloads, agent))


def _with_softnet(config: FleetConfig, folder: Path) -> FleetConfig:
    """Softnet by the shipped payload and step, unless the configuration names one: jobs of several accounts fill both seats."""
    vms = config.virtual_machines
    if vms is None or vms.softnet:
        return config
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        info = tarfile.TarInfo("softnet")
        info.size, info.mode = len(_SOFTNET), 0o755
        tar.addfile(info, io.BytesIO(_SOFTNET))
    source = folder / "softnet.tar"
    source.write_bytes(content.getvalue())
    payload = softnet_payload(str(source), hashlib.sha256(content.getvalue()).hexdigest())
    return replace(config, payloads=(*config.payloads, payload), virtual_machines=replace(vms, softnet=SOFTNET))
