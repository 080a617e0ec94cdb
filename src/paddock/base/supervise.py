"""Keeping background work running: a task that fails is started again, with backoff, and never in silence."""

import random
from collections.abc import Awaitable, Callable

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger

__all__ = ["keep_running"]

log = get_logger("supervise")
_HEALTHY_AFTER = 60.0
_BACKOFF = Backoff()


async def keep_running(
    name: str,
    work: Callable[[], Awaitable[None]],
    clock: Clock,
    chance: random.Random,
    backoff: Backoff = _BACKOFF,
    on_failure: Callable[[BaseException], None] | None = None,
) -> None:
    """Run `work` for ever: when it fails or ends, wait and start it again. Only cancellation ends this.

    The work must be safe to start again from nothing. A minute without failure resets the wait.
    """
    failures = 0
    while True:
        started = clock.monotonic()
        try:
            await work()
            why = "it ended"
        except Exception as error:
            if on_failure is not None:
                on_failure(error)
            why = str(error) or type(error).__name__
            log.exception("background work failed and will be restarted", work=name)
        failures = 1 if clock.monotonic() - started > _HEALTHY_AFTER else failures + 1
        wait = backoff.delay(failures, chance)
        log.info("restarting background work", work=name, why=why, in_seconds=round(wait, 1))
        await clock.sleep(wait)
