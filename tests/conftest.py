"""What holds for every test: it sees nothing of the person who runs it, and drawing examples may be slow, because all cores
are busy with other tests.
"""

import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import httpcore2
import pytest
import structlog
from hypothesis import HealthCheck, configuration, settings
from isolation import isolate
from outcome import Outcome

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
