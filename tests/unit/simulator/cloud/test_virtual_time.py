"""Client and cloud on an event loop whose time jumps: hours in milliseconds, deadlines included."""

import asyncio

import pytest

from paddock.base.clock import LoopClock
from paddock.base.rng import seeded
from paddock.clients.scaleway import ScalewayClient, Unavailable
from paddock.simulator.cloud import CloudBehaviour, Fault, FaultKind, SimulatedCloud
from paddock.simulator.loop import DAY, run

ZONE = "fr-par-1"


async def a_day() -> list[str]:
    clock = LoopClock()
    cloud = SimulatedCloud(clock, seeded(11), behaviour=CloudBehaviour(latency=(0.05, 0.42), requests_per_second=5))
    hosts = cloud.seed_pool(8)
    seen: list[str] = []
    cloud.on_power.append(lambda host, on: seen.append(f"{clock.monotonic():.3f} {host.name} {on}"))
    running = asyncio.create_task(cloud.run())
    async with ScalewayClient(cloud.settings(), clock, seeded(12), cloud.transport()) as client:
        for _ in range(24):
            await asyncio.gather(*(client.reboot(ZONE, host.id) for host in hosts), return_exceptions=True)
            await clock.sleep(1800)
            await asyncio.gather(
                *(client.reinstall(ZONE, host.id, os_id=None) for host in hosts), return_exceptions=True
            )
            await clock.sleep(1800)
        assert len(await client.list_servers(ZONE)) == 8
    running.cancel()
    return seen


@pytest.mark.slow
def test_a_busy_day_passes_quickly_and_twice_the_same():
    first, second = run(a_day, seed=3, limit=2 * DAY), run(a_day, seed=3, limit=2 * DAY)
    assert first == second
    assert len(first) > 200


def test_a_deadline_is_kept_in_virtual_time():
    async def scenario() -> float:
        clock = LoopClock()
        cloud = SimulatedCloud(clock, seeded(1))
        host = cloud.add_host("mine")
        cloud.inject(Fault(kind=FaultKind.SLOW, delay=3600, operations=("rename",)))
        async with ScalewayClient(cloud.settings(), clock, seeded(2), cloud.transport()) as client:
            started = clock.monotonic()
            with pytest.raises(Unavailable) as raised:
                await client.rename(ZONE, host.id, "after")
            assert raised.value.effect_unknown
            return clock.monotonic() - started

    assert run(scenario, seed=3) == pytest.approx(30.0)
