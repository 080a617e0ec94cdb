"""The operator's runner subsystem lives through everything that it does, and its role fits it: nothing missing, nothing wider."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from integration.roles.deployed import OPERATOR_ROLES, files
from integration.roles.recording import Requests, Right, install
from simulation.runners.scaling.rig import ScalingWorld

from paddock.base.failing_mac import JOBS_FAIL
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import ConflictError, NotFoundError
from paddock.kube.objects import ObjectMeta, OwnerReference
from paddock.kube.roles import Role
from paddock.runners.api import FLEET_LABEL, POOL_LABEL, Profile, RunnerPool
from paddock.runners.ledger.mac_ends import EndOnMac
from paddock.runners.processes.roles import OPERATOR_CLUSTER_RULES, OPERATOR_RUNNERS_RULES
from paddock.simulator.process import World, simulate

ROLES = (
    Role("in the cluster", OPERATOR_CLUSTER_RULES),
    Role("where the runners are", OPERATOR_RUNNERS_RULES, "default"),
)

EXPLAINED = {
    # Asked about by admission, not by a request: only where OwnerReferencesPermissionEnforcement is on.
    Right("default", "tuist.dev", "runnerpools/finalizers", "update"),
    # The same event about the same object a second time becomes a count; the Pods of this test fail once each.
    Right("default", "", "events", "patch"),
    # An account is taken back only where the server refuses its Pod, and the server of this test refuses none.
    Right("default", "", "serviceaccounts", "delete"),
}


class RecordedPools(ScalingWorld):
    """A cluster whose operator is recorded and acts under the deployed roles; the test itself does neither."""

    def __init__(self, world: World, requests: Requests) -> None:
        self.requests = requests
        super().__init__(world)
        world.process("kubelets", self._kubelets)

    async def _kubelets(self) -> None:
        """End what is deleted, as the agents of the Nodes do."""
        await self.ready.wait()
        while True:
            for pod in (await self.api.list(Pod, "default")).items:
                if pod.metadata.deletion_timestamp is not None:
                    with suppress(NotFoundError, ConflictError):
                        await self.api.delete(Pod, pod.metadata.name, "default", uid=pod.metadata.uid, grace_period=0)
            await self.clock.sleep(2.0)

    def _client(self, *, faults: bool = True) -> Client:
        made = super()._client(faults=faults)
        return self.requests.attach(made, "default:paddock-operator") if faults else made

    async def _api(self) -> None:
        async with self.plane.running():
            await install(self.api, files()["operator.yaml"])
            self.ready.set()
            await asyncio.Event().wait()


async def _whole_life(world: World) -> Requests:
    """A pool grows, rolls, loses Pods and a Node, shrinks and ends."""
    pools = RecordedPools(world, Requests())
    await pools.ready.wait()
    for number in range(4):
        await _mac(pools, f"mac-{number}")
    await pools.pool("kata", floor=0, os="linux", fleet_selector="metal", runtime_class="kata-qemu")
    await pools.pool("xcode", floor=3, cooldown=0)
    await pools.pool("table", floor=0, profiles=(Profile(label="large", pod_cpu_milli=8000),))
    await pools.until("a profile has its pool", lambda: pools.seen("table-large").spec.pod_cpu_milli == 8000)
    await pools.api.merge_patch(RunnerPool, "table", {"spec": {"profiles": None}}, "default")
    started = await _running(pools, 3)
    await _patch_pool(pools, {"spec": {"image": "image:2"}})
    await _until(pools, "an idle Pod of the old image is told to drain", lambda pods: any(map(_marked, pods)))
    failed = next(pod for pod in started if not _marked(pod))
    ended = {"status": {"phase": "Failed", "reason": "Evicted", "message": "the host was full"}}
    await pools.api.merge_patch(Pod, failed.metadata.name, ended, "default", subresource="status")
    await _until(pools, "what has ended is removed", lambda pods: failed.metadata.name not in map(_name, pods))
    await pools.api.delete(Node, next(pod.spec.node_name for pod in await _pods(pools) if pod.spec.node_name))
    await _orphan(pools)
    await _patch_pool(pools, {"spec": {"autoscaling": {"minWarmPoolFloor": 1}}})
    await pools.until("shrunk", lambda: pools.replicas("xcode") == [1], within=120)
    await pools.clock.sleep(300)
    await pools.api.delete(RunnerPool, "xcode", "default")
    await pools.until(
        "the pool is gone",
        lambda: all(pool.metadata.name != "xcode" for pool in pools.store.present(RunnerPool)),
        within=600,
    )
    await _jobs_fail(pools)
    return pools.requests


async def _jobs_fail(pools: ScalingWorld) -> None:
    """A Mac is marked on which jobs fail at once."""
    mac, now = pools.store.present(Node)[0].metadata.name, pools.clock.now()
    pools.retirement.ends += [EndOnMac(mac, n, f"pod-{n}", now, now, "failed_at_once") for n in (1, 2, 3)]
    await pools.until(
        "it is marked", lambda: any(JOBS_FAIL in node.metadata.annotations for node in pools.store.present(Node))
    )


async def _mac(pools: ScalingWorld, name: str) -> None:
    labels = {"kubernetes.io/os": "darwin", "tuist.dev/runtime": "tart", FLEET_LABEL: "macs"}
    await pools.api.create(Node(metadata=ObjectMeta(name=name, labels=labels)))
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "3", "tuist.dev/vm": "2"},
    }
    await pools.api.merge_patch(Node, name, {"status": status}, subresource="status")


async def _pods(pools: ScalingWorld) -> list[Pod]:
    return list((await pools.api.list(Pod, "default")).items)


async def _until(pools: ScalingWorld, what: str, holds: Any, within: float = 300.0) -> list[Pod]:
    for _ in range(int(within)):
        if holds(pods := await _pods(pools)):
            return pods
        await pools.clock.sleep(1.0)
    raise AssertionError(f"not within {within:.0f} s: {what}\n{await _pods(pools)}")


async def _running(pools: ScalingWorld, count: int) -> list[Pod]:
    """Wait for that many bound Pods, and let them run."""
    pods = await _until(pools, f"{count} bound", lambda pods: sum(bool(p.spec.node_name) for p in pods) >= count)
    for pod in pods:
        started = {"name": "runner", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "ready": True}
        bound = {"type": "PodScheduled", "status": "True"}
        ready = [bound, {"type": "Ready", "status": "True"}]
        status = {"status": {"phase": "Running", "containerStatuses": [started], "conditions": ready}}
        await pools.api.merge_patch(Pod, pod.metadata.name, status, "default", subresource="status")
    return pods


async def _patch_pool(pools: ScalingWorld, patch: dict[str, Any]) -> None:
    await pools.api.merge_patch(RunnerPool, "xcode", patch, "default")


async def _orphan(pools: ScalingWorld) -> None:
    """An account whose Pod was never made, as a crash leaves it."""
    pool = await pools.api.get(RunnerPool, "xcode", "default")
    owner = OwnerReference(api_version="tuist.dev/v1alpha1", kind="RunnerPool", name="xcode", uid=pool.metadata.uid)
    meta = ObjectMeta(name="xcode-orphan", namespace="default", labels={POOL_LABEL: "xcode"}, owner_references=(owner,))
    await pools.api.create(ServiceAccount(metadata=meta))


def _marked(pod: Pod) -> bool:
    return pod.metadata.labels.get("tuist.dev/drain-eligible") == "true"


def _name(pod: Pod) -> str:
    return pod.metadata.name


@pytest.fixture(scope="module")
def requests() -> Requests:
    return simulate(_whole_life, seed=0).result


def test_the_runner_half_asks_for_nothing_that_the_operators_role_does_not_grant(requests: Requests) -> None:
    assert len(requests.seen) > 15, "it has lived"
    assert requests.forbidden == set(), "it acted under the roles that are deployed"
    assert requests.not_granted(ROLES) == []
    assert requests.not_granted(OPERATOR_ROLES) == [], "they are the same roles"


def test_the_operators_role_for_runners_grants_nothing_that_it_never_asks_for(requests: Requests) -> None:
    assert requests.never_asked(ROLES) == EXPLAINED
