"""The runbooks, where they are shipped: one page a problem, as the repository has it in `docs/runbooks`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import htpy as h
from htpy import Node

__all__ = ["Runbooks", "rendered"]

_FOLDERS: Final = (Path(__file__).parent / "runbook_pages", Path(__file__).parents[3] / "docs" / "runbooks")
"""Beside the package where it is installed with them, and in a checkout."""
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


class Runbooks:
    """Reads a runbook by its name. Names come from a listing of the folder, so no other file can be asked for."""

    def __init__(self, folder: Path | None = None) -> None:
        found = folder or next((one for one in _FOLDERS if one.is_dir()), None)
        self._files = {path.stem: path for path in found.glob("*.md")} if found is not None else {}

    def href(self, name: str) -> str | None:
        """Its page, or None where it is not shipped."""
        return f"/runbooks/{name}" if name in self._files else None

    def text(self, name: str) -> str | None:
        path = self._files.get(name)
        return path.read_text(encoding="utf-8") if path is not None else None


def rendered(text: str) -> Iterator[Node]:
    """The little Markdown that runbooks use: headings, paragraphs, lists and code."""
    block: list[str] = []
    code: list[str] | None = None
    for line in [*text.splitlines(), ""]:
        if line.startswith("```"):
            if code is None:
                code = []
                yield from _paragraph(block)
                block = []
            else:
                yield h.pre(tabindex="0")[h.code["\n".join(code)]]
                code = None
        elif code is not None:
            code.append(line)
        elif line.startswith("#"):
            yield from _paragraph(block)
            block = []
            words = line.lstrip("#").strip()
            yield h.h1[words] if line.startswith("# ") else h.h2[words]
        elif line.strip():
            block.append(line)
        else:
            yield from _paragraph(block)
            block = []


def _paragraph(lines: list[str]) -> Iterator[Node]:
    if not lines:
        return
    if lines[0].lstrip().startswith(("- ", "* ")):
        items: list[str] = []
        for line in lines:
            if line.lstrip().startswith(("- ", "* ")):
                items.append(line.lstrip()[2:])
            else:
                items[-1] += f" {line.strip()}"
        yield h.ul[[h.li[_words(item)] for item in items]]
    else:
        yield h.p[_words(" ".join(lines))]


def _words(text: str) -> Iterator[Node]:
    for number, part in enumerate(text.split("`")):
        if number % 2:
            yield h.code[part]
        else:
            yield from _links(part.replace("**", ""))


def _links(text: str) -> Iterator[Node]:
    """Links to other runbooks lead to their pages; any other is named and not followed, since it is not shipped."""
    at = 0
    for found in _LINK.finditer(text):
        yield text[at : found.start()]
        name = found[2].removesuffix(".md")
        yield h.a(href=f"/runbooks/{name}")[found[1]] if name.isalnum() else f"{found[1]} ({found[2]})"
        at = found.end()
    yield text[at:]
