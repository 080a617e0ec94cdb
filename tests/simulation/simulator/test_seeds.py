"""The decorator that runs a test for many seeds."""

import asyncio
import os
import subprocess
import sys

import pytest

from paddock.simulator.process import World
from paddock.simulator.seeds import chosen_seeds, simulated


@pytest.fixture
def greeting() -> str:
    return "hello"


@simulated(seeds=7)
async def test_a_simulated_test_may_use_fixtures_its_seed_and_a_world(greeting: str, seed: int, world: World):
    assert greeting == "hello"
    assert world.seed == seed
    await asyncio.sleep(3600)
    assert world.clock.monotonic() == 3600


def test_the_environment_widens_the_seeds_cuts_them_or_names_one(monkeypatch):
    for name in ("PADDOCK_SIM_SEED", "PADDOCK_SIM_SEEDS", "PADDOCK_SIM_AT_MOST"):
        monkeypatch.delenv(name, raising=False)
    assert chosen_seeds(3) == [0, 1, 2]
    assert chosen_seeds([5, 9]) == [5, 9]
    monkeypatch.setenv("PADDOCK_SIM_SEEDS", "4")
    assert chosen_seeds(3) == [0, 1, 2, 3]
    assert chosen_seeds([5, 9]) == [5, 9, 0, 1]
    assert chosen_seeds(10) == list(range(10)), "this one widens, it never narrows"
    monkeypatch.delenv("PADDOCK_SIM_SEEDS")
    monkeypatch.setenv("PADDOCK_SIM_AT_MOST", "1")
    assert chosen_seeds(3) == [0]
    assert chosen_seeds([5, 9]) == [5]
    monkeypatch.setenv("PADDOCK_SIM_SEED", "17")
    assert chosen_seeds(3) == [17]
    monkeypatch.setenv("PADDOCK_SIM_SEED", "many")
    with pytest.raises(ValueError, match="PADDOCK_SIM_SEED must be a whole number, not 'many'"):
        chosen_seeds(3)


@pytest.mark.slow
def test_a_failing_seed_is_printed_with_the_command_that_runs_it_alone(tmp_path):
    test = tmp_path / "test_unlucky.py"
    test.write_text(
        "from paddock.simulator.seeds import simulated\n"
        "@simulated(seeds=20)\n"
        "async def test_unlucky(seed):\n"
        "    assert seed % 20 != 13\n"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PADDOCK_SIM", "PYTEST"))}

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_unlucky.py"]
    failed = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert failed.returncode == 1
    assert "seed 13\n" in failed.stdout.replace("E   ", "").replace("  ", "")
    assert "13 of 20 seeds passed before" in failed.stdout
    assert "PADDOCK_SIM_SEED=13 pytest test_unlucky.py::test_unlucky" in failed.stdout


def test_the_named_seed_runs_alone(monkeypatch):
    ran: list[int] = []

    @simulated(seeds=20)
    async def unlucky(seed: int):
        ran.append(seed)
        assert seed != 13

    monkeypatch.setenv("PADDOCK_SIM_SEED", "13")
    with pytest.raises(AssertionError):
        unlucky()
    monkeypatch.setenv("PADDOCK_SIM_SEED", "12")
    unlucky()
    assert ran == [13, 12]
