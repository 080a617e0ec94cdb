"""Nothing that a document points at is missing: pages, headings, pictures, files, modules."""

import importlib
import re
from pathlib import Path

import pytest
from docs.documents import ROOT, documents, in_backticks, prose

_PATH = re.compile(r"^(?:src|tests|docs|deploy|hack|bench|\.ci)/[\w./*-]*$|^[A-Z]+\.md$")
_MODULE = re.compile(r"^paddock(?:\.\w+)+$")
PAGES = pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))


def slug(heading: str) -> str:
    """As GitHub makes it."""
    plain = re.sub(r"`|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def headings(path: Path) -> set[str]:
    return {slug(found) for found in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)}


@PAGES
def test_every_link_and_picture_leads_somewhere(path: Path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"^[a-z]+:", target):
            assert target.startswith("https://"), target
            continue
        name, _, heading = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"{target} does not exist"
        if heading:
            assert heading in headings(there), f"{target}: no such heading"


@PAGES
def test_every_path_in_backticks_exists(path: Path):
    for text in in_backticks(path):
        if _PATH.match(text):
            assert list(ROOT.glob(text.rstrip("/"))), f"{text} does not exist"


@PAGES
def test_every_module_in_backticks_exists(path: Path):
    for text in (each for each in in_backticks(path) if _MODULE.match(each)):
        parts = text.split(".")
        found = importlib.import_module(parts[0])
        for index, part in enumerate(parts[1:], 2):
            try:
                found = importlib.import_module(".".join(parts[:index]))
            except ModuleNotFoundError:
                found = getattr(found, part)


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    missing = [
        str(path.relative_to(ROOT / "docs"))
        for path in (*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md"))
        if path.name != "README.md" and f"({path.relative_to(ROOT / 'docs')})" not in index
    ]
    assert missing == []
