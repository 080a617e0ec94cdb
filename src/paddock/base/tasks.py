"""Tasks that are over when we say so: cancelled *and* awaited."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Self

__all__ = ["TaskStack", "cancelled_by_somebody", "end"]


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


class TaskStack:
    """Tasks that live no longer than a block: all are cancelled when it is left, and awaited, the last one first."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        self._tasks.append(asyncio.create_task(work))

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
