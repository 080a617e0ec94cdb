"""The ledger is opened for as long as it takes; what no waiting can mend is raised at once."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import pytest
from doubles.clocks import NOON, EndlessSleepClock, SteppedClock
from structlog.testing import capture_logs

from paddock.base.clock import Clock
from paddock.base.migrations import ChangedMigrationError, MigrationLockError, NewerDatabaseError
from paddock.runners.ledger import InvalidEntryError, Ledger, LedgerForbiddenError, LedgerUnavailableError
from paddock.runners.ledger.opening import LedgerOpening

AWAY = LedgerUnavailableError("the database cannot be reached: refused\n\tIs the server running?")


class Attempts:
    """Attempts that end as a test writes down; the rest open."""

    def __init__(self, *ends: Exception) -> None:
        self.ends = list(ends)
        self.begun = self.closed = 0
        self.ledger = cast("Ledger", object())

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Ledger]:
        self.begun += 1
        if self.ends:
            raise self.ends.pop(0)
        try:
            yield self.ledger
        finally:
            self.closed += 1


def opening(ledger: Callable[[], AbstractAsyncContextManager[Ledger]], clock: Clock | None = None) -> LedgerOpening:
    return LedgerOpening(ledger, clock or SteppedClock(), random.Random(1))


async def test_it_is_tried_until_it_opens_and_used_once():
    attempts, used = Attempts(AWAY, AWAY, MigrationLockError("another process changes tables"), AWAY), []

    async def use(ledger: Ledger) -> None:
        assert waiting.unopened is None
        used.append(ledger)

    waiting = opening(attempts)
    await waiting.run(use)
    assert used == [attempts.ledger]
    assert (attempts.begun, attempts.closed) == (5, 1)


async def test_the_wait_grows_to_seconds_and_no_further():
    clock = SteppedClock()

    async def use(_: Ledger) -> None: ...

    await opening(Attempts(*[AWAY] * 40), clock).run(use)
    assert clock.slept[0] < 1
    assert max(clock.slept) <= 7.5


@pytest.mark.parametrize(
    "certain",
    [
        NewerDatabaseError("this database is at migration 99"),
        ChangedMigrationError("0001 differs"),
        InvalidEntryError("the DSN is none"),
        LedgerForbiddenError("the role may not"),
        KeyError("a mistake of ours"),
    ],
)
async def test_what_no_waiting_mends_ends_it_at_once_also_after_a_wait(certain: Exception):
    async def use(_: Ledger) -> None:
        raise AssertionError("it is not open")

    for before in ([], [AWAY, AWAY]):
        with pytest.raises(type(certain)):
            await opening(Attempts(*before, certain)).run(use)


async def test_what_fails_after_it_was_opened_is_not_taken_for_an_opening_that_failed():
    attempts = Attempts()

    async def use(_: Ledger) -> None:
        raise LedgerUnavailableError("away again")

    with pytest.raises(LedgerUnavailableError):
        await opening(attempts).run(use)
    assert (attempts.begun, attempts.closed) == (1, 1)


async def test_it_is_known_since_when_why_and_when_the_next_attempt_is():
    clock = EndlessSleepClock()
    waiting = opening(Attempts(AWAY), clock)
    assert waiting.unopened is not None
    assert (waiting.unopened.since, waiting.unopened.why, waiting.unopened.next_attempt) == (NOON, "", None)

    async def use(_: Ledger) -> None: ...

    clock.step(3)
    running = asyncio.create_task(waiting.run(use))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    found = waiting.unopened
    assert (found.since, found.why) == (NOON, "the database cannot be reached: refused")
    assert found.next_attempt is not None
    assert timedelta(seconds=3) < found.next_attempt - NOON < timedelta(seconds=5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_there_is_a_line_for_each_change_and_none_for_an_attempt():
    other = LedgerUnavailableError("the database cannot be reached: password authentication failed")

    async def use(_: Ledger) -> None: ...

    with capture_logs() as lines:
        await opening(Attempts(*[AWAY] * 7, *[other] * 5)).run(use)
    assert [line.get("why", "") for line in lines] == [
        "the database cannot be reached: refused",
        "the database cannot be reached: password authentication failed",
        "",
    ]
    with capture_logs() as lines:
        await opening(Attempts()).run(use)
    assert lines == []


@pytest.mark.parametrize("step", ["attempt", "wait", "use"])
async def test_a_stop_at_any_step_ends_it_at_once_and_leaves_nothing_open(step: str):
    reached, closed = asyncio.Event(), []

    @asynccontextmanager
    async def ledger() -> AsyncIterator[Any]:
        try:
            if step == "attempt":
                reached.set()
                await asyncio.Event().wait()
            if step == "wait":
                asyncio.get_running_loop().call_soon(reached.set)
                raise AWAY
            yield None
        finally:
            closed.append(step)

    async def use(_: Ledger) -> None:
        reached.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(opening(ledger, EndlessSleepClock()).run(use))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert closed == [step]
