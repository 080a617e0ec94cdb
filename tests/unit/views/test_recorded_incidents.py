"""Incidents of a simulated fleet, as they were read when somebody looked: `status` names the true cause first."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from unit.views.recorded import Recorded, recordings

from paddock.views.problem import Problem

DOCUMENT = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
RECORDED = recordings()
MISSED: frozenset[str] = frozenset()
"""Incidents in which something else is named first, or nothing. Whoever mends one takes it off this list."""


def kind(about: str) -> str:
    first, _, second = about.partition(" ")
    return second.removesuffix("s") if first.isdecimal() else first


def told(problems: tuple[Problem, ...]) -> str:
    return ", ".join(dict.fromkeys(kind(one.about) for one in problems)) or "nothing"


def row(recorded: Recorded) -> tuple[str, str, str]:
    """What is named first, below it, and beside it."""
    health = recorded.health()
    if health.ok:
        return "nothing", "nothing", "nothing"
    first, *others = health.problems
    return kind(first.about), told(first.symptoms), told(tuple(others))


def test_there_are_enough_of_them_and_nearly_all_are_right():
    right = [name for name, recorded in RECORDED.items() if recorded.right()]
    assert len(RECORDED) >= 40
    assert len(right) * 40 >= len(RECORDED) * 38
    assert frozenset(RECORDED) - frozenset(right) == MISSED


@pytest.mark.parametrize("incident", sorted(frozenset(RECORDED) - MISSED))
def test_the_first_cause_named_is_the_true_one(incident: str):
    recorded = RECORDED[incident]
    health = recorded.health()
    assert recorded.right(), [problem.about for problem in health.problems]
    assert health.sentence.startswith(f"Not healthy: {recorded.first()}: ")


@pytest.mark.parametrize("incident", sorted(name for name, recorded in RECORDED.items() if recorded.cause == "paddock"))
def test_the_command_names_it_too_although_it_has_no_word_with_the_operator(incident: str):
    """The page of `paddock up` is told by the operator in its process; everybody else knows it from the Hosts."""
    recorded = RECORDED[incident]
    assert recorded.told, "the operator knows it"
    assert replace(recorded, told=[]).right()


@pytest.mark.parametrize("incident", sorted(name for name, recorded in RECORDED.items() if recorded.second))
def test_what_has_nothing_to_do_with_it_is_a_root_of_its_own(incident: str):
    recorded = RECORDED[incident]
    assert recorded.second in {kind(root.about) for root in recorded.health().problems[1:]}


def test_the_document_has_this_table_and_counts_it():
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = {cells[1].strip(): cells[2:5] for line in text.splitlines() if len(cells := line.split("|")) == 6}
    said = {name: tuple(cell.strip() for cell in rows.get(name, [])) for name in RECORDED}
    marks = {name: " (missed)" if name in MISSED else "" for name in RECORDED}
    expected = {name: row(recorded) for name, recorded in RECORDED.items()}
    assert said == {name: (f"{first}{marks[name]}", *others) for name, (first, *others) in expected.items()}
    assert f"{len(RECORDED) - len(MISSED)} of {len(RECORDED)}" in text
