"""The embedded Postgres as a process: it starts, stops, comes back, and never outlives its owner."""

import asyncio
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest
import pytest_asyncio

from paddock.base.clock import Clock, SystemClock
from paddock.embedded.postgres import (
    DataFolderInUseError,
    DiskFullError,
    EmbeddedPostgres,
    GivenPostgres,
    PostgresError,
    PostgresNotFoundError,
    PostgresNotStartingError,
)
from paddock.embedded.postgres.account import OsAccount, choose_account
from paddock.embedded.postgres.binaries import Binaries, candidates, choose, wheel_parts
from paddock.embedded.postgres.orphans import _workers, end_orphans, read_pid_file
from paddock.embedded.postgres.placement import Placement, place
from paddock.embedded.postgres.process import spawn

CHILD = Path(__file__).with_name("owning_child.py")
INTRUDER = Path(__file__).with_name("intruding_child.py")
as_root = os.geteuid() == 0


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every account may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-pg-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pattern() -> AsyncIterator[Path]:
    """A folder whose database has been set up, to copy from: setting one up takes a second, copying it a moment."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-pattern-"))
    folder.chmod(0o755)
    async with embedded(folder / "pg"):
        pass
    yield folder / "pg"
    shutil.rmtree(folder)


@pytest.fixture
def prepared(reachable: Path, pattern: Path) -> Path:
    """A folder whose database has been set up but is not running."""
    subprocess.run(["cp", "-a", pattern, reachable / "pg"], check=True)
    return reachable / "pg"


def embedded(folder: Path, **options: object) -> EmbeddedPostgres:
    return EmbeddedPostgres(folder, clock=SystemClock(), rng=random.Random(), **options)  # type: ignore[arg-type]


async def ask(dsn: str, question: str) -> object:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        cursor = await connection.execute(question.encode())
        row = await cursor.fetchone() if cursor.description else None
        return None if row is None else row[0]


async def until(holds: Callable[[], bool], timeout: float = 10) -> None:
    async with asyncio.timeout(timeout):
        while not holds():
            await asyncio.sleep(0.01)


def _ready(data: Path, pid: int | None) -> bool:
    status = read_pid_file(data)
    return status is not None and status.ready and status.pid == pid


@pytest.mark.slow
async def test_it_starts_answers_and_leaves_no_process_behind(reachable: Path) -> None:
    postgres = embedded(reachable / "pg")
    with pytest.raises(PostgresError, match="not started"):
        _ = postgres.dsn
    await postgres.start()
    assert await ask(postgres.dsn, "SELECT 6 * 7") == 42
    assert _workers(reachable / "pg" / "data")
    await postgres.stop()
    assert _workers(reachable / "pg" / "data") == []
    assert postgres.pid is None
    await postgres.stop()


async def test_what_was_written_is_there_after_a_restart(prepared: Path) -> None:
    async with embedded(prepared) as postgres:
        await ask(postgres.dsn, "CREATE TABLE t AS SELECT 7 AS n")
    async with embedded(prepared) as postgres:
        assert await ask(postgres.dsn, "SELECT n FROM t") == 7


@pytest.mark.slow
async def test_it_is_durable_private_and_off_the_network(prepared: Path) -> None:
    async with embedded(prepared) as postgres:
        for setting, expected in {
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "listen_addresses": "",
            "unix_socket_permissions": "0700",
            "shared_buffers": "64MB",
            "max_connections": "50",
            "server_encoding": "UTF8",
        }.items():
            assert await ask(postgres.dsn, f"SHOW {setting}") == expected
        assert stat.S_IMODE((prepared / "run").stat().st_mode) == 0o700
        assert stat.S_IMODE((prepared / "data").stat().st_mode) == 0o700
        assert postgres.pid is not None
        process = psutil.Process(postgres.pid)
        assert process.uids().effective != 0
        assert [c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN] == []
        assert os.getsid(postgres.pid) == postgres.pid  # Ctrl-C in our terminal does not reach it


@pytest.mark.slow
@pytest.mark.skipif(not as_root, reason="only root can try another account")
async def test_another_account_cannot_log_in_even_where_it_reaches_the_socket(prepared: Path) -> None:
    async with embedded(prepared) as postgres:
        (prepared / "run").chmod(0o777)
        (prepared / "run" / ".s.PGSQL.5432").chmod(0o777)
        tried = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, INTRUDER, postgres.dsn, "65534"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Peer authentication failed" in tried.stdout


@pytest.mark.slow
async def test_two_owners_of_one_folder_are_refused(prepared: Path) -> None:
    async with embedded(prepared) as postgres:
        with pytest.raises(DataFolderInUseError, match=f"process {os.getpid()}"):
            await embedded(prepared).start()
        assert await ask(postgres.dsn, "SELECT 1") == 1
    async with embedded(prepared):
        pass


@pytest.mark.slow
async def test_a_server_that_dies_comes_back_at_the_same_place(prepared: Path) -> None:
    async with embedded(prepared) as postgres:
        await ask(postgres.dsn, "CREATE TABLE t AS SELECT 7 AS n")
        dsn, first = postgres.dsn, postgres.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: postgres.pid not in (None, first))
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await ask(dsn, "SELECT n FROM t") == 7
                    break
                except psycopg.OperationalError:
                    await asyncio.sleep(0.02)
    assert _workers(prepared / "data") == []


async def test_a_server_comes_back_though_the_first_try_fails_in_a_way_that_nobody_thought_of(
    prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded(prepared) as postgres:
        killed, tries = postgres.pid, 0
        assert killed is not None

        async def first_hung(data: Path, clock: Clock) -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise subprocess.TimeoutExpired("/bin/ps", 10)
            await end_orphans(data, clock)

        monkeypatch.setattr("paddock.embedded.postgres.supervisor.end_orphans", first_hung)
        os.kill(killed, signal.SIGKILL)
        await until(lambda: postgres.pid not in (None, killed) and _ready(prepared / "data", postgres.pid))
        assert await ask(postgres.dsn, "SELECT 1") == 1
        assert tries == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
async def test_killing_the_owner_with_9_ends_the_server_too(prepared: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, CHILD, prepared], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    server = int(await asyncio.to_thread(child.stdout.readline))
    assert psutil.Process(server).name() == "postgres"
    child.kill()
    child.communicate()
    await until(lambda: _workers(prepared / "data") == [])
    async with embedded(prepared) as postgres:
        assert await ask(postgres.dsn, "SELECT 1") == 1


@pytest.mark.slow
async def test_a_server_left_behind_by_a_killed_owner_is_stopped_before_a_new_one_starts(prepared: Path) -> None:
    async with embedded(prepared) as postgres:
        placement = postgres._placed
        await ask(postgres.dsn, "CREATE TABLE t AS SELECT 7 AS n")
    # As if the owner had been killed where the kernel does not tell its children.
    with (prepared / "orphan.log").open("wb") as log:
        orphan = spawn(
            [
                placement.binaries.postgres,
                "-D",
                placement.data,
                "-c",
                "listen_addresses=",
                "-c",
                "unix_socket_directories=",
            ],
            placement.account,
            log,
        )
    await until((placement.data / "postmaster.pid").exists)
    async with embedded(prepared) as postgres:
        assert orphan.wait(1) is not None
        assert await ask(postgres.dsn, "SELECT n FROM t") == 7


@pytest.mark.slow
async def test_a_stale_pid_file_that_names_a_stranger_is_healed_and_the_stranger_is_left_alone(prepared: Path) -> None:
    async with embedded(prepared) as postgres:
        account = postgres._placed.account
    data = prepared / "data"
    # The same account as the server's: Postgres itself would take this process for its predecessor and refuse.
    stranger = subprocess.Popen(["sleep", "60"], cwd="/", **account.popen_options())
    try:
        (data / "postmaster.pid").write_text(f"{stranger.pid}\n{data}\n1700000000\n5432\n/nowhere\n\n  1 2\nready   \n")
        os.chown(data / "postmaster.pid", account.uid, account.gid)
        async with embedded(prepared) as postgres:
            assert await ask(postgres.dsn, "SELECT 1") == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_full_disk_is_one_sentence_and_its_remedy(reachable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = reachable / "bin"
    programs.mkdir(mode=0o755)
    initdb = programs / "initdb"
    # What initdb 18 says on a file system that is full.
    initdb.write_text(
        "#!/bin/sh\n"
        "echo 'running bootstrap script ... FATAL:  could not extend file \"base/1/2691\": No space left on device'\n"
        "echo 'HINT:  Check free disk space.'; exit 1\n"
    )
    initdb.chmod(0o755)

    def placed(folder: Path, rng: random.Random, shared_root: Path) -> Placement:
        found = place(folder, rng, shared_root)
        return replace(found, binaries=replace(found.binaries, folder=programs))

    monkeypatch.setattr("paddock.embedded.postgres.supervisor.place", placed)
    with pytest.raises(
        DiskFullError, match=r"^the disk of \S+ is full: free some space, or choose another data folder$"
    ):
        await embedded(reachable / "pg").start()


@pytest.mark.slow
async def test_half_a_database_left_by_an_interrupted_first_start_is_made_anew(reachable: Path) -> None:
    (reachable / "pg" / "data.new" / "base").mkdir(parents=True)
    (reachable / "pg" / "data.new" / "PG_VERSION").write_text("18\n")
    async with embedded(reachable / "pg") as postgres:
        assert await ask(postgres.dsn, "SELECT 1") == 1


@pytest.mark.slow
async def test_a_folder_with_a_long_path_gets_its_socket_in_a_temporary_folder_which_goes_away(reachable: Path) -> None:
    deep = reachable / ("deep" * 20) / ("er" * 40)
    async with embedded(deep) as postgres:
        socket = postgres._socket
        assert socket is not None
        assert not socket.is_relative_to(deep)
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
        assert await ask(postgres.dsn, "SELECT 1") == 1
    assert not socket.exists()
    # One that a killed owner left behind goes at the next start.
    socket.mkdir()
    if as_root:
        os.chown(socket, postgres._placed.account.uid, -1)
    (deep / "socket").write_text(f"{socket}\n")
    async with embedded(deep):
        assert not socket.exists()


@pytest.mark.slow
async def test_a_server_that_cannot_start_is_explained_by_its_own_log(prepared: Path) -> None:
    async with embedded(prepared):
        pass
    (prepared / "data" / "global" / "pg_control").unlink()
    postgres = embedded(prepared)
    with pytest.raises(PostgresNotStartingError, match="pg_control"):
        await postgres.start()
    assert postgres.pid is None
    with pytest.raises(PostgresNotStartingError):  # the lock was let go of
        await postgres.start()


@pytest.mark.slow
@pytest.mark.skipif(not as_root, reason="only root lends accounts")
async def test_below_a_folder_closed_to_others_root_keeps_data_elsewhere_and_opens_nothing(reachable: Path) -> None:
    closed = reachable / "closed"
    closed.mkdir(mode=0o700)
    shared = reachable / "shared"
    async with embedded(closed / "pg", shared_root=shared) as postgres:
        await ask(postgres.dsn, "CREATE TABLE t AS SELECT 7 AS n")
        assert postgres._placed.data.is_relative_to(shared)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    async with embedded(closed / "pg", shared_root=shared) as postgres:
        assert await ask(postgres.dsn, "SELECT n FROM t") == 7
    # Who removes the folder begins anew; the old data stay, and say whose they were.
    shutil.rmtree(closed / "pg")
    async with embedded(closed / "pg", shared_root=shared) as postgres:
        assert await ask(postgres.dsn, "SELECT to_regclass('t')::text") is None
    assert [origin.read_text().strip() for origin in shared.glob("*/origin")] == [str(closed / "pg")] * 2


@pytest.mark.slow
@pytest.mark.skipif(not as_root, reason="only root lends accounts")
async def test_programs_closed_to_the_servers_account_are_copied_to_where_it_can_run_them(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = next((found for found in candidates() if found.from_wheel), None)
    if wheel is None:
        pytest.skip("the wheel with the programs is not installed")
    package = wheel.folder.parent.parent
    closed = reachable / "closed"
    closed.mkdir(mode=0o700)
    for part in wheel_parts(wheel):
        shutil.copytree(part, closed / part.relative_to(package.parent), symlinks=True)
    hidden = Binaries(closed / wheel.folder.relative_to(package.parent), wheel.major, from_wheel=True)
    monkeypatch.setattr("paddock.embedded.postgres.placement.candidates", lambda: iter([hidden]))
    for _ in range(2):
        async with embedded(closed / "pg", shared_root=reachable / "shared") as postgres:
            assert await ask(postgres.dsn, "SELECT 1") == 1
            assert postgres._placed.binaries.folder.is_relative_to(reachable / "shared")


@pytest.mark.slow
@pytest.mark.skipif(not as_root, reason="it takes root to become someone else")
async def test_it_works_as_an_ordinary_user(reachable: Path) -> None:
    home = reachable / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    child = subprocess.Popen(
        [sys.executable, CHILD, home / "pg", "65534"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    server = int(await asyncio.to_thread(child.stdout.readline))
    assert psutil.Process(server).uids().effective == 65534
    child.communicate(timeout=60)
    assert child.returncode == 0
    assert _workers(home / "pg" / "data") == []


def test_programs_must_fit_the_data() -> None:
    found = [Binaries(Path("/a"), 18), Binaries(Path("/b"), 15), Binaries(Path("/c"), 9)]
    assert choose(found, None) == found[:2]
    assert choose(found, 15) == [found[1]]
    with pytest.raises(PostgresNotFoundError, match="install Postgres 16"):
        choose(found, 16)
    with pytest.raises(PostgresNotFoundError, match="give a DSN"):
        choose([], None)


@pytest.mark.skipif(not as_root, reason="only root lends accounts")
def test_the_account_that_owns_the_data_is_the_one_that_serves_them(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    assert choose_account(tmp_path).uid == 65534
    assert choose_account(tmp_path / "none yet").uid != 0


async def test_a_given_server_is_left_to_others_and_its_dsn_does_not_show() -> None:
    given = GivenPostgres("postgresql://paddock:hunter2@db.example/paddock")
    await given.start()
    await given.stop()
    assert given.dsn.endswith("@db.example/paddock")
    assert "hunter2" not in repr(given)


def test_an_account_of_our_own_is_used_as_it_is(tmp_path: Path) -> None:
    own = OsAccount("me", os.geteuid(), os.getegid(), "me", lent=False)
    own.give(tmp_path)
    assert own.reaches(tmp_path)
    assert own.popen_options() == {}
