"""The simulated node agent: a Mac on which the agent's job runs shows up as a Node, and goes quiet when it stops.

The agent itself is a small program that the bootstrap puts on every Mac like any other payload; what it would tell the
cluster is told here, from the state of the simulated launchd.
"""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from paddock.base.clock import Clock, rfc3339
from paddock.base.logs import get_logger
from paddock.hosts.bootstrap import FleetConfig, LaunchdJob, Payload
from paddock.kube.builtin import Node
from paddock.kube.client import Client
from paddock.kube.errors import KubeError, NotFoundError
from paddock.simulator.mac import Fleet, SimulatedMac

__all__ = ["SimulatedNodes", "with_simulated_agent"]

log = get_logger("simulated nodes")
LABEL = "dev.paddock.node-agent"
PROGRAM = "/usr/local/bin/paddock-node-agent"
_AGENT = b"#!/bin/sh\n# The node agent of the simulated Macs: the simulation does its work.\nexec sleep 86400\n"
_LOOK_EVERY = 2.0
_HEARTBEAT = 60.0
_QUIET_AFTER = 40.0
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def with_simulated_agent(config: FleetConfig, folder: Path) -> FleetConfig:
    """The configuration with the simulated agent as its node agent, unless it names one itself."""
    if config.agent is not None:
        return config
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "paddock-node-agent"
    source.write_bytes(_AGENT)
    agent = Payload(
        name="paddock-node-agent",
        source=str(source),
        sha256=hashlib.sha256(_AGENT).hexdigest(),
        install_to=PROGRAM,
        agent=True,
        job=LaunchdJob(
            label=LABEL,
            arguments=(
                PROGRAM,
                "--node-name={node_name}",
                "--provider-id={provider_id}",
                "--cpu={host_cpu}",
                "--memory-mb={host_memory_mb}",
                "--max-pods={max_pods}",
                "--labels={node_labels}",
            ),
        ),
    )
    return replace(config, payloads=(*config.payloads, agent))


@dataclass(slots=True)
class _Told:
    """What the cluster was told last of a Node, and when the agent was last seen running."""

    ready: bool
    at: float
    seen: float


class SimulatedNodes:
    """Tells the cluster about every Mac whose agent runs."""

    def __init__(self, fleet: Fleet, client: Client, clock: Clock) -> None:
        self._fleet = fleet
        self._client = client
        self._clock = clock
        self._told: dict[str, _Told] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            for mac in self._fleet.macs:
                try:
                    await self._look(mac)
                except KubeError as error:
                    log.warning("a simulated node could not be told", mac=mac.name, why=str(error))
            await self._clock.sleep(_LOOK_EVERY)

    async def _look(self, mac: SimulatedMac) -> None:
        job = mac.job(LABEL) if mac.powered else None
        running = job is not None and job.pid is not None
        now = self._clock.monotonic()
        if job is not None and running:
            given = _arguments(job.program)
            name = given.get("node-name", "")
            told = self._told.get(name)
            if told is None or not told.ready or now - told.at > _HEARTBEAT or not await self._exists(name):
                await self._tell(name, given, ready=True)
                self._told[name] = _Told(ready=True, at=now, seen=now)
            else:
                told.seen = now
            return
        for name, told in list(self._told.items()):
            if told.ready and now - told.seen > _QUIET_AFTER and await self._exists(name):
                await self._tell(name, {}, ready=False)
                told.ready, told.at = False, now

    async def _exists(self, name: str) -> bool:
        try:
            await self._client.get(Node, name)
        except NotFoundError:
            self._told.pop(name, None)
            return False
        return True

    async def _tell(self, name: str, given: dict[str, str], *, ready: bool) -> None:
        now = self._clock.now()
        if ready:
            await self._client.apply(_node(name, given), Node.RESOURCE, force=True)
        status = {"metadata": {"name": name}, "status": _status(given, now, ready=ready)}
        await self._client.merge_patch(Node, name, status, subresource="status")


def _arguments(program: list[str]) -> dict[str, str]:
    words = (word.removeprefix("--").split("=", 1) for word in program[1:] if word.startswith("--"))
    return {pair[0]: pair[1] for pair in words if len(pair) == 2}


def _node(name: str, given: dict[str, str]) -> dict[str, Any]:
    labels = dict(pair.split("=", 1) for pair in given.get("labels", "").split(",") if "=" in pair)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/os": "darwin",
                "kubernetes.io/arch": "arm64",
                "kubernetes.io/hostname": name,
                "tuist.dev/runtime": "tart",
                **labels,
            },
        },
        "spec": {
            "providerID": given.get("provider-id", ""),
            "taints": [{"key": "tuist.dev/macos", "value": "true", "effect": "NoSchedule"}],
        },
    }


def _status(given: dict[str, str], now: datetime, *, ready: bool) -> dict[str, Any]:
    """All four conditions: Cluster API takes a Node that reports Ready alone for unhealthy."""
    beat = rfc3339(now)
    conditions = [
        {
            "type": "Ready",
            "status": "True" if ready else "Unknown",
            "reason": "AgentReady" if ready else "AgentQuiet",
            "message": "the agent runs" if ready else "the agent does not report any more",
            "lastHeartbeatTime": beat,
            "lastTransitionTime": beat,
        },
        *(
            {
                "type": name,
                "status": "False" if ready else "Unknown",
                "reason": "AgentReady" if ready else "AgentQuiet",
                "lastHeartbeatTime": beat,
                "lastTransitionTime": beat,
            }
            for name in _PRESSURES
        ),
    ]
    status: dict[str, Any] = {"conditions": conditions}
    if ready:
        offer = {
            "cpu": given.get("cpu", "8"),
            "memory": f"{given.get('memory-mb', '14336')}Mi",
            "pods": given.get("max-pods", "3"),
            "tuist.dev/vm": "2",
        }
        status |= {
            "capacity": offer,
            "allocatable": offer,
            "nodeInfo": {"operatingSystem": "darwin", "architecture": "arm64", "kubeletVersion": "v1.32.0-paddock"},
        }
    return status
