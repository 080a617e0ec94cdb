"""What a release says to the ledger's database, statement by statement, so that a later schema can be asked whether it bears it.

A recording is a file `released/VERSION.sql`: the statements of two stories with their values, in order, under a line that
names the newest migration of that release. Between the two a newer release brings its migrations. It is written by `make ledger-recording` when a release is made, and never edited.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

__all__ = ["Recording", "recorded", "recordings", "written"]

FOLDER = Path(__file__).parent / "released"
_HEAD = re.compile(r"-- Paddock (?P<version>\d+\.\d+\.\d+), ledger migration (?P<migration>\d+)\n")
_BETWEEN = "\n-- next\n"
_UPGRADE = "\n-- the newer release migrates here\n"


@dataclass(frozen=True)
class Recording:
    version: str
    migration: int
    before: tuple[str, ...]
    after: tuple[str, ...]


def recordings() -> tuple[Recording, ...]:
    """Every release that was recorded, oldest first."""
    return tuple(sorted((_read(path) for path in FOLDER.glob("*.sql")), key=lambda one: number(one.version)))


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def written(recording: Recording) -> str:
    head = f"-- Paddock {recording.version}, ledger migration {recording.migration}\n"
    return head + _UPGRADE.join(_BETWEEN.join(part) for part in (recording.before, recording.after)) + "\n"


def _read(path: Path) -> Recording:
    text = path.read_text(encoding="utf-8")
    head = _HEAD.match(text)
    assert head is not None, f"{path.name} has no head line"
    assert path.stem == head["version"]
    body = text[head.end() :].removesuffix("\n")
    before, after = body.split(_UPGRADE)
    return Recording(
        head["version"], int(head["migration"]), tuple(before.split(_BETWEEN)), tuple(after.split(_BETWEEN))
    )


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Every statement that is executed in the block, with its values written into it."""
    said: list[str] = []
    execute = psycopg.AsyncCursor.execute

    async def listening(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        text = psycopg.AsyncClientCursor(self.connection).mogrify(query, params)
        # Whoever begins and commits is the driver; a replay is one statement after the other. Hints need a listener.
        if not re.match(r"\s*(BEGIN|COMMIT|SAVEPOINT|RELEASE|SET|LISTEN)\b", text):
            said.append(text.strip())
        return await execute(self, query, params, **options)

    psycopg.AsyncCursor.execute = listening
    try:
        yield said
    finally:
        psycopg.AsyncCursor.execute = execute
