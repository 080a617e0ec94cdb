"""A runner's log reaches dispatch while it runs and when it has ended, and never costs anybody a job."""

import pytest
from simulation.branches import interrupted_calls
from simulation.node.node_world import NodeWorld

from paddock.simulator.interruptions import Interruption
from paddock.simulator.process import World, simulate


def test_a_log_is_posted_while_the_job_runs_and_to_its_end() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 60.0
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("it is posted while it runs", lambda: b"running" in mac.dispatch.logs.get(uid, b""))
        assert mac.finished == []
        assert uid not in mac.dispatch.ended_logs
        await mac.phase_is("p1", "Succeeded")
        await mac.eventually("its end is said", lambda: uid in mac.dispatch.ended_logs)
        assert mac.dispatch.logs[uid].endswith(b"runner ended with 0\n")

    simulate(scenario, seed=1)


def test_an_agent_that_starts_again_in_mid_job_posts_no_line_twice() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 60.0
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("it runs", lambda: b"listening" in mac.dispatch.logs.get(uid, b""))
        world.processes["agent"].crash()
        await mac.phase_is("p1", "Succeeded")
        await mac.eventually("its end is said", lambda: uid in mac.dispatch.ended_logs)
        lines = bytes(mac.dispatch.logs[uid]).split()
        assert lines.count(b"listening") == 1
        assert mac.dispatch.logs[uid].endswith(b"runner ended with 0\n")

    simulate(scenario, seed=1)


def test_a_dispatch_that_is_away_delays_the_end_of_a_pod_by_seconds_only() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("it runs", lambda: mac.ran == ["job-1"])
        world.processes["dispatch"].crash()
        await mac.eventually("the job ends", lambda: mac.finished == ["job-1"])
        ended = world.clock.monotonic()
        pod = await mac.phase_is("p1", "Succeeded")
        assert world.clock.monotonic() - ended <= 15.0
        assert pod is not None
        message = pod.status.container_statuses[0].state.terminated
        assert message is not None
        assert "runner ended with 0" in message.message
        assert uid not in mac.dispatch.ended_logs

    simulate(scenario, seed=1)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.value, marks=() if kind is Interruption.CRASH_AFTER else pytest.mark.slow)
        for kind in Interruption
    ],
)
def test_a_post_that_is_interrupted_costs_no_line_and_no_job(kind: Interruption) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 6.0
        mac.dispatch.jobs.append("job-1")
        uid = await mac.pod("p1")
        await mac.phase_is("p1", "Succeeded")
        assert mac.ran == ["job-1"]
        lines = bytes(mac.dispatch.logs.get(uid, b"")).split(b"\n")
        assert lines.count(b"listening") <= 1
        assert len(mac.tart.ledger.runs) == 1

    posts = interrupted_calls(scenario, kinds=[kind], only=lambda call: call.name.endswith("/log"))
    assert posts, "nothing was posted"
