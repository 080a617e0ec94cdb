"""A VM is ready only while somebody asks dispatch for its job."""

from simulation.node.node_world import DATA, NodeWorld

from paddock.kube.builtin import Pod, PodCondition
from paddock.simulator.process import World, simulate


async def _ready(mac: NodeWorld, name: str = "p1") -> PodCondition:
    pod = await mac.see(name)
    assert pod is not None
    return next((each for each in pod.status.conditions if each.type == "Ready"), PodCondition("Ready"))


def test_a_vm_for_which_dispatch_cannot_be_asked_is_not_ready_and_says_why() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        world.processes["dispatch"].crash()
        await mac.pod("p1")

        async def said() -> bool:
            return (await _ready(mac)).reason == "NotAsking"

        await mac.eventually("it says what it lacks", said)
        await world.clock.sleep(300.0)
        pod = await mac.see("p1")
        assert pod is not None
        assert pod.status.phase == "Running"
        assert (await _ready(mac)).status == "False"
        assert "--dispatch-url" in (await _ready(mac)).message
        world.processes["dispatch"].start()
        await mac.is_ready("p1")

    simulate(scenario, seed=1)


def test_the_first_request_does_not_wait_so_that_a_vm_is_ready_within_a_second() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        status = DATA / "vms" / uid / "status" / "state"
        await mac.eventually("the guest is ready", lambda: mac.disk.files.get(status, b"") == b"ready\n")
        began = world.clock.monotonic()
        await mac.is_ready("p1")
        assert world.clock.monotonic() - began <= 3.0

    simulate(scenario, seed=1)


def test_a_short_outage_of_dispatch_or_a_restart_of_the_agent_leaves_a_vm_ready() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        since = (await _ready(mac)).last_transition_time
        for process, seconds in (("dispatch", 60.0), ("agent", 0.0)):
            world.processes[process].crash()
            for _ in range(90):
                assert (await _ready(mac)).status == "True"
                await world.clock.sleep(1.0)
                seconds -= 1.0
                if process == "dispatch" and seconds == 0.0:
                    world.processes[process].start()
        assert (await _ready(mac)).last_transition_time == since

    simulate(scenario, seed=1)


def test_a_vm_that_is_cut_off_from_dispatch_is_not_ready_until_it_is_back() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        world.processes["dispatch"].crash()
        began = world.clock.monotonic()

        async def cut_off() -> bool:
            return (await _ready(mac)).reason == "DispatchUnreachable"

        await mac.eventually("it says so", cut_off)
        assert 90.0 <= world.clock.monotonic() - began <= 180.0
        assert mac.tart.running(), "nothing is stopped because an answer is missing"
        world.processes["dispatch"].start()
        await mac.is_ready("p1")

    simulate(scenario, seed=1)


def test_what_a_control_plane_said_of_a_silent_node_is_taken_back() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        lost = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]}}
        await mac.api.merge_patch(Pod, "p1", lost, "default", subresource="status")
        await mac.is_ready("p1")

    simulate(scenario, seed=1)
