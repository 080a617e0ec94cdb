"""Disturbing a dispatch process exactly at one of its effects: before it, after it, or on the way of its answer."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, TypeVar

import httpx2

from paddock.clients.github.errors import Unavailable
from paddock.runners.api import ACCOUNT_LABEL
from paddock.runners.ledger import LedgerUnavailableError

T = TypeVar("T")


class DeadError(BaseException):
    """The process is no more: nothing that it still tries has an effect."""


class Disturbance(Enum):
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    FAIL = "fail"
    LOSE_ANSWER = "lose the answer"
    CANCEL_BEFORE = "cancel before"
    CANCEL_AFTER = "cancel after"
    HANG_UP_BEFORE = "client hangs up before"
    HANG_UP_AFTER = "client hangs up after"

    @property
    def crash(self) -> bool:
        return self in (Disturbance.CRASH_BEFORE, Disturbance.CRASH_AFTER)


class Effects:
    """Every effect of one process passes through here; one of them is disturbed, once."""

    def __init__(self, effect: str, how: Disturbance) -> None:
        self._effect = effect
        self._how = how
        self.fired = False
        self.dead = False
        self.seen: list[str] = []
        self.cancel: Callable[[], None] = lambda: None
        self.hang_up: Callable[[], object] = lambda: None

    async def around(self, name: str, call: Callable[[], Awaitable[T]], failure: Exception) -> T:
        if self.dead:
            raise DeadError
        self.seen.append(name)
        if name != self._effect or self.fired:
            return await call()
        self.fired = True
        match self._how:
            case Disturbance.CRASH_BEFORE:
                self.dead = True
                raise DeadError
            case Disturbance.FAIL:
                raise failure
            case Disturbance.CANCEL_BEFORE:
                self.cancel()
                await asyncio.sleep(0.05)
            case Disturbance.HANG_UP_BEFORE:
                self.hang_up()
                await asyncio.sleep(0.05)
            case _:
                pass
        result = await call()
        match self._how:
            case Disturbance.CRASH_AFTER:
                self.dead = True
                raise DeadError
            case Disturbance.LOSE_ANSWER:
                raise failure
            case Disturbance.CANCEL_AFTER:
                self.cancel()
                await asyncio.sleep(0.05)
            case Disturbance.HANG_UP_AFTER:
                self.hang_up()
                await asyncio.sleep(0.05)
            case _:
                pass
        return result


class Part:
    """A part of something, some of whose methods are effects."""

    def __init__(self, real: Any, effects: Effects, names: dict[str, str], failure: type[Exception]) -> None:
        self._real = real
        self._effects = effects
        self._names = names
        self._failure = failure

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._real, method)
        name = self._names.get(method)
        if name is None:
            return real

        async def through(*arguments: Any, **named: Any) -> Any:
            failure = self._failure("it did not answer")
            return await self._effects.around(name, lambda: real(*arguments, **named), failure)

        return through


class DisturbedLedger:
    def __init__(self, real: Any, effects: Effects) -> None:
        self._real = real
        lost = LedgerUnavailableError
        claims = {
            "claim_many": "claim",
            "commit": "commit",
            "release": "release",
            "mint_failed": "mint_failed",
            "of_pod": "of_pod",
        }
        self.claims = Part(real.claims, effects, claims, lost)
        self.dispatchers = Part(real.dispatchers, effects, {"beat": "beat", "register": "register"}, lost)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def disturbed_github(real: Any, effects: Effects) -> Any:
    return Part(real, effects, {"mint": "mint", "remove_runner": "remove_runner"}, Unavailable)


class DisturbedTransport(httpx2.AsyncBaseTransport):
    """The way to the cluster; its effects are told apart by what is sent."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, effects: Effects) -> None:
        self._inner = inner
        self._effects = effects

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        name = self._name(request)
        failure = httpx2.ReadError("the line is cut", request=request)
        return await self._effects.around(name, lambda: self._inner.handle_async_request(request), failure)

    @staticmethod
    def _name(request: httpx2.Request) -> str:
        if request.url.path.endswith("/tokenreviews"):
            return "review"
        if request.method == "PATCH":
            if "json-patch" in request.headers["content-type"]:
                return "unstamp"
            return "label" if ACCOUNT_LABEL.encode() in request.content else "stamp"
        return "read"
