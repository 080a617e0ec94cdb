"""The simulated outside world beside `paddock up --simulate`: in real time, kept across restarts."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paddock.base.chance import seeded
from paddock.base.clock import Clock
from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError
from paddock.kube.objects import ObjectMeta
from paddock.simulator.cloud import SimulatedCloud

__all__ = ["SimulatedWorld", "create_first_fleet", "keep_saved", "open_cloud"]

_SAVE_EVERY = 1.0
SERVER_TYPE = "M4-M"


@dataclass(frozen=True, slots=True)
class SimulatedWorld:
    """Size, pace and seed of the world, and where it is kept."""

    file: Path
    hosts: int
    speed: float
    seed: int | None
    zones: tuple[str, ...]
    pool_prefix: str


def open_cloud(world: SimulatedWorld, clock: Clock, chance: random.Random) -> SimulatedCloud:
    """The cloud of the last run, or a new one. A given seed makes the same cloud again."""
    drawn = seeded(world.seed) if world.seed is not None else chance
    if world.file.exists():
        cloud = SimulatedCloud.from_json(world.file.read_bytes(), clock, drawn, rebase=True)
        cloud.behaviour.speed = world.speed
        return cloud
    cloud = SimulatedCloud(clock, drawn, speed=world.speed)
    for index, zone in enumerate(world.zones):
        share = world.hosts // len(world.zones) + (index < world.hosts % len(world.zones))
        cloud.seed_pool(share, zone=zone, server_type=SERVER_TYPE, prefix=world.pool_prefix)
    return cloud


async def keep_saved(world: SimulatedWorld, cloud: SimulatedCloud, clock: Clock) -> None:
    """Save the cloud whenever it changed, so that even a killed process finds its cloud as it left it."""
    last = b""
    draft = world.file.with_suffix(".draft")
    while True:
        now = cloud.to_json()
        if now != last:
            await asyncio.to_thread(draft.write_bytes, now)
            draft.replace(world.file)
            last = now
        await clock.sleep(_SAVE_EVERY)


async def create_first_fleet(client: Client, hosts: int, settings: HostSettings) -> None:
    """A fleet as large as the new cloud, so that there is something to see from the first minute."""
    fleet = MacFleet(
        metadata=ObjectMeta(name="mac-fleet", namespace=settings.namespace),
        spec=MacFleetSpec(
            replicas=hosts, template=MacFleetTemplate(spec=MachineSpec(type=SERVER_TYPE, zone=settings.zones[0]))
        ),
    )
    with suppress(AlreadyExistsError):
        await client.create(fleet)
