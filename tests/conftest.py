"""What holds for every test: it sees nothing of the person who runs it, and drawing examples may be slow, because all cores
are busy with other tests. Here alone live the fixtures of a whole run: one that a second conftest imports is made twice.
"""

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path

import httpcore2
import psycopg
import pytest
import pytest_asyncio
import structlog
from dealing import dealt
from doubles.clocks import StandingClock
from hypothesis import HealthCheck, configuration, settings
from integration.runners.ledger.rig import Bench
from integration.schemas import Schemas
from isolation import isolate
from outcome import Outcome
from watchdog import processes_of, watch

from paddock.base.clock import SystemClock
from paddock.embedded.postgres import EmbeddedPostgres

# A shell that runs us in the background ignores Ctrl-C, and every program that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Some tests run pytest itself.
pytest_plugins = ["pytester"]
# What these assert is explained as in a test; they must be named before anybody imports them.
pytest.register_assert_rewrite("conformance.cases", "conformance.commands", "conformance.kubectl", "conformance.target")
# Before tests move to another folder: what failed is remembered in the checkout, as always.
configuration.set_hypothesis_home_dir(Path(__file__).resolve().parents[1] / ".hypothesis")
settings.register_profile("paddock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("paddock")
# What plays the parts of others is changed seldom, and everything else would fail with it: `test-slow` tries it by itself.
_STAND_INS = ("conformance", "integration/simulator", "integration/tart", "simulation/simulator", "unit/simulator")
_TESTS = Path(__file__).resolve().parent
# Processes whose end a test has asked for and not awaited.
_ENDED_WITHIN = 30.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcome", type=Path, help="write into this file which tests failed, and with what")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcome(config.getoption("--outcome")))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        if _path(item).startswith(_STAND_INS):
            item.add_marker(pytest.mark.slow)
    yield  # `-m` and `-k` leave out what was not asked for
    items[:] = dealt(items, _path, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _path(item: pytest.Item) -> str:
    return item.path.relative_to(_TESTS).as_posix()


@pytest.fixture(scope="session", autouse=True)
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where temporary files of this run lie, open to every account; with the run ends all that was started with it.

    Fixtures of a wider scope than a test see the empty folder and home, too: this one comes before them all.
    """
    kept = tmp_path_factory.mktemp("nobody")
    folder = Path(tempfile.mkdtemp(prefix="pdk-"))
    folder.chmod(0o755)
    marks = [str(folder), f"{kept.parent}/"]
    watchdog = watch(marks, [folder, _in_memory(folder)])
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, kept)
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder
    until = time.monotonic() + _ENDED_WITHIN
    while (left := processes_of(marks)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left, f"the tests are over, and what they have started still runs: {left}"
    if watchdog is not None:
        watchdog.kill()
        watchdog.wait()
    for each in (folder, _in_memory(folder)):
        shutil.rmtree(each, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def authorities_read_once() -> Iterator[None]:
    """Each client of a test would read the authorities of the whole web first, which takes longer than most tests."""
    read = cache(httpcore2.default_ssl_context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", read)
        yield


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command that ran inside a test must not decide what the next test hears of the logs."""
    yield
    structlog.reset_defaults()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(run_folder: Path) -> AsyncIterator[EmbeddedPostgres]:
    folder = _in_memory(run_folder)
    # Where files cost no disk, if there is room: each ledger of a test is some hundred files, and a run makes a thousand.
    if not folder.parent.is_dir() or shutil.disk_usage(folder.parent).free < 4 * 1024**3:
        folder = run_folder
    folder.mkdir(mode=0o755, exist_ok=True)
    try:
        async with EmbeddedPostgres(folder / "pg", clock=SystemClock(), rng=random.Random(1)) as postgres:
            await _hurry(postgres.dsn)
            yield postgres
    finally:
        shutil.rmtree(folder / "pg")


def _in_memory(folder: Path) -> Path:
    return Path("/dev/shm") / folder.name


async def _hurry(dsn: str) -> None:
    """Nobody pulls the plug of this server, so no commit waits for the disk; the durable one has tests of its own."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("ALTER ROLE CURRENT_USER SET synchronous_commit = off")


@pytest.fixture(scope="session")
def schemas(server: EmbeddedPostgres) -> Iterator[Schemas]:
    schemas = Schemas(server.dsn)
    yield schemas
    schemas.close()


@pytest_asyncio.fixture
async def bench(schemas: Schemas) -> AsyncIterator[Bench]:
    """A ledger whose wall clock stands until it is told to move."""
    clock = StandingClock()
    schema = schemas.take()
    async with schemas.ledger(schema, clock, random.Random(7)) as ledger:
        bench = Bench(ledger, clock, schemas.kept, schema)
        yield bench
        problems = await bench.problems()
        await bench.aclose()
        assert problems == []
    await schemas.give_back(schema)
