"""Tasks that are over when we say so: cancelled *and* awaited."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

__all__ = ["TaskStack", "cancelled_by_somebody", "end", "first_of", "to_its_end"]

T = TypeVar("T")


async def end(task: "asyncio.Future[Any]") -> None:
    """Cancel a task and wait until it is really over, even if we are cancelled (again) while waiting."""
    interrupted = False
    if not task.done():
        task.cancel()
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            interrupted = True
    if interrupted:
        raise asyncio.CancelledError


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of these is over. All are over then, also if we are cancelled; what they gave or raised is left out."""
    async with TaskStack() as tasks:
        await asyncio.wait([tasks.start(each) for each in waits], return_when=asyncio.FIRST_COMPLETED)


async def to_its_end(work: Coroutine[Any, Any, T], *, patience: float | None = None) -> T:
    """What the work gives. A cancellation counts once the work is over, or after `patience` more seconds, when the work is cancelled.

    For an effect of which nobody else could know: whoever is cancelled meanwhile still learns what came of it.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    interrupted, until = False, float("inf")
    while not task.done():
        try:
            await asyncio.wait([task], timeout=None if until == float("inf") else until - loop.time())
        except asyncio.CancelledError:
            if patience is not None and not interrupted:
                until = loop.time() + patience
            interrupted = True
        if loop.time() >= until:
            await end(task)
    if interrupted:
        raise asyncio.CancelledError from (None if task.cancelled() else task.exception())
    return task.result()


class TaskStack:
    """Tasks that live no longer than a block: all are cancelled when it is left, and awaited, the last one first."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        interrupted = False
        for task in reversed(self._tasks):
            try:
                await end(task)
            except asyncio.CancelledError:
                interrupted = True
        if interrupted:
            raise asyncio.CancelledError


def cancelled_by_somebody() -> bool:
    """Whether the running task itself was asked to end; False while a CancelledError comes from what it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
