"""The autoscaler killed, or left without an answer, at each of its writes: it ends where it would have, and no sooner."""

import pytest
from simulation.branches import interrupted_calls
from simulation.runners.scaling.rig import ScalingWorld

from paddock.simulator.process import World

COOLDOWN = 60


async def _grow_and_shrink(world: World) -> tuple[float, str]:
    """A pool that grows with its queue and shrinks after it; how long the shrinking took, and what was said last."""
    fleet = ScalingWorld(world, alone=True)
    await fleet.nodes(20)
    fleet.retirement.say("xcode", queued=6)
    await fleet.pool("xcode", floor=1, cooldown=COOLDOWN)
    await fleet.until("grown", lambda: fleet.replicas("xcode") == [7])
    await fleet.until("said", lambda: fleet.seen("xcode").status.queued == 6)
    fleet.retirement.say("xcode")
    took = await fleet.until("shrunk", lambda: fleet.replicas("xcode") == [1], within=4 * COOLDOWN)
    await fleet.until(
        "said", lambda: fleet.said("xcode").reason == "AsWanted" and not fleet.seen("xcode").status.queued
    )
    return took, fleet.said("xcode").message


@pytest.mark.slow
def test_wherever_a_write_is_interrupted_the_pool_grows_and_shrinks_and_never_before_its_cooldown() -> None:
    async def scenario(world: World) -> None:
        took, message = await _grow_and_shrink(world)
        assert took >= COOLDOWN
        assert message == "1 wanted: 0 busy + 0 queued + 1 to stay warm"

    writes = interrupted_calls(
        scenario, only=lambda call: call.name.startswith("PATCH") and "/runnerpools/" in call.path
    )
    assert len(writes) >= 12
