"""The life of a simulated process: what its tasks inherit, and what ends when it is killed.

A task inherits the life of the task that started it through the context. When the life is over the virtual-time loop
never steps that task again: no `finally` runs, no lock is given back, as when a real process is killed. What the process
held open towards others (its connections) is broken through `on_end`.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar

__all__ = ["LIFE", "CrashedError", "ProcessLife", "current_life", "require_alive"]


class CrashedError(asyncio.CancelledError):
    """Code of a dead process tried to act. It is a cancellation, so that no `except Exception` retries it."""


class ProcessLife:
    """One incarnation of a process: alive until `end`, and never again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        # A dict, because it keeps the order of registration: connections break in an order the seed decides.
        self._on_end: dict[int, Callable[[], None]] = {}
        self._registered = 0

    def __repr__(self) -> str:
        return f"Life({self.name!r}, {'alive' if self.alive else 'over'})"

    def end(self) -> None:
        """End this life; repeating it does nothing. What was registered with `on_end` runs now, in order."""
        if not self.alive:
            return
        self.alive = False
        endings, self._on_end = list(self._on_end.values()), {}
        for ending in endings:
            ending()

    def on_end(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when this life ends; gives back what withdraws the callback."""
        key = self._registered
        self._registered += 1
        self._on_end[key] = callback
        return lambda: self._on_end.pop(key, None) and None

    def context(self) -> Context:
        """A fresh context in which tasks of this life are started; nothing of the caller's context leaks into it."""
        context = Context()
        context.run(LIFE.set, self)
        return context


LIFE: ContextVar[ProcessLife | None] = ContextVar("paddock_simulated_life", default=None)


def current_life() -> ProcessLife | None:
    """The life the running code belongs to; None outside every simulated process."""
    return LIFE.get()


def require_alive() -> ProcessLife | None:
    """The current life, unless it is over: nothing leaves a dead process, whatever its clean-up tries.

    Every way out of a process asks this first: transports and `Faults` do, an in-memory simulator that is called directly must.
    """
    life = LIFE.get()
    if life is not None and not life.alive:
        raise CrashedError(f"process {life.name} is dead")
    return life
