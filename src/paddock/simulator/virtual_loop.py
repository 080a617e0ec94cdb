"""Virtual time: an asyncio event loop that never waits, and whose schedule is decided by a seed.

- Timers jump: when nothing is ready, time moves to the next timer at once. `loop.time()` starts at 0.
- Which of the ready *tasks* takes its next step is drawn from the seed, one step at a time. Other callbacks keep
  asyncio's first-in-first-out order, on which libraries rely; timers due at the same instant come in a drawn order.
- Waiting for the real world is an error, and so is a state in which nothing can happen any more.

The same seed and the same program give the same run. The program's duty: no real clock, no unseeded randomness, and no
decision by the iteration order of sets of strings or of plain objects (sets of tasks are in order here).
"""

import asyncio
import gc
import heapq
import threading
from bisect import insort
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, NoReturn

from paddock.base.rng import seeded
from paddock.simulator.errors import (
    BusyLoopError,
    DeadlockError,
    RealWaitError,
    TimeLimitError,
    UnhandledError,
)
from paddock.simulator.process_life import LIFE, ProcessLife
from paddock.simulator.stacks import where_tasks_wait

__all__ = ["DAY", "SimulatedTask", "VirtualLoop"]

DAY = 86_400.0
_STEPS_AT_ONE_INSTANT = 1_000_000
_STEPS_BETWEEN_COLLECTIONS = 100_000
_STEPS_A_TASK = 50
"""In a large world a collection looks at more, so it comes less often: for each task so many steps."""


class SimulatedTask(asyncio.Task[Any]):
    """A task that knows its number and its context.

    It hashes by its number: asyncio and anyio keep tasks in sets, whose order would otherwise follow memory addresses.
    """

    def __init__(self, coro: Coroutine[Any, Any, Any], *, number: int, context: Context, **options: Any) -> None:
        self.number = number
        self.context = context
        self.life = context.get(LIFE)
        super().__init__(coro, context=context, **options)

    def __hash__(self) -> int:
        return self.number

    @property
    def frozen(self) -> bool:
        """Whether the process this task belongs to is dead, so that it never takes another step."""
        return self.life is not None and not self.life.alive

    @property
    def unseen_failure(self) -> bool:
        """Whether this task has failed and no code has asked for its exception; asking this is not asking for it."""
        return bool(getattr(self, "_log_traceback", False))


class VirtualLoop(asyncio.BaseEventLoop):
    """The seeded loop. Use `paddock.simulator.loop.run`, which also cleans up and reports; the loop itself only schedules."""

    def __init__(self, seed: int | str, *, limit: float = DAY) -> None:
        super().__init__()
        self.seed = seed
        self.limit = limit
        self.refused: RealWaitError | None = None
        self.unhandled: list[BaseException] = []
        self._told_refusal = False
        self._rng = seeded(f"schedule of {seed}")
        self._now = 0.0
        # Each with the life of the code that asked for it: callbacks and timers of a dead process never run.
        self._callbacks: deque[tuple[ProcessLife | None, asyncio.Handle]] = deque()
        # Ordered by task number, so that the draw does not depend on the order in which tasks became ready.
        self._steps: list[tuple[int, int, asyncio.Handle]] = []
        self._timers: list[tuple[float, int, ProcessLife | None, asyncio.TimerHandle]] = []
        self._cancelled_timers = 0
        self._numbered = 0
        self._busy = 0
        self._until_collection = _STEPS_BETWEEN_COLLECTIONS
        self._tasks: dict[int, SimulatedTask] = {}
        self._most_tasks = 64
        """So many are kept before those that are over are looked for: twice those that were not, the last time."""
        self.set_exception_handler(VirtualLoop._keep_unhandled)

    # Time and scheduling.

    def time(self) -> float:
        return self._now

    def call_soon(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if self.is_closed():
            # The world is over. Python still runs the `finally` blocks of tasks that were frozen in it when they are
            # collected, and those ask for another step, which never comes: that is what being dead means.
            handle.cancel()
            return handle
        task = getattr(callback, "__self__", None)
        if isinstance(task, SimulatedTask):
            insort(self._steps, (task.number, self._next_number(), handle))
        else:
            self._callbacks.append((_life_in(context), handle))
        return handle

    def call_soon_threadsafe(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if getattr(self, "_thread_id", None) not in {None, threading.get_ident()}:
            self.refuse("a call from another thread")
        return self.call_soon(callback, *args, context=context)

    def call_later(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if self.is_closed():
            timer.cancel()  # as above
            return timer
        heapq.heappush(self._timers, (when, self._next_number(), _life_in(context), timer))
        return timer

    def create_task(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        number = self._next_number()
        # asyncio numbers unnamed tasks for the whole interpreter; here the second run must give the same names.
        called = name or f"{getattr(coro, '__name__', 'task')}-{number}"
        options = {**options, "name": called, "loop": self}
        task = SimulatedTask(coro, number=number, context=context or copy_context(), **options)
        self._tasks[number] = task
        if len(self._tasks) > self._most_tasks:
            # Frozen tasks stay: dropped, the collector would run their `finally` blocks in the midst of the run.
            # Failed tasks stay until their failure was looked at: those that are left at the end never were.
            self._tasks = {key: kept for key, kept in self._tasks.items() if not kept.done() or kept.unseen_failure}
            self._most_tasks = 64 + 2 * len(self._tasks)
        return task

    def _next_number(self) -> int:
        self._numbered += 1
        return self._numbered

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > 100 and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[3].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    # One turn of the loop: the callbacks that are ready now, then one step of one task.

    def _run_once(self) -> None:
        if not self._callbacks and not self._steps:
            self._advance()
        # Only those present now: a callback that schedules itself again must not keep tasks from running.
        for _ in range(len(self._callbacks)):
            life, handle = self._callbacks.popleft()
            if life is None or life.alive:
                self._run_handle(handle)
        if self._steps:
            drawn = self._rng.randrange(len(self._steps)) if len(self._steps) > 1 else 0
            _, _, handle = self._steps.pop(drawn)
            task = getattr(getattr(handle, "_callback", None), "__self__", None)
            if not (isinstance(task, SimulatedTask) and task.frozen):
                self._run_handle(handle)
        self._count_step()

    def _run_handle(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            handle._run()  # noqa: SLF001 - a loop is what runs handles; asyncio has no public name for it
        if self.refused is not None and not self._told_refusal:
            # Once: cleaning up goes on afterwards.
            self._told_refusal = True
            raise self.refused

    def _advance(self) -> None:
        while self._timers and _is_void(*self._timers[0][2:]):
            heapq.heappop(self._timers)
        if not self._timers:
            raise DeadlockError(f"every task waits and no timer is set\n{self.where_tasks_wait()}")
        when = max(self._now, self._timers[0][0])
        if when > self.limit:
            raise TimeLimitError(f"not done after {self.limit:g} virtual seconds\n{self.where_tasks_wait()}")
        self._now = when
        self._busy = 0
        due: list[tuple[ProcessLife | None, asyncio.Handle]] = []
        while self._timers and self._timers[0][0] <= when:
            due.append(heapq.heappop(self._timers)[2:])
        self._rng.shuffle(due)
        self._callbacks.extend(due)

    def _count_step(self) -> None:
        self._busy += 1
        if self._busy > _STEPS_AT_ONE_INSTANT:
            raise BusyLoopError(f"{self._busy} steps at the instant {self._now:g}\n{self.where_tasks_wait()}")
        self._until_collection -= 1
        if self._until_collection == 0:
            # The collector runs at counted steps only: what it finalizes may schedule things.
            gc.collect()
            self._until_collection = max(_STEPS_BETWEEN_COLLECTIONS, _STEPS_A_TASK * len(self._tasks))

    def _asyncgen_firstiter_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        # Generators of a process end with it, unclosed; only those outside are closed at the end of the run.
        if LIFE.get() is None:
            super()._asyncgen_firstiter_hook(agen)  # pyright: ignore[reportAttributeAccessIssue]

    # What there is to tell.

    def idle(self) -> bool:
        """Whether nothing but timers could go on, apart from the running task."""
        return not self._callbacks and not self._steps

    def live_tasks(self) -> list[SimulatedTask]:
        """The unfinished tasks that can still act, oldest first."""
        return [task for task in self._tasks.values() if not task.done() and not task.frozen]

    def frozen_tasks(self) -> list[SimulatedTask]:
        """The tasks that a crash left behind."""
        return [task for task in self._tasks.values() if not task.done() and task.frozen]

    def take_unseen_failures(self) -> None:
        """Move the failures that no code has looked at, or ever will, to `unhandled`."""
        for task in self._tasks.values():
            if task.unseen_failure and (error := task.exception()) is not None:
                self.unhandled.append(error)

    def where_tasks_wait(self) -> str:
        """The stack of every unfinished task, innermost wait last."""
        return where_tasks_wait(self.live_tasks())

    @staticmethod
    def _keep_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        assert isinstance(loop, VirtualLoop)
        error = context.get("exception")
        if isinstance(error, RealWaitError):
            return
        if error is None:
            error = UnhandledError(str(context.get("message")))
        loop.unhandled.append(error)

    # The real world.

    def refuse(self, what: str) -> NoReturn:
        """Raise `RealWaitError`, and make sure that the run ends with it."""
        task = asyncio.current_task(self) if self.is_running() else None
        by = f" by task {task.get_name()!r}" if task else ""
        error = RealWaitError(f"{what} was attempted{by}: the simulation has no real threads, sockets or waits")
        self.refused = self.refused or error
        raise error

    def run_in_executor(self, _executor: Any, func: Any, *_args: Any) -> NoReturn:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.refuse(f"run_in_executor({getattr(func, '__qualname__', func)!s})")


def _life_in(context: Context | None) -> ProcessLife | None:
    return LIFE.get() if context is None else context.get(LIFE)


def _is_void(life: ProcessLife | None, timer: asyncio.TimerHandle) -> bool:
    return timer.cancelled() or (life is not None and not life.alive)


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(self: VirtualLoop, *_args: Any, **_options: Any) -> NoReturn:
        self.refuse(f"loop.{name}()")

    refuse.__name__ = name
    return refuse


for _name in (
    *("add_reader", "add_writer", "add_signal_handler", "getaddrinfo", "getnameinfo", "sendfile", "start_tls"),
    *("create_connection", "create_server", "create_datagram_endpoint", "connect_accepted_socket"),
    *("create_unix_connection", "create_unix_server", "connect_read_pipe", "connect_write_pipe"),
    *("subprocess_exec", "subprocess_shell", "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into"),
    *("sock_sendall", "sock_sendto", "sock_connect", "sock_accept", "sock_sendfile"),
):
    setattr(VirtualLoop, _name, _refusing(_name))
