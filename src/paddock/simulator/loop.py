"""Run a coroutine to its end in virtual time, and leave nothing behind."""

import asyncio
import gc
import inspect
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeVar

from paddock.simulator.errors import (
    BusyLoopError,
    DeadlockError,
    LeftoverTasksError,
    RealWaitError,
    TimeLimitError,
    UnhandledError,
)
from paddock.simulator.realwait import real_waits_reported_to
from paddock.simulator.stacks import where_tasks_wait
from paddock.simulator.virtual_loop import DAY, SimulatedTask, VirtualLoop

__all__ = ["DAY", "SimulatedTask", "VirtualLoop", "run"]

T = TypeVar("T")
Main = Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]]

_SETTLING_ROUNDS = 10_000
_CLOSINGS = 20
_CLEANING_SECONDS = 60.0


def run(main: Main[T], *, seed: int | str, limit: float = DAY, leftovers: Literal["fail", "cancel"] = "fail") -> T:
    """Run a coroutine, or what a factory gives, to its end in virtual time, and return its result.

    Any error carries the note `seed <seed>`. Tasks that still wait when the main coroutine has ended fail the run unless
    `leftovers="cancel"`; either way they are cancelled and awaited before this returns. Failures of callbacks and of
    tasks that no code awaited fail the run, too.
    """
    loop = VirtualLoop(seed, limit=limit)
    try:
        with real_waits_reported_to(loop.refuse), _collector_kept_out():
            try:
                result = _run_main(loop, main)
                problems = _settle(loop)
            except BaseException as error:
                for note in _clean_up(loop):
                    error.add_note(note)
                raise
            problems += _clean_up(loop)
        if loop.refused is not None:
            raise loop.refused  # noqa: TRY301 - the seed is noted below, once, whatever went wrong
        if problems and leftovers == "fail":
            raise LeftoverTasksError("\n".join(problems))  # noqa: TRY301 - as above
        if loop.unhandled:
            unhandled = UnhandledError(f"no code handled: {loop.unhandled[0]!r}")
            raise unhandled from loop.unhandled[0]  # noqa: TRY301 - as above
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return result


def _run_main(loop: VirtualLoop, main: Main[T]) -> T:
    async def the_main() -> T:
        return await (main() if callable(main) else main)

    return loop.run_until_complete(loop.create_task(the_main(), name="main"))


def _settle(loop: VirtualLoop) -> list[str]:
    """Let what has already been told to end do so, without letting time pass; then name what still waits."""

    async def until_idle() -> None:
        for _ in range(_SETTLING_ROUNDS):
            if loop.idle():
                return
            await asyncio.sleep(0)

    loop.run_until_complete(loop.create_task(until_idle(), name="settling"))
    left = loop.live_tasks()
    return [f"{len(left)} tasks were left waiting\n{where_tasks_wait(left)}"] if left else []


def _clean_up(loop: VirtualLoop) -> list[str]:
    """Cancel and await what is left, close the loop, bury the dead; tells what would not end or failed while ending."""
    problems: list[str] = []
    left = loop.live_tasks()
    for task in left:
        task.cancel()
    loop.limit = loop.time() + _CLEANING_SECONDS
    try:
        if left:
            loop.run_until_complete(loop.create_task(_ended(left), name="cleaning"))
        loop.run_until_complete(loop.create_task(loop.shutdown_asyncgens(), name="closing generators"))
    except (DeadlockError, TimeLimitError, BusyLoopError, RealWaitError) as error:
        problems.append(f"while cleaning up: {error}")
    problems += [
        f"task {task.get_name()!r} failed while it was cancelled: {task.exception()!r}"
        for task in left
        if task.done() and not task.cancelled() and task.exception() is not None
    ]
    loop.take_unseen_failures()
    unfinished = [*loop.frozen_tasks(), *loop.live_tasks()]
    loop.close()
    with warnings.catch_warnings():
        # A task that died before its first step leaves coroutines that were never awaited.
        warnings.simplefilter("ignore", RuntimeWarning)
        with _unheard():
            while unfinished:
                _bury(unfinished.pop())
            gc.collect()  # cheap: everything older than this run is frozen
    return problems


async def _ended(tasks: list[SimulatedTask]) -> None:
    await asyncio.wait(tasks)


def _bury(task: SimulatedTask) -> None:
    """Close what a dead process left, after its world has ended.

    Python runs its `finally` blocks now, if only up to their first wait. They run in the task's own context, where
    transports, faults and whatever else asks `require_alive` refuse them; only plain memory can change.
    """
    # What asyncio itself does for tasks whose end no code awaits: no complaint when they are dropped.
    setattr(task, "_log_destroy_pending", False)  # noqa: B010 - not a declared attribute
    coro = task.get_coro()
    if not isinstance(coro, Coroutine):
        return
    for _ in range(_CLOSINGS):
        # The `finally` of a dead process may raise anything; no process is left to hear it. One that waits (a task group
        # does) survives the first attempt, and would otherwise complain when it is collected, or raises a group of its own.
        with suppress(Exception, asyncio.CancelledError, GeneratorExit, BaseExceptionGroup):
            task.context.run(coro.close)
        if inspect.getcoroutinestate(coro) == inspect.CORO_CLOSED:
            return


@contextmanager
def _unheard() -> Iterator[None]:
    """Keep quiet about what the remains of dead processes complain of while they are taken apart."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hook


@contextmanager
def _collector_kept_out() -> Iterator[None]:
    """Keep the cyclic collector from running at moments that depend on what ran before in this interpreter."""
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()
