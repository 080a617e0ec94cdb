"""Who judges an operation: GitHub (jobs), the cloud (what went dark under whom), the scheduler (places), and our own ledgers.

`Watch` looks every few seconds while operations are done. `left_behind` names what should not be there once all is over.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from doubles.github_judge import complaints, seen
from operations.load import Load
from operations.world import OperationsWorld

from paddock.base.metrics import KILL_PATHS, live_kills
from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.runners.api import OWNER_LABEL, POOL_LABEL, RunnerPool
from paddock.runners.ledger.views import QueueSummary
from paddock.simulator.github import SimulatedJob
from paddock.views.health import FleetHealth, survey

__all__ = ["Cost", "Watch", "ended", "kills", "left_behind", "status"]

_LOOK_EVERY = 5.0
_ASK_EVERY = 20.0
_SEATS = 2


@dataclass
class Cost:
    """What an operation cost. `idle` is the longest that a place on a good Mac stayed empty beside jobs that waited."""

    jobs: int = 0
    seconds: float = 0.0
    macs: int = 0
    mac_seconds: float = 0.0
    idle: float = 0.0
    said: list[str] = field(default_factory=list)


async def status(world: OperationsWorld) -> FleetHealth:
    """What `paddock status` says now: the same survey over the same objects."""
    store, service = world.store, world.service
    summary: QueueSummary | None = None
    if world.dispatch.running and service is not None:
        summary = await service.ledger.overview.summary()
    return survey(
        hosts=store.present(ScalewayAppleSiliconHost),
        machines=store.present(Machine),
        fleets=store.present(MacFleet),
        pools=store.present(RunnerPool),
        pods=store.present(Pod),
        nodes=store.present(Node),
        summary=summary,
        now=world.clock.now(),
    )


def kills(world: OperationsWorld, paths: Sequence[str] = KILL_PATHS) -> float:
    """What `paddock_live_kills_total` came to, over every process that ever lived here."""
    return sum(
        sample.value
        for registry in world.registries
        for metric in live_kills(registry).collect()
        for sample in metric.samples
        if sample.name == "paddock_live_kills_total" and sample.labels["path"] in paths
    )


def _is_ready(thing: Node | Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in thing.status.conditions)


class Watch:
    """Looks on. `allowed` is how many jobs a person has ended by hand so far, `given_up` the machines that one forced."""

    def __init__(self, world: OperationsWorld, load: Load) -> None:
        self.world, self.load = world, load
        self.allowed = 0
        self.given_up: set[str] = set()
        self._cost = Cost()
        self._empty_since: dict[str, float] = {}

    async def run(self) -> None:
        last = asked = self.world.clock.monotonic()
        while True:
            await self.world.clock.sleep(_LOOK_EVERY)
            now = self.world.clock.monotonic()
            self._look(now, now - last)
            last = now
            if now < asked + _ASK_EVERY:
                continue
            asked = now
            health = await status(self.world)
            for problem in (*health.problems, *health.going_on):
                said = f"{problem.about}: {problem.sentence}"
                if said not in self._cost.said:
                    self._cost.said.append(said)

    def good_macs(self) -> dict[str, int]:
        """The Macs that can take a job now, by Node, and how many run there."""
        store = self.world.store
        good = {
            node.metadata.name: 0 for node in store.present(Node) if _is_ready(node) and not node.spec.unschedulable
        }
        for mac in self.world.macs.here.values():
            name = mac.machine.metadata.name
            if name in good:
                good[name] = len(mac.jobs)
        return good

    def _look(self, now: float, passed: float) -> None:
        good = self.good_macs()
        self._cost.mac_seconds += max(0, self.world.wanted - len(good)) * passed
        waits = any(job.status == "queued" for job in self.load.jobs)
        for name, jobs in good.items():
            if waits and jobs < _SEATS:
                since = self._empty_since.setdefault(name, now)
                self._cost.idle = max(self._cost.idle, now - since)
            else:
                self._empty_since.pop(name, None)
        for name in self._empty_since.keys() - good.keys():
            del self._empty_since[name]

    @contextmanager
    def measuring(self) -> Iterator[Cost]:
        """What happens in this block is one operation's cost."""
        self._cost = cost = Cost()
        self._empty_since.clear()
        began, lost, wiped = self.world.clock.monotonic(), self.lost(), len(self.world.macs.wiped)
        yield cost
        cost.seconds = self.world.clock.monotonic() - began
        cost.jobs, cost.macs = self.lost() - lost, len(self.world.macs.wiped) - wiped
        self._cost = Cost()

    def lost(self) -> int:
        """Jobs whose runner went away, or that did not succeed."""
        self.world.github.tick()
        return sum(
            job.lost_since is not None or job.conclusion not in (None, "success") or job.starts > 1
            for job in self.load.jobs
        )

    def wrong(self) -> list[str]:
        """What GitHub and the cloud complain about, since the beginning."""
        self.world.github.tick()
        found = complaints(seen(self.load.jobs), counted=kills(self.world), others=self.allowed)
        found += [f"job {job.id} ended as {job.conclusion}" for job in self._unsuccessful()]
        return found + [each for each in self.world.macs.under_a_job if each.partition(" ")[0] not in self.given_up]

    def _unsuccessful(self) -> list[SimulatedJob]:
        ended = [job for job in self.load.jobs if job.conclusion not in (None, "success")]
        return ended[self.allowed :]


async def left_behind(world: OperationsWorld, *, idle: bool = False) -> list[str]:
    """What no ledger accounts for, or what is still under way. With `idle` no job runs any more, and nothing may look as if."""
    store = world.store
    machines, nodes = store.present(Machine), {node.metadata.name: node for node in store.present(Node)}
    pods, pools = store.present(Pod), {pool.metadata.name: pool for pool in store.present(RunnerPool)}
    found = [f"machine {m.metadata.name} is {m.status.phase}" for m in machines if not m.status.ready]
    if len(machines) != world.wanted:
        found.append(f"{len(machines)} machines, and {world.wanted} are wanted")
    found += [f"node {name} has no machine" for name in nodes.keys() - {m.metadata.name for m in machines}]
    found += [f"machine {m.metadata.name} has no node" for m in machines if m.metadata.name not in nodes]
    for name, node in nodes.items():
        if node.spec.unschedulable or not _is_ready(node):
            found.append(f"node {name} is cordoned or not ready")
    found += _hosts_left(world, machines)
    for pod in pods:
        going = pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Failed", "Succeeded")
        if pod.metadata.labels.get(POOL_LABEL) not in pools:
            found.append(f"pod {pod.metadata.name} has no pool")
        elif not idle:
            continue  # jobs end and Pods are replaced all the time
        elif going:
            found.append(f"pod {pod.metadata.name} is going")
        elif not _is_ready(pod):
            found.append(f"pod {pod.metadata.name} is not ready")
        elif OWNER_LABEL in pod.metadata.labels:
            found.append(f"pod {pod.metadata.name} is held for a job that has ended")
    for name, pool in pools.items():
        have = sum(pod.metadata.labels.get(POOL_LABEL) == name for pod in pods)
        if have != min(pool.spec.replicas, _SEATS * world.wanted):
            found.append(f"pool {name} has {have} Pods of {pool.spec.replicas}")
    accounts = {a.metadata.name for a in store.present(ServiceAccount) if POOL_LABEL in a.metadata.labels}
    found += [f"service account {name} has no Pod" for name in accounts - {pod.metadata.name for pod in pods}]
    found += await _ledger_left(world, {pod.metadata.uid for pod in pods}, idle=idle)
    return found + _macs_left(world, {pod.metadata.uid for pod in pods}, idle=idle)


def _hosts_left(world: OperationsWorld, machines: list[Machine]) -> list[str]:
    names = {machine.metadata.name for machine in machines}
    found = [
        f"server {s.name} is nobody's"
        for s in world.cloud.hosts()
        if not s.name.startswith("tuist-pool-") and s.name not in names
    ]
    found += [f"server {s.name} is {s.status}" for s in world.cloud.hosts() if s.status != "ready"]
    hosts = world.store.present(ScalewayAppleSiliconHost)
    return found + [f"host {host.metadata.name} is being given back" for host in hosts if host.spec.release is not None]


async def _ledger_left(world: OperationsWorld, pods: set[str], *, idle: bool) -> list[str]:
    claims, sessions = await world.ledger.claims.all(), await world.ledger.sessions.open()
    held = [("claim", claim.pod_uid) for claim in claims] + [("session", session.pod_uid) for session in sessions]
    found = [f"a {what} of Pod {uid}, which is gone" for what, uid in held if uid not in pods]
    if idle and held:
        found.append(f"{len(claims)} claims and {len(sessions)} sessions, and no job runs")
    return found


def _macs_left(world: OperationsWorld, pods: set[str], *, idle: bool) -> list[str]:
    found = []
    for mac in world.macs.here.values():
        name = mac.machine.metadata.name
        vms = [vm for vm in mac.tart.vms if vm.startswith("pdk-")]
        found += [f"VM {vm} on {name} has no Pod" for vm in vms if not any(vm.endswith(uid) for uid in pods)]
    online = [runner.name for runner in world.github.state.runners.values() if idle and not runner.removed]
    return found + [f"runner {name} is registered at GitHub, and no job runs" for name in online]


async def ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
