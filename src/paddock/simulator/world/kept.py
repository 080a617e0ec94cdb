"""What a world keeps across its restarts: the cloud in a file, the Macs' disks in a folder, GitHub in a small database."""

import random
from dataclasses import dataclass
from pathlib import Path

from paddock.base.clock import Clock
from paddock.base.rng import seeded
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.github import SimulatedGitHub
from paddock.simulator.github.book import GitHubBook
from paddock.simulator.mac import Fleet, Pace

__all__ = ["KeptCloud", "KeptWorld", "open_cloud", "open_github", "open_macs"]

_LARGE_CLOUD = 512 * 1024
_GITHUB_RECORDS = 2000


@dataclass(frozen=True, slots=True)
class KeptWorld:
    """Where a world is kept, how fast it is, and the seed it is drawn from."""

    folder: Path
    speed: float
    seed: int | None

    @property
    def file(self) -> Path:
        return self.folder / "simulation.json"

    @property
    def macs(self) -> Path:
        return self.folder / "macs"

    @property
    def github(self) -> Path:
        return self.folder / "github.db"

    @property
    def former_github(self) -> Path:
        """Where GitHub was kept as a whole, until it was too much to write; read once."""
        return self.folder / "github.json"

    def drawn(self, rng: random.Random) -> random.Random:
        return seeded(self.seed) if self.seed is not None else rng


def open_cloud(world: KeptWorld, clock: Clock, rng: random.Random) -> SimulatedCloud:
    """The cloud of the last run, or a new one without hosts. A given seed makes the same cloud again."""
    if not world.file.exists():
        return SimulatedCloud(clock, world.drawn(rng), speed=world.speed, audit=False)
    cloud = SimulatedCloud.from_json(world.file.read_bytes(), clock, world.drawn(rng), audit=False, rebase=True)
    cloud.behaviour.speed = world.speed
    return cloud


def open_macs(world: KeptWorld, cloud: SimulatedCloud, clock: Clock, rng: random.Random) -> Fleet:
    """The Macs behind the cloud's hosts, with their disks in the world's folder."""
    pace = Pace(speed=world.speed)
    return Fleet(cloud, clock=clock, rng=rng, pace=pace, folder=world.macs)


class KeptCloud:
    """Saves a cloud whenever it changed. A file is whole or not there."""

    def __init__(self, file: Path, cloud: SimulatedCloud) -> None:
        self._file = file
        self._cloud = cloud
        self._last = b""

    def save(self) -> None:
        now = self._cloud.to_json()
        if now != self._last:
            draft = self._file.with_suffix(".draft")
            draft.write_bytes(now)
            draft.replace(self._file)
            self._last = now

    def save_before_answering(self) -> None:
        """Before somebody is told of a change. A cloud so large that this would slow it down is saved every second only."""
        if len(self._last) < _LARGE_CLOUD:
            self.save()


def open_github(world: KeptWorld, book: GitHubBook, clock: Clock, rng: random.Random) -> SimulatedGitHub:
    """The GitHub of the last run, or a new one with three organisations. It remembers as much as somebody looks at."""
    github = SimulatedGitHub.from_book(book, clock, world.drawn(rng))
    if github is None and world.former_github.exists():
        github = SimulatedGitHub.from_json(
            world.former_github.read_bytes(), clock, world.drawn(rng), audit=False, rebase=True
        )
        github.save_to(book)
        world.former_github.unlink()
    if github is None:
        github = SimulatedGitHub(clock, world.drawn(rng), audit=False)
        github.add_organization("acme", "app", "kit")
        github.add_organization("bolt", "wallet")
        github.add_organization("crux", "reader")
    behaviour = github.behaviour
    behaviour.speed, behaviour.jobs_kept, behaviour.deliveries_kept = world.speed, _GITHUB_RECORDS, _GITHUB_RECORDS
    return github
