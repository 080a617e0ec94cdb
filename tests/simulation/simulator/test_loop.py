"""Virtual time, seeded schedules, and what the loop refuses."""

import asyncio
import socket
import subprocess
import sys
import threading
import time

import anyio
import pytest

from paddock.base.clock import LoopClock, rfc3339
from paddock.simulator.errors import (
    BusyLoopError,
    DeadlockError,
    LeftoverTasksError,
    RealWaitError,
    TimeLimitError,
    UnhandledError,
)
from paddock.simulator.loop import run


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", []))


def test_a_day_of_sleep_takes_no_real_time_and_the_clock_tells_the_virtual_one():
    async def main():
        clock = LoopClock()
        assert clock.monotonic() == 0
        await clock.sleep(3600 * 20)
        return rfc3339(clock.now())

    began = time.perf_counter()
    assert run(main, seed=1) == "2026-01-01T20:00:00Z"
    assert time.perf_counter() - began < 600


def test_a_coroutine_is_as_good_as_a_factory():
    assert run(asyncio.sleep(5, "done"), seed=1) == "done"


async def lost_update() -> int:
    balance = 0

    async def deposit():
        nonlocal balance
        seen = balance
        await asyncio.sleep(0)
        balance = seen + 1

    async def careful():
        await asyncio.sleep(0)
        await deposit()

    async with asyncio.TaskGroup() as group:
        group.create_task(deposit())
        group.create_task(careful())
    return balance


def test_some_seed_finds_a_lost_update_and_some_seed_does_not():
    found = {run(lost_update, seed=seed) for seed in range(20)}
    assert found == {1, 2}


def order_of(seed: int) -> list[int]:
    async def main():
        seen: list[int] = []

        async def worker(number: int):
            for _ in range(3):
                await asyncio.sleep(0)
                seen.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(worker(number))
        return seen

    return run(main, seed=seed)


def test_one_seed_gives_one_order_and_other_seeds_give_others():
    assert [order_of(7) for _ in range(3)] == [order_of(7)] * 3
    assert len({tuple(order_of(seed)) for seed in range(10)}) > 5


def test_callbacks_that_are_not_task_steps_keep_their_order():
    async def main():
        seen: list[int] = []
        for number in range(50):
            asyncio.get_running_loop().call_soon(seen.append, number)
        await asyncio.sleep(0)
        return seen

    assert all(run(main, seed=seed) == list(range(50)) for seed in range(5))


def test_timers_due_at_the_same_instant_come_in_a_drawn_order():
    async def main():
        seen: list[int] = []
        for number in range(5):
            asyncio.get_running_loop().call_later(10, seen.append, number)
        await asyncio.sleep(11)
        return tuple(seen)

    assert len({run(main, seed=seed) for seed in range(20)}) > 5


def test_queues_locks_timeouts_and_anyio_cancel_scopes_work():
    async def main():
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
        got: list[int] = []

        async def produce():
            for number in range(20):
                await queue.put(number)

        async def consume():
            while len(got) < 20:
                got.append(await queue.get())

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())
        assert got == list(range(20))

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 30)

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(anyio.sleep_forever)
            await anyio.sleep(5)
            group.cancel_scope.cancel()
        with anyio.move_on_after(10) as scope:
            await anyio.sleep(100)
        assert scope.cancelled_caught

        lock, inside = asyncio.Lock(), 0

        async def enter():
            nonlocal inside
            async with lock:
                inside += 1
                assert inside == 1
                await asyncio.sleep(1)
                inside -= 1

        await asyncio.gather(*(enter() for _ in range(5)))
        return asyncio.get_running_loop().time()

    assert {run(main, seed=seed) for seed in range(20)} == {30 + 30 + 5 + 10 + 5}


def test_a_deadlock_is_reported_with_the_name_and_the_stack_of_every_waiting_task():
    async def wait_for_the_other(mine: asyncio.Lock, other: asyncio.Lock):
        async with mine:
            await asyncio.sleep(1)
            async with other:
                pass

    async def main():
        first, second = asyncio.Lock(), asyncio.Lock()
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for_the_other(first, second), name="philosopher one")
            group.create_task(wait_for_the_other(second, first), name="philosopher two")

    with pytest.raises(DeadlockError) as caught:
        run(main, seed=11)
    report = str(caught.value)
    assert "'philosopher one'" in report
    assert "'philosopher two'" in report
    assert report.count("async with other:") == 2
    assert "locks.py" in report, "the innermost wait is part of the stack"
    assert "seed 11" in notes(caught.value)


def test_a_run_that_passes_its_limit_says_who_still_waits():
    async def main():
        while True:
            await asyncio.sleep(60)

    with pytest.raises(TimeLimitError, match="1000 virtual seconds") as caught:
        run(main, seed=3, limit=1000)
    assert "task 'main'" in str(caught.value)
    assert "seed 3" in notes(caught.value)


def test_polling_without_waiting_is_reported(monkeypatch):
    monkeypatch.setattr("paddock.simulator.virtual_loop._STEPS_AT_ONE_INSTANT", 1000)

    async def main():
        while True:
            await asyncio.sleep(0)

    with pytest.raises(BusyLoopError, match="1001 steps"):
        run(main, seed=3)


async def sleep_for_real():
    time.sleep(0.01)


async def use_a_thread():
    await asyncio.to_thread(sum, [1])


async def start_a_thread():
    threading.Thread(target=print).start()


async def use_anyios_threads():
    await anyio.to_thread.run_sync(print)


async def open_a_connection():
    await asyncio.open_connection("127.0.0.1", 1)


async def connect_a_socket():
    with socket.socket() as plain:
        plain.connect(("127.0.0.1", 1))


async def serve():
    await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)


async def look_up_a_name():
    await asyncio.get_running_loop().getaddrinfo("localhost", 80)


async def start_a_child():
    await asyncio.create_subprocess_exec(sys.executable)


async def run_a_child():
    subprocess.run([sys.executable, "-c", ""], check=True)


@pytest.mark.parametrize(
    ("attempt", "named"),
    [
        (sleep_for_real, r"time\.sleep\(\) for 0\.01 s"),
        (use_a_thread, r"run_in_executor"),
        (start_a_thread, "starting a thread"),
        (use_anyios_threads, "starting a thread"),
        (open_a_connection, r"loop\.create_connection"),
        (connect_a_socket, r"connecting a socket to \('127\.0\.0\.1', 1\)"),
        (serve, r"loop\.create_server"),
        (look_up_a_name, r"loop\.getaddrinfo"),
        (start_a_child, r"loop\.subprocess_exec"),
        (run_a_child, "starting a child process"),
    ],
)
def test_a_real_wait_is_refused_by_name_even_where_the_code_swallows_the_error(attempt, named):
    async def swallowing():
        try:
            await attempt()
        except Exception:  # noqa: BLE001 - the point of the test
            await asyncio.sleep(1)

    with pytest.raises(RealWaitError, match=f"{named}.*by task 'main'") as caught:
        run(swallowing, seed=5)
    assert "seed 5" in notes(caught.value)


def test_real_waits_are_allowed_again_after_the_run():
    run(asyncio.sleep(1), seed=1)
    time.sleep(0.001)
    started = threading.Thread(target=lambda: None)
    started.start()
    started.join()


def test_tasks_left_waiting_fail_the_run_by_name_unless_that_is_asked_for():
    ended: list[str] = []

    async def linger():
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("lingerer")

    async def main():
        asyncio.create_task(linger(), name="the lingerer")  # noqa: RUF006 - the loop keeps it
        await asyncio.sleep(1)
        return "done"

    with pytest.raises(LeftoverTasksError, match="the lingerer"):
        run(main, seed=1)
    assert run(main, seed=1, leftovers="cancel") == "done"
    assert ended == ["lingerer", "lingerer"]


def test_a_task_that_ends_at_the_same_instant_is_not_left_over():
    async def main():
        task = asyncio.create_task(asyncio.sleep(3600))
        await asyncio.sleep(1)
        task.cancel()

    run(main, seed=1)


def test_a_failure_that_nobody_looked_at_fails_the_run():
    async def fail():
        raise ZeroDivisionError("unseen")

    async def main():
        asyncio.create_task(fail())  # noqa: RUF006 - the loop keeps it
        asyncio.get_running_loop().call_later(1, lambda: None)
        await asyncio.sleep(2)

    with pytest.raises(UnhandledError) as caught:
        run(main, seed=1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_failing_callback_fails_the_run():
    async def main():
        asyncio.get_running_loop().call_later(1, lambda: 1 / 0)
        await asyncio.sleep(2)

    with pytest.raises(UnhandledError, match="ZeroDivisionError"):
        run(main, seed=1)


def test_an_ordinary_error_carries_the_seed():
    async def main():
        raise KeyError("lost")

    with pytest.raises(KeyError) as caught:
        run(main, seed=4711)
    assert "seed 4711" in notes(caught.value)


def test_cancelled_timers_do_not_pile_up():
    async def main():
        for _ in range(5000):
            async with asyncio.timeout(3600):
                await asyncio.sleep(0.001)
        loop = asyncio.get_running_loop()
        return len(loop._timers)  # pyright: ignore[reportAttributeAccessIssue]

    assert run(main, seed=1) < 300
