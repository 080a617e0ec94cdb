"""Faults: what may happen to any effect on its way to the world, by plan or at random.

Every effect that a simulation should be able to disturb is announced to one `Faults`: HTTP calls by wrapping their
transport in `FaultyTransport`, everything else (SSH commands, a store) through `call` or `effect`. Each gets a number, in
the order in which the calls are made, and at most one fault.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Literal, NoReturn, TypeVar

from paddock.base.clock import Clock, LoopClock
from paddock.simulator.errors import SimulationError
from paddock.simulator.process_life import ProcessLife, require_alive
from paddock.simulator.trace import Trace

__all__ = [
    "AnswerLostError",
    "Crash",
    "CutStream",
    "Delay",
    "Duplicate",
    "EffectCall",
    "EffectFailedError",
    "Fail",
    "Fault",
    "FaultError",
    "FaultMoment",
    "Faults",
    "Late",
    "LoseAnswer",
    "Rule",
]

T = TypeVar("T")


class FaultError(ConnectionError):
    """The root of what an effect that is not an HTTP call raises when it is disturbed."""


class EffectFailedError(FaultError):
    """The effect did not happen."""


class AnswerLostError(FaultError):
    """The effect happened, or still will; its answer never comes. The caller must look before it repeats."""


class FaultMoment(Enum):
    """On which side of the effect a process dies."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Fail:
    """Fail before the effect: a refused connection, or an answer that a proxy gives without asking the app."""

    status: int | None = None
    retry_after: int | None = None


@dataclass(frozen=True)
class Delay:
    """Let the call start that much later; a caller that times out in the meantime has had no effect."""

    seconds: float


@dataclass(frozen=True)
class Duplicate:
    """Perform the effect twice, one after the other, and give back the one answer or the other."""

    answer: Literal["first", "second"] = "second"


@dataclass(frozen=True)
class LoseAnswer:
    """Perform the effect to its end, then fail: with a reset at once, or after the caller's timeout."""

    error: Literal["reset", "timeout"] = "reset"


@dataclass(frozen=True)
class Late:
    """Fail with a timeout now, and perform the effect that many seconds from now, whether the caller still lives or not."""

    seconds: float


@dataclass(frozen=True)
class CutStream:
    """Break the answer off after that many chunks; `clean` ends it without an error, as a closing server does."""

    chunks: int = 1
    clean: bool = False


@dataclass(frozen=True)
class Crash:
    """Kill the calling process just before, or just after, the effect."""

    moment: FaultMoment


Fault = Fail | Delay | Duplicate | LoseAnswer | Late | CutStream | Crash


@dataclass(frozen=True)
class EffectCall:
    """One announced effect. `name` is `METHOD /path` for HTTP; `process` is empty outside every process."""

    number: int
    name: str
    process: str
    method: str = ""
    path: str = ""

    def __str__(self) -> str:
        return f"call {self.number} of {self.process or 'world'}: {self.name}"


@dataclass
class Rule:
    """When to disturb: all conditions must hold. `nth` counts the calls that match the others, from 1."""

    faults: tuple[Fault, ...]
    name: str = "*"
    method: str | None = None
    path: str | None = None
    process: str | None = None
    where: Callable[[EffectCall], bool] | None = None
    nth: Collection[int] | None = None
    probability: float = 1.0
    times: int | None = None
    until: float | None = None
    matched: int = field(default=0, init=False)
    fired: int = field(default=0, init=False)

    def matches(self, call: EffectCall, now: float) -> bool:
        """Whether this rule is about this call at all."""
        return (
            fnmatchcase(call.name, self.name)
            and (self.method is None or call.method == self.method.upper())
            and (self.path is None or fnmatchcase(call.path, self.path))
            and (self.process is None or call.process == self.process)
            and (self.until is None or now < self.until)
            and (self.times is None or self.fired < self.times)
            and (self.where is None or self.where(call))
        )

    def draw(self, rng: random.Random) -> Fault | None:
        """The fault for a call that matches, if it is its turn."""
        self.matched += 1
        if self.nth is not None and self.matched not in self.nth:
            return None
        if self.probability < 1.0 and rng.random() >= self.probability:
            return None
        self.fired += 1
        return self.faults[0] if len(self.faults) == 1 else rng.choice(self.faults)


class Faults:
    """The plan of one run, and the record of the calls made in it.

    `life` owns what outlives its caller (late arrivals); without one they are ordinary tasks of the loop.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        trace: Trace | None = None,
        clock: Clock | None = None,
        life: ProcessLife | None = None,
    ) -> None:
        self.calls: list[EffectCall] = []
        self.rules: list[Rule] = []
        self._rng = rng
        self._trace = trace
        self._clock: Clock = clock or LoopClock()
        self._life = life
        self._late: list[asyncio.Task[object]] = []

    def inject(
        self,
        *faults: Fault,
        name: str = "*",
        method: str | None = None,
        path: str | None = None,
        process: str | None = None,
        where: Callable[[EffectCall], bool] | None = None,
        nth: int | Collection[int] | None = None,
        probability: float = 1.0,
        times: int | None = None,
        until: float | None = None,
    ) -> Rule:
        """Disturb the calls that meet every condition given; one of several faults is drawn each time.

        `name` and `path` are patterns with `*`; `nth` counts matching calls from 1; `until` is a virtual time, so that a
        test can let a storm pass and then ask whether everything comes right. The first rule that fires wins.
        """
        if not faults:
            raise ValueError("name at least one fault to inject")
        only = (nth,) if isinstance(nth, int) else nth
        rule = Rule(faults, name, method, path, process, where, only, probability, times, until)
        self.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Let everything go well from now on."""
        self.rules.clear()

    def announce(self, name: str, *, method: str = "", path: str = "") -> tuple[EffectCall, Fault | None]:
        """Number a call and decide its fault. Raises `CrashedError` for a dead process, whose calls do not count."""
        life = require_alive()
        owned = life is not None and life is not self._life
        call = EffectCall(len(self.calls) + 1, name, life.name if life is not None and owned else "", method, path)
        self.calls.append(call)
        self.note("call", n=call.number, name=name)
        for rule in self.rules:
            if rule.matches(call, self._clock.monotonic()) and (fault := rule.draw(self._rng)):
                self.note("fault", n=call.number, kind=_text(fault))
                return call, fault
        return call, None

    def note(self, event: str, **fields: Any) -> None:
        if self._trace is not None:
            self._trace.record(event, **fields)

    async def crash(self, call: EffectCall) -> NoReturn:
        """Kill the calling process here and now. This never returns, and no clean-up of the caller runs."""
        life = require_alive()
        if life is None or life is self._life:
            raise SimulationError(f"{call} was to crash its process, but no process made it")
        life.end()
        # The loop never steps a task of a dead process: what awaits this future is never resumed.
        await asyncio.get_running_loop().create_future()
        raise AssertionError("a dead process went on")

    def later(self, seconds: float, act: Callable[[], Awaitable[object]]) -> None:
        """Do this after that many seconds, whatever becomes of the caller; its failure is ignored."""

        async def arrive() -> None:
            await self._clock.sleep(seconds)
            await asyncio.gather(act(), return_exceptions=True)

        context = self._life.context() if self._life is not None else None
        self._late.append(asyncio.get_running_loop().create_task(arrive(), name="late arrival", context=context))

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def call(
        self,
        name: str,
        act: Callable[[], Awaitable[T]],
        *,
        error: Callable[[FaultError], Exception] | None = None,
        timeout: float = 5.0,
    ) -> T:
        """Perform an effect under this plan. `error` turns a `FaultError` into the client's own error;
        `timeout` is how long a caller waits before it believes in a timeout.
        """
        as_raised = error or (lambda failure: failure)
        call, fault = self.announce(name)
        match fault:
            case Fail():
                raise as_raised(EffectFailedError(f"{name}: refused"))
            case Crash(moment=FaultMoment.BEFORE):
                await self.crash(call)
            case Delay(seconds):
                await self.sleep(seconds)
            case Late(seconds):
                self.later(seconds, act)
                await self.sleep(timeout)
                raise as_raised(AnswerLostError(f"{name}: timed out"))
            case _:
                pass
        try:
            answer = await act()
        except Exception:
            # An effect may fail by itself and still be the last thing its process did.
            if isinstance(fault, Crash):
                await self.crash(call)
            raise
        match fault:
            case Duplicate(kept):
                second = await act()
                answer = second if kept == "second" else answer
            case Crash():
                await self.crash(call)
            case LoseAnswer(kind):
                await self.sleep(timeout if kind == "timeout" else 0.0)
                raise as_raised(AnswerLostError(f"{name}: {kind}"))
            case CutStream():
                raise as_raised(AnswerLostError(f"{name}: broken off"))
            case _:
                pass
        return answer

    @asynccontextmanager
    async def effect(self, name: str, *, error: Callable[[FaultError], Exception] | None = None) -> AsyncIterator[None]:
        """The body is one effect under this plan. A body cannot be repeated or moved: here `Duplicate` and `Late` count
        as a lost answer; use `call` where those matter.
        """
        as_raised = error or (lambda failure: failure)
        call, fault = self.announce(name)
        match fault:
            case Fail():
                raise as_raised(EffectFailedError(f"{name}: refused"))
            case Crash(moment=FaultMoment.BEFORE):
                await self.crash(call)
            case Delay(seconds):
                await self.sleep(seconds)
            case _:
                pass
        try:
            yield
        except Exception:
            if isinstance(fault, Crash):
                await self.crash(call)
            raise
        match fault:
            case Crash():
                await self.crash(call)
            case LoseAnswer() | CutStream() | Duplicate() | Late():
                raise as_raised(AnswerLostError(f"{name}: lost"))
            case _:
                pass


def _text(fault: Fault) -> str:
    particulars = ",".join(
        f"{name}={value.value if isinstance(value, Enum) else value}" for name, value in vars(fault).items()
    )
    return f"{type(fault).__name__}({particulars})"
