"""Runner rows at GitHub that nobody will use again, and those that somebody may."""

import re

import pytest
from integration.runners.healing_jobs.scripted import ORGANISATION, REPOSITORY, Cluster, runner, stub_github
from integration.runners.ledger.rig import ACME, Bench, job

from paddock.base.rng import seeded
from paddock.clients.github import BudgetSpent, Conflict, IncompleteList
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.offline_runners import OfflineRunners
from paddock.runners.ledger import Ledger

MARK = "0c0ffe"
LEFT = f"mac-m4-x7k2p-{MARK}-0a1b2c3d"
"""Minted for a Pod of ours, and never handed out."""


class Scene:
    """Pod 1 was handed a runner and has ended; Pod 2 was handed one and lives."""

    def __init__(self, bench: Bench, **settings) -> None:
        self.bench = bench
        self.github = stub_github()
        self.cluster = Cluster("uid-2", "uid-other")
        self.settings = HealingSettings(**settings)
        self.restart()

    def restart(self) -> None:
        self.worker = OfflineRunners(self.bench.ledger, self.github, self.cluster, self.settings, self.bench.clock)

    async def set(self) -> "Scene":
        await self.bench.ask("INSERT INTO runner_mark (mark) VALUES (%s)", [MARK])
        await self.bench.accounts(ACME)
        await self.bench.queue(job(10, age=2), job(11, age=1))
        await self.bench.running(1)
        await self.bench.running(2)
        await self.bench.ledger.recovery.pod_stopped("uid-1", self.bench.clock.now(), by="controller", why="stopped")
        return self

    async def twice(self) -> list[int]:
        await self.worker.heal()
        self.bench.clock.advance(90)
        await self.worker.heal()
        return self.github.removed


async def test_the_runner_of_a_pod_that_ended_goes_after_two_sightings(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.places[ORGANISATION] = [runner(1), runner(2)]
    assert (await scene.worker.heal()).healed == ()
    bench.clock.advance(89)
    assert (await scene.worker.heal()).healed == ()
    bench.clock.advance(1)
    report = await scene.worker.heal()
    assert [(heal.kind, heal.evidence["place"]) for heal in report.healed] == [("offline_runner", ORGANISATION)]
    assert scene.github.removed == [1]


async def test_a_runner_that_was_minted_and_never_handed_out_goes_too(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.places[ORGANISATION] = [runner(7, name=LEFT)]
    assert await scene.twice() == [7]


@pytest.mark.parametrize(
    "name",
    ["mac-m4-mini-of-anna-cafebabe", "mac-m4-x7k2p-beef00-0a1b2c3d", "somebody-elses-0a1b2c3d", f"mac-m4-{MARK}"],
    ids=["a person's Mac", "another installation's", "another program's", "without a mint"],
)
async def test_a_runner_that_is_only_named_like_ours_is_left_alone(bench: Bench, name: str):
    scene = await Scene(bench).set()
    scene.github.places[ORGANISATION] = [runner(7, name=name), runner(1)]
    assert await scene.twice() == [1]


async def test_the_mark_is_drawn_once_and_shared_by_all_processes_of_an_installation(bench: Bench):
    async with Ledger.open(bench.dsn, clock=bench.clock, rng=seeded(1), schema=bench.schema) as other:
        drawn = await bench.ledger.registrations.mark()
        assert re.fullmatch("[0-9a-f]{6}", drawn)
        assert await other.registrations.mark() == drawn


async def test_runners_are_looked_for_where_they_were_minted(bench: Bench):
    scene = await Scene(bench).set()
    await bench.ask("UPDATE sessions SET place = %s", [f"repos/{REPOSITORY}"])
    scene.github.places = {ORGANISATION: [], f"repos/{REPOSITORY}": [runner(1)]}
    assert await scene.twice() == [1]


@pytest.mark.parametrize("how", ["online", "busy", "open session", "its Pod is alive"])
async def test_a_runner_that_may_be_in_use_is_kept(bench: Bench, how: str):
    scene = await Scene(bench).set()
    shown = {
        "online": runner(1, online=True),
        "busy": runner(1, busy=True),
        "open session": runner(2),
        "its Pod is alive": runner(1),
    }
    if how == "its Pod is alive":
        scene.cluster.alive.add("uid-1")
    scene.github.places[ORGANISATION] = [shown[how]]
    assert await scene.twice() == []


async def test_a_runner_that_came_online_in_between_starts_again(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.places[ORGANISATION] = [runner(1)]
    await scene.worker.heal()
    bench.clock.advance(300)
    scene.github.places[ORGANISATION] = [runner(1, online=True)]
    await scene.worker.heal()
    bench.clock.advance(300)
    scene.github.places[ORGANISATION] = [runner(1)]
    await scene.worker.heal()
    assert scene.github.removed == []


async def test_an_incomplete_list_removes_nothing_and_forgets_nothing(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.places[ORGANISATION] = [runner(1)]
    await scene.worker.heal()
    bench.clock.advance(90)
    scene.github.places[ORGANISATION] = IncompleteList("changed while it was read")
    assert len((await scene.worker.heal()).failed) == 1
    scene.github.places[ORGANISATION] = [runner(1)]
    assert len((await scene.worker.heal()).healed) == 1


async def test_a_restart_starts_the_sightings_again(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.places[ORGANISATION] = [runner(1)]
    await scene.worker.heal()
    bench.clock.advance(90)
    scene.restart()
    assert (await scene.worker.heal()).healed == ()


async def test_an_empty_list_of_pods_while_runners_are_online_is_not_believed(bench: Bench):
    scene = await Scene(bench).set()
    scene.cluster.alive.clear()
    scene.github.places[ORGANISATION] = [runner(1), runner(2, online=True)]
    assert await scene.twice() == []


async def test_a_ledger_that_knows_none_of_many_runners_is_the_wrong_one(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.places[ORGANISATION] = [runner(n, name=f"mac-m4-{n}-{MARK}-0a1b2c3d") for n in range(20, 32)]
    report = await scene.worker.heal()
    assert (report.looked, len(report.refused)) == (12, 1)
    assert await scene.twice() == []


async def test_a_busy_runner_and_a_spent_budget_are_refusals_and_others_go_on(bench: Bench):
    scene = await Scene(bench).set()
    left = [runner(n, name=f"mac-m4-{n}-{MARK}-0a1b2c3d") for n in (20, 21, 22)]
    scene.github.places[ORGANISATION] = left
    scene.github.refusals = {20: Conflict("busy", status=409), 21: BudgetSpent("spent", retry_after=60)}
    await scene.worker.heal()
    bench.clock.advance(90)
    report = await scene.worker.heal()
    assert (scene.github.removed, len(report.refused), report.failed) == ([22], 2, ())


async def test_the_runners_of_a_person_are_removed_at_the_repository(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.places = {f"repos/{REPOSITORY}": [runner(1)]}
    assert await scene.twice() == [1]


async def test_removing_is_capped_and_can_be_switched_off(bench: Bench):
    scene = await Scene(bench, cap=2).set()
    scene.github.places[ORGANISATION] = [runner(n, name=f"mac-m4-{n}-{MARK}-0a1b2c3d") for n in (20, 21, 22)]
    assert len(await scene.twice()) == 2
    watching = Scene(bench, report_only=frozenset({"*"}))
    watching.github.places[ORGANISATION] = [runner(1)]
    assert await watching.twice() == []
