"""What must come to its end does, and what is cancelled is over."""

import asyncio

import pytest

from paddock.base.tasks import end, first_of, to_its_end
from paddock.simulator.loop import run


async def _after(seconds: float, done: list[str]) -> str:
    await asyncio.sleep(seconds)
    done.append("done")
    return "an answer"


async def _cancelled_after(seconds: float, work: asyncio.Task[str], times: int = 1) -> float:
    began = asyncio.get_running_loop().time()
    for _ in range(times):
        await asyncio.sleep(seconds)
        work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    return asyncio.get_running_loop().time() - began


def test_work_that_must_end_ends_before_a_cancellation_counts() -> None:
    async def act() -> None:
        done: list[str] = []
        assert await to_its_end(_after(1.0, done)) == "an answer"
        took = await _cancelled_after(1.0, asyncio.ensure_future(to_its_end(_after(9.0, done))), times=3)
        assert (took, done) == (pytest.approx(9.0), ["done", "done"])

    run(act, seed=1)


def test_work_that_takes_longer_than_the_patience_is_cancelled() -> None:
    async def act() -> None:
        done: list[str] = []
        work = asyncio.ensure_future(to_its_end(_after(60.0, done), patience=5.0))
        took = await _cancelled_after(1.0, work, times=3)
        assert (took, done) == (pytest.approx(6.0), []), "counted from the first cancellation"

    run(act, seed=1)


def test_a_failure_of_the_work_is_the_callers() -> None:
    async def fails() -> None:
        await asyncio.sleep(1.0)
        raise ValueError("no")

    async def act() -> None:
        with pytest.raises(ValueError, match="no"):
            await to_its_end(fails())
        work = asyncio.ensure_future(to_its_end(fails()))
        await asyncio.sleep(0.5)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    run(act, seed=1)


async def test_of_several_waits_the_first_ends_all() -> None:
    ended: list[str] = []

    async def until_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("other")

    await first_of(until_cancelled(), asyncio.sleep(0))
    assert ended == ["other"]


async def test_a_cancelled_wait_leaves_none_of_its_waits_behind() -> None:
    began, ended = asyncio.Event(), list[int]()

    async def until_cancelled(number: int) -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    waiting = asyncio.create_task(first_of(until_cancelled(1), until_cancelled(2)))
    await began.wait()
    await end(waiting)
    assert sorted(ended) == [1, 2]
