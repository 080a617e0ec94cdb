"""Searches for garbage come by the clock, and not because many connections came."""

import asyncio
import gc
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from paddock.base.garbage import collect_rarely, collected_by_the_clock


class Ticks:
    """A clock whose sleeps end at once, for so many looks."""

    def __init__(self, looks: int) -> None:
        self.passed, self._looks = 0.0, looks

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self._looks -= 1
        if self._looks < 0:
            raise asyncio.CancelledError
        self.passed += seconds


@contextmanager
def _searches() -> Iterator[list[int]]:
    found: list[int] = []

    def heard(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            found.append(info["generation"])

    gc.callbacks.append(heard)
    try:
        yield found
    finally:
        gc.callbacks.remove(heard)


def test_many_new_objects_cause_no_search_and_all_is_as_before_at_the_end() -> None:
    with collected_by_the_clock(), _searches() as found:
        before = gc.get_count()[0]
        kept = [[number] for number in range(300_000)]
        assert found == []
        assert gc.get_freeze_count() > 0
        assert gc.get_count()[0] - before >= 300_000, "what is new is counted all the same"
    assert len(kept) == 300_000
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)


@pytest.mark.parametrize(
    ("new", "grown", "expected"),
    [
        pytest.param(0, 0, 2, id="as ever"),
        pytest.param(1_000_000, 0, 20, id="many objects"),
        pytest.param(0, 10_000_000, 20, id="much memory"),
    ],
)
async def test_a_search_comes_every_five_minutes_and_every_half_minute_when_much_is_new(
    monkeypatch: pytest.MonkeyPatch, new: int, grown: int, expected: int
) -> None:
    done: list[int] = []
    height = itertools.count(0, grown)
    monkeypatch.setattr("paddock.base.garbage.gc.get_count", lambda: (new, 0, 0))
    monkeypatch.setattr("paddock.base.garbage._greatest_height", lambda: next(height) * 10)
    monkeypatch.setattr("paddock.base.garbage.gc.collect", lambda: done.append(1))
    monkeypatch.setattr("paddock.base.garbage.gc.freeze", lambda: None)
    with pytest.raises(asyncio.CancelledError):
        await collect_rarely(Ticks(60))  # pyright: ignore[reportArgumentType] - it is never asked for the wall time
    assert len(done) == expected


async def test_what_was_seen_alive_is_visited_again_once_in_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for name in ("unfreeze", "collect", "freeze"):
        monkeypatch.setattr(f"paddock.base.garbage.gc.{name}", lambda name=name: done.append(name))
    with pytest.raises(asyncio.CancelledError):
        await collect_rarely(Ticks(2 * 360))  # pyright: ignore[reportArgumentType] - it is never asked for the wall time
    assert done == [
        *["collect", "freeze"] * 11,
        "unfreeze",
        *["collect", "freeze"] * 12,
        "unfreeze",
        "collect",
        "freeze",
    ]
