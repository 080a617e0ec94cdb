import asyncio

import pytest
from doubles.clocks import EndlessSleepClock, SteppedClock

from paddock.clients.scaleway import RateLimited, RequestBudget


async def test_a_burst_passes_at_once_and_the_rest_is_spaced_evenly(clock: SteppedClock):
    budget = RequestBudget(clock, rate=10, burst=5, queue=100)
    for _ in range(5):
        await budget.take()
    assert clock.slept == []
    for _ in range(10):
        await budget.take()
    assert clock.monotonic() == pytest.approx(1.0)


async def test_a_rested_budget_is_full_again_but_never_fuller(clock: SteppedClock):
    budget = RequestBudget(clock, rate=10, burst=5, queue=100)
    clock.step(3600)
    for _ in range(5):
        await budget.take()
    assert clock.slept == []
    await budget.take()
    assert clock.slept == [pytest.approx(0.1)]


async def test_more_waiters_than_the_queue_holds_are_told_to_come_back():
    budget = RequestBudget(EndlessSleepClock(), rate=1, burst=1, queue=2)
    await budget.take()
    waiters = [asyncio.create_task(budget.take()) for _ in range(2)]
    await asyncio.sleep(0)
    assert budget.waiting == 2
    with pytest.raises(RateLimited) as raised:
        await budget.take()
    assert raised.value.local
    assert raised.value.retry_after == pytest.approx(3.0)
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    assert budget.waiting == 0


async def test_a_hold_makes_everyone_wait_and_a_shorter_one_does_not_end_it(clock: SteppedClock):
    budget = RequestBudget(clock, rate=10, burst=5, queue=100)
    budget.hold(30)
    budget.hold(1)
    await budget.take()
    assert clock.monotonic() == pytest.approx(30)


async def test_a_hold_that_begins_during_a_wait_counts_for_the_waiter_too(clock: SteppedClock):
    budget = RequestBudget(clock, rate=1, burst=1, queue=10)
    await budget.take()
    waiter = asyncio.create_task(budget.take())
    await asyncio.sleep(0)
    budget.hold(20)
    await waiter
    assert clock.monotonic() == pytest.approx(21)
