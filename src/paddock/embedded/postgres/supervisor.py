"""Runs a Postgres for as long as we live: sets it up, starts it, starts it again when it dies, and stops it."""

import asyncio
import fcntl
import os
import random
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

from psycopg.conninfo import make_conninfo

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.embedded.postgres import process as processes
from paddock.embedded.postgres.errors import (
    DataFolderInUseError,
    DiskFullError,
    PostgresError,
    PostgresNotStartingError,
)
from paddock.embedded.postgres.orphans import end_orphans, read_pid_file
from paddock.embedded.postgres.placement import SHARED_ROOT, Placement, make_home, place, socket_folder

__all__ = ["EmbeddedPostgres", "GivenPostgres", "PostgresServer"]

_USER = "paddock"
_RESTART = Backoff(base=0.1, cap=5.0)
_HEALTHY_AFTER = 60.0
_LARGEST_LOG = 10_000_000
_SOCKET_NAMES = (".s.PGSQL.5432", ".s.PGSQL.5432.lock")
_NO_SPACE = "No space left on device"

_log = get_logger("postgres")


class PostgresServer(Protocol):
    """A database to connect to between `start` and `stop`."""

    @property
    def dsn(self) -> str:
        """What psycopg connects to. It may hold a password: never log it."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class GivenPostgres:
    """Someone else's server, by DSN; nothing of it is supervised."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @property
    def dsn(self) -> str:
        return self._dsn

    async def start(self) -> None:
        """There is nothing to start; whoever connects learns whether the server is there."""

    async def stop(self) -> None:
        """The server is not ours to stop."""


class EmbeddedPostgres:
    """A private Postgres in `folder`, reached over a socket that only this user can open.

    After `start`, the server answers at `dsn`; if it dies it comes back, at the same `dsn`. After `stop`, no process is
    left. When this process is killed, the server shuts down by itself on Linux, and elsewhere the next `start` sees to
    that. One supervisor has a folder at a time. Start and stop it from the main thread's event loop.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock,
        rng: random.Random,
        start_timeout: float = 60.0,
        stop_timeout: float = 5.0,
        shared_root: Path = SHARED_ROOT,
    ) -> None:
        self._folder = folder.resolve()
        self._clock = clock
        self._rng = rng
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._shared_root = shared_root.resolve()
        self._lock: int | None = None
        self._placement: Placement | None = None
        self._socket: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def dsn(self) -> str:
        if self._socket is None:
            raise PostgresError("the embedded Postgres is not started")
        return make_conninfo(host=str(self._socket), port=5432, user=_USER, dbname="postgres")

    @property
    def pid(self) -> int | None:
        """The server's process, while there is one."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def log_file(self) -> Path:
        return self._folder / "postgres.log"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Set the database up if there is none, clear up after a killed predecessor, and wait until it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = _take(self._folder / "lock")
        try:
            placement = await asyncio.to_thread(place, self._folder, self._rng, self._shared_root)
            self._placement = placement
            await end_orphans(placement.data, self._clock)
            self._discard_old_socket()
            if not (placement.data / "PG_VERSION").exists():
                await self._make_data(placement)
            self._socket = await asyncio.to_thread(socket_folder, self._folder, placement.account)
            (self._folder / "socket").write_text(f"{self._socket}\n", encoding="utf-8")
            await self._launch()
        except BaseException:
            await self.stop()
            raise
        self._keeper = asyncio.create_task(self._keep_running(), name="postgres supervisor")

    async def stop(self) -> None:
        """Stop the server and let go of the folder. Calling it again does nothing."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})
        if self._process is not None:
            await processes.stop(self._process, self._clock, self._stop_timeout)
            self._process = None
        if self._socket is not None:
            self._discard_old_socket()
            self._socket = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _make_data(self, placement: Placement) -> None:
        """Make a new database beside its place and move it there complete: a partial database is never found later."""
        draft = placement.data.with_name("data.new")
        await asyncio.to_thread(shutil.rmtree, draft, ignore_errors=True)
        make_home(placement.data, self._folder)
        draft.mkdir(mode=0o700)
        placement.account.give(draft)
        arguments = ["--encoding=UTF8", "--no-locale", "--auth=reject", f"--username={_USER}", f"--pgdata={draft}"]
        # initdb flushes everything to the disk before it ends; leaving that out would save a tenth of a second.
        await self._run_to_end([placement.binaries.initdb, *arguments])
        draft.rename(placement.data)
        parent = os.open(placement.data.parent, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    async def _run_to_end(self, arguments: list[str | Path]) -> None:
        with self._open_log() as output:
            said = output.tell()
            process = processes.spawn(arguments, self._placed.account, output)
            try:
                finished = await processes.ended(process, self._clock, self._start_timeout)
            except BaseException:
                process.kill()
                raise
            if not finished:
                process.kill()
                raise self._failure(f"{Path(arguments[0]).name} takes too long", said)
            if process.returncode != 0:
                raise self._failure(f"{Path(arguments[0]).name} ended with status {process.returncode}", said)

    async def _launch(self) -> None:
        """Start the server and wait until it accepts connections."""
        placement, socket = self._placed, self._socket
        assert socket is not None
        self._write_access_rules(placement)
        for name in _SOCKET_NAMES:  # of a killed server; its lock could name a process id that is someone else's now
            (socket / name).unlink(missing_ok=True)
        chosen = processes.settings(placement.binaries.major, socket, placement.data.parent)
        options = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
        with self._open_log() as output:
            said = output.tell()
            process = processes.spawn(
                [placement.binaries.postgres, "-D", placement.data, *options], placement.account, output
            )
        self._process = process
        deadline = self._clock.monotonic() + self._start_timeout
        while True:
            status = read_pid_file(placement.data)
            if status is not None and status.ready and status.pid == process.pid:
                return
            if process.poll() is not None:
                raise self._failure(f"Postgres ended with status {process.returncode} before it was ready", said)
            if self._clock.monotonic() >= deadline:
                raise self._failure(f"Postgres is not ready after {self._start_timeout:.0f} s", said)
            await self._clock.sleep(0.01)

    def _write_access_rules(self, placement: Placement) -> None:
        """Only our own user may log in, and the kernel vouches for who that is: written anew at every start.

        Beside the data, not among them: root must not write where another account could have laid a link.
        """
        rules = {
            "pg_hba.conf": "local all all peer map=paddock\n",
            "pg_ident.conf": f'paddock "{placement.account.client}" {_USER}\n',
        }
        for name, text in rules.items():
            file = placement.data.parent / name
            file.write_text(text, encoding="utf-8")
            file.chmod(0o644)  # whatever the umask says, the server has to read them; there is no secret in them

    async def _keep_running(self) -> None:
        """Start the server again whenever it ends by itself."""
        failures = 0
        while True:
            process = self._process
            if process is not None:
                started = self._clock.monotonic()
                while not await processes.ended(process, self._clock, 3600.0, poll=0.1):
                    pass
                if self._clock.monotonic() - started > _HEALTHY_AFTER:
                    failures = 0
                _log.error("Postgres ended by itself; starting it again", status=process.returncode)
                self._process = None
            failures += 1
            await self._clock.sleep(_RESTART.delay(failures, self._rng))
            try:
                await end_orphans(self._placed.data, self._clock)
                await self._launch()
            except Exception as error:  # noqa: BLE001 - logged and tried again: nobody else would start the server
                _log.error("Postgres does not start", error=str(error), failures=failures)
                if self._process is not None:
                    await processes.stop(self._process, self._clock, self._stop_timeout)
                    self._process = None

    @property
    def _placed(self) -> Placement:
        assert self._placement is not None
        return self._placement

    def _discard_old_socket(self) -> None:
        """Remove the socket's folder, this run's or a killed one's, if it was a temporary one."""
        note = self._folder / "socket"
        if not note.exists():
            return
        folder = Path(note.read_text(encoding="utf-8").strip())
        # Nothing but what we made is removed: our kind of name, our account's folder, our two files.
        if folder.name.startswith("paddock-") and folder.is_dir() and folder.stat().st_uid == self._placed.account.uid:
            for name in _SOCKET_NAMES:
                (folder / name).unlink(missing_ok=True)
            try:
                folder.rmdir()
            except OSError as error:
                _log.warning("a temporary socket folder is left over", folder=str(folder), error=str(error))
        note.unlink()

    def _open_log(self) -> IO[bytes]:
        if self.log_file.exists() and self.log_file.stat().st_size > _LARGEST_LOG:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        return self.log_file.open("ab")

    def _failure(self, what: str, said: int) -> PostgresError:
        """Why it did not start, by the end of what was written to the log since `said`."""
        with self.log_file.open("rb") as log:
            log.seek(said)
            lines = log.read().decode(errors="replace").strip().splitlines()[-8:]
        if any(_NO_SPACE in line for line in lines):
            return DiskFullError(f"the disk of {self._folder} is full: free some space, or choose another data folder")
        told = "\n".join(f"  {line}" for line in lines) or "  (nothing)"
        return PostgresNotStartingError(f"{what}; its log ({self.log_file}) ends with:\n{told}")


def _take(path: Path) -> int:
    """Lock a file for as long as this process lives; no child inherits it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.read(handle, 20).decode(errors="replace").strip() or "unknown"
        os.close(handle)
        raise DataFolderInUseError(
            f"{path.parent} is in use by another Paddock (process {owner}): stop it, or choose another data folder"
        ) from error
    os.truncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    return handle
