"""From a webhook to the runner's config in a waiting Pod's hands, over HTTP; GitHub mints at once, so minting is excluded."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter

from .dispatch_door import Asker, DispatchDoor, Spent, dispatch_service
from .table import Row, amount

__all__ = ["burst", "handing_over"]

_HOW = "service in its own process, HTTP on loopback, real Postgres, TokenReview and assignment label included, mint excluded"
_FIRST_JOB = 1_000_000
_TELLERS = 16


@dataclass(frozen=True, slots=True)
class _Handed:
    acknowledged: list[float]
    """Seconds from each webhook to its 2xx."""
    served: list[float]
    """Seconds from each webhook to the config of its own job."""


def handing_over(quick: bool) -> Iterator[Row]:
    jobs = 100 if quick else 600
    with dispatch_service(jobs + 20) as door:
        found = asyncio.run(_one_by_one(door, jobs))
    note = f"{jobs} jobs, one after the other, the rest of {jobs} Pods waiting; {_HOW}"
    yield Row(
        "dispatch", "webhook → JIT handed over, p50", amount(1000 * median(found.served)), "ms", f"goal ≤12; {note}"
    )
    yield Row(
        "dispatch", "webhook → JIT handed over, p99", amount(1000 * _p99(found.served)), "ms", "goal ≤40; the same"
    )
    yield Row(
        "dispatch", "webhook → 2xx, p50", amount(1000 * median(found.acknowledged)), "ms", "stored, then answered"
    )
    yield Row("dispatch", "webhook → 2xx, p99", amount(1000 * _p99(found.acknowledged)), "ms", "the same")


def burst(quick: bool) -> Iterator[Row]:
    jobs = 100 if quick else 1_000
    with dispatch_service(jobs) as door:
        found, seconds, cpu = asyncio.run(_at_once(door, jobs))
    note = f"from the first webhook to the last config, {_TELLERS} webhooks at once; 2xx p99 {1000 * _p99(found.acknowledged):.0f} ms"
    what = f"burst of {jobs:,} jobs onto {jobs:,} waiting Pods"
    yield Row("dispatch", what, amount(seconds), "s", f"goal ≤3; {amount(jobs / seconds)} jobs/s; {note}")
    yield Row(
        "dispatch", "  its webhook → JIT, p50", amount(median(found.served)), "s", "the queue in front of it included"
    )
    # What a busy machine cannot blur: the work itself.
    work = f"Postgres {1000 * cpu.postgres / jobs:.1f}, the asking Pods and GitHub {1000 * cpu.client / jobs:.1f}"
    yield Row("dispatch", "  its CPU a job, the service", amount(1000 * cpu.service / jobs), "ms", work)


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[-1]


async def _one_by_one(door: DispatchDoor, jobs: int) -> _Handed:
    warm = len(door.tokens) - jobs
    pods = await _waiting(door)
    teller = await Asker.open(door)
    found = _Handed([], [])
    arrived: asyncio.Queue[tuple[int, float]] = asyncio.Queue()
    waiting = [asyncio.create_task(_served(pod, token, arrived)) for pod, token in zip(pods, door.tokens, strict=True)]
    await door.all_wait(len(pods))
    for number in range(len(door.tokens)):
        began = perf_counter()
        code = await teller.announce(_FIRST_JOB + number)
        answered = perf_counter()
        assert code == 202, code
        async with asyncio.timeout(30):
            job, served = await arrived.get()
        assert job == _FIRST_JOB + number
        if number >= warm:
            found.acknowledged.append(answered - began)
            found.served.append(served - began)
    await asyncio.gather(*waiting)
    await _check(door)
    return found


async def _at_once(door: DispatchDoor, jobs: int) -> tuple[_Handed, float, Spent]:
    pods = await _waiting(door)
    tellers = await Asker.open_many(door, _TELLERS)
    arrived: asyncio.Queue[tuple[int, float]] = asyncio.Queue()
    waiting = [asyncio.create_task(_served(pod, token, arrived)) for pod, token in zip(pods, door.tokens, strict=True)]
    await door.all_wait(len(pods))
    numbers = iter(range(_FIRST_JOB, _FIRST_JOB + jobs))
    told: dict[int, float] = {}
    acknowledged: list[float] = []

    async def tell(teller: Asker) -> None:
        for number in numbers:
            told[number] = perf_counter()
            code = await teller.announce(number)
            assert code == 202, code
            acknowledged.append(perf_counter() - told[number])

    began, spent = perf_counter(), Spent.by(door)
    async with asyncio.timeout(120):
        await asyncio.gather(*(tell(teller) for teller in tellers), *waiting)
    spent = Spent.by(door).since(spent)
    await _check(door)
    served = dict([arrived.get_nowait() for _ in range(jobs)])
    assert served.keys() == told.keys(), "every job exactly once"
    return _Handed(acknowledged, [served[job] - told[job] for job in served]), max(served.values()) - began, spent


async def _check(door: DispatchDoor) -> None:
    """Every Pod was assigned: an attempt that fails costs time that is none of dispatch's."""
    assigned = (await door.state("stamped"))["stamped"]
    assert assigned == len(door.tokens), f"{assigned} of {len(door.tokens)} Pods were assigned"


async def _waiting(door: DispatchDoor) -> list[Asker]:
    return await Asker.open_many(door, len(door.tokens))


async def _served(pod: Asker, token: str, arrived: "asyncio.Queue[tuple[int, float]]") -> None:
    code, body = await pod.wait_for_job(token)
    moment = perf_counter()
    assert code == 200, (code, body[:200])
    arrived.put_nowait((json.loads(body)["workflow_job_id"], moment))
