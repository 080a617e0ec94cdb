"""A Pod that has its Mac for itself has it really: no other tenant's VM runs beside it, not even one on its way out."""

from typing import Any

from simulation.node.node_world import IMAGE, NodeWorld

from paddock.simulator.process import World, simulate


def _runner(seats: str) -> dict[str, Any]:
    resources = {
        "limits": {"cpu": "2", "memory": "4Gi", "tuist.dev/vm": seats},
        "requests": {"cpu": "2", "memory": "4Gi", "tuist.dev/vm": seats},
    }
    return {"containers": [{"name": "runner", "image": IMAGE, "resources": resources}]}


def test_a_pod_that_was_bound_beside_one_that_is_alone_is_refused() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("alone", **_runner("2"))
        await mac.is_ready("alone")
        # Bound by hand, past the scheduler, which would never have put it here.
        await mac.pod("beside", **_runner("1"))
        refused = await mac.phase_is("beside", "Failed")
        assert refused is not None
        assert refused.status.reason == "OutOftuist.dev/vm"
        assert mac.tart.running() == [mac.vm(uid)]

    simulate(scenario, seed=1)


def test_a_pod_that_must_be_alone_waits_until_the_last_vm_has_ended() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        first = await mac.pod("first", **_runner("1"))
        await mac.is_ready("first")
        await mac.delete("first")
        second = await mac.pod("alone", **_runner("2"))
        while mac.vm(first) in mac.tart.running():
            assert mac.vm(second) not in mac.tart.running(), "two tenants share the Mac"
            await world.clock.sleep(0.25)
        await mac.is_ready("alone")
        assert mac.tart.running() == [mac.vm(second)]

    simulate(scenario, seed=1)
