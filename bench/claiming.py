"""Cloud calls that one claim costs, whatever the size of the pool: a whole fleet in virtual time, so counts are exact."""

from collections import Counter
from collections.abc import Iterator

from paddock.base import logs
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World, simulate

from .table import Row, amount

__all__ = ["calls_per_claim"]

_MACHINES = 5
_SHARED = ("list", "list_products", "list_server_types", "list_os")
"""What the inventory asks once a cycle for everybody."""


def calls_per_claim(quick: bool) -> Iterator[Row]:
    logs.set_up(level="critical")  # a world that closes kills its processes in the middle of their work, as it should
    found: dict[int, Counter[str]] = {}
    for pooled in (10, 100) if quick else (10, 100, 1_000):
        found[pooled] = simulate(lambda world, pooled=pooled: _claims(world, pooled), seed=1).result
    first = sum(found[10].values())
    for pooled, calls in found.items():
        each = sum(calls.values()) / _MACHINES
        kinds = ", ".join(f"{count / _MACHINES:g} {name}" for name, count in sorted(calls.items()))
        same = "the same" if sum(calls.values()) == first else f"{sum(calls.values()) / first:.2f}× that"
        note = f"{same} as at 10; {kinds}; virtual time, {_MACHINES} machines, the inventory's own lists not counted"
        yield Row("hosts", f"cloud calls per claim, {pooled:,} pooled", amount(each), "calls", note)


async def _claims(world: World, pooled: int) -> Counter[str]:
    fleet = FleetWorld(world, hosts=pooled)
    await fleet.ready.wait()

    async def known() -> bool:
        return len(await fleet.hosts()) == pooled

    await fleet.eventually("every host is known", known)
    await world.clock.sleep(120)  # whatever the inventory still had to write is written
    before = len(fleet.cloud.audit)
    for number in range(_MACHINES):
        await fleet.machine(f"m-{number}")

    async def claimed() -> bool:
        machines = await fleet.machines()
        return len(machines) == _MACHINES and all(machine.status.server_id for machine in machines)

    await fleet.eventually("every machine has its host", claimed, every=0.05)
    asked = (entry.operation for entry in fleet.cloud.audit[before:])
    return Counter(operation for operation in asked if operation not in _SHARED)
