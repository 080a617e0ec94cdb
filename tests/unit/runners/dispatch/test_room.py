import time

import pytest

from paddock.runners.dispatch.identity import PodIdentity
from paddock.runners.dispatch.waiting_pods import NOTHING, SUPERSEDED, Place, PollAnswer, Waiter, WaitingPods, exit_now

HANDED = PollAnswer(200, "handed")


class Proven:
    mac = None

    async def confirm(self) -> None: ...

    def lasts(self) -> float:
        return float("inf")


def waiter(number: int | str = 1, pool: str = "mac") -> Waiter:
    return Waiter(PodIdentity("runners", f"runner-{number}", f"uid-{number}", pool), Proven(), 0.0)


def test_the_first_to_come_is_the_first_to_be_taken_and_keeps_its_place():
    room = WaitingPods()
    waiters = [waiter(number) for number in range(4)]
    for one in waiters:
        room.enter(one)
    line = room.lines["mac"]
    taken = room.take(line, 2)
    assert taken == waiters[:2]
    for one in reversed(taken):
        room.put_back(one)
    assert room.take(line, 10) == waiters


def test_pools_are_apart():
    room = WaitingPods()
    mac, linux = room.enter(waiter(1)), room.enter(waiter(2, "linux"))
    assert [one.pod.name for one in room.take(mac, 5)] == ["runner-1"]
    assert len(linux) == 1


def test_a_newer_request_replaces_the_older():
    room = WaitingPods()
    older, newer = waiter(), waiter()
    room.enter(older)
    line = room.enter(newer)
    assert older.answer is SUPERSEDED
    assert room.take(line, 5) == [newer]


def test_a_request_of_a_pod_in_hand_waits_aside_until_that_is_over():
    room = WaitingPods()
    first, second = waiter(), waiter()
    line = room.enter(first)
    room.take(line, 1)
    room.enter(second)
    assert second.place is Place.ASIDE
    room.rejoin(line)
    assert not line.waiting, "its Pod is still in hand"
    room.put_back(first)
    assert first.answer is SUPERSEDED
    assert room.take(line, 1) == [second]


def test_one_in_hand_cannot_leave_and_is_let_go_when_it_would_wait_again():
    room = WaitingPods()
    one = waiter()
    line = room.enter(one)
    room.take(line, 1)
    assert not room.leave(one)
    room.put_back(one)
    assert one.answer is NOTHING
    assert len(room) == 0


def test_one_that_has_to_go_is_answered_now_or_when_it_leaves_the_hand():
    room, away = WaitingPods(), exit_now("drain", "old")
    waiting, held = waiter(1), waiter(2)
    line = room.enter(held)
    room.take(line, 1)
    room.enter(waiting)
    assert room.send_away("uid-1", away)
    assert waiting.answer is away
    assert room.send_away("uid-2", away)
    assert held.answer is None
    room.put_back(held)
    assert held.answer is away
    assert not room.send_away("uid-3", away)


def test_the_first_answer_stands_and_rings_once():
    one, rings = waiter(), []
    one.waker = lambda: rings.append(1)
    one.settle(HANDED)
    one.settle(NOTHING)
    assert one.answer is HANDED
    assert rings == [1]


@pytest.mark.slow
def test_ten_thousand_enter_and_leave_in_no_time():
    room = WaitingPods()
    waiters = [waiter(number) for number in range(10_000)]
    began = time.process_time()
    for one in waiters:
        room.enter(one)
    line = room.lines["mac"]
    for one in room.take(line, 256):
        room.put_back(one)
    for one in waiters:
        assert room.leave(one)
    assert time.process_time() - began < 1.0
    assert len(room) == 0
