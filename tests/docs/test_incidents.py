"""The list of incidents: every test it names exists, and every test of an incident is named."""

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


def test_every_file_that_the_list_names_exists():
    named = [name for row in rows() for name in re.findall(r"`((?:\w+/)*test_\w+\.py)`", row)]
    assert len(named) > 50
    assert [name for name in named if there(name) is None] == []


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
