"""The soak at a size that fits among the tests: its judge is content, and can complain."""

import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from paddock.kube.builtin import Pod, PodSpec
from paddock.kube.objects import ObjectMeta
from paddock.kube.store import CacheChange
from paddock.simulator.process import World, simulate

_ROOT = Path(__file__).resolve().parents[2]


def _soak(macs: int, hours: float, jobs: int) -> "subprocess.Popen[str]":
    asked = {"SOAK_MACS": str(macs), "SOAK_HOURS": str(hours), "SOAK_JOBS": str(jobs)}
    return subprocess.Popen(
        [sys.executable, "-m", "bench", "--part", "soak:soak"],
        cwd=_ROOT,
        env={**os.environ, **asked},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _verdict(soak: "subprocess.Popen[str]") -> dict[str, str]:
    """Its rows: what is told, in a value and a note."""
    out, err = soak.communicate(timeout=1800)
    assert soak.returncode == 0, err[-3000:]
    rows = [json.loads(line) for line in out.splitlines()]
    return {row["what"]: f"{row['value']} {row['note']}" for row in rows}


@pytest.mark.slow
def test_an_hour_of_a_small_fleet_with_faults_loses_no_job() -> None:
    told = _verdict(_soak(10, 1, 120))
    assert any(what.endswith("120 jobs") for what in told)
    lost = told["  jobs lost, by GitHub's view"]
    assert lost.startswith("0 ")
    assert "processes were killed" in lost


@pytest.mark.slow
def test_whoever_has_seen_enough_gets_a_verdict_on_what_ran() -> None:
    soak = _soak(5, 1_000, 100_000)
    assert soak.stderr is not None
    begun = next(line for line in soak.stderr if line.startswith("soak: 0.08 h"))
    soak.send_signal(signal.SIGTERM)
    told = _verdict(soak)
    assert "0 lost" in begun
    assert told["  jobs lost, by GitHub's view"].startswith("0 ")
    (ran,) = (what for what in told if what.startswith("soak:"))
    assert 0 < int(ran.split()[-2].replace(",", "")) < 1_000
    assert "smaller than the goal" in told[ran]


def test_the_judge_of_the_soak_can_complain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is proven by a judge that is always content."""
    monkeypatch.syspath_prepend(str(_ROOT))
    soak = importlib.import_module("bench.soak")  # no package of the tests' own
    judged, soaked = soak.judged, soak.Soaked
    assert judged(soaked(by_runner=2, by_faults=2, memory=[90, 100, 100, 100, 101])) == []
    assert "1 jobs were lost" in judged(soaked(by_runner=3, by_faults=2))[0]
    assert "1 jobs were lost" in judged(soaked(never=["job 7 is queued"]))[0]
    assert "1 jobs were lost" in judged(soaked(twice=[7]))[0]
    assert "left behind" in judged(soaked(left=["a claim of Pod p"]))[0]
    assert "memory grew" in judged(soaked(memory=[90, 100, 100, 120, 140]))[0]


def test_a_pod_that_starts_when_its_mac_has_power_again_ends_with_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge gives the power back, and is of no process: a Pod that waits after that must not outlive the run."""
    monkeypatch.syspath_prepend(str(_ROOT))
    soak_world = importlib.import_module("bench.soak_world")
    begun: list[str] = []

    class Macs(soak_world.Kubelets):
        def __init__(self) -> None:
            self._dark, self._lives, self._outside = set(), {}, None
            self._pods = SimpleNamespace(run=asyncio.Event().wait)

        async def _life(self, pod: Pod) -> None:
            begun.append(pod.metadata.name)
            await asyncio.Event().wait()

    async def scenario(world: World) -> None:
        macs = Macs()
        world.process("outside", macs.run)
        await world.clock.sleep(1)
        bound = Pod(metadata=ObjectMeta(name="p", uid="u"), spec=PodSpec(node_name="mac-1"))
        macs._see(CacheChange("added", None, bound))
        await world.clock.sleep(1)

    simulate(scenario, seed=1)
    assert begun == ["p"]
