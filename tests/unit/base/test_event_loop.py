"""A loop that was away from its sockets says for how long; one that only waits says nothing."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from paddock.base.event_loop import Turns, report_turns, run_measured
from paddock.base.metrics import exposition


def value(text: str, name: str) -> float:
    return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


@pytest.fixture(autouse=True)
def own_settings() -> Iterator[None]:
    """They belong to the process, and this one is that of the tests."""
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_a_thread_that_computes_keeps_the_loop_waiting_a_millisecond_at_most() -> None:
    async def main() -> float:
        return sys.getswitchinterval()

    assert run_measured(main()) == pytest.approx(0.001)


def test_cycles_are_searched_for_seldom_and_not_among_what_was_there_before() -> None:
    async def main() -> tuple[int, int]:
        return gc.get_threshold()[0], gc.get_freeze_count()

    threshold, frozen = run_measured(main())
    assert threshold == 10_000
    assert frozen > 10_000, "the modules"
    assert gc.isenabled()


def test_a_block_of_the_loop_is_measured_and_a_wait_is_not() -> None:
    registry = CollectorRegistry()

    async def main() -> None:
        report_turns(registry, "dispatch")
        await asyncio.sleep(0.3)
        before = exposition(registry).decode()
        assert value(before, 'paddock_event_loop_longest_lag_seconds{process="dispatch"}') < 0.3, "waiting is no lag"
        time.sleep(0.12)
        await asyncio.sleep(0)

    run_measured(main())
    text = exposition(registry).decode()
    assert value(text, 'paddock_event_loop_longest_lag_seconds{process="dispatch"}') >= 0.12


def test_the_longest_turn_is_forgotten_after_two_minutes() -> None:
    now = [0.0]
    turns = Turns(lambda: now[0])
    turns.add(2.0)
    turns.add(0.1)
    assert turns.longest() == 2.0
    now[0] = 70.0
    turns.add(0.3)
    assert turns.longest() == 2.0, "a scrape once a minute must not miss it"
    now[0] = 140.0
    assert turns.longest() == 0.3
    now[0] = 400.0
    assert turns.longest() == 0.0


def test_a_loop_that_is_not_measured_reports_nothing() -> None:
    registry = CollectorRegistry()

    async def main() -> None:
        report_turns(registry, "up")

    asyncio.run(main())
    assert exposition(registry) == b""
