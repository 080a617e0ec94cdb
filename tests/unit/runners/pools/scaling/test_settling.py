"""When a pool becomes larger, and when smaller: never before less was wanted for the whole cooldown."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from paddock.runners.pools.scaling import Decision, Grant, Remembered, settle

COOLDOWN = 300.0


def wanted(replicas: int, *, yields: bool = False) -> Grant:
    return Grant(replicas, f"{replicas} are enough", yields)


def follow(steps: Iterable[tuple[float, int]], current: int, cooldown: float = COOLDOWN) -> list[Decision]:
    """Decide at each moment what is wanted then, and write it."""
    memory, decisions = Remembered(), []
    for now, replicas in steps:
        decided = settle(wanted(replicas), current, memory, now, cooldown)
        current, memory = decided.replicas, decided.memory
        decisions.append(decided)
    return decisions


def test_more_is_given_at_once() -> None:
    assert [(d.replicas, d.reason) for d in follow([(0, 3), (5, 8)], 1)] == [(3, "ScaledUp"), (8, "ScaledUp")]


def test_less_is_given_only_after_it_was_enough_for_the_whole_cooldown() -> None:
    decisions = follow([(0, 10), (5, 4), (150, 4), (304.9, 4), (305, 4)], 10)
    assert [d.replicas for d in decisions] == [10, 10, 10, 10, 4]
    assert [d.reason for d in decisions] == ["AsWanted", "CoolingDown", "CoolingDown", "CoolingDown", "ScaledDown"]


def test_a_peak_within_the_cooldown_keeps_what_it_needed_for_a_cooldown_of_its_own() -> None:
    decisions = follow([(0, 10), (5, 3), (100, 6), (105, 3), (305, 3), (400, 3), (405, 3)], 10)
    assert [d.replicas for d in decisions] == [10, 10, 10, 10, 6, 6, 3]


def test_a_scale_up_shortly_before_delays_the_scale_down() -> None:
    decisions = follow([(0, 2), (1000, 9), (1005, 2), (1300, 2), (1305, 2)], 2)
    assert [d.replicas for d in decisions] == [2, 9, 9, 9, 2]


def test_a_process_that_has_just_started_takes_what_it_finds_for_wanted_until_now() -> None:
    assert [d.replicas for d in follow([(7000, 1), (7299, 1), (7300, 1)], 12)] == [12, 12, 1]


def test_replicas_that_a_person_raised_stay_for_a_cooldown() -> None:
    memory = follow([(0, 2), (500, 2)], 2)[-1].memory
    raised = settle(wanted(2), 7, memory, 505, COOLDOWN)
    assert (raised.replicas, raised.reason) == (7, "CoolingDown")
    assert settle(wanted(2), 7, raised.memory, 804, COOLDOWN).replicas == 7
    assert settle(wanted(2), 7, raised.memory, 805, COOLDOWN).replicas == 2


def test_a_time_without_signals_counts_as_what_was_heard_last() -> None:
    assert [d.replicas for d in follow([(0, 9), (1000, 2), (1299, 2), (1300, 2)], 9)] == [9, 9, 9, 2]


def test_without_a_cooldown_less_is_given_at_once() -> None:
    assert [d.replicas for d in follow([(0, 9), (5, 2)], 9, cooldown=0)] == [9, 2]


def test_a_pool_that_yields_to_waiting_jobs_does_not_wait() -> None:
    memory = follow([(0, 9)], 9)[-1].memory
    decided = settle(wanted(2, yields=True), 9, memory, 5, COOLDOWN)
    assert (decided.replicas, decided.reason) == (2, "ScaledDown")


def test_while_it_cools_down_the_sentence_does_not_change_with_every_look() -> None:
    decisions = follow([(0, 10), (5, 4), (10, 4), (15, 4)], 10)
    assert len({d.why for d in decisions[1:]}) == 1
    assert "4 would do" in decisions[1].why
    assert "5 min" in decisions[1].why


@given(
    st.lists(st.tuples(st.floats(0.1, 200), st.integers(0, 20)), min_size=1, max_size=40),
    st.integers(0, 20),
    st.sampled_from([0.0, 60.0, 300.0]),
)
def test_a_pool_has_the_most_that_was_wanted_within_the_cooldown_never_more_never_less(
    gaps: list[tuple[float, int]], start: int, cooldown: float
) -> None:
    now, steps = 0.0, []
    for gap, replicas in gaps:
        now += gap
        steps.append((now, replicas))
    # What was wanted at one look was wanted until the next; before the first look it was what the pool had.
    spans = [(start, steps[0][0]), *((want, steps[i + 1][0]) for i, (_, want) in enumerate(steps[:-1]))]
    for index, decided in enumerate(follow(steps, start, cooldown)):
        at, want = steps[index]
        recent = [each for each, until in spans[: index + 1] if until > at - cooldown]
        assert decided.replicas == max([want, *recent])
