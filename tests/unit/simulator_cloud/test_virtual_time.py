"""Client and cloud on an event loop whose time jumps: hours in milliseconds, deadlines included."""

import asyncio
import selectors
from typing import Any

import pytest

from paddock.base.chance import seeded
from paddock.base.clock import LoopClock
from paddock.clients.scaleway import ScalewayClient, Unavailable
from paddock.simulator.cloud import Behaviour, Fault, FaultKind, SimulatedCloud

ZONE = "fr-par-1"


class _Jumping(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            self.now += max(0.0, timeout or 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


async def a_day() -> list[str]:
    clock = LoopClock()
    cloud = SimulatedCloud(clock, seeded(11), behaviour=Behaviour(latency=(0.05, 0.42), requests_per_second=5))
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


def test_a_busy_day_passes_quickly_and_twice_the_same():
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        first = runner.run(a_day())
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        second = runner.run(a_day())
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

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(scenario()) == pytest.approx(30.0)
