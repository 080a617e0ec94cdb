"""A Node lives as long as its agent says so, and a Pod does not outlive its Node."""

from __future__ import annotations

from typing import Any

from doubles.clocks import SteppedClock

from paddock.base.rng import seeded
from paddock.embedded.api.builtin import catalogue
from paddock.embedded.api.deletion import DeleteOptions
from paddock.embedded.api.kinds import Kinds
from paddock.embedded.api.namespace_controller import create_first_namespaces
from paddock.embedded.api.node_lifecycle import GRACE, QUARANTINE, NodeLifecycle, unheard
from paddock.embedded.api.objects import Objects, Write
from paddock.embedded.api.representation import decode
from paddock.embedded.store import Key
from paddock.embedded.store.memory import MemoryStore

Json = dict[str, Any]
STEP = 5.0


class World:
    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.objects = Objects(MemoryStore(), Kinds(catalogue.KINDS), self.clock, seeded(1))
        self.lifecycle = NodeLifecycle(self.objects)
        self.renewals = 0

    def kind(self, group: str, plural: str) -> Any:
        return self.objects.kinds.get(group, "v1", plural)

    async def begin(self) -> World:
        await create_first_namespaces(self.objects)
        conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
        node = {"metadata": {"name": "mac-1"}, "status": {"conditions": conditions}}
        await self.objects.create(self.kind("", "nodes"), "", node, Write())
        lease = {"metadata": {"name": "mac-1"}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
        leases = self.kind("coordination.k8s.io", "leases")
        await self.objects.create(leases, "kube-node-lease", lease, Write())
        await self.objects.create(
            self.kind("", "pods"),
            "default",
            {
                "metadata": {"name": "runner"},
                "spec": {"nodeName": "mac-1", "containers": [{"name": "runner", "image": "a"}]},
            },
            Write(),
        )
        return self

    async def renew(self) -> None:
        self.renewals += 1

        def renewed(lease: Json) -> Json:
            lease["spec"]["renewTime"] = f"2026-01-01T00:00:00.{self.renewals:06d}Z"
            return lease

        leases = self.kind("coordination.k8s.io", "leases")
        await self.objects.change(leases, "kube-node-lease", "mac-1", renewed, Write())

    async def passes(self, seconds: float, *, renewing: bool = False) -> None:
        for _ in range(int(seconds / STEP)):
            if renewing:
                await self.renew()
            await self.lifecycle.look()
            await self.clock.sleep(STEP)
        await self.lifecycle.look()

    async def ready(self) -> str:
        record = await self.objects.store.get(Key("nodes", "", "mac-1"))
        assert record is not None
        return next(each["status"] for each in decode(record)["status"]["conditions"] if each["type"] == "Ready")

    async def pod_is_there(self) -> bool:
        return await self.objects.store.get(Key("pods", "default", "runner")) is not None

    async def lose_node(self) -> None:
        await self.objects.delete(self.kind("", "nodes"), "", "mac-1", DeleteOptions())


async def test_a_node_whose_lease_is_renewed_stays_ready() -> None:
    world = await World().begin()
    await world.passes(6 * GRACE, renewing=True)
    assert await world.ready() == "True"


async def test_a_node_is_unknown_once_its_lease_stood_still_for_the_grace_and_not_before() -> None:
    world = await World().begin()
    await world.passes(GRACE)
    assert await world.ready() == "True"
    await world.passes(STEP)
    assert await world.ready() == "Unknown"
    assert await world.pod_is_there(), "silence proves nothing about what runs there"


async def test_the_grace_begins_anew_with_the_process() -> None:
    world = await World().begin()
    await world.passes(GRACE - STEP)
    world.lifecycle = NodeLifecycle(world.objects)
    await world.passes(GRACE)
    assert await world.ready() == "True"


async def test_a_pod_goes_with_its_node_after_the_quarantine() -> None:
    world = await World().begin()
    await world.passes(STEP)
    await world.lose_node()
    await world.passes(QUARANTINE)
    assert await world.pod_is_there()
    await world.passes(STEP)
    assert not await world.pod_is_there()


async def test_a_node_that_comes_back_within_the_quarantine_keeps_its_pods() -> None:
    world = await World().begin()
    await world.lose_node()
    await world.passes(QUARANTINE - STEP)
    await world.objects.create(world.kind("", "nodes"), "", {"metadata": {"name": "mac-1"}}, Write())
    await world.passes(2 * QUARANTINE, renewing=True)
    assert await world.pod_is_there()


def test_conditions_that_say_unknown_are_left_alone_and_those_of_others_stay() -> None:
    before = [{"type": "Ready", "status": "True"}, {"type": "LongUptime", "status": "False"}]
    after = unheard(before, "now")
    assert after is not None
    assert [each["status"] for each in after] == ["Unknown", "False"]
    assert unheard(after, "later") is None
