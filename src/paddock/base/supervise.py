"""Keeping background work running: a task that fails is started again, with backoff, and never in silence."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.tasks import cancelled_by_somebody

__all__ = ["keep_running"]

log = get_logger("supervise")
_HEALTHY_AFTER = 60.0
_BACKOFF = Backoff()


async def keep_running(
    name: str,
    work: Callable[[], Awaitable[None]],
    clock: Clock,
    rng: random.Random,
    backoff: Backoff = _BACKOFF,
    *,
    until_done: bool = False,
    on_failure: Callable[[BaseException], None] | None = None,
) -> None:
    """Run `work` for ever: when it fails or ends, wait and start it again. Only cancellation ends this.

    The work must be safe to start again from nothing. A minute without failure resets the wait. With `until_done`, work
    that ends by itself has nothing more to do, and this ends with it.
    """
    failures = 0
    while True:
        started = clock.monotonic()
        problem = await _failure(work)
        if problem is None and until_done:
            return
        failures = 1 if clock.monotonic() - started >= _HEALTHY_AFTER else failures + 1
        wait = backoff.delay(failures, rng)
        if problem is None:
            log.info("background work ended and will be started again", work=name, again_in=round(wait, 1))
        else:
            if on_failure is not None:
                on_failure(problem)
            log.error(
                "background work failed and will be started again",
                work=name,
                again_in=round(wait, 1),
                exc_info=problem,
            )
        await clock.sleep(wait)


async def _failure(work: Callable[[], Awaitable[None]]) -> BaseException | None:
    try:
        await work()
    except asyncio.CancelledError as error:
        # No caller asked this task to end: something that the work awaited was cancelled, which must not end it in silence.
        if cancelled_by_somebody():
            raise
        return error
    except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and the work comes back
        return error
    return None
