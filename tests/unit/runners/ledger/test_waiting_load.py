"""Which waiting jobs may run together: what a small model of admission hands out, asked by one Pod after the other."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from paddock.runners.ledger.waiting_load import InLine, WaitingJobs, waiting_load

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Waiting:
    """A job of the model: its place in `line` is its age, the first is the oldest."""

    pool: str
    repository: int
    vcpus: int
    memory_mb: int = 1


@dataclass(frozen=True)
class Account:
    """What is free of the account's limit, of each repository's own, and how the repositories rank."""

    free: tuple[int, int]
    rooms: tuple[tuple[int, tuple[int, int]], ...] = ()
    priorities: tuple[int, int] = (0, 0)
    weights: tuple[int, int] | None = None


def at(place: int) -> datetime:
    return NOW - timedelta(seconds=100 * (10 - place))


def sizes_of(line: Sequence[Waiting], account: Account) -> list[WaitingJobs]:
    """As the database gives them: jobs that differ in their age alone together, and of each as many as fit."""
    rooms, found = dict(account.rooms), []
    for size in dict.fromkeys(line):
        places = [place for place, job in enumerate(line) if job == size]
        most = max(1, min(account.free[0] // size.vcpus, account.free[1] // size.memory_mb))
        room = rooms.get(size.repository)
        found.append(
            WaitingJobs(
                pool=size.pool,
                account_id=1,
                platform="macos",
                repository_id=size.repository,
                vcpus=size.vcpus,
                memory_mb=size.memory_mb,
                jobs=len(places),
                job_ids=places[:most],
                since=[at(place) for place in places[:most]],
                limit_vcpus=8,
                limit_memory_mb=8,
                free_vcpus=account.free[0],
                free_memory_mb=account.free[1],
                room_vcpus=None if room is None else room[0],
                room_memory_mb=None if room is None else room[1],
                priority=account.priorities[size.repository],
                weight=None if account.weights is None else account.weights[size.repository],
            )
        )
    return found


def admitted(line: Sequence[Waiting], account: Account) -> Iterator[int]:
    """One Pod asks after the other, of whichever pool the next job is: the place of each that is handed out."""
    rooms, held, gone = dict(account.rooms), [(0, 0), (0, 0)], set[int]()

    def fits(job: Waiting) -> bool:
        mine, free = held[job.repository], account.free
        used = [one + other for one, other in zip(*held, strict=True)]
        room = rooms.get(job.repository, free)
        return (
            used[0] + job.vcpus <= free[0]
            and used[1] + job.memory_mb <= free[1]
            and mine[0] + job.vcpus <= room[0]
            and mine[1] + job.memory_mb <= room[1]
        )

    top = max((account.priorities[job.repository] for job in line if fits(job)), default=0)

    def rank(place: int) -> tuple[float, float, int]:
        repository = line[place].repository
        level = min(top, account.priorities[repository] + int((NOW - at(place)).total_seconds()) // 180)
        share = 0.0 if account.weights is None else max(held[repository]) / 8 / account.weights[repository]
        return -level, share, place

    while waiting := [place for place, job in enumerate(line) if place not in gone and fits(job)]:
        place = min(waiting, key=rank)
        job, (vcpus, memory_mb) = line[place], held[line[place].repository]
        held[job.repository] = (vcpus + job.vcpus, memory_mb + job.memory_mb)
        gone.add(place)
        yield place


def agrees(lines: Iterable[tuple[Waiting, ...]], accounts: Sequence[Account]) -> int:
    """How many were compared."""
    compared = 0
    for line in lines:
        for account in accounts:
            load, expected = waiting_load(sizes_of(line, account), NOW), set(admitted(line, account))
            assert load.dispatchable == expected, (line, account)
            total = load.total()
            assert (total.dispatchable, total.withheld) == (len(expected), len(line) - len(expected))
            for pool, part in load.pools.items():
                assert part.dispatchable == sum(line[place].pool == pool for place in expected)
                alone = [place for place, job in enumerate(line) if job.pool == pool and _fits_alone(job, account)]
                assert part.oldest == (at(alone[0]) if alone else None)
            compared += 1
    return compared


def _fits_alone(job: Waiting, account: Account) -> bool:
    return next(admitted([job], account), None) is not None


def test_pools_and_sizes_share_the_room_of_their_account():
    jobs = [Waiting(pool, 0, *size) for pool in ("a", "b") for size in ((1, 2), (2, 1), (3, 3))]
    accounts = [Account(free) for free in ((0, 8), (1, 3), (2, 2), (3, 3), (4, 5), (5, 8))]
    lines = (line for length in range(5) for line in itertools.product(jobs, repeat=length))
    assert agrees(lines, accounts) > 5_000


def test_a_repository_takes_no_more_than_its_own_limit_and_leaves_the_rest_to_the_others():
    jobs = [Waiting(pool, repository, vcpus) for pool, repository in (("a", 0), ("b", 0), ("b", 1)) for vcpus in (1, 2)]
    rooms = [((0, (1, 8)),), ((0, (2, 8)), (1, (2, 1)))]
    accounts = [Account((vcpus, 8), room) for vcpus in (1, 2, 4) for room in rooms]
    lines = (line for length in range(5) for line in itertools.product(jobs, repeat=length))
    assert agrees(lines, accounts) > 5_000


@pytest.mark.parametrize("weights", [None, (1, 1), (1, 3), (4, 1)])
def test_priority_and_weight_of_repositories_decide_who_gets_the_room(weights: tuple[int, int] | None):
    jobs = [Waiting("a", repository, vcpus) for repository in (0, 1) for vcpus in (1, 2)]
    accounts = [Account((free, 8), (), one, weights) for free in (2, 3, 4) for one in ((0, 0), (2, 0), (9, -9), (3, 4))]
    lines = (line for length in range(5) for line in itertools.product(jobs, repeat=length))
    assert agrees(lines, accounts) > 4_000


def one_job(**differing: object) -> WaitingJobs:
    fields: dict[str, object] = {
        "pool": "a", "account_id": 1, "platform": "macos", "repository_id": 0, "vcpus": 1, "memory_mb": 1, "jobs": 1,
        "job_ids": [7], "since": [at(0)], "limit_vcpus": 2, "limit_memory_mb": 2, "free_vcpus": 2, "free_memory_mb": 2,
    }  # fmt: skip
    return WaitingJobs(**(fields | differing))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("differing", "counted"),
    [
        ({}, (1, 0, 0, 0)),
        ({"free_vcpus": 0}, (0, 1, 0, 0)),
        ({"free_memory_mb": -3}, (0, 1, 0, 0)),
        ({"free_vcpus": None, "free_memory_mb": None}, (0, 1, 0, 0)),
        ({"room_vcpus": 0, "room_memory_mb": 5}, (0, 1, 0, 0)),
        ({"room_vcpus": 5, "room_memory_mb": 0}, (0, 1, 0, 0)),
        ({"rests": True}, (0, 0, 1, 0)),
        ({"allowed": False}, (0, 0, 0, 1)),
        ({"allowed": False, "rests": True}, (0, 0, 0, 1)),
    ],
)
def test_each_job_is_counted_once_and_for_what_holds_it(differing: dict[str, object], counted: tuple[int, ...]):
    total = waiting_load([one_job(**differing)], NOW).total()
    assert (total.dispatchable, total.withheld, total.resting, total.not_allowed) == counted
    assert (total.waited(NOW) > 0) == (counted[0] > 0)


def test_an_account_is_in_line_with_its_oldest_job_that_may_run_and_else_with_its_oldest():
    older, younger = one_job(since=[at(0)], free_vcpus=0), one_job(since=[at(5)], repository_id=1)
    assert waiting_load([older, younger], NOW).line == [InLine("a", 1, "macos", at(5), True)]
    assert waiting_load([older], NOW).line == [InLine("a", 1, "macos", at(0), False)]
    assert waiting_load([one_job(rests=True)], NOW).line == []


def test_the_accounts_of_a_pool_do_not_share_room():
    load = waiting_load([one_job(), one_job(account_id=2, job_ids=[8]), one_job(platform="linux", job_ids=[9])], NOW)
    assert load.dispatchable == {7, 8, 9}


def test_a_job_from_a_clock_ahead_of_ours_has_waited_for_no_time():
    assert waiting_load([one_job(since=[NOW + timedelta(seconds=3)])], NOW).total().waited(NOW) == 0.0
