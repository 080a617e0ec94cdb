"""The budget of dials, on a clock that only moves when it is told to."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from doubles.clocks import SteppedClock

from paddock.base.backoff import Backoff
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.ssh import AuthRefused, BudgetedSsh, Completed, DialBudget, DialRules, Refused, Target, TimedOut

HOST = ("192.0.2.1", 22)
RULES = DialRules(apart=1.0, backoff=Backoff(base=10.0, cap=40.0, factor=2.0, jitter=0.5), parallel=2)


@pytest.fixture
def clock():
    return SteppedClock()


@pytest.fixture
def budget(clock):
    return DialBudget(clock, seeded(1), RULES)


async def fail(budget, error):
    with pytest.raises(type(error)):
        async with budget.turn(*HOST):
            raise error


async def test_the_first_dial_waits_for_nothing(budget, clock):
    async with budget.turn(*HOST):
        pass
    assert clock.slept == []


async def test_two_dials_of_one_host_are_apart(budget, clock):
    for _ in range(2):
        async with budget.turn(*HOST):
            pass
    assert 1.0 <= clock.slept[0] <= 2.0


async def test_each_failure_in_a_row_doubles_the_distance_up_to_the_cap(budget, clock):
    for _ in range(5):
        await fail(budget, TimedOut(*HOST, 15))
    plain = [10, 20, 40, 40]
    assert all(base <= waited <= base * 1.5 for base, waited in zip(plain, clock.slept, strict=True))


async def test_a_success_ends_the_row_of_failures(budget, clock):
    await fail(budget, Refused(*HOST))
    async with budget.turn(*HOST):
        pass
    async with budget.turn(*HOST):
        pass
    assert clock.slept[-1] <= 2.0


async def test_a_refused_key_is_an_answer_and_not_a_failure_of_the_host(budget, clock):
    await fail(budget, AuthRefused(HOST[0], "m1"))
    assert budget.wait_for(*HOST) <= 2.0


async def test_other_hosts_are_not_held_up(budget, clock):
    await fail(budget, TimedOut(*HOST, 15))
    async with budget.turn("192.0.2.2", 22):
        pass
    assert clock.slept == []


async def test_a_reboot_forgives(budget, clock):
    await fail(budget, TimedOut(*HOST, 15))
    budget.forgive(*HOST)
    assert budget.wait_for(*HOST) == 0.0


async def test_one_host_is_never_dialled_twice_at_once_and_the_fleet_only_so_often(budget):
    under_way: dict[str, int] = {}
    peak_of_one, peak_of_all = 0, 0

    async def dial(address):
        nonlocal peak_of_one, peak_of_all
        async with budget.turn(address, 22):
            under_way[address] = under_way.get(address, 0) + 1
            peak_of_one = max(peak_of_one, *under_way.values())
            peak_of_all = max(peak_of_all, sum(under_way.values()))
            await asyncio.sleep(0)
            under_way[address] -= 1

    await asyncio.gather(*(dial(f"192.0.2.{number % 5}") for number in range(20)))
    assert (peak_of_one, peak_of_all) == (1, 2)
    assert budget.granted == 20


async def test_a_cancelled_wait_frees_the_host(budget):
    async with budget.turn(*HOST):
        waiting = asyncio.create_task(budget.turn(*HOST).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with budget.turn(*HOST):
        pass


async def test_the_history_of_a_host_is_dropped_in_time(budget, clock):
    await fail(budget, TimedOut(*HOST, 15))
    clock.step(2 * RULES.forget_after)
    async with budget.turn("192.0.2.2", 22):
        pass
    assert HOST not in budget._hosts


async def test_a_budgeted_client_counts_the_dial_and_not_the_session(budget, clock):
    closed = []

    class Opened:
        host_key = "SHA256:x"

        async def run(self, script, *, arguments=(), secrets=(), upload=None, timeout):
            return Completed(0, script, "")

    class Opening:
        @asynccontextmanager
        async def connect(self, target, *, timeout=15.0):
            try:
                yield Opened()
            finally:
                closed.append(target.address)

        async def host_key(self, address, port, *, timeout=15.0):
            return "SHA256:x"

    ssh = BudgetedSsh(Opening(), budget)
    target = Target(*HOST, "m1", Secret("key"))
    async with ssh.connect(target) as first, ssh.connect(target) as second:
        assert first is not second
    assert closed == [HOST[0], HOST[0]]
    with pytest.raises(ZeroDivisionError):
        async with ssh.connect(target):
            raise ZeroDivisionError
    assert len(closed) == 3
    assert await ssh.host_key(*HOST) == "SHA256:x"
