"""The agent's numbers tell what happened on the Mac: each is moved by the thing that it is named after."""

from prometheus_client import generate_latest
from simulation.node.node_world import NodeWorld

from paddock.simulator.process import World, simulate

OTHER = "images.test/macos:2"


def _numbers(mac: NodeWorld) -> dict[str, float]:
    assert mac.running is not None
    lines = generate_latest(mac.running.metrics.registry).decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def test_every_number_of_the_agent_follows_what_happens() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.pod("p2", image=OTHER)
        await mac.is_ready("p1")
        await mac.is_ready("p2")
        numbers = _numbers(mac)
        assert sum(value for name, value in numbers.items() if name.startswith("paddock_node_vms{")) == 2
        assert sum(value for name, value in numbers.items() if name.startswith("paddock_node_pulls_total{")) == 1
        assert numbers["paddock_node_pull_seconds_count"] == 1
        assert mac.clock.now().timestamp() - numbers["paddock_node_heartbeat_timestamp_seconds"] < 15
        assert any(name.startswith("paddock_node_phase_seconds_count{") and value for name, value in numbers.items())
        await mac.clock.sleep(120.0)
        if mac.gateway is None:  # behind a gateway no Pod has a token on its Mac
            assert 60 < _numbers(mac)["paddock_node_token_age_seconds"] < 700
        await mac.eventually(
            "the free space is told", lambda: _numbers(mac)["paddock_node_disk_free_bytes"] == mac.host.disk_free
        )
        before = mac.running
        world.processes["agent"].crash()
        await mac.eventually("a new agent runs", lambda: mac.running is not before)
        await mac.eventually("it adopted both", lambda: _numbers(mac)["paddock_node_vms_adopted_total"] == 2)
        await mac.clock.sleep(mac.dispatch.hold)  # a request that the dead agent left held would take the job
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job ran", lambda: mac.finished == ["job-1"])

        def ended() -> bool:
            return sum(v for name, v in _numbers(mac).items() if name.startswith("paddock_node_pods_ended_total{")) == 1

        await mac.eventually("its end is counted", ended)

    simulate(scenario, seed=2)
