"""The queue's promises, one by one and against a reference model."""

import asyncio
import random

import pytest
from doubles.clocks import EarlyClock
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from unit.kube.things import running
from unit.kube.virtual_time import virtual

from paddock.base.backoff import Backoff
from paddock.base.clock import LoopClock
from paddock.kube.metrics import KubeMetrics
from paddock.kube.workqueue import QueueClosedError, Schedule, WorkQueue


def queue_of(**options) -> WorkQueue[str]:
    return WorkQueue("test", clock=LoopClock(), rng=random.Random(1), **options)


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual
async def test_a_key_added_twice_is_processed_once():
    queue = queue_of()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == ["a", "b"]


@virtual
async def test_a_key_added_while_processing_waits_for_its_worker_and_is_processed_again():
    queue = queue_of()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 5)
    queue.done("a")
    assert await asyncio.wait_for(queue.get(), 5) == "a"
    queue.done("a")
    assert len(queue) == 0


@virtual
async def test_what_comes_while_a_key_rests_is_one_turn_after_its_rest():
    queue = queue_of(rest=lambda _: 3.0)
    queue.add("a")
    assert await queue.get() == "a"
    assert now() == 0.0, "the first is not waited for"
    queue.add("a")  # while a worker has it
    queue.done("a")
    queue.add("a")  # while it rests
    queue.add("b")
    assert await queue.get() == "b", "others do not wait for it"
    await asyncio.sleep(1)
    queue.add("a")
    assert await queue.get() == "a"
    assert now() == pytest.approx(3.0)
    queue.done("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 60)
    queue.add("a")
    assert await asyncio.wait_for(queue.get(), 0.001) == "a", "after its rest it is handed out at once"


@virtual
async def test_a_look_asked_for_later_than_the_rest_comes_when_it_was_asked_for():
    queue = queue_of(rest=lambda _: 3.0)
    queue.add("a")
    await queue.get()
    queue.add_after("a", 10.0)
    queue.done("a")
    assert await queue.get() == "a"
    assert now() == pytest.approx(10.0)


@virtual
async def test_of_two_delays_the_earlier_counts():
    queue = queue_of()
    began = now()
    queue.add_after("a", 30)
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    assert await queue.get() == "a"
    assert now() - began == pytest.approx(10)
    queue.done("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 100)


@virtual
async def test_a_worker_that_waits_for_a_late_key_is_woken_for_an_earlier_one():
    queue = queue_of()
    queue.add_after("late", 100)
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    queue.add_after("early", 5)
    began = now()
    assert await getting == "early"
    assert now() - began == pytest.approx(5)


@virtual
async def test_a_timer_that_rings_a_hair_early_does_not_make_the_queue_spin():
    clock = EarlyClock()
    queue: WorkQueue[str] = WorkQueue("test", clock=clock, rng=random.Random(1))
    queue.add_after("a", 10)
    assert await asyncio.wait_for(queue.get(), 11) == "a"
    assert clock.rings < 10


@virtual
async def test_failures_back_off_and_a_success_forgets_them():
    queue = queue_of(backoff=Backoff(base=1, cap=8, jitter=0))
    assert [queue.add_rate_limited("a") for _ in range(5)] == [1, 2, 4, 8, 8]
    assert queue.failures("a") == 5
    queue.forget("a")
    assert queue.add_rate_limited("a") == 1
    assert queue.add_rate_limited("a", retry_after=60) == 60


@virtual
async def test_many_workers_never_share_a_key():
    queue = queue_of()
    busy: set[str] = set()
    served = 0
    rng = random.Random(3)

    async def work():
        nonlocal served
        while True:
            key = await queue.get()
            assert key not in busy
            busy.add(key)
            await asyncio.sleep(rng.random())
            busy.remove(key)
            served += 1
            queue.done(key)

    async with running(*(work() for _ in range(8))):
        for _ in range(300):
            queue.add(str(rng.randrange(12)))
            queue.add_after(str(rng.randrange(12)), rng.random())
            await asyncio.sleep(rng.random() / 10)
        await asyncio.sleep(10)
        assert not busy
        assert len(queue) == 0
    assert served > 100


@virtual
async def test_a_worker_cancelled_as_it_is_woken_hands_the_key_on():
    queue = queue_of()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"


@virtual
async def test_shutting_down_sends_workers_home_and_waits_for_what_is_in_hand():
    queue = queue_of()
    queue.add("a")
    queue.add("b")
    await queue.get()
    queue.add("a")
    queue.add_after("c", 1)
    queue.shut_down()
    queue.add("d")
    with pytest.raises(QueueClosedError):
        await queue.get()
    draining = asyncio.create_task(queue.drained())
    await asyncio.sleep(1)
    assert not draining.done()
    queue.done("a")
    await asyncio.wait_for(draining, 1)
    assert len(queue) == 0


@virtual
async def test_depth_and_latency_are_measured_from_when_a_key_became_due():
    metrics = KubeMetrics()
    queue = queue_of(metrics=metrics)
    queue.add_after("a", 10)
    await asyncio.sleep(13)
    await queue.get()

    def value(name: str) -> float | None:
        return metrics.registry.get_sample_value(f"paddock_workqueue_{name}", {"queue": "test"})

    assert value("queue_duration_seconds_sum") == pytest.approx(3)
    assert value("depth") == 0
    assert value("adds_total") == 1


KEYS = st.sampled_from("abcd")


class ScheduleAgainstItsModel(RuleBasedStateMachine):
    """The model keeps, per key, only facts: wanted or not, in hand or not, and the earliest moment it is due."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule: Schedule[str] = Schedule()
        self.now = 0.0
        self.wanted: list[str] = []
        self.in_hand: set[str] = set()
        self.again: list[str] = []
        self.due: dict[str, float] = {}

    def want(self, key: str) -> None:
        if key in self.in_hand:
            if key not in self.again:
                self.again.append(key)
        elif key not in self.wanted:
            self.wanted.append(key)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.schedule.add(key, self.now)
        self.want(key)

    @rule(key=KEYS, delay=st.integers(1, 5))
    def add_later(self, key: str, delay: int) -> None:
        self.schedule.add_at(key, self.now + delay)
        self.due[key] = min(self.due.get(key, self.now + delay), self.now + delay)

    @rule(passed=st.integers(0, 4))
    def time_passes(self, passed: int) -> None:
        self.now += passed
        self.schedule.promote(self.now)
        # Keys due at one moment may come in any order among themselves; the model takes the schedule's.
        order = list(self.schedule.ready)
        ready = [key for key, moment in self.due.items() if moment <= self.now]
        for key in sorted(ready, key=lambda k: (self.due[k], order.index(k) if k in order else -1)):
            del self.due[key]
            self.want(key)

    @rule()
    def take(self) -> None:
        taken = self.schedule.take()
        if not self.wanted:
            assert taken is None
            return
        assert taken is not None
        assert taken[0] == self.wanted.pop(0)
        assert taken[0] not in self.in_hand
        self.in_hand.add(taken[0])

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.in_hand)))
        self.in_hand.remove(key)
        assert self.schedule.done(key) == (key in self.again)
        if key in self.again:
            self.again.remove(key)
            self.wanted.append(key)

    @invariant()
    def agrees(self) -> None:
        assert list(self.schedule.ready) == self.wanted
        assert set(self.schedule.since) == set(self.wanted)
        assert self.schedule.processing == self.in_hand
        assert set(self.schedule.dirty) == set(self.again)
        assert self.schedule.delayed == self.due
        assert self.schedule.next_moment() == min(self.due.values(), default=None)


ScheduleAgainstItsModel.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestScheduleAgainstItsModel = ScheduleAgainstItsModel.TestCase
