"""Calls to the ledger that go as one statement because they were made at once."""

import asyncio
from collections.abc import Sequence

import pytest

from paddock.runners.ledger import InvalidEntryError, LedgerUnavailableError
from paddock.runners.ledger.group_commit import GroupCommit


class Far:
    """Answers each number with its double, when it is told to; remembers what came together."""

    def __init__(self) -> None:
        self.trips: list[list[int]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.bad: set[int] = set()
        self.away = False

    async def send(self, asked: Sequence[int]) -> list[int | Exception]:
        self.trips.append(list(asked))
        await self.open.wait()
        if self.away:
            raise LedgerUnavailableError("gone")
        if wrong := self.bad.intersection(asked):
            raise InvalidEntryError(f"{min(wrong)} is bad")
        return [2 * number for number in asked]


async def _turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_call_goes_at_once_and_those_that_come_meanwhile_go_as_one():
    far = Far()
    calls = GroupCommit(far.send, most=100)
    far.open.clear()
    first = asyncio.create_task(calls.ask(1))
    await _turn()
    others = [asyncio.create_task(calls.ask(number)) for number in (2, 3, 4)]
    await _turn()
    assert far.trips == [[1]]
    far.open.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 8]
    assert far.trips == [[1], [2, 3, 4]]


async def test_what_is_in_no_hurry_waits_for_company_and_is_not_asked_when_all_have_left():
    far, company = Far(), asyncio.Event()
    calls = GroupCommit(far.send, most=100, wait=company.wait)
    asking = [asyncio.create_task(calls.ask(1))]
    await _turn()
    asking += [asyncio.create_task(calls.ask(number)) for number in (2, 3)]
    await _turn()
    asking.pop(1).cancel()
    assert far.trips == []
    company.set()
    assert await asyncio.gather(*asking) == [2, 6]
    assert far.trips == [[1, 3]]
    company.clear()
    alone = asyncio.create_task(calls.ask(4))
    await _turn()
    alone.cancel()
    company.set()
    await _turn()
    assert far.trips == [[1, 3]]


async def test_no_more_go_together_than_may():
    far = Far()
    calls = GroupCommit(far.send, most=2)
    assert await asyncio.gather(*(calls.ask(number) for number in range(5))) == [0, 2, 4, 6, 8]
    assert [len(trip) for trip in far.trips] == [2, 2, 1]


async def test_two_that_are_alike_go_one_after_the_other_and_each_is_answered():
    far = Far()
    calls = GroupCommit(far.send, most=100, key=lambda number: number)
    assert await asyncio.gather(*(calls.ask(number) for number in (7, 8, 7, 9))) == [14, 16, 14, 18]
    assert far.trips == [[7, 8, 9], [7]]


async def test_a_bad_entry_fails_for_its_own_caller_alone():
    far = Far()
    far.bad = {3}
    calls = GroupCommit(far.send, most=100)
    answers = await asyncio.gather(*(calls.ask(number) for number in (1, 2, 3, 4)), return_exceptions=True)
    assert [answers[0], answers[1], answers[3]] == [2, 4, 8]
    assert isinstance(answers[2], InvalidEntryError)


async def test_an_answer_that_is_an_exception_is_its_own_callers():
    async def send(asked: Sequence[int]) -> list[int | Exception]:
        return [ValueError("odd") if number % 2 else number for number in asked]

    calls = GroupCommit(send, most=100)
    answers = await asyncio.gather(*(calls.ask(number) for number in (1, 2)), return_exceptions=True)
    assert isinstance(answers[0], ValueError)
    assert answers[1] == 2


async def test_a_database_that_is_away_is_told_to_everybody_and_asked_once_only():
    far = Far()
    far.away = True
    calls = GroupCommit(far.send, most=100)
    answers = await asyncio.gather(*(calls.ask(number) for number in (1, 2, 3)), return_exceptions=True)
    assert all(isinstance(answer, LedgerUnavailableError) for answer in answers)
    assert far.trips == [[1, 2, 3]]
    far.away = False
    assert await calls.ask(4) == 8


async def test_a_caller_that_stops_waiting_disturbs_nobody():
    far = Far()
    calls = GroupCommit(far.send, most=100)
    far.open.clear()
    travelling = [asyncio.create_task(calls.ask(number)) for number in (1, 2)]
    await _turn()
    waiting = [asyncio.create_task(calls.ask(number)) for number in (3, 4)]
    await _turn()
    travelling[0].cancel()
    waiting[0].cancel()
    await _turn()
    far.open.set()
    assert await asyncio.gather(travelling[1], waiting[1]) == [4, 8]
    assert far.trips == [[1, 2], [4]], "who had not set out when it was cancelled never did"
    assert travelling[0].cancelled()
    assert waiting[0].cancelled()


async def test_a_trip_that_nobody_waits_for_is_given_up_so_that_the_next_can_go():
    far = Far()
    calls = GroupCommit(far.send, most=100)
    far.open.clear()  # a connection that never answers
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await calls.ask(1)
    late = asyncio.create_task(calls.ask(2))
    await _turn()
    assert far.trips == [[1], [2]]
    far.open.set()
    assert await late == 4
