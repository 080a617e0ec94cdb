"""One call of a stand-in, and what the simulated Mac answers to it."""

import posixpath
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Effect", "Log", "ToolCall", "ToolResult", "fail", "ok"]

Entry = TypeVar("Entry")


class Log(list[Entry]):
    """A list that forgets its oldest entries above a limit, so that a Mac may run for weeks."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def append(self, entry: Entry, /) -> None:
        super().append(entry)
        if len(self) > self._limit:
            del self[: len(self) - self._limit]


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that changed the Mac, or was meant to: a command with an effect, or a file written, by whom."""

    actor: str
    command: str

    def __str__(self) -> str:
        return f"{self.actor}: {self.command}"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a tool ended. Text keeps its line ends; a missing last one stays missing on standard output."""

    status: int = 0
    out: str = ""
    err: str = ""


@dataclass(slots=True)
class ToolCall:
    """A tool, its arguments, who runs it and where. `standard_input` fetches the caller's standard input when needed."""

    tool: str
    arguments: list[str]
    user: str
    cwd: str
    session: str
    standard_input: Callable[[], Awaitable[bytes]]

    @property
    def root(self) -> bool:
        return self.user == "root"

    @property
    def line(self) -> str:
        return " ".join([self.tool, *self.arguments])

    def beside(self, path: str) -> str:
        """The path, relative ones taken from the caller's working directory."""
        return path if path.startswith("/") else posixpath.join(self.cwd, path)


def ok(out: str = "") -> ToolResult:
    return ToolResult(0, out if not out or out.endswith("\n") else out + "\n")


def fail(status: int, *lines: str) -> ToolResult:
    return ToolResult(status, err="".join(f"{line}\n" for line in lines))
