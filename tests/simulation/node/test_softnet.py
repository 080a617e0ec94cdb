"""A Mac's Node says `tuist.dev/softnet=true` only while every VM on it is behind Softnet: dispatch believes it."""

from dataclasses import replace

from simulation.node.node_world import NODE, NodeWorld

from paddock.kube.builtin import Node
from paddock.simulator.process import World, simulate


async def _said(mac: NodeWorld) -> str:
    return (await mac.api.get(Node, NODE)).metadata.labels.get("tuist.dev/softnet", "")


def test_a_mac_gets_the_label_when_the_last_vm_of_before_softnet_has_ended() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 120.0
        await mac.pod("old")
        await mac.is_ready("old")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        assert await _said(mac) == "false"
        mac.settings = replace(mac.settings, use_softnet=True)
        world.processes["agent"].crash()
        await mac.pod("new")
        await mac.is_ready("new")
        assert await _said(mac) == "false", "the old VM is on the Mac's plain network"
        await mac.phase_is("old", "Succeeded", within=900.0)

        async def says_true() -> bool:
            return await _said(mac) == "true"

        await mac.eventually("the label says so", says_true)
        mac.settings = replace(mac.settings, use_softnet=False)
        world.processes["agent"].crash()

        async def says_false() -> bool:
            return await _said(mac) == "false"

        await mac.eventually("and takes it back", says_false)

    simulate(scenario, seed=3)
