"""A worker dies before or after any of its calls; the next process heals the rest, and nothing twice."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from doubles.clocks import StandingClock
from doubles.github import StubGitHub
from integration.runners.healing_jobs.scripted import (
    ORGANISATION,
    REPOSITORY,
    Cluster,
    Died,
    Fate,
    attempt,
    runner,
    stub_github,
    world,
)
from integration.runners.ledger.rig import ACME, START, Bench, job

from paddock.clients.github import GitHubJob, Unavailable
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.left_claims import LeftClaims
from paddock.runners.healing.offline_runners import OfflineRunners
from paddock.runners.healing.orphaned_jobs import OrphanedJobs
from paddock.runners.healing.queued_jobs import LongQueued, UnheardJobs
from paddock.runners.healing.redelivery import Redelivery
from paddock.runners.ledger import Moved

SETTINGS = HealingSettings()


@dataclass
class Scene:
    """One life of a worker: what is there at first, and how a process is made over it."""

    bench: Bench
    github: StubGitHub
    cluster: Cluster


async def _left_claims(scene: Scene) -> None:
    await scene.bench.queue(job(10, age=9), job(11, age=8), job(12, age=7), job(13, age=6))
    await scene.bench.claimed(1)
    await scene.bench.running(2)
    await scene.bench.claimed(3)
    await scene.bench.completed(job(11), conclusion="cancelled")
    scene.bench.clock.advance(400)


async def _orphans(scene: Scene) -> None:
    for number in range(1, 6):
        await scene.bench.queue(job(9 + number, age=90 - number))
        await scene.bench.running(number)
        scene.cluster.alive.add(f"uid-{number}")
    scene.github.says(10, "queued")
    scene.github.says(11, "completed", conclusion="failure", runner_name="runner-2-mint")
    scene.github.says(12, "in_progress", runner_name="runner-3-mint")
    scene.github.says(13, "completed", conclusion="failure")
    scene.github.says(14, "queued")
    scene.bench.clock.advance(301)
    await scene.bench.ledger.recovery.pod_stopped("uid-5", scene.bench.clock.now(), by="controller", why="stopped")
    scene.cluster.alive.discard("uid-5")


async def _long_queued(scene: Scene) -> None:
    await scene.bench.queue(*(job(10 + n, age=700) for n in range(3)), job(20, age=90_000))
    scene.github.says(10, "completed", conclusion="cancelled")
    scene.github.says(11, "in_progress", runner_name="somebody", started_at=START)
    scene.github.says(12, "completed", conclusion="success")
    scene.github.jobs[20] = Unavailable("timeout")


async def _unheard(scene: Scene) -> None:
    await scene.bench.queue(job(10))
    scene.bench.clock.advance(300)
    scene.github.waiting[REPOSITORY] = [GitHubJob(job_id=n, status="queued", created_at=START) for n in (10, 20, 22)]


async def _redelivery(scene: Scene) -> None:
    scene.github.attempts = [
        attempt(1, "a", 502),
        attempt(2, "b", 200),
        attempt(3, "c", 0),
        attempt(4, "c", 503, ago=9),
    ]


async def _offline(scene: Scene) -> None:
    await scene.bench.queue(job(10, age=2), job(11, age=1))
    await scene.bench.running(1)
    await scene.bench.running(2)
    await scene.bench.ledger.recovery.pod_stopped("uid-1", scene.bench.clock.now(), by="controller", why="stopped")
    scene.cluster.alive.add("uid-2")
    minted = f"mac-m4-x-{await scene.bench.ledger.registrations.mark()}-0a1b2c3d"
    scene.github.places[ORGANISATION] = [runner(1), runner(2), runner(7, name=minted)]


def _process(kind: str, scene: Scene, fate: Fate) -> Any:
    ledger: Any = fate.ledger(scene.bench.ledger)
    github: Any = fate.wrapped(scene.github)
    clock = scene.bench.clock
    pods: Any = fate.over(scene.cluster)

    async def announce(installation_id: int, repository: str, found: GitHubJob) -> bool:
        return await scene.bench.ledger.jobs.enqueue(job(found.job_id)) is Moved.QUEUED

    makers: dict[str, Callable[[], Any]] = {
        "claims": lambda: LeftClaims(ledger, github, SETTINGS, clock),
        "orphans": lambda: OrphanedJobs(ledger, github, pods, SETTINGS, clock),
        "stopped": lambda: OrphanedJobs(ledger, github, pods, SETTINGS, clock),
        "queued": lambda: LongQueued(ledger, github, SETTINGS, clock),
        "unheard": lambda: UnheardJobs(ledger, github, fate.over(announce), SETTINGS, clock),
        "redelivery": lambda: Redelivery(ledger, {"app": github}, SETTINGS, clock),
        "offline": lambda: OfflineRunners(ledger, github, pods, SETTINGS, clock),
    }
    return makers[kind]()


SCENES: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "claims": _left_claims,
    "orphans": _orphans,
    "stopped": _orphans,
    "queued": _long_queued,
    "unheard": _unheard,
    "redelivery": _redelivery,
    "offline": _offline,
}


async def _live(kind: str, worker: Any, clock: StandingClock) -> None:
    if kind == "stopped":
        await worker.check([14], "uid-5")
        return
    await worker.heal()
    if kind == "offline":
        clock.advance(600)
        await worker.heal()


async def _life(bench: Bench, kind: str, at: int) -> tuple[bool, list[Any]]:
    """A life that ends at that point, and a second one that does not; gives whether it ended, and what is left."""
    await bench.blank()
    scene = Scene(bench, stub_github(), Cluster("uid-other"))
    await bench.accounts(ACME, vcpus=600, memory_mb=5_000_000)
    await SCENES[kind](scene)
    fate = Fate(at)
    try:
        await _live(kind, _process(kind, scene, fate), bench.clock)
    except Died:
        await _live(kind, _process(kind, scene, Fate(-1)), bench.clock)
    # A third process finds nothing more to do.
    left = await world(bench)
    await _live(kind, _process(kind, scene, Fate(-1)), bench.clock)
    assert await world(bench) == left
    assert await bench.problems() == []
    removed = scene.github.removed
    assert len(removed) == len(set(removed))
    return fate.struck, [left, sorted(removed), sorted(set(scene.github.redelivered))]


def _expected(kind: str) -> Callable[[list[Any], list[int], list[int]], bool]:
    """What a whole life must have done, so that the comparison is not one of nothing with nothing."""
    statuses = {
        "claims": ["queued", "cancelled", "queued", "queued"],
        "orphans": ["queued", "completed", "running", "completed", "queued"],
        "stopped": ["running", "running", "running", "running", "queued"],
        "queued": ["cancelled", "running", "completed", "completed"],
        "unheard": ["queued", "queued", "queued"],
        "redelivery": [],
        "offline": ["running", "running"],
    }
    at_github = {"redelivery": ([], [1, 4]), "offline": ([1, 7], [])}.get(kind, ([], []))
    return lambda tables, removed, redelivered: (
        [row[1] for row in tables[0]] == statuses[kind] and (removed, redelivered) == at_github
    )


@pytest.mark.parametrize("kind", SCENES)
async def test_dying_at_any_call_and_starting_again_is_living_once(bench: Bench, kind: str):
    struck, wanted = await _life(bench, kind, -1)
    assert not struck
    assert _expected(kind)(*wanted), wanted
    point = 0
    while True:
        struck, left = await _life(bench, kind, point)
        assert left == wanted, f"died at point {point}"
        if not struck:
            break
        point += 1
    assert point >= 4
