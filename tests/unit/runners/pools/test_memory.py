"""Creations that are on their way: counted until they are seen, and not a moment longer."""

import pytest
from unit.runners.pools.built import SETTINGS, pod, pool

from paddock.runners.pools.memory import PoolMemory


class FencedCloud:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def clock() -> FencedCloud:
    return FencedCloud()


@pytest.fixture
def memory(clock: FencedCloud) -> PoolMemory:
    kept = PoolMemory(clock, SETTINGS)  # pyright: ignore[reportArgumentType]
    kept.reserve(pool(), "a")
    return kept


def _counted(memory: PoolMemory, *shown: str) -> list[str]:
    return [each.pod for each in memory.reserved(pool("other"), [pod(name) for name in shown])]


def test_a_creation_counts_for_all_pools_of_the_fleet_until_it_is_shown_or_too_old(
    memory: PoolMemory, clock: FencedCloud
) -> None:
    assert _counted(memory) == ["a"]
    assert _counted(memory, "a") == []
    clock.at = SETTINGS.reservation
    assert _counted(memory) == []


def test_a_pod_that_the_cache_has_shown_does_not_count_after_it_went(memory: PoolMemory) -> None:
    memory.cached([pod("a")])
    assert _counted(memory) == []


def test_a_list_without_an_acknowledged_pod_proves_that_it_went(memory: PoolMemory) -> None:
    memory.made("a")
    memory.listed("other", [])
    assert _counted(memory) == ["a"], "the list of another pool proves nothing"
    memory.listed("mac", [])
    assert _counted(memory) == []


def test_a_list_without_a_pod_whose_creation_was_not_answered_proves_nothing(memory: PoolMemory) -> None:
    memory.listed("mac", [])
    assert _counted(memory) == ["a"]


def test_a_pod_that_the_server_shows_and_the_cache_does_not_yet_still_counts_for_others(memory: PoolMemory) -> None:
    memory.made("a")
    memory.listed("mac", [pod("a")])
    assert _counted(memory) == ["a"]


def test_a_pod_that_the_cache_does_not_show_for_a_while_is_worth_a_question(
    memory: PoolMemory, clock: FencedCloud
) -> None:
    assert not memory.overlooked("mac")
    memory.made("a")
    assert not memory.overlooked("mac")
    clock.at = SETTINGS.blocked
    assert memory.overlooked("mac")
    assert not memory.overlooked("other")
    memory.cached([pod("a")])
    assert not memory.overlooked("mac")


def test_what_was_certainly_not_made_counts_no_longer(memory: PoolMemory) -> None:
    memory.release("a")
    memory.made("a")
    assert (_counted(memory), memory.overlooked("mac"), memory.expects("mac")) == ([], False, False)
