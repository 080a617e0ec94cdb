"""Lengths and moments: one form each, wherever a sentence names one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import paddock
from paddock.base.explanation import ago, span, utc

_SOURCE = Path(paddock.__file__).parent
_OWN = re.compile(
    r"%H:%M[^:]|// ?60\} ?min|/ ?(60|3600):[.\w]*\} ?(s|min|h)\b|total_seconds\(\)[^}]{0,12}:[.\w]+\} ?(s|min|h)\b"
)
"""A length or a moment that is written in place."""
_SINCE_IN_RFC = re.compile(r"(since|until|at) \{rfc3339\(")


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(seconds=0), "0 s"),
        (timedelta(seconds=-3), "0 s"),
        (timedelta(seconds=119), "119 s"),
        (timedelta(seconds=120), "2 min"),
        (timedelta(minutes=119), "119 min"),
        (timedelta(hours=2, minutes=5), "2 h 05 min"),
        (timedelta(days=2), "2 d"),
        (600, "10 min"),
        (0.4, "0 s"),
    ],
)
def test_a_length_has_the_same_words_wherever_it_stands(length: timedelta | float, words: str) -> None:
    assert span(length) == words


def test_a_moment_is_written_with_its_day_and_its_zone() -> None:
    moment = datetime(2026, 11, 20, 0, 13, 59, tzinfo=UTC)
    assert utc(moment) == "2026-11-20 00:13 UTC"
    assert ago(moment, moment + timedelta(minutes=3)) == "for 3 min"


def test_no_sentence_writes_a_length_or_a_moment_in_a_form_of_its_own() -> None:
    """The simulator plays others, and a Kubernetes API has the forms of Kubernetes."""
    others = {"simulator", "embedded"}
    found = [
        f"{file.relative_to(_SOURCE)}: {line.strip()}"
        for file in sorted(_SOURCE.rglob("*.py"))
        if not others & set(file.relative_to(_SOURCE).parts) and file.name != "explanation.py"
        for line in file.read_text().splitlines()
        if _OWN.search(line) or _SINCE_IN_RFC.search(line)
    ]
    assert found == []
