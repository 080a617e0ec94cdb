"""Run a test on an event loop whose time jumps to the next timer: hours pass in milliseconds."""

import asyncio
import functools
import inspect
import selectors
from collections.abc import Awaitable, Callable
from typing import Any


class _Jumping(selectors.DefaultSelector):
    now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("deadlock: everything waits and no timer is set")
        ready = super().select(0)
        if not ready:
            self.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def virtual(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Turn an async test into one that runs on virtual time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))  # type: ignore[arg-type]

    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    del run.__wrapped__  # so that pytest sees a plain function
    return run
