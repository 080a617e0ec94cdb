"""Creations that are on their way: counted until they are seen, and not a moment longer."""

import pytest
from doubles.clocks import SteppedClock
from unit.runners.pools.built import NOW, SETTINGS, pod, pool

from paddock.runners.pools.memory import PoolMemory


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def memory(clock: SteppedClock) -> PoolMemory:
    kept = PoolMemory(clock, SETTINGS)
    kept.reserve(pool(), "a")
    return kept


def _counted(memory: PoolMemory, *shown: str) -> list[str]:
    return [each.pod for each in memory.reserved(pool("other"), [pod(name) for name in shown])]


def test_a_creation_counts_for_all_pools_of_the_fleet_until_it_is_shown_or_too_old(
    memory: PoolMemory, clock: SteppedClock
) -> None:
    assert _counted(memory) == ["a"]
    assert _counted(memory, "a") == []
    clock.step(SETTINGS.reservation)
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
    memory: PoolMemory, clock: SteppedClock
) -> None:
    assert not memory.overlooked("mac")
    memory.made("a")
    assert not memory.overlooked("mac")
    clock.step(SETTINGS.blocked)
    assert memory.overlooked("mac")
    assert not memory.overlooked("other")
    memory.cached([pod("a")])
    assert not memory.overlooked("mac")


def test_what_was_certainly_not_made_counts_no_longer(memory: PoolMemory) -> None:
    memory.release("a")
    memory.made("a")
    assert (_counted(memory), memory.overlooked("mac"), memory.expects("mac")) == ([], False, False)


def test_a_pod_whose_end_was_reported_is_not_reported_again_when_it_is_gone(
    memory: PoolMemory, clock: SteppedClock
) -> None:
    """A kubelet takes a while to let go of a Pod that was deleted, and the pool is looked at meanwhile."""
    told, other = pod("told", phase="Succeeded", deleted=NOW), pod("other", phase="Succeeded", deleted=NOW)
    memory.told(told.metadata.uid)
    for each in (told, other):
        memory.leaves("mac", each, NOW)
    assert [ref.name for ref, _ in memory.left("mac", [])] == ["other"]


def test_what_was_reported_is_not_kept_for_ever(memory: PoolMemory, clock: SteppedClock) -> None:
    for number in range(1000):
        memory.told(f"uid-{number}")
        clock.step(60.0)
    assert len(memory._told) < 130
