"""Many Macs bootstrapped at once: a real bash runs the real scripts on every one of them."""

import asyncio
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.base.secrets import Password
from paddock.clients.ssh import BudgetedSsh, DialBudget, new_key_pair
from paddock.hosts.bootstrap import Bootstrap, FleetConfig, PerHost, Ready, Sequencing, StepProgress
from paddock.simulator.agent_payload import with_node_agent
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.mac import Fleet, Pace

from .table import Row, amount

__all__ = ["bootstrapping"]

_PARALLEL = 16


def bootstrapping(quick: bool) -> Iterator[Row]:
    count = 10 if quick else 100
    wall, in_steps, dials, again = asyncio.run(_bootstrap(count))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ideal = in_steps / min(_PARALLEL, count)
    note = f"{wall / ideal:.2f}× the steps' own time ({in_steps:.0f} s) shared by {min(_PARALLEL, count)} at a time"
    yield Row("bootstrap", f"{count} Macs to ready", amount(wall), "s", note)
    yield Row("bootstrap", "SSH connections", amount(dials / count), "per Mac", f"{dials} in all")
    yield Row("bootstrap", "steps that change something on a second run", amount(again), "steps", "must be 0")
    yield Row(
        "bootstrap", "peak memory", amount(peak), "MB", "this process: bootstrap, SSH and simulated Macs together"
    )


async def _bootstrap(count: int) -> tuple[float, float, int, int]:
    clock, rng = SystemClock(), seeded("bench")
    cloud = SimulatedCloud(clock, rng, speed=1000.0, audit=False)
    macs = Fleet(cloud, clock=clock, rng=rng, pace=Pace(speed=1000.0))
    key = new_key_pair("bench")
    hosts = [cloud.add_host(f"bench-{number}", authorized_keys=[key.public]) for number in range(count)]
    budget = DialBudget(clock, rng)
    bootstrap = Bootstrap(BudgetedSsh(macs.ssh(), budget), clock, rng)
    sequencing = Sequencing(clock, rng, parallel=_PARALLEL, spread=0.0)
    in_steps = 0.0

    async def tell(progress: StepProgress) -> None:
        nonlocal in_steps
        in_steps += progress.seconds

    with tempfile.TemporaryDirectory() as folder:
        fleet = with_node_agent(FleetConfig(), Path(folder))

        async def one(number: int) -> Ready:
            host = hosts[number]
            per_host = PerHost(address=host.ip, key=key.private, node_name=host.name, password=Password(host.password))
            async with sequencing.turn(host.id):
                outcome = await bootstrap.run(per_host, fleet, tell)
            assert isinstance(outcome, Ready), outcome
            return outcome

        began = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(count)))
        wall, first, dials = time.perf_counter() - began, in_steps, budget.granted
        second = await one(0)
        await macs.stop()
    return wall, first, dials, len(second.changed_steps)
