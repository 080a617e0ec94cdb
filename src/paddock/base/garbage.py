"""When Python looks for cycles among what lives: rarely, and never because strangers opened connections.

A collection stops the event loop for as long as it takes to visit every object that is not left out: 0.4 s beside ten thousand
connections, and 5 to 25 ms, several times a second, where only the young ones are visited while connections come and go. Python
begins one whenever so many more objects have come to live, so whoever opens and closes connections would decide how often
everybody else waits. Here one comes after minutes, which is far less than a hundredth of the time. Objects need none: they end
with their last reference, and tests hold that what strangers send leaves no cycle behind. What a collection has seen alive
is left out of those after it for an hour, so that ten thousand connections that stay are not visited again and again.
"""

import gc
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from paddock.base.clock import Clock

__all__ = ["collect_rarely", "collected_by_the_clock"]

_LOOK_EVERY: Final = 10.0
_EVERY: Final = 300.0
_EVERYTHING_EVERY: Final = 3600.0
_AT_LEAST: Final = 30.0
_MANY: Final = 250_000
"""Objects more than at the last collection. Those that ended meanwhile, old or new, are taken off."""
_MUCH: Final = 64 * 1024 * 1024
"""Bytes by which the process has grown beyond all that it ever was: a few objects may hold much."""


@contextmanager
def collected_by_the_clock() -> Iterator[None]:
    """Nothing is collected in the block but when `collect_rarely` says. What lives before it (the modules) is left out."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


async def collect_rarely(clock: Clock) -> None:
    """Collections of what came to live since the last, until cancelled: every five minutes, and every half minute while much
    does; once in an hour of everything.
    """
    last = everything = clock.monotonic()
    height = _greatest_height()
    while True:
        await clock.sleep(_LOOK_EVERY)
        passed = clock.monotonic() - last
        much = gc.get_count()[0] >= _MANY or _greatest_height() - height >= _MUCH
        if passed >= _EVERY or (passed >= _AT_LEAST and much):
            if clock.monotonic() - everything >= _EVERYTHING_EVERY:
                gc.unfreeze()
                everything = clock.monotonic()
            gc.collect()
            gc.freeze()
            last, height = clock.monotonic(), _greatest_height()


def _greatest_height() -> int:
    """The most memory that this process ever had, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
