"""The simulated outside world beside `paddock up --simulate`: a cloud and its Macs, in real time, kept across restarts."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paddock.base.chance import seeded
from paddock.base.clock import Clock
from paddock.clients.scaleway import Cloud
from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError
from paddock.kube.objects import ObjectMeta
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.mac import Fleet, Pace

__all__ = ["SimulatedWorld", "first_fleet", "keep_saved", "open_cloud", "open_macs"]

FLEET = "mac-fleet"
SERVER_TYPE = "M4-M"
_SAVE_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class SimulatedWorld:
    """Size, pace and seed of the world, and the folder in which it is kept."""

    folder: Path
    hosts: int
    speed: float
    seed: int | None
    zones: tuple[str, ...]
    pool_prefix: str

    @property
    def file(self) -> Path:
        return self.folder / "simulation.json"


def open_cloud(world: SimulatedWorld, clock: Clock, chance: random.Random) -> SimulatedCloud:
    """The cloud of the last run, or a new one without hosts. A given seed makes the same cloud again."""
    drawn = seeded(world.seed) if world.seed is not None else chance
    if not world.file.exists():
        return SimulatedCloud(clock, drawn, speed=world.speed)
    cloud = SimulatedCloud.from_json(world.file.read_bytes(), clock, drawn, rebase=True)
    cloud.behaviour.speed = world.speed
    return cloud


def open_macs(world: SimulatedWorld, cloud: SimulatedCloud, clock: Clock, chance: random.Random) -> Fleet:
    """The Macs behind the cloud's hosts, with their disks in the world's folder."""
    return Fleet(cloud, clock=clock, chance=chance, pace=Pace(speed=world.speed), folder=world.folder / "macs")


async def first_fleet(
    world: SimulatedWorld, twin: SimulatedCloud, client: Client, cloud: Cloud, settings: HostSettings
) -> None:
    """A pool of hosts and a fleet as large as it, so that there is something to see from the first minute.

    The fleet's key is registered before the hosts are delivered, because keys reach a Mac at delivery only.
    """
    await FleetKeys(client, cloud, namespace=settings.namespace).ensure(FLEET)
    for index, zone in enumerate(world.zones):
        share = world.hosts // len(world.zones) + (index < world.hosts % len(world.zones))
        twin.seed_pool(share, zone=zone, server_type=SERVER_TYPE, prefix=world.pool_prefix)
    fleet = MacFleet(
        metadata=ObjectMeta(name=FLEET, namespace=settings.namespace),
        spec=MacFleetSpec(
            replicas=world.hosts, template=MacFleetTemplate(spec=MachineSpec(type=SERVER_TYPE, zone=world.zones[0]))
        ),
    )
    with suppress(AlreadyExistsError):
        await client.create(fleet)


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
