"""The history of the store in memory is bounded by changes and by bytes."""

from __future__ import annotations

import pytest

from paddock.embedded.store.interface import Change, CompactedError, Key, Record
from paddock.embedded.store.state import StoreState


def filled(changes: int, size: int, **bounds: int) -> StoreState:
    state = StoreState(**bounds)
    for revision in range(1, changes + 1):
        record = Record(Key("pods", "default", "one"), revision, b"x" * size)
        state.apply(Change("MODIFIED", revision, record, None))
    return state


def test_large_objects_leave_a_short_history_and_the_latest_change_is_always_there() -> None:
    state = filled(100, 1000, history_bytes=10_000)
    assert state.floor == 90
    assert [change.revision for change in state.since(95, "pods")] == [96, 97, 98, 99, 100]
    with pytest.raises(CompactedError, match="list again"):
        list(state.since(80, "pods"))
    assert filled(3, 1000, history_bytes=10).floor == 2


def test_small_objects_are_bounded_by_their_number() -> None:
    assert filled(100, 1, history_limit=20).floor == 80


def test_what_is_forgotten_no_longer_counts() -> None:
    state = filled(10, 1000, history_bytes=10_000)
    state.forget(10)
    for revision in range(11, 21):
        state.apply(Change("MODIFIED", revision, Record(Key("pods", "default", "one"), revision, b"x" * 1000), None))
    assert state.floor == 10
