"""Claims a second out of the ledger, beside pgbench running the very same statement in the same run.

What the ratio shows is what our own process adds to the statement: its pool of connections, psycopg and Python. How fast
the statement itself is shows in pgbench's own number, which is told as well.
"""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.embedded.postgres.binaries import candidates
from paddock.runners.ledger import Ledger, Pod
from paddock.runners.ledger.claims import CLAIM_JOBS

from .scratch_postgres import scratch_postgres
from .table import Row, amount

__all__ = ["Way", "claiming_jobs", "fill", "ledger_at", "ours"]

_SCHEMA, _POOL = "bench_claims", "macs"
_CONNECTIONS = 8
"""As many as the ledger's pool has in production; pgbench gets the same."""
_WAITERS = 64
_PLENTY = 2_000_000
_ACCOUNTS = 16

_JOBS = """
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, enqueued_at,
                  changed_at, changed_by, changed_why)
SELECT n, 1 + n %% %(accounts)s, %(pool)s, 'macos', 6, 14336, 'queued', 'org/app', now() - interval '1 hour' + n * interval '1 ms',
       now(), 'bench', 'a job of the bench'
FROM generate_series(1, %(jobs)s) AS n
"""
_EMPTY = """
SELECT set_config('paddock.forgetting', 'on', false);
DELETE FROM claims; DELETE FROM jobs; DELETE FROM transitions;
VACUUM ANALYZE claims, jobs, transitions, limits, accounts, sessions;
"""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to claim: how many accounts wait, how many Pods a statement is for, and who asks at once."""

    what: str
    accounts: int
    batch: int
    askers: int
    """Of ours: tasks that share the pool of connections."""
    clients: int
    """Of pgbench: connections."""


@dataclass(slots=True)
class _Found:
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)


_WAYS = (
    Way("claims, single, one after the other", _ACCOUNTS, 1, 1, 1),
    Way(f"claims, single, {_WAITERS} rivals", _ACCOUNTS, 1, _WAITERS, _CONNECTIONS),
    Way(f"claims, single, {_WAITERS} rivals, one hot account", 1, 1, _WAITERS, _CONNECTIONS),
    Way(f"claims, {_WAITERS} waiters in one batch", _ACCOUNTS, _WAITERS, 1, 1),
    Way(f"claims, {_WAITERS} waiters in one batch, one hot account", 1, _WAITERS, 1, 1),
)
"""Dispatch asks for all who wait in a pool with one statement, as in the last two; rivals are what it must survive."""


def claiming_jobs(quick: bool) -> Iterator[Row]:
    seconds, rounds = (1.0, 2) if quick else (2.0, 3)
    found, version = asyncio.run(_measure(seconds, rounds))
    for way in _WAYS:
        mine = found[way.what]
        median_of_ours = median(mine.ours)
        note = f"caps on, {way.accounts} account{'s' if way.accounts > 1 else ''}; in turns, {rounds} rounds of {seconds:g} s"
        if mine.theirs:
            ratio = median(one / other for one, other in zip(mine.ours, mine.theirs, strict=True))
            note = f"goal ≥1×: {ratio:.2f}× {version} ({amount(median(mine.theirs))}/s); {note}"
        else:
            note = f"no pgbench on this machine; {note}"
        yield Row("dispatch", way.what, amount(median_of_ours), "/s", note)


async def _measure(seconds: float, rounds: int) -> tuple[dict[str, _Found], str]:
    found = {way.what: _Found() for way in _WAYS}
    async with scratch_postgres() as server, ledger_at(server.dsn) as (ledger, connection):
        pgbench = _pgbench()
        for turn in range(rounds):
            for way in _WAYS:
                mine = found[way.what]
                await fill(connection, way)
                mine.ours.append(await ours(ledger, way, seconds, f"{turn}"))
                if pgbench is not None:
                    await fill(connection, way)
                    mine.theirs.append(await _theirs(pgbench, server.dsn, connection, way, seconds))
    return found, "" if pgbench is None else _version(pgbench)


@asynccontextmanager
async def ledger_at(dsn: str) -> AsyncIterator[tuple[Ledger, psycopg.AsyncConnection[Any]]]:
    clock, rng = SystemClock(), seeded(1)
    opened = Ledger.open(dsn, clock=clock, rng=rng, schema=_SCHEMA, size=_CONNECTIONS, timeout=60.0)
    async with opened as ledger:
        for number in range(1, _ACCOUNTS + 1):
            await ledger.accounts.enrol(number, f"org{number}", 1000 + number)
            await ledger.allow_list.allow(number, f"org{number}", by="bench", why="to be measured")
            await ledger.limits.set(
                number, "macos", vcpus=_PLENTY, memory_mb=1000 * _PLENTY, by="bench", why="caps on, and never reached"
            )
        async with await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, options=f"-c search_path={_SCHEMA}"
        ) as connection:
            yield ledger, connection


async def fill(connection: psycopg.AsyncConnection[Any], way: Way) -> None:
    for statement in filter(None, map(str.strip, _EMPTY.split(";"))):
        await connection.execute(statement.encode())
    jobs = 20_000 if way.batch > 1 else 8_000
    await connection.execute(_JOBS, {"accounts": way.accounts, "pool": _POOL, "jobs": jobs})
    await connection.execute("VACUUM ANALYZE jobs")


async def ours(ledger: Ledger, way: Way, seconds: float, turn: str) -> float:
    won = 0
    stop = perf_counter() + seconds

    async def ask(asker: int) -> None:
        nonlocal won
        number = 0
        while perf_counter() < stop:
            number += 1
            pods = [Pod(f"{turn}-{asker}-{number}-{place}", f"macs-{place}") for place in range(way.batch)]
            answers = await ledger.claims.claim_many(_POOL, pods)
            won += sum(claim.won for claim in answers)

    began = perf_counter()
    async with asyncio.TaskGroup() as group:
        for asker in range(way.askers):
            group.create_task(ask(asker))
    return won / (perf_counter() - began)


async def _theirs(pgbench: Path, dsn: str, connection: psycopg.AsyncConnection[Any], way: Way, seconds: float) -> float:
    """Claims a second that pgbench gets; its own count of transactions includes those that won nothing."""
    given = {
        "pool": f"'{_POOL}'",
        "uids": f"(SELECT array_agg('b' || :client_id || '-' || :n || '-' || place) FROM generate_series(1, {way.batch}) place)",
        "names": f"(SELECT array_agg('macs-' || place) FROM generate_series(1, {way.batch}) place)",
        "dispatcher": "NULL",
        "by": "'dispatch'",
        "now": "now()",
    }
    statement = " ".join(line for line in (CLAIM_JOBS % given).splitlines() if not line.startswith("--"))
    script = f"\\set n random(1, 1000000000000)\n{statement};\n"
    parts = conninfo_to_dict(dsn)
    command = [str(pgbench), "-n", "-M", "prepared", "-f", "-", "-c", str(way.clients), "-j", str(min(2, way.clients))]
    command += ["-T", str(max(1, round(seconds))), "-h", str(parts.get("host", "")), "-U", str(parts.get("user", ""))]
    if port := parts.get("port"):
        command += ["-p", str(port)]
    command.append(str(parts.get("dbname", "")))
    environment = {**os.environ, "PGOPTIONS": f"-c search_path={_SCHEMA}"}
    if password := parts.get("password"):
        environment["PGPASSWORD"] = str(password)
    done = await asyncio.to_thread(_run(command, script, environment))
    if done.returncode:
        raise RuntimeError(f"pgbench failed: {done.stderr.strip()[-500:]}")
    transactions = re.search(r"transactions actually processed: (\d+)", done.stdout)
    rate = re.search(r"tps = ([\d.]+)", done.stdout)
    assert transactions is not None
    assert rate is not None, done.stdout
    row = await (await connection.execute("SELECT count(*) FROM claims")).fetchone()
    assert row is not None
    return float(rate.group(1)) * row[0] / max(1, int(transactions.group(1)))


def _run(
    command: list[str], script: str, environment: dict[str, str]
) -> Callable[[], "subprocess.CompletedProcess[str]"]:
    return lambda: subprocess.run(
        command, input=script, capture_output=True, text=True, env=environment, timeout=120, check=False
    )


def _pgbench() -> Path | None:
    """The one beside the server that is measured, else the system's."""
    for binaries in candidates():
        if (binaries.folder / "pgbench").is_file():
            return binaries.folder / "pgbench"
    found = shutil.which("pgbench")
    return None if found is None else Path(found)


def _version(pgbench: Path) -> str:
    said = subprocess.run([str(pgbench), "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"\d+(\.\d+)?", said)
    return f"pgbench {number.group() if number else ''}".strip()
