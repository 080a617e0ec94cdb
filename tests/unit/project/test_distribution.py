"""What is released: its name, its version, and what is in it."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.deploy.rendering import ROOT

from paddock import __version__

sys.path.insert(0, str(ROOT / "hack"))
import release_version  # pyright: ignore[reportMissingImports]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# `pip install paddock`, also with options, quotes, an extra or a version: somebody else's project on PyPI.
_TAKEN = re.compile(
    r"(?:pip|pipx|uvx?(?: tool| pip)?)\s+(?:install|add|run)\s+(?:-\S+\s+)*['\"]?paddock(?![\w-])|[`'\"\s]paddock\[",
    re.IGNORECASE,
)


def texts() -> Iterator[Path]:
    """Everything that a person may read or that prints something."""
    for folder in ("src", "docs", "deploy", "hack", ".github"):
        yield from (
            path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".yaml", ".yml", ".sh", ".txt"}
        )
    yield from (
        ROOT / name
        for name in (
            "README.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "CHANGELOG.md",
            "Dockerfile",
            "Makefile",
            "pyproject.toml",
        )
    )


def test_the_distribution_has_the_name_that_is_free_and_the_command_stays():
    assert PROJECT["name"] == "paddock-ci"
    assert set(PROJECT["scripts"]) == {"paddock"}


def test_nobody_is_told_to_install_the_project_that_has_our_name():
    assert sum(1 for _ in texts()) > 300
    told = [f"{path.relative_to(ROOT)}: {found[0]}" for path in texts() for found in _TAKEN.finditer(path.read_text())]
    assert told == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install paddock",
        "pip install 'paddock[embedded]'",
        "uv tool install paddock",
        "pip install -U paddock==1",
        "needs `paddock[embedded]`",
    ],
)
def test_the_wrong_name_is_recognised(text: str):
    assert _TAKEN.search(text)


@pytest.mark.parametrize(
    "text", ["pip install 'paddock-ci[embedded]'", "helm install paddock deploy/chart", "uv add paddock_other"]
)
def test_the_right_name_is_let_pass(text: str):
    assert not _TAKEN.search(text)


def test_the_hint_for_a_missing_postgres_names_the_distribution():
    from paddock.embedded.postgres.binaries import choose
    from paddock.embedded.postgres.errors import PostgresNotFoundError

    with pytest.raises(PostgresNotFoundError, match=r"pip install 'paddock-ci\[embedded\]'"):
        choose([], None)


def test_types_are_shipped_and_the_lock_file_knows_the_name():
    assert (ROOT / "src" / "paddock" / "py.typed").exists()
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    assert [one["name"] for one in locked if one["source"].get("editable") == "."] == ["paddock-ci"]


def test_nothing_leads_to_a_place_where_the_project_is_not():
    """Until it is published nobody can say where: a release writes the place that it is made at into what it packs."""
    wrong = "github.com/" + "tuist/paddock"
    # Links of versions, whose tags are made where the project is published.
    said = [path for path in texts() if wrong in path.read_text() and path.name != "CHANGELOG.md"]
    assert said == []
    assert "urls" not in PROJECT


def test_every_place_that_names_the_version_names_the_same():
    assert release_version.versions()["CHANGELOG.md, newest release"] == __version__
    assert release_version.disagreements(f"v{__version__}") == []


def test_a_tag_that_does_not_fit_is_refused():
    assert any("CHANGELOG.md" in one for one in release_version.disagreements("v99.0.0"))
    assert release_version.disagreements("0.1.0") == ["the tag 0.1.0 is not of the form vX.Y.Z"]


def test_the_changelog_begins_with_what_is_not_released_and_each_release_has_a_date():
    text = (ROOT / "CHANGELOG.md").read_text()
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert heads[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", head) for head in heads[1:])
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= {
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
    }
