"""A full disk ends no work of the agent, and heals as soon as there is something that may go."""

import errno
import io

import structlog
from simulation.node.node_world import NodeWorld

from paddock.base import logs
from paddock.simulator.faults import Fail
from paddock.simulator.process import World, simulate


class LogOnFullDisk(io.StringIO):
    """The agent's log: while the disk is full, no line can be written."""

    full = False

    def flush(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_the_heartbeat_goes_on_after_a_full_disk_and_an_outage_of_the_api_at_once() -> None:
    stream = LogOnFullDisk()

    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        stream.full = True
        world.faults.inject(Fail(), process="agent", where=lambda call: call.path.startswith(("/api/v1", "/apis")))
        await world.clock.sleep(60.0)
        stream.full = False
        world.faults.clear()
        await world.clock.sleep(60.0)
        first = await mac.lease()
        await world.clock.sleep(600.0)
        last = await mac.lease()
        assert first is not None
        assert last is not None
        assert last.spec.renew_time != first.spec.renew_time, "the Lease is never renewed again"

    before = structlog.get_config()
    logs.set_up(level="info", json=True, stream=stream)
    try:
        simulate(scenario, seed=5)
    finally:
        structlog.configure(**before)
