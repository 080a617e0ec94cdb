"""Nodes and Pods of a simulated fleet, whose agents and kubelets a test plays, and a judge of what happens to Macs at work."""

from dataclasses import dataclass, field
from datetime import timedelta

from paddock.base.clock import rfc3339
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.kube.builtin import Container, Node, NodeSpec, Pod, PodSpec
from paddock.kube.conditions import is_true
from paddock.kube.objects import ObjectMeta
from paddock.simulator.fleet_world import FleetWorld

__all__ = ["JOB", "RUNNER", "Work", "node_ready", "node_says"]

RUNNER = {"tuist.dev/runner": "true", "tuist.dev/runner-pool": "mac"}
JOB = {**RUNNER, "tuist.dev/runner-pool-owner": "acme", "tuist.dev/runner-account": "7"}


@dataclass
class Work:
    """Nodes and Pods of a fleet, and a judge: which Macs went dark while a job ran there."""

    fleet: FleetWorld
    servers: dict[str, str] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)
    seen: int = 0

    async def node(self, machine: Machine) -> None:
        meta = ObjectMeta(name=machine.metadata.name)
        self.servers[meta.name] = machine.status.server_id
        await self.fleet.api.create(Node(metadata=meta, spec=NodeSpec(provider_id=machine.spec.provider_id)))

    async def pod(self, name: str, node: str, labels: dict[str, str] = JOB) -> None:
        meta = ObjectMeta(name=name, namespace="default", labels=labels)
        spec = PodSpec(node_name=node, containers=(Container(name="runner", image="mac"),))
        await self.fleet.api.create(Pod(metadata=meta, spec=spec))

    async def end(self, name: str) -> None:
        done = {"status": {"phase": "Succeeded"}}
        await self.fleet.api.merge_patch(Pod, name, done, namespace="default", subresource="status")

    def at_work(self) -> set[str]:
        """The servers on which a job runs now, whatever any controller thinks."""
        return {
            self.servers[pod.spec.node_name]
            for pod in self.fleet.store.present(Pod)
            if pod.status.phase not in {"Succeeded", "Failed"} and "tuist.dev/runner-account" in pod.metadata.labels
        }

    def watch(self) -> None:
        """From now on every wipe, deletion and reboot is compared with who works at that very moment."""

        def dark(server: str) -> None:
            self.seen += 1
            if server in self.at_work():
                self.killed.append(server)

        self.fleet.cloud.on_power.append(lambda host, on: None if on else dark(host.id))
        self.fleet.cloud.on_delete.append(lambda host: dark(host.id))


async def node_ready(fleet: FleetWorld) -> Work:
    """The machine m-1 is set up, and its Node joins and is ready; from now on the judge watches."""

    async def bootstrapped() -> bool:
        return is_true((await fleet.machines())[0].status.conditions, "Bootstrapped")

    await fleet.eventually("it is bootstrapped", bootstrapped, within=900)
    work = Work(fleet)
    await work.node((await fleet.machines())[0])
    await node_says(fleet, "True")
    await fleet.all_ready(1, within=600)
    work.watch()
    return work


async def node_says(fleet: FleetWorld, status: str, *, since: float = 0.0, reason: str = "", **more: str) -> None:
    """What the Node m-1 says from now on; `since` is for how many seconds already, `reason` why it is not ready."""
    now, turned = rfc3339(fleet.clock.now()), rfc3339(fleet.clock.now() - timedelta(seconds=since))
    said = [
        {"type": kind, "status": value, "reason": reason, "lastTransitionTime": turned, "lastHeartbeatTime": now}
        for kind, value in {"Ready": status, **more}.items()
    ]
    await fleet.api.merge_patch(Node, "m-1", {"status": {"conditions": said}}, subresource="status")
