"""Background work that fails comes back, later each time; cancelling it is the only way to end it."""

from __future__ import annotations

import asyncio

import pytest

from paddock.base.backoff import Backoff
from paddock.base.clock import LoopClock
from paddock.base.rng import seeded
from paddock.base.supervise import keep_running
from paddock.simulator.loop import run

PLAIN = Backoff(base=1.0, cap=8.0, jitter=0.0)


class Work:
    """Fails at each start, after `lasting` seconds; the moments of its starts are kept."""

    def __init__(self, clock: LoopClock, lasting: float = 0.0, *, ends: bool = False) -> None:
        self._clock = clock
        self._lasting = lasting
        self._ends = ends
        self.starts: list[float] = []

    async def __call__(self) -> None:
        self.starts.append(self._clock.monotonic())
        await self._clock.sleep(self._lasting)
        if not self._ends:
            raise RuntimeError("it broke")


def starts_within(seconds: float, lasting: float = 0.0, *, ends: bool = False) -> list[float]:
    async def main() -> list[float]:
        clock = LoopClock()
        work = Work(clock, lasting, ends=ends)
        task = asyncio.create_task(keep_running("work", work, clock, seeded(0), PLAIN))
        await clock.sleep(seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        first = work.starts[0]
        return [round(moment - first, 3) for moment in work.starts]

    return run(main, seed=0)


def test_work_that_fails_at_once_is_started_again_with_growing_waits() -> None:
    assert starts_within(32) == [0, 1, 3, 7, 15, 23, 31]


def test_work_that_ends_is_started_again_as_if_it_had_failed() -> None:
    assert starts_within(8, ends=True) == [0, 1, 3, 7]


def test_a_minute_of_health_resets_the_wait() -> None:
    assert starts_within(250, lasting=61.0) == [0, 62, 124, 186, 248]


def test_a_failure_is_told_to_whoever_asked() -> None:
    async def main() -> list[str]:
        clock, told = LoopClock(), list[str]()
        task = asyncio.create_task(
            keep_running("work", Work(clock), clock, seeded(0), PLAIN, on_failure=lambda error: told.append(str(error)))
        )
        await clock.sleep(2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return told

    assert run(main, seed=0) == ["it broke", "it broke"]


def test_cancelling_reaches_the_work_itself() -> None:
    async def main() -> bool:
        clock, cleaned = LoopClock(), asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.set()

        task = asyncio.create_task(keep_running("work", work, clock, seeded(0), PLAIN))
        await clock.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return cleaned.is_set()

    assert run(main, seed=0)


def test_a_cancellation_that_nobody_asked_for_is_a_failure_like_any_other() -> None:
    async def main() -> int:
        clock, told = LoopClock(), list[BaseException]()

        async def work() -> None:
            inner = asyncio.ensure_future(asyncio.Event().wait())
            inner.cancel()
            await inner

        task = asyncio.create_task(keep_running("work", work, clock, seeded(0), PLAIN, on_failure=told.append))
        await clock.sleep(2)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return len(told)

    assert run(main, seed=0) == 2


def test_work_that_may_be_done_is_not_started_again_once_it_ends() -> None:
    async def main() -> list[float]:
        clock = LoopClock()
        work = Work(clock, lasting=5.0, ends=True)
        await keep_running("work", work, clock, seeded(0), PLAIN, until_done=True)
        return work.starts

    assert len(run(main, seed=0)) == 1
