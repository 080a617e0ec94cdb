"""What takes longest begins first, on each worker, and every test runs."""

from pathlib import Path

import pytest
from dealing import LONGEST, dealt

TESTS = Path(__file__).resolve().parents[1]
CONFTEST = """
import os
from pathlib import Path

from dealing import dealt

HERE = Path(__file__).parent

def pytest_collection_modifyitems(items):
    path = lambda item: item.path.relative_to(HERE).as_posix()
    items[:] = dealt(items, path, int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))

def pytest_runtest_logreport(report):
    if report.when == "call" and "PYTEST_XDIST_WORKER" in os.environ:
        with (HERE / os.environ["PYTEST_XDIST_WORKER"]).open("a") as ran:
            ran.write(report.nodeid + "\\n")
"""
TEST = """
import time

import pytest

@pytest.mark.parametrize("number", range({count}))
def test_it(number):
    time.sleep({seconds})
"""


@pytest.mark.parametrize("start", LONGEST)
def test_what_is_called_long_is_there(start: str) -> None:
    assert (TESTS / start).exists()


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("longest", [0, 1, 4, 11])
@pytest.mark.parametrize("others", [0, 2, 100])
def test_every_test_is_dealt_once_and_the_others_keep_their_order(workers: int, longest: int, others: int) -> None:
    tests = [*(f"unit/{number:03}" for number in range(others)), *(f"operations/{number}" for number in range(longest))]
    found = dealt(tests, str, workers)
    assert sorted(found) == sorted(tests)
    assert [test for test in found if test.startswith("unit/")] == tests[:others]


def test_every_worker_of_a_real_session_begins_with_a_long_one(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    for name, count, seconds in (("unit", 60, 0.0), ("operations", 6, 0.2)):
        folder = pytester.mkdir(name)
        (folder / f"test_{name}.py").write_text(TEST.format(count=count, seconds=seconds))
    done = pytester.runpytest_subprocess(
        "-q", "-n", "3", "--dist", "worksteal", "-p", "no:cacheprovider", "-o", f"pythonpath={TESTS}"
    )
    done.assert_outcomes(passed=66)
    ran = [(pytester.path / f"gw{worker}").read_text().splitlines() for worker in range(3)]
    assert all("operations" in first for worker in ran for first in worker[:2])
