"""Events of a day are kept, and never more than so many; what is asked for by nobody goes by itself."""

from __future__ import annotations

from datetime import timedelta

from doubles.clocks import SteppedClock

from paddock.base.clock import rfc3339
from paddock.base.rng import seeded
from paddock.embedded.api.builtin import catalogue
from paddock.embedded.api.event_expiry import EventExpiry
from paddock.embedded.api.kinds import Kinds
from paddock.embedded.api.namespace_controller import create_first_namespaces
from paddock.embedded.api.objects import Objects, Write
from paddock.embedded.store.memory import MemoryStore


class World:
    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.objects = Objects(MemoryStore(), Kinds(catalogue.KINDS), self.clock, seeded(1))

    async def happened(self, name: str, hours: float) -> None:
        kind = self.objects.kinds.get("", "v1", "events")
        assert kind is not None
        at = rfc3339(self.clock.now() - timedelta(hours=hours))
        about = {"kind": "Pod", "namespace": "default", "name": "runner"}
        event = {"metadata": {"name": name}, "involvedObject": about, "reason": "Reaped", "lastTimestamp": at}
        await self.objects.create(kind, "default", event, Write())

    async def names(self) -> list[str]:
        return sorted(record.key.name for record in (await self.objects.store.list("events")).records)


async def test_an_event_is_kept_for_a_day_after_it_happened_last() -> None:
    world = World()
    await create_first_namespaces(world.objects)
    for name, hours in (("young", 1), ("yesterday", 23.9), ("old", 24.1)):
        await world.happened(name, hours)
    await EventExpiry(world.objects).look()
    assert await world.names() == ["yesterday", "young"]


async def test_of_too_many_the_oldest_go() -> None:
    world = World()
    await create_first_namespaces(world.objects)
    for number in range(8):
        await world.happened(f"e{number}", number)
    await EventExpiry(world.objects, most=3).look()
    assert await world.names() == ["e0", "e1", "e2"]


async def test_one_whose_time_cannot_be_read_goes_by_the_servers() -> None:
    world = World()
    await create_first_namespaces(world.objects)
    await world.happened("e", 1)
    world.clock.step(25 * 3600)
    await EventExpiry(world.objects).look()
    assert await world.names() == []
