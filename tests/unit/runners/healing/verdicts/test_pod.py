"""No Pod that may run a job is reaped, in any state that the ledgers can show; and every known leak is."""

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import cache
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace
from unit.runners.healing.verdicts.pod_mistakes import MISTAKES, Judge
from unit.runners.healing.verdicts.pod_states import (
    FOUR,
    JUST,
    LONG,
    NOW,
    SETTINGS,
    Grid,
    living_world,
    must_be_reaped,
)

from paddock.runners.healing.verdicts.pod import KINDS, Keep, PodFacts, Reap, Watch, judge, sign_of_life
from paddock.runners.healing.verdicts.pod_facts import (
    ExecutorFact,
    HandedFact,
    HeldFact,
    JobFact,
    LedgerName,
    MovesFact,
    PodLife,
    PollerFact,
    RunnerFact,
    RunnerRow,
    VmFact,
)

COARSE, FINE = Grid(fine=False), Grid(fine=True)


def disagreement(states: Iterable[PodFacts], verdict_of: Judge = judge) -> tuple[str, Counter[str]]:
    """The first state in which a living Pod would be reaped or a known leak kept, and how all verdicts were counted."""
    counted: Counter[str] = Counter()
    for facts in states:
        verdict = verdict_of(facts, SETTINGS)
        if type(verdict) is Reap:
            counted[verdict.kind] += 1
            if (world := living_world(facts)) is not None:
                return f"reaped as {verdict.kind}, though {world}: {facts}", counted
        else:
            counted[type(verdict).__name__] += 1
            if (kind := must_be_reaped(facts)) is not None:
                return f"kept ({verdict}), though it is a known leak ({kind}): {facts}", counted
    return "", counted


def test_in_every_state_no_living_pod_is_reaped_and_every_known_leak_is() -> None:
    # PADDOCK_EVERY_STATE=1 goes through the fine grid, eighteen million states, in a few minutes.
    grid = FINE if os.environ.get("PADDOCK_EVERY_STATE") else COARSE
    found, counted = disagreement(grid)
    print(f"\n{len(grid)} states: {dict(counted)}")
    assert not found
    assert sum(counted.values()) == len(grid)
    assert {kind for kind in counted if kind in KINDS} == KINDS, "each kind of leak occurs among the states"


@pytest.mark.slow
def test_states_drawn_from_the_fine_grid_agree_too() -> None:
    found, _ = disagreement(FINE.drawn(random.Random(1), 150_000))
    assert not found


# Seeded mistakes: the verdict with one guard taken out. Each must be caught, or the proof above proves nothing.


def _shuffled() -> Iterator[PodFacts]:
    yield from FINE.drawn(random.Random(2), 200_000)
    yield from COARSE


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_verdict_is_caught(mistake: str) -> None:
    if mistake == "GitHub's silence about the runner is proof":
        # No reader reports a moment of absence without having looked; the guard is there for those that will.
        states: Iterable[PodFacts] = (
            replace(facts, runner_row=RunnerRow.UNKNOWN, unseen_since=LONG)
            for facts in FINE.drawn(random.Random(3), 200_000)
        )
    else:
        states = _shuffled()
    found, _ = disagreement(states, MISTAKES[mistake])
    assert found, f"no state shows the mistake: {mistake}"


# More evidence of life, or less knowledge, never leads to a reap.

LIFE: list[dict[str, Any]] = [
    {"moves": MovesFact.MOVING, "still_since": None, "listens": False},
    {"job": JobFact.IN_PROGRESS, "executor": ExecutorFact.THIS, "job_over_at": None},
    {"job": JobFact.IN_PROGRESS, "executor": ExecutorFact.UNKNOWN, "job_over_at": None},
    {"runner_row": RunnerRow.BUSY, "unseen_since": None},
    {"runner_row": RunnerRow.IDLE, "unseen_since": None},
    {"held": HeldFact.CLAIMED},
    {"committed": True},
    {"runner": RunnerFact.STARTED},
    {"poller": PollerFact.TERMINATED},
    {"job_over_at": JUST},
    {"still_since": JUST},
    {"unseen_since": JUST},
    {"handed_at": JUST},
    {"life": PodLife.DELETING},
]
UNKNOWNS: list[dict[str, Any]] = [
    {"job": JobFact.UNKNOWN, "executor": ExecutorFact.UNKNOWN, "job_over_at": None},
    {"executor": ExecutorFact.UNKNOWN},
    {"job_over_at": None},
    {"runner_row": RunnerRow.UNKNOWN, "unseen_since": None, "absent_since": None},
    {"unseen_since": None},
    {"absent_since": None},
    {"listens": False},
    {"still_since": None},
    {"created_at": None},
    {"handed_at": None},
    {"unclaimed_since": None},
    {"stuck_since": None},
    {"machine": VmFact.UNKNOWN},
    {"finish_recorded": False},
]


@cache
def _kept() -> list[PodFacts]:
    return [facts for facts in FINE.drawn(random.Random(4), 10_000) if type(judge(facts, SETTINGS)) is not Reap]


@cache
def _reaped() -> list[PodFacts]:
    return [facts for facts in FINE.drawn(random.Random(5), 200_000) if type(judge(facts, SETTINGS)) is Reap]


@pytest.mark.parametrize("change", LIFE, ids=str)
def test_evidence_of_life_never_turns_keep_into_reap(change: dict[str, Any]) -> None:
    for facts in _kept():
        after = replace(facts, **change)
        assert not isinstance(judge(after, SETTINGS), Reap), after


@pytest.mark.parametrize("change", UNKNOWNS, ids=str)
def test_what_is_not_known_never_helps_to_reap(change: dict[str, Any]) -> None:
    for facts in _kept():
        if facts.handed is HandedFact.NONE and set(change) & {"job", "runner_row"}:
            continue  # a Pod that was never handed a runner has none that GitHub could be asked about
        after = replace(facts, **change)
        assert not isinstance(judge(after, SETTINGS), Reap), after


def test_a_runner_that_says_nothing_is_never_nearer_to_its_end_than_one_that_says_it_stands_still() -> None:
    silent = {"moves": MovesFact.UNKNOWN, "still_since": None}
    for facts in _kept():
        # A Pod that was never handed a runner has none that could report: there a report is what saves it.
        if facts.moves is MovesFact.STILL and facts.still_since == LONG and facts.handed is not HandedFact.NONE:
            assert not isinstance(judge(replace(facts, **silent), SETTINGS), Reap), facts


@pytest.mark.parametrize(
    "change",
    [
        change
        for change in LIFE
        if set(change) & {"moves", "job", "runner_row", "held", "life"} and "job_over_at" not in change
    ],
    ids=str,
)
def test_a_single_ledger_that_speaks_of_life_stops_every_reap(change: dict[str, Any]) -> None:
    assert len(_reaped()) > 1000
    for facts in _reaped():
        assert sign_of_life(replace(facts, **change)) is not None
        assert not isinstance(judge(replace(facts, **change), SETTINGS), Reap)


def test_every_reap_rests_on_two_ledgers_and_says_why() -> None:
    for facts in _reaped():
        verdict = judge(facts, SETTINGS)
        assert isinstance(verdict, Reap)
        assert len({ledger for ledger, _ in verdict.proof}) >= 2
        assert verdict.sentence
        assert verdict.since <= NOW


def test_a_reap_cannot_be_made_on_the_word_of_one_ledger() -> None:
    with pytest.raises(ValueError, match="two ledgers"):
        Reap("hung_runner", "it hangs", ((LedgerName.G, "offline"), (LedgerName.G, "queued")), NOW)
    with pytest.raises(ValueError, match="two ledgers"):
        Reap("hung_runner", "it hangs", ((LedgerName.G, "offline"), (LedgerName.H, "")), NOW)
    with pytest.raises(ValueError, match="none of"):
        Reap("looks_odd", "it hangs", ((LedgerName.G, "offline"), (LedgerName.H, "still")), NOW)


def test_time_alone_turns_a_watch_with_an_end_into_a_reap() -> None:
    met = 0
    for facts in FINE.drawn(random.Random(6), 100_000):
        verdict = judge(facts, SETTINGS)
        if isinstance(verdict, Watch) and verdict.until is not None and verdict.reason == "assigned_lately":
            met += 1
            assert verdict.until > NOW
            assert isinstance(judge(replace(facts, now=verdict.until), SETTINGS), Reap)
            before = replace(facts, now=verdict.until - timedelta(seconds=1))
            assert not isinstance(judge(before, SETTINGS), Reap)
    assert met > 10


def test_ended_and_deleting_pods_are_left_to_whoever_ends_them() -> None:
    for life, facts in product((PodLife.ENDED, PodLife.DELETING), _reaped()[:500]):
        assert judge(replace(facts, life=life), SETTINGS) == sign_of_life(replace(facts, life=life))


# The cases that the incidents were about, one by one.


def test_a_mac_that_started_at_boot_is_a_leak_without_a_session_and_alive_with_one() -> None:
    mac = PodFacts(
        now=NOW, machine=VmFact.MACOS, assigned=True, created_at=LONG, runner=RunnerFact.STARTED, unclaimed_since=FOUR
    )
    verdict = judge(mac, SETTINGS)
    assert isinstance(verdict, Reap)
    assert verdict.kind == "orphaned_stamped_pod"
    assert isinstance(judge(replace(mac, handed=HandedFact.OPEN, handed_at=FOUR), SETTINGS), Keep)


@pytest.mark.parametrize(
    ("runner", "poller", "leak"),
    [
        (RunnerFact.NONE, PollerFact.NONE, True),
        (RunnerFact.WAITING, PollerFact.RUNNING, True),
        (RunnerFact.WAITING, PollerFact.TERMINATED, False),
        (RunnerFact.STARTED, PollerFact.TERMINATED, False),
        (RunnerFact.TERMINATED, PollerFact.TERMINATED, False),
    ],
)
def test_on_linux_only_a_pod_that_still_waits_is_a_leak(runner: RunnerFact, poller: PollerFact, leak: bool) -> None:
    facts = PodFacts(
        now=NOW,
        machine=VmFact.LINUX,
        assigned=True,
        created_at=LONG,
        runner=runner,
        poller=poller,
        unclaimed_since=FOUR,
    )
    assert isinstance(judge(facts, SETTINGS), Reap) is leak


def test_a_ledger_that_never_heard_of_a_mac_proves_nothing_about_it() -> None:
    facts = PodFacts(now=NOW, machine=VmFact.MACOS, assigned=True, created_at=LONG, runner=RunnerFact.STARTED)
    verdict = judge(facts, SETTINGS)
    assert isinstance(verdict, Keep)
    assert verdict.reason == "unremembered"


def test_a_job_that_another_runner_finished_says_nothing_about_this_one() -> None:
    facts = PodFacts(
        now=NOW,
        machine=VmFact.MACOS,
        assigned=True,
        created_at=LONG,
        handed=HandedFact.OPEN,
        handed_at=LONG,
        job=JobFact.COMPLETED,
        executor=ExecutorFact.OTHER,
        job_over_at=LONG,
        moves=MovesFact.STILL,
        still_since=LONG,
    )
    assert not isinstance(judge(facts, SETTINGS), Reap)
    offline = replace(facts, runner_row=RunnerRow.OFFLINE, unseen_since=FOUR)
    assert not isinstance(judge(offline, SETTINGS), Reap), "it may be at a sibling, with the line to GitHub down"
