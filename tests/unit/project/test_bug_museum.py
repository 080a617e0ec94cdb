"""The bug museum: every known bug of a peer, put into our own decisions, is noticed by the tests that guard them."""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from unit.project.bug_museum import EXHIBITS, Exhibit, table
from unit.project.museum_killers import KILLED_BY

UNIT = Path(__file__).resolve().parents[1]
PAGE = UNIT.parents[1] / "docs" / "design" / "bug-museum.md"


@contextmanager
def _in_place(exhibit: Exhibit) -> Iterator[None]:
    """The mutant stands wherever the real function does, in our modules and in the tests'."""
    places = [
        (module, name)
        for module in list(sys.modules.values())
        for name, value in list(vars(module).items() if hasattr(module, "__dict__") else ())
        if value is exhibit.original and not (module.__name__.endswith("bug_museum") or name.startswith("__"))
    ]
    assert places, "nobody uses it"
    try:
        for module, name in places:
            setattr(module, name, exhibit.mutant)
        yield
    finally:
        for module, name in places:
            setattr(module, name, exhibit.original)


class _Runner:
    """Runs tests in this process, with a mutant in place once everything is imported."""

    def __init__(self, exhibit: Exhibit | None) -> None:
        self._exhibit = exhibit
        self.failed: list[str] = []
        self.ran = 0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self) -> Iterator[None]:
        if self._exhibit is None:
            yield
            return
        with _in_place(self._exhibit):
            yield

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self.ran += 1
            if report.failed:
                self.failed.append(report.nodeid)


def _forget(file: Path) -> None:
    """Its tests are imported anew: Hypothesis refuses a method that ran on another instance before, and a guard
    that fails for having run twice would count as one that noticed the mutant.
    """
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == str(file):
            del sys.modules[name]


def _killer(name: str) -> str:
    """The test that must fail under this mutant, or the whole file in which one must."""
    file = str(UNIT / EXHIBITS[name].killer)
    return f"{file}::{KILLED_BY[name]}" if name in KILLED_BY else file


def _run(killers: Iterable[str], exhibit: Exhibit | None) -> _Runner:
    runner = _Runner(exhibit)
    for file in {killer.partition("::")[0] for killer in killers}:
        _forget(Path(file))
    options = ["-q", "-x", "--no-header", "--tb=no", "--capture=sys", "-p", "no:cacheprovider", "-p", "no:xdist"]
    pytest.main([*options, "-m", "", *killers], plugins=[runner])
    return runner


def test_the_museum_is_large_and_its_page_shows_every_exhibit() -> None:
    assert len(EXHIBITS) >= 40
    assert all(each.what and each.bug for each in EXHIBITS.values())
    assert table() in PAGE.read_text(encoding="utf-8"), "write the table of bug_museum.table() into the page"


def test_whatever_cannot_be_looked_up_is_written_out():
    assert not [each.bug for each in EXHIBITS.values() if re.search(r"\bH\d+\b|peers-|seed|spec/", each.bug)]


def test_who_is_named_as_a_killer_kills_an_exhibit() -> None:
    assert KILLED_BY.keys() <= EXHIBITS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted({each.killer for each in EXHIBITS.values()}))
def test_without_a_mutant_the_guards_are_content_however_often_they_run(file: str) -> None:
    killers = sorted({_killer(name) for name, each in EXHIBITS.items() if each.killer == file})
    for _ in range(2):
        runner = _run(killers, None)
        assert runner.ran
        assert runner.failed == []


@pytest.mark.slow
@pytest.mark.parametrize("name", EXHIBITS)
def test_every_mutant_is_killed(name: str) -> None:
    exhibit = EXHIBITS[name]
    runner = _run([_killer(name)], exhibit)
    assert runner.ran, f"{_killer(name)} is no test any more: name another one in museum_killers.py"
    assert runner.failed, f"nobody notices: {exhibit.what}"
