"""The list of incidents: every test it names exists, and every test of an incident is named."""

import itertools
import re
from pathlib import Path

from docs.documents import ROOT

TESTS = ROOT / "tests"
LIST = TESTS / "incidents" / "README.md"
PLANNED = {
    "test_stranded_hosts.py",
    "test_release_and_terminate.py",
    "test_pause_and_detach.py",
    "test_sealed_password_and_tiers.py",
}


def there(name: str) -> Path | None:
    """A file of the list: below tests/, or below tests/incidents/."""
    return next((found for found in (TESTS / name, TESTS / "incidents" / name) if found.exists()), None)


def names_in(path: Path) -> list[str]:
    return re.findall(r"^(?:async )?def test_(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def rows() -> list[str]:
    return [line for line in LIST.read_text(encoding="utf-8").splitlines() if line.startswith("|")]


def incidents() -> list[str]:
    """The rows without the heads of their tables."""
    lines = rows()
    heads = {line for line, below in itertools.pairwise(lines) if below.startswith("|---")}
    return [line for line in lines if line not in heads and not line.startswith("|---")]


def test_every_file_and_folder_that_the_list_names_exists():
    named = [name for row in rows() for name in re.findall(r"`((?:\w+/)*\w+\.py|(?:\w+/)+\w+)`", row)]
    assert len(named) > 50
    assert [name for name in named if there(name) is None] == []


def test_every_row_is_held_by_a_test_that_runs():
    """What nothing here does is in no row: it is said, with why, at the end."""
    for row in incidents():
        files = re.findall(r"`((?:\w+/)*test_\w+\.py)`", row)
        assert files, row
        for path in filter(None, map(there, files)):
            text = path.read_text(encoding="utf-8")
            assert names_in(path) or "class Test" in text, path
            assert not re.search(r"pytest\.(mark\.)?(skip|xfail)", text), (
                f"{path}: a test that is skipped holds nothing"
            )
    assert all(re.fullmatch(r"- .+: .+\.", line) for line in said_of_nothing())


def said_of_nothing() -> list[str]:
    return [
        line
        for line in LIST.read_text(encoding="utf-8").partition("## What nothing here does\n")[2].splitlines()
        if line
    ]


def test_every_test_that_the_list_names_is_in_a_file_of_its_row():
    lost = []
    for row in rows():
        files = [path for name in re.findall(r"`((?:\w+/)*test_\w+\.py)`", row) if (path := there(name)) is not None]
        known = [test for path in files for test in names_in(path)]
        for said in re.findall(r"`(…?[a-z0-9_]+_[a-z0-9_]+…?)`", row):
            begins, core, ends = not said.startswith("…"), said.strip("…"), not said.endswith("…")
            fits = [
                name
                for name in known
                if core in name and (not begins or name.startswith(core)) and (not ends or name.endswith(core))
            ]
            if not fits:
                lost.append((row.split("|")[1].strip(), said))
    assert lost == []


def test_every_test_of_an_incident_has_a_row():
    """A fix that has a plan of tests has a row for its whole file."""
    said = [text.strip("…") for row in rows() for text in re.findall(r"`(…?[a-z0-9_]+…?)`", row)]
    files = [path for path in (TESTS / "incidents").rglob("test_*.py") if path.name not in PLANNED]
    tests = [name for path in sorted(files) for name in names_in(path)]
    assert len(tests) > 50
    assert [name for name in tests if not any(name.startswith(text) for text in said)] == []


def test_every_file_of_incidents_is_named():
    text = LIST.read_text(encoding="utf-8")
    assert [path.name for path in (TESTS / "incidents").rglob("test_*.py") if path.name not in text] == []
