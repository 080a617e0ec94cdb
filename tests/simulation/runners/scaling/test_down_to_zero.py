"""Zero is a size like any other: a pool that keeps none warm has none when nothing waits, and gets one when something does."""

from simulation.runners.scaling.rig import ScalingWorld

from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


@simulated(seeds=2)
async def test_a_pool_that_keeps_none_warm_shrinks_to_nothing_and_comes_back(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(5)
    await fleet.pool("xcode", floor=0, cooldown=60)
    fleet.retirement.say("xcode", queued=3)
    await fleet.until("grown", lambda: fleet.replicas("xcode") == [3])
    fleet.retirement.say("xcode")
    await fleet.until("none is kept", lambda: fleet.replicas("xcode") == [0], within=90)
    await fleet.stays("none", lambda: fleet.replicas("xcode") == [0], during=120)
    fleet.retirement.say("xcode", withheld=7)
    await fleet.until("one for what is blocked", lambda: fleet.replicas("xcode") == [1], within=12)
    fleet.retirement.say("xcode", queued=1)
    await fleet.until("one for the job", lambda: fleet.replicas("xcode") == [1], within=12)


@simulated(seeds=1)
async def test_a_limit_of_zero_keeps_none_whatever_waits(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(5)
    await fleet.pool("xcode", floor=2, limit=0, replicas=3, cooldown=0)
    fleet.retirement.say("xcode", queued=9, withheld=9)
    await fleet.until("none", lambda: fleet.replicas("xcode") == [0])
    await fleet.stays("none", lambda: fleet.replicas("xcode") == [0], during=60)
