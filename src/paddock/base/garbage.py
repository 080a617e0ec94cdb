"""When Python looks for cycles among everything that lives: rarely, and never because strangers opened connections.

A collection of the oldest generation stops the event loop for as long as it takes to visit every object: 0.4 s beside ten
thousand connections. Python begins one whenever a quarter more has come to live, so whoever opens and closes connections
would decide how often everybody else waits. Here one comes after minutes, which is far less than a hundredth of the time.
Most objects need none: they end with their last reference. What a collection has seen alive is left out of those after it
for an hour, so that ten thousand connections that stay are not visited again and again.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from paddock.base.clock import Clock

__all__ = ["collect_rarely", "oldest_left_alone"]

_LOOK_EVERY: Final = 10.0
_EVERY: Final = 300.0
_EVERYTHING_EVERY: Final = 3600.0
_AT_LEAST: Final = 60.0
_MANY: Final = 200
"""Collections of the generation before: about 1.4 million objects more than at the last full one, if none had ended since."""
_NEVER: Final = 1_000_000_000


@contextmanager
def oldest_left_alone() -> Iterator[None]:
    """What lives now (the modules) is visited once an hour; what comes to live is when `collect_rarely` says."""
    young, middle, old = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


async def collect_rarely(clock: Clock) -> None:
    """Collections of what came to live since the last, until cancelled: every five minutes, and every minute while much does;
    once in an hour of everything.
    """
    last = everything = clock.monotonic()
    while True:
        await clock.sleep(_LOOK_EVERY)
        passed = clock.monotonic() - last
        if passed >= _EVERY or (passed >= _AT_LEAST and gc.get_count()[2] >= _MANY):
            if clock.monotonic() - everything >= _EVERYTHING_EVERY:
                gc.unfreeze()
                everything = clock.monotonic()
            gc.collect()
            gc.freeze()
            last = clock.monotonic()
