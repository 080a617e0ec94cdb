"""The simulated GitHub on disk: one row a record, and only what changed is written.

A row is whole or not there, and a save is one transaction, so a killed process leaves the state of one of its saves. The
database is not synced: it survives the process, not the machine's power.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from paddock.simulator.github.state import Attempt, GitHubState, Outgoing, Run, SimulatedJob, SimulatedRunner

__all__ = ["GitHubBook"]

_TABLE = "CREATE TABLE IF NOT EXISTS records (kind TEXT, id INTEGER, body BLOB, PRIMARY KEY (kind, id)) WITHOUT ROWID"
_KINDS = {"job": SimulatedJob, "run": Run, "runner": SimulatedRunner, "attempt": Attempt}
_HEAD = ("head", 0)


class GitHubBook:
    """Keeps one GitHub in a file. `save` costs what changed, whatever there is."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        # The file holds the App's key, which opens nothing but this simulation; it is its owner's all the same.
        file.touch(mode=0o600)
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute(_TABLE)
        self._written: dict[tuple[str, int], int] = {}

    def close(self) -> None:
        self._db.close()

    def load(self) -> GitHubState | None:
        """The state of the last save, or None where there was none."""
        rows = self._db.execute("SELECT kind, id, body FROM records ORDER BY kind, id").fetchall()
        bodies: dict[str, dict[int, bytes]] = {}
        for kind, number, body in rows:
            bodies.setdefault(kind, {})[number] = body
        if "head" not in bodies:
            return None
        state = msgspec.json.decode(bodies["head"][0], type=GitHubState)
        for kind, shelf in self._shelves(state).items():
            shelf.update({n: msgspec.json.decode(body, type=_KINDS[kind]) for n, body in bodies.get(kind, {}).items()})
        for runner in state.runners.values():
            state.names.setdefault(runner.place, {})[runner.name.lower()] = runner.id
        # What is in the file and not in the state goes at the first save: nothing counts as written yet.
        self._written = {(kind, number): 0 for kind, number, _ in rows}
        return state

    def save(self, state: GitHubState, in_flight: Iterable[Outgoing] = ()) -> int:
        """Write what changed since the last save, in one transaction; returns how many rows that were."""
        changed = list(self._changed(state, in_flight))
        there = {(kind, number) for kind, shelf in self._shelves(state).items() for number in shelf} | {_HEAD}
        gone = [key for key in self._written if key not in there]
        if not changed and not gone:
            return 0
        self._db.execute("BEGIN")
        try:
            self._db.executemany("DELETE FROM records WHERE kind = ? AND id = ?", gone)
            self._db.executemany(
                "INSERT OR REPLACE INTO records VALUES (?, ?, ?)",
                [(kind, number, body) for (kind, number), body, _ in changed],
            )
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        for key in gone:
            del self._written[key]
        self._written.update({key: mark for key, _, mark in changed})
        return len(changed) + len(gone)

    def _changed(
        self, state: GitHubState, in_flight: Iterable[Outgoing]
    ) -> Iterator[tuple[tuple[str, int], bytes, int]]:
        """Rows whose mark is another than at the last save: the key, the bytes, the mark."""
        head = msgspec.structs.replace(
            state, jobs={}, runs={}, runners={}, attempts={}, names={}, outgoing=[*in_flight, *state.outgoing]
        )
        body = msgspec.json.encode(head)
        if self._written.get(_HEAD) != (mark := hash(body)):
            yield _HEAD, body, mark
        for job in state.jobs.values():
            key = ("job", job.id)
            if job.status == "completed" and self._written.get(key) == 1:
                continue  # it changes no more
            body = msgspec.json.encode(job)
            if self._written.get(key) != (mark := 1 if job.status == "completed" else hash(body)):
                yield key, body, mark
        for runner in state.runners.values():
            body = msgspec.json.encode(runner)
            if self._written.get(key := ("runner", runner.id)) != (mark := hash(body)):
                yield key, body, mark
        for run in state.runs.values():
            # A run only gains and loses jobs.
            if self._written.get(key := ("run", run.id)) != (mark := len(run.jobs)):
                yield key, msgspec.json.encode(run), mark
        for number, attempt in state.attempts.items():
            if self._written.get(key := ("attempt", number)) != 1:
                yield key, msgspec.json.encode(attempt), 1

    @staticmethod
    def _shelves(state: GitHubState) -> dict[str, dict[int, Any]]:
        return {"job": state.jobs, "run": state.runs, "runner": state.runners, "attempt": state.attempts}
