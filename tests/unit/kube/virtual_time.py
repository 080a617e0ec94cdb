"""Run a test on the simulator's event loop: hours pass in milliseconds."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from paddock.simulator.loop import run


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Turn an async test into one that runs on virtual time; what it leaves waiting is ended for it."""

    @functools.wraps(test)
    def in_virtual_time(*args: Any, **kwargs: Any) -> None:
        run(lambda: test(*args, **kwargs), seed=test.__name__, leftovers="cancel")

    in_virtual_time.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    del in_virtual_time.__wrapped__  # so that pytest sees a plain function
    return in_virtual_time
