"""Many accounts with limits share few Macs alike, wherever their jobs come from; GitHub's own record is the judge."""

import asyncio
import importlib
import os
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from integration.schemas import Schemas

from paddock.base.clock import SystemClock
from paddock.runners.ledger.database import prepare
from paddock.simulator.github import SimulatedJob
from paddock.simulator.process import World, simulate

_ROOT = Path(__file__).resolve().parents[2]
# What is asserted holds for each account, whatever their number: PADDOCK_EVERY_STATE=1 takes a thousand jobs of twenty.
_ACCOUNTS, _JOBS = (20, 1_000) if os.environ.get("PADDOCK_EVERY_STATE") else (8, 200)
_LOGINS = tuple(f"org{number:02}" for number in range(_ACCOUNTS))
_MACS = _ACCOUNTS
_SMALL, _LARGE = 2, 4
"""Macs that the first half of the accounts may have at once, and the others."""
HOUR = 3600.0


@dataclass(frozen=True)
class Served:
    """What GitHub saw of a run: the jobs of each account in the order of the logins, and what it was asked."""

    jobs: list[list[SimulatedJob]]
    asked: Counter[str]
    kills: float

    def rates(self) -> list[float]:
        """Macs that each account had on average until the first of them was done: so long all of them had jobs that waited."""
        began = min(_at(job.started_at) for jobs in self.jobs for job in jobs)
        until = min(max(_at(job.completed_at) for job in jobs) for jobs in self.jobs)
        return [_busy(jobs, until) / (until - began) for jobs in self.jobs]


def _at(moment: Any) -> float:
    return moment.timestamp()


def _busy(jobs: Iterable[SimulatedJob], until: float) -> float:
    return sum(max(0.0, min(_at(job.completed_at), until) - _at(job.started_at)) for job in jobs)


def _most_at_once(jobs: Iterable[SimulatedJob]) -> int:
    changes = [(_at(job.started_at), 1) for job in jobs] + [(_at(job.completed_at), -1) for job in jobs]
    running = most = 0
    for _, change in sorted(changes):
        running += change
        most = max(most, running)
    return most


def _limit(place: int) -> int:
    return _SMALL if place < len(_LOGINS) // 2 else _LARGE


def _served(schemas: Schemas, source: str) -> Served:
    soak_world = importlib.import_module("bench.soak_world")  # no package of the tests' own
    schema = schemas.take()
    asyncio.run(prepare(schemas.dsn, schema=schema, clock=SystemClock()))

    async def scenario(world: World) -> Served:
        cluster = soak_world.SoakWorld(world, schemas.dsn, schema, macs=_MACS, logins=_LOGINS, source=source)
        await cluster.begin()
        for place, account in enumerate(cluster.accounts):
            room = {"vcpus": 4 * _limit(place), "memory_mb": 6144 * _limit(place)}
            await cluster.ledger.limits.set(account.id, "macos", **room, by="test", why="so many Macs")
        await cluster.eventually("every Pod waits", lambda: _waiting(cluster) == 2 * _MACS, within=HOUR)
        before, rng = Counter(cluster.asked), random.Random(1)
        jobs: list[list[SimulatedJob]] = [[] for _ in _LOGINS]
        for number in range(_JOBS // len(_LOGINS)):
            for line, repository in zip(jobs, cluster.repositories, strict=True):
                like = {"labels": (soak_world.LABEL,), "duration": rng.uniform(60.0, 180.0), "name": f"job {number}"}
                line.append(cluster.github.submit(repository, **like))
        await cluster.eventually("every job is over", lambda: all(map(_over, jobs)), within=4 * HOUR)
        return Served(jobs, cluster.asked - before, cluster.live_kills())

    found = simulate(scenario, seed=1, limit=6 * HOUR).result
    asyncio.run(schemas.give_back(schema))
    return found


def _waiting(cluster: Any) -> int:
    return 0 if cluster.service is None else len(cluster.service.dispatch.waiting)


def _over(jobs: Iterable[SimulatedJob]) -> bool:
    return all(job.status == "completed" for job in jobs)


@pytest.mark.slow
def test_accounts_share_alike_whether_their_jobs_come_by_webhook_or_by_scale_set(
    schemas: Schemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(_ROOT))
    by_webhook, by_scale_set = _served(schemas, "Webhook"), _served(schemas, "ScaleSet")
    for served in (by_webhook, by_scale_set):
        assert {(job.conclusion, job.starts) for jobs in served.jobs for job in jobs} == {("success", 1)}
        assert served.kills == 0
        over = [place for place, jobs in enumerate(served.jobs) if _most_at_once(jobs) > _limit(place)]
        assert over == [], "more at once than the limit allows"
    small = slice(0, len(_LOGINS) // 2)
    large = slice(len(_LOGINS) // 2, None)
    ours, theirs = by_scale_set.rates(), by_webhook.rates()
    # The fewer jobs, the more the length of each weighs: with a thousand it is a tenth for half of the accounts, a quarter for one.
    for some in (small, large):
        assert mean(ours[some]) == pytest.approx(mean(theirs[some]), rel=2.2 / sqrt(_JOBS / 2))
    assert ours == pytest.approx(theirs, rel=1.77 / sqrt(_JOBS / _ACCOUNTS))
    # A limit twice as high is worth more, and nobody with a small one is starved for it.
    assert 1.2 * mean(ours[small]) < mean(ours[large]) < 2 * min(ours[small])
    assert by_scale_set.asked["rest"] < by_webhook.asked["rest"]
