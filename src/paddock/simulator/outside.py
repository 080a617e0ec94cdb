"""The simulated outside world beside `paddock up --simulate`: a cloud and its Macs, in real time, kept across restarts."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paddock.base.clock import Clock
from paddock.base.rng import seeded
from paddock.clients.scaleway import Cloud
from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import Autoscaling, RunnerPool, RunnerPoolSpec
from paddock.runners.ledger import Ledger
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.github import SimulatedGitHub
from paddock.simulator.mac import Fleet, Pace

__all__ = [
    "SimulatedWorld",
    "first_fleet",
    "first_limits",
    "first_pool",
    "keep_saved",
    "open_cloud",
    "open_github",
    "open_macs",
]

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

    @property
    def macs(self) -> Path:
        return self.folder / "macs"


def open_cloud(world: SimulatedWorld, clock: Clock, rng: random.Random) -> SimulatedCloud:
    """The cloud of the last run, or a new one without hosts. A given seed makes the same cloud again."""
    drawn = seeded(world.seed) if world.seed is not None else rng
    if not world.file.exists():
        return SimulatedCloud(clock, drawn, speed=world.speed)
    cloud = SimulatedCloud.from_json(world.file.read_bytes(), clock, drawn, rebase=True)
    cloud.behaviour.speed = world.speed
    return cloud


def open_macs(world: SimulatedWorld, cloud: SimulatedCloud, clock: Clock, rng: random.Random) -> Fleet:
    """The Macs behind the cloud's hosts, with their disks in the world's folder."""
    return Fleet(cloud, clock=clock, rng=rng, pace=Pace(speed=world.speed), folder=world.macs)


async def first_fleet(
    world: SimulatedWorld, simulated: SimulatedCloud, client: Client, cloud: Cloud, settings: HostSettings
) -> None:
    """A pool of hosts and a fleet as large as it, so that there is something to see from the first minute.

    The fleet's key is registered before the hosts are delivered, because keys reach a Mac at delivery only.
    """
    await FleetKeys(client, cloud, namespace=settings.namespace).ensure(FLEET)
    for index, zone in enumerate(world.zones):
        share = world.hosts // len(world.zones) + (index < world.hosts % len(world.zones))
        simulated.seed_pool(share, zone=zone, server_type=SERVER_TYPE, prefix=world.pool_prefix)
    fleet = MacFleet(
        metadata=ObjectMeta(name=FLEET, namespace=settings.namespace),
        spec=MacFleetSpec(
            replicas=world.hosts, template=MacFleetTemplate(spec=MachineSpec(type=SERVER_TYPE, zone=world.zones[0]))
        ),
    )
    with suppress(AlreadyExistsError):
        await client.create(fleet)


async def keep_saved(file: Path, state: Callable[[], bytes], clock: Clock) -> None:
    """Save a simulator whenever it changed, so that even a killed process finds it as it left it."""
    last = b""
    draft = file.with_suffix(".draft")
    while True:
        now = state()
        if now != last:
            await asyncio.to_thread(draft.write_bytes, now)
            draft.replace(file)
            last = now
        await clock.sleep(_SAVE_EVERY)


def open_github(file: Path, speed: float, clock: Clock, rng: random.Random) -> SimulatedGitHub:
    """The GitHub of the last run, or a new one with three organisations."""
    if file.exists():
        github = SimulatedGitHub.from_json(file.read_bytes(), clock, rng, audit=False, rebase=True)
        github.behaviour.speed = speed
        return github
    github = SimulatedGitHub(clock, rng, speed=speed, audit=False)
    github.add_organization("acme", "app", "kit")
    github.add_organization("bolt", "wallet")
    github.add_organization("crux", "reader")
    return github


async def first_pool(client: Client, namespace: str, hosts: int) -> None:
    """A pool of warm runners on the first fleet, which grows with the jobs."""
    pool = RunnerPool(
        metadata=ObjectMeta(name="macos", namespace=namespace),
        spec=RunnerPoolSpec(
            image="registry.example/macos-runner:26.1",
            fleet_selector=FLEET,
            dispatch_label="tuist-macos",
            runner_labels=("self-hosted", "macOS", "ARM64"),
            autoscaling=Autoscaling(
                enabled=True, min_warm_pool_floor=2, max_replicas=hosts, scale_down_cooldown_seconds=30
            ),
        ),
    )
    with suppress(AlreadyExistsError):
        await client.create(pool)


async def first_limits(ledger: Ledger, github: SimulatedGitHub, hosts: int) -> None:
    """Enrol the organisations with limits that differ, so that one can be seen waiting for its own."""
    shares = {"acme": 0.6, "bolt": 0.4}
    for account in github.state.accounts.values():
        known = await ledger.accounts.of_login(account.login)
        await ledger.accounts.enrol(account.id, account.login, account.installation_id)
        if known is None and account.login in shares:
            macs = max(2, round(shares[account.login] * hosts))
            why = "the first limits of the simulation"
            await ledger.limits.set(
                account.id, "macos", vcpus=6 * macs, memory_mb=14_336 * macs, by="simulation", why=why
            )
