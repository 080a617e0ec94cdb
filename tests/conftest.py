"""What holds for every test: it sees nothing of the person who runs it, and drawing examples may be slow, because all cores
are busy with other tests. Here alone live the fixtures of a whole run: one that a second conftest imports is made twice.
"""

import random
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path

import httpcore2
import psycopg
import pytest
import pytest_asyncio
import structlog
from doubles.clocks import StandingClock
from hypothesis import HealthCheck, configuration, settings
from integration.runners.ledger.rig import Bench
from integration.schemas import Schemas
from isolation import isolate
from outcome import Outcome

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcome", type=Path, help="write into this file which tests failed, and with what")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcome(config.getoption("--outcome")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(_TESTS).as_posix().startswith(_STAND_INS):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fixtures of a wider scope than a test see the empty folder and home, too: this one comes before them all."""
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, tmp_path_factory.mktemp("nobody"))
        yield


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
async def server() -> AsyncIterator[EmbeddedPostgres]:
    # Not pytest's own temporary folder: that one is closed to the account that the server runs as under root.
    folder = Path(tempfile.mkdtemp(prefix="paddock-tests-", dir=_in_memory()))
    folder.chmod(0o755)
    try:
        async with EmbeddedPostgres(folder / "pg", clock=SystemClock(), rng=random.Random(1)) as postgres:
            await _hurry(postgres.dsn)
            yield postgres
    finally:
        shutil.rmtree(folder)


def _in_memory() -> str | None:
    """Where files cost no disk, if there is room: each ledger of a test is some hundred files, and a run makes a thousand."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() and shutil.disk_usage(shared).free > 4 * 1024**3 else None


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
