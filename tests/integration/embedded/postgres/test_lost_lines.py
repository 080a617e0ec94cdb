"""A machine that loses its power says no farewell: its sessions at a server across a network, and their locks, end within seconds."""

import os
import random
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg.conninfo import make_conninfo

import paddock
from paddock.base.clock import SystemClock
from paddock.base.dsn import connect
from paddock.embedded.postgres import EmbeddedPostgres, process
from paddock.runners.ledger.database import make_pool

_ASKED = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def across_a_network() -> AsyncIterator[str]:
    """The DSN of a server on TCP, which tells what its own sockets do; of Unix sockets it always tells nothing."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-tcp-"))
    folder.chmod(0o755)
    address = f"127.{os.getpid() >> 16 & 0xFF}.{os.getpid() >> 8 & 0xFF}.{os.getpid() & 0xFF | 1}"
    with pytest.MonkeyPatch.context() as patch:
        settings = process.settings
        patch.setattr(process, "settings", lambda *known: {**settings(*known), "listen_addresses": address})
        async with EmbeddedPostgres(folder / "pg", clock=SystemClock(), rng=random.Random(1)) as postgres:
            rules = folder / "pg" / "pg_hba.conf"
            rules.write_text(rules.read_text(encoding="utf-8") + "host all all 127.0.0.0/8 trust\n", encoding="utf-8")
            async with await psycopg.AsyncConnection.connect(postgres.dsn, autocommit=True) as connection:
                await connection.execute("SELECT pg_reload_conf()")
            yield make_conninfo(postgres.dsn, host=address)
    shutil.rmtree(folder)


async def _noticed_within(connection: psycopg.AsyncConnection[Any]) -> tuple[int, int]:
    """Seconds until the server gives up a silent line, and one on which it waits for an acknowledgement."""
    cursor = await connection.execute("SELECT name, setting::int FROM pg_settings WHERE name = ANY(%s)", [list(_ASKED)])
    told = dict(await cursor.fetchall())
    idle, interval, count, acknowledged = (told[name] for name in _ASKED)
    return idle + interval * count, acknowledged // 1000


async def test_the_server_gives_up_a_pool_whose_machine_vanished(across_a_network: str) -> None:
    """A turn of healing is a lock of such a session: by the server's own settings nobody else has it for two hours."""
    async with (
        make_pool(across_a_network, schema="public", size=1) as pool,
        pool.connection() as connection,
    ):
        silent, unanswered = await _noticed_within(connection)
    assert 0 < silent < 15
    assert 0 < unanswered < 15


async def test_the_server_gives_up_a_single_session_whose_machine_vanished(across_a_network: str) -> None:
    async with await connect(across_a_network, application_name="test") as connection:
        silent, unanswered = await _noticed_within(connection)
    assert 0 < silent < 15
    assert 0 < unanswered < 15


async def test_what_the_dsn_tells_the_server_counts(across_a_network: str) -> None:
    dsn = make_conninfo(across_a_network, options="-c tcp_keepalives_idle=600")
    async with await connect(dsn, application_name="test") as connection:
        silent, unanswered = await _noticed_within(connection)
    assert 600 < silent < 615
    assert 0 < unanswered < 15


def test_every_session_is_begun_where_both_sides_are_told() -> None:
    source = Path(paddock.__file__).parent
    connecting = [
        str(file.relative_to(source))
        for file in sorted(source.rglob("*.py"))
        if re.search(r"Connection\.connect\(|psycopg\.connect\(", file.read_text(encoding="utf-8"))
    ]
    assert connecting == ["base/dsn.py"]
