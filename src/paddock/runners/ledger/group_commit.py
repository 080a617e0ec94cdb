"""Calls that travel together: what is asked while an answer is on its way goes as one statement when it has come.

A call that finds none on the way goes at once, so that nothing waits for company that may never come; unless it is said that
there is no hurry, and for how long. The more is asked at once, the more goes in one statement and one commit.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from paddock.runners.ledger.errors import LedgerUnavailableError

__all__ = ["GroupCommit"]

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class _Seat(Generic[Asked, Answer]):
    __slots__ = ("answer", "asked")

    def __init__(self, asked: Asked, answer: "asyncio.Future[Answer]") -> None:
        self.asked = asked
        self.answer = answer


class GroupCommit(Generic[Asked, Answer]):
    """`send` gives one answer for each thing asked, in their order; an exception among the answers is that caller's alone.

    What every caller may rely on:

    - it is asked after the call began, never answered from a question that was on its way already;
    - another's bad entry is not its trouble: a group that is refused is asked again one by one, so `send` must be all or
      nothing. Only a database that is away is told to the whole group;
    - two that `key` finds alike never go in one group;
    - a caller that stops waiting has asked, or has not; whoever goes with it is not disturbed. When no caller waits for a
      group any more it is given up, so that a connection which never answers holds up no longer than its callers wait.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Asked]], Awaitable[Sequence[Answer | Exception]]],
        *,
        most: int,
        key: Callable[[Asked], Hashable] | None = None,
        wait: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._send = send
        self._most = most
        self._key = key
        self._wait = wait
        """For company, before each statement; None for what is in a hurry."""
        self._waiting: deque[_Seat[Asked, Answer]] = deque()
        self._travelling: list[_Seat[Asked, Answer]] = []
        self._way: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked) -> Answer:
        seat = _Seat[Asked, Answer](asked, asyncio.get_running_loop().create_future())
        self._waiting.append(seat)
        self._set_out()
        try:
            return await seat.answer
        except asyncio.CancelledError:
            if seat in self._waiting:
                self._waiting.remove(seat)
            elif self._way is not None and all(other.answer.cancelled() for other in self._travelling):
                self._way.cancel()
            raise

    def _set_out(self) -> None:
        if self._way is None and self._waiting:
            self._way = asyncio.create_task(self._travel(), name="together")
            self._way.add_done_callback(self._arrived)

    def _arrived(self, way: "asyncio.Task[None]") -> None:
        self._way = None
        left, self._travelling = self._travelling, []
        for seat in left:  # none, unless the way was cancelled
            seat.answer.cancel()
        if not way.cancelled():
            way.result()
        self._set_out()

    async def _travel(self) -> None:
        while self._waiting:
            if self._wait is not None:
                await self._wait()
                if not self._waiting:
                    return  # nobody waits for an answer any more
            self._travelling = group = self._board()
            answers = await self._answers([seat.asked for seat in group])
            for seat, answer in zip(group, answers, strict=True):
                if seat.answer.done():
                    continue  # its caller stopped waiting
                if isinstance(answer, Exception):
                    seat.answer.set_exception(answer)
                else:
                    seat.answer.set_result(answer)
            self._travelling = []

    def _board(self) -> list[_Seat[Asked, Answer]]:
        """The first who wait; of those that are alike only the first, the others keep their place."""
        group: list[_Seat[Asked, Answer]] = []
        later: list[_Seat[Asked, Answer]] = []
        aboard: set[Hashable] = set()
        while self._waiting and len(group) < self._most:
            seat = self._waiting.popleft()
            key = self._key(seat.asked) if self._key is not None else seat
            if key in aboard:
                later.append(seat)
            else:
                aboard.add(key)
                group.append(seat)
        self._waiting.extendleft(reversed(later))
        return group

    async def _answers(self, asked: Sequence[Asked]) -> Sequence[Answer | Exception]:
        try:
            return await self._send(asked)
        except LedgerUnavailableError as error:
            return [error for _ in asked]
        except Exception as error:  # noqa: BLE001 - a caller's own trouble is found by asking one by one, and is told to it
            if len(asked) == 1:
                return [error]
        return [answer for one in asked for answer in await self._answers([one])]
