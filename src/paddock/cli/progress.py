"""A word on standard error while something takes longer than a second, for people only: never in a pipe or a log."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from paddock.base.clock import Clock, SystemClock
from paddock.base.readable import shown

__all__ = ["showing"]

_TIMEOUT = 1.0
_MARKS = "◐◓◑◒"
_CLEAR = "\r\033[K"


@asynccontextmanager
async def showing(what: str, clock: Clock | None = None) -> AsyncIterator[None]:
    """Say `what` is being done once it has taken a second; nothing is left of it at the end.

    Ask nothing of the user inside: the word would be written over the question.
    """
    if not sys.stderr.isatty():
        yield
        return
    task = asyncio.create_task(_told(what, clock or SystemClock()))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _told(what: str, clock: Clock) -> None:
    # Conditions and names are strangers' words, too; and only one line can be cleared again.
    began, said = clock.monotonic(), shown(" ".join(what.split()))
    await clock.sleep(_TIMEOUT)
    turn = 0
    try:
        while True:
            seconds = int(clock.monotonic() - began)
            sys.stderr.write(f"{_CLEAR}{_MARKS[turn % len(_MARKS)]} {said}… {seconds} s")
            sys.stderr.flush()
            turn += 1
            await clock.sleep(0.25)
    finally:
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
