"""The documents as their readers meet them: files, console blocks, commands, links, things in backticks."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_FENCE: Final = re.compile(r"^ *```")
_INNER: Final = re.compile(r"\$\(([^()]*)\)")
_ASSIGNMENT: Final = re.compile(r"^[A-Za-z_]\w*=")


@dataclass(frozen=True)
class Typed:
    """One line of a console block, as a reader would type it."""

    path: Path
    number: int
    line: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.number}: {self.line}"


@cache
def documents() -> tuple[Path, ...]:
    """Every page that is written for people."""
    single = [
        ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md")
    ]
    return (*single, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "tests" / "incidents" / "README.md")


def typed(path: Path) -> Iterator[Typed]:
    """The commands of a page in order. A block of another language than `console` holds none."""
    inside, begun = "", ""
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if _FENCE.match(text):
            inside = "" if inside else text.strip().removeprefix("```") or "text"
        elif inside == "console" and (line := f"{begun}{text.strip()}") and not line.startswith("#"):
            begun = line.removesuffix("\\") if line.endswith("\\") else ""
            if not begun:
                yield Typed(path, number, line)


def prose(path: Path) -> str:
    """A page without its blocks."""
    kept, inside = [], False
    for text in path.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(text):
            inside = not inside
        elif not inside:
            kept.append(text)
    return "\n".join(kept)


def in_backticks(path: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(path))


def commands_in(line: str) -> Iterator[list[str]]:
    """The simple commands of a line: those in `$(…)` first, then the parts of the pipe, without leading assignments."""
    for inner in _INNER.findall(line):
        yield from commands_in(inner)
    lexer = shlex.shlex(_INNER.sub("SUBSTITUTED", line), posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set("|&;"):
            words.append(word)
            continue
        while words and _ASSIGNMENT.match(words[0]):
            words.pop(0)
        if words:
            yield words
        words = []
