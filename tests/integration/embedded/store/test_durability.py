"""What survives: restarts, a second owner, lost connections, and `kill -9` of either side."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from doubles.clocks import WITHIN
from integration.embedded.store.severing import Severing
from integration.embedded.store.stores import OpenPostgres

from paddock.base.clock import SystemClock
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.embedded.postgres.orphans import _workers
from paddock.embedded.store import (
    CompactedError,
    Key,
    Record,
    RevisionMismatchError,
    StoreOwnedElsewhereError,
    StoreUnavailableError,
)
from paddock.embedded.store.postgres import PostgresStore

CHILD = Path(__file__).with_name("writing_child.py")


def pod(name: str) -> Key:
    return Key("pods", "default", name)


def value(n: int = 0) -> dict[str, object]:
    return {"kind": "Pod", "spec": {"n": n}}


# Restarting


async def test_a_reopened_store_shows_the_same_records_and_goes_on_counting(open_postgres: OpenPostgres) -> None:
    store = await open_postgres()
    a = await store.create(pod("a"), value(1))
    await store.create(pod("b"), value(2))
    await store.update(pod("a"), value(3), a.revision)
    last = await store.create(pod("c"), value(4))
    await store.delete(pod("c"), last.revision)
    before = await store.list("pods")
    await store.close()

    again = await open_postgres()
    assert await again.list("pods") == before
    assert (await again.create(pod("c"), value())).revision == 6


async def test_a_watch_or_a_list_from_before_a_restart_starts_over(open_postgres: OpenPostgres) -> None:
    store = await open_postgres()
    await store.create(pod("a"), value())
    await store.create(pod("b"), value())
    await store.close()
    again = await open_postgres()
    with pytest.raises(CompactedError):
        async with again.watch("pods", after=1):
            pass
    with pytest.raises(CompactedError):
        await again.list("pods", revision=1)
    async with again.watch("pods", after=2) as watch:
        record = await again.create(pod("c"), value())
        assert (await anext(aiter(watch))).record == record


async def test_a_revision_of_a_deleted_record_is_not_used_again_after_a_restart(open_postgres: OpenPostgres) -> None:
    store = await open_postgres()
    record = await store.create(pod("a"), value())
    assert (await store.delete(pod("a"), record.revision)).revision == 2
    await store.close()
    again = await open_postgres()
    assert (await again.create(pod("a"), value())).revision == 3


async def test_an_acknowledged_write_is_in_the_database(
    open_postgres: OpenPostgres, server: EmbeddedPostgres, schema: str
) -> None:
    store = await open_postgres()
    await asyncio.gather(*(store.create(pod(f"p{n}"), value(n)) for n in range(50)))
    async with await psycopg.AsyncConnection.connect(server.dsn) as connection:
        cursor = await connection.execute(
            f"SELECT count(*), max(revision), sum((value #>> '{{spec,n}}')::int) FROM {schema}.objects_json".encode()
        )
        assert await cursor.fetchone() == (50, 50, sum(range(50)))


async def test_closing_finishes_the_writes_in_line(open_postgres: OpenPostgres) -> None:
    store = await open_postgres()
    writes = [asyncio.create_task(store.create(pod(f"p{n}"), value())) for n in range(10)]
    await asyncio.sleep(0)
    await store.close()
    assert [record.revision for record in await asyncio.gather(*writes)] == list(range(1, 11))


# Owning


async def test_a_second_owner_is_refused_with_the_remedy_until_the_first_lets_go(open_postgres: OpenPostgres) -> None:
    store = await open_postgres()
    with pytest.raises(StoreOwnedElsewhereError, match="stop that process"):
        await open_postgres(lock_wait=0.05)
    await store.create(pod("a"), value())
    await store.close()
    assert (await open_postgres()).revision == 1


async def test_stores_in_two_schemas_do_not_know_each_other(open_postgres: OpenPostgres) -> None:
    one, other = await open_postgres(), await open_postgres(schema='Another, "odd" one\'s')
    await one.create(pod("a"), value())
    assert await other.get(pod("a")) is None
    assert (await other.create(pod("a"), value())).revision == 1


async def test_an_owner_that_was_replaced_while_cut_off_writes_nothing_and_says_so(
    server: EmbeddedPostgres, open_postgres: OpenPostgres
) -> None:
    async with Severing(server.dsn) as line:
        old = await open_postgres(conninfo=line.dsn)
        await old.create(pod("a"), value())
        line.mode = "refuse"
        write = asyncio.create_task(old.create(pod("b"), value()))
        await _until(lambda: line.cuts > 0)
        new = await open_postgres()
        assert (await new.create(pod("b"), value(7))).revision == 2
        await new.close()
        line.resume()
        async with old.watch("pods", after=1) as watch:
            with pytest.raises(StoreOwnedElsewhereError):
                await asyncio.wait_for(write, WITHIN)
            with pytest.raises(StoreOwnedElsewhereError):
                await anext(aiter(watch))
        with pytest.raises(StoreOwnedElsewhereError):
            await old.get(pod("a"))
        await old.close()


async def test_even_with_its_session_intact_a_writer_finds_out_that_the_counter_is_no_longer_its_own(
    server: EmbeddedPostgres, open_postgres: OpenPostgres, schema: str
) -> None:
    store = await open_postgres()
    await store.create(pod("a"), value())
    async with await psycopg.AsyncConnection.connect(server.dsn) as connection:
        await connection.execute(f"UPDATE {schema}.store_counter SET incarnation = 'someone else'".encode())
    with pytest.raises(StoreOwnedElsewhereError):
        await store.create(pod("b"), value())
    assert isinstance(await asyncio.wait_for(store.failed(), WITHIN), StoreOwnedElsewhereError)
    async with await psycopg.AsyncConnection.connect(server.dsn) as connection:
        cursor = await connection.execute(f"SELECT name FROM {schema}.objects".encode())
        assert await cursor.fetchall() == [("a",)]


# Losing the connection


@pytest.mark.parametrize("cut", ["lose request", "lose answer"])
async def test_a_connection_lost_in_mid_commit_still_gives_every_caller_its_true_answer(
    server: EmbeddedPostgres, open_postgres: OpenPostgres, cut: str
) -> None:
    async with Severing(server.dsn) as line:
        store = await open_postgres(conninfo=line.dsn)
        a = await store.create(pod("a"), value())
        async with store.watch("pods", after=1) as watch:
            line.mode = cut  # type: ignore[assignment]
            answers = await asyncio.wait_for(
                asyncio.gather(
                    store.update(pod("a"), value(1), a.revision),
                    store.update(pod("a"), value(2), a.revision),
                    store.create(pod("b"), value()),
                    return_exceptions=True,
                ),
                WITHIN,
            )
            assert line.cuts == 1
            assert [type(answer) for answer in answers] == [Record, RevisionMismatchError, Record]
            assert [(await anext(aiter(watch))).revision for _ in range(2)] == [2, 3]
        assert (await store.create(pod("c"), value())).revision == 4
        shown = await store.list("pods")
        await store.close()
    assert await (await open_postgres()).list("pods") == shown


@pytest.mark.parametrize("cut", ["lose request", "lose answer"])
async def test_when_the_database_stays_away_callers_are_told_and_the_fate_is_settled_before_the_next_write(
    server: EmbeddedPostgres, open_postgres: OpenPostgres, cut: str
) -> None:
    async with Severing(server.dsn) as line:
        store = await open_postgres(conninfo=line.dsn, timeout=0.3)
        a = await store.create(pod("a"), value())
        async with store.watch("pods", after=1) as watch:
            line.mode, line.then = cut, "refuse"  # type: ignore[assignment]
            write = asyncio.create_task(store.update(pod("a"), value(1), a.revision))
            await _until(lambda: line.cuts > 0)
            behind = asyncio.create_task(store.create(pod("b"), value()))
            for task in (write, behind):
                with pytest.raises(StoreUnavailableError):
                    await asyncio.wait_for(task, WITHIN)
            with pytest.raises(StoreUnavailableError):
                await asyncio.wait_for(store.create(pod("c"), value()), 0.1)
            assert await store.get(pod("a")) == a  # reads go on, with what is known to be durable
            line.resume()
            later = await _when_back(store, pod("d"))
            happened = cut == "lose answer"
            assert later.revision == (3 if happened else 2)
            assert [(await anext(aiter(watch))).revision for _ in range(later.revision - 1)] == (
                [2, 3] if happened else [2]
            )
        shown = await store.list("pods")
        assert [record.key.name for record in shown.records] == ["a", "d"]
        await store.close()
    assert await (await open_postgres()).list("pods") == shown


async def test_a_database_that_hangs_is_away_until_it_answers(
    server: EmbeddedPostgres, open_postgres: OpenPostgres
) -> None:
    async with Severing(server.dsn) as line:
        store = await open_postgres(conninfo=line.dsn, timeout=0.2)
        line.mode = "hang"
        with pytest.raises(StoreUnavailableError):
            await asyncio.wait_for(store.create(pod("a"), value()), WITHIN)
        line.resume()
        assert (await _when_back(store, pod("b"))).revision == 2
        assert await store.get(pod("a")) is not None


async def test_a_session_that_the_server_ends_is_taken_up_again_unnoticed(
    server: EmbeddedPostgres, open_postgres: OpenPostgres
) -> None:
    store = await open_postgres()
    await store.create(pod("a"), value())
    assert store._session is not None
    async with await psycopg.AsyncConnection.connect(server.dsn, autocommit=True) as connection:
        await connection.execute("SELECT pg_terminate_backend(%s)", [store._session.backend[0]])
    assert (await store.create(pod("b"), value())).revision == 2


async def test_one_value_that_the_database_refuses_does_not_fail_its_neighbours(
    server: EmbeddedPostgres, open_postgres: OpenPostgres, schema: str
) -> None:
    store = await open_postgres()
    async with await psycopg.AsyncConnection.connect(server.dsn, autocommit=True) as connection:
        await connection.execute(f"ALTER TABLE {schema}.objects ADD CHECK (name <> 'bad')".encode())
    answers = await asyncio.gather(
        *(store.create(pod(name), value()) for name in ("a", "bad", "c")), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [Record, StoreUnavailableError, Record]
    assert store.revision == 2


async def test_closing_while_the_database_is_away_does_not_wait_for_it(
    server: EmbeddedPostgres, open_postgres: OpenPostgres
) -> None:
    async with Severing(server.dsn) as line:
        store = await open_postgres(conninfo=line.dsn, timeout=0.2)
        line.mode = "refuse"
        write = asyncio.create_task(store.create(pod("a"), value()))
        await _until(lambda: line.cuts > 0)
        await asyncio.wait_for(store.close(), WITHIN)
        with pytest.raises(StoreUnavailableError):
            await write


# kill -9


async def test_a_killed_writer_has_lost_nothing_that_it_acknowledged(
    server: EmbeddedPostgres, open_postgres: OpenPostgres, schema: str
) -> None:
    used: set[int] = set()
    for life in range(3):
        child = subprocess.Popen(
            [sys.executable, CHILD, server.dsn, schema, str(life)], stdout=subprocess.PIPE, text=True
        )
        acknowledged = await asyncio.to_thread(_kill_after, child, 150 + 37 * life)
        store = await open_postgres()
        shown = {record.key.name: record.revision for record in (await store.list("pods")).records}
        for name, revision in acknowledged.items():
            assert shown[name] == revision
        assert not used & set(acknowledged.values())
        used |= set(acknowledged.values())
        record = await store.create(pod(f"between-{life}"), value())
        assert record.revision > max(used)
        used.add(record.revision)
        await store.close()


@pytest.fixture
def own_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="paddock-kill-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
async def test_a_killed_database_has_lost_nothing_that_was_acknowledged(own_folder: Path) -> None:
    clock, acknowledged, unknown = SystemClock(), dict[str, int](), set[str]()
    async with EmbeddedPostgres(own_folder / "pg", clock=clock, rng=random.Random(2)) as postgres:
        store = await PostgresStore.open(postgres.dsn, clock=clock, rng=random.Random(3), timeout=20)
        stopping = False

        async def write(writer: int) -> None:
            n = 0
            while not stopping:
                name = f"w{writer}-{n}"
                try:
                    acknowledged[name] = (await store.create(pod(name), value(n))).revision
                except StoreUnavailableError:
                    unknown.add(name)
                n += 1

        writers = [asyncio.create_task(write(writer)) for writer in range(8)]
        for _ in range(2):
            goal = len(acknowledged) + 200
            await _until(lambda goal=goal: len(acknowledged) > goal)
            victim = postgres.pid
            for pid in _workers(own_folder / "pg" / "data"):
                _kill(pid)
            await _until(lambda victim=victim: postgres.pid not in (None, victim), 20)
        goal = len(acknowledged) + 200
        await _until(lambda: len(acknowledged) > goal, 20)
        stopping = True
        await asyncio.gather(*writers)
        assert len(set(acknowledged.values())) == len(acknowledged)
        shown = await store.list("pods")
        await store.close()

        again = await PostgresStore.open(postgres.dsn, clock=clock, rng=random.Random(4))
        assert await again.list("pods") == shown
        revisions = {record.key.name: record.revision for record in shown.records}
        assert acknowledged.items() <= revisions.items()
        assert revisions.keys() - acknowledged.keys() <= unknown
        await again.close()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _kill_after(child: "subprocess.Popen[str]", count: int) -> dict[str, int]:
    """Read acknowledgements, kill the child in full flight, and read what it still had said."""
    assert child.stdout is not None
    acknowledged: dict[str, int] = {}
    for line in child.stdout:
        if not line.endswith("\n"):
            break  # cut off by the kill
        name, revision = line.split()
        acknowledged[name] = int(revision)
        if len(acknowledged) == count:
            child.kill()
    child.wait()
    assert len(acknowledged) >= count
    return acknowledged


async def _until(holds: Callable[[], bool], timeout: float = WITHIN) -> None:
    async with asyncio.timeout(timeout):
        while not holds():
            await asyncio.sleep(0.01)


async def _when_back(store: PostgresStore, key: Key) -> Record:
    async with asyncio.timeout(WITHIN):
        while True:
            try:
                return await store.create(key, value())
            except StoreUnavailableError:
                await asyncio.sleep(0.02)
