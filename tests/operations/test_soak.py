"""The soak at a size that fits among the tests: its judge is content, and can complain."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_an_hour_of_a_small_fleet_with_faults_loses_no_job() -> None:
    asked = {"SOAK_MACS": "10", "SOAK_HOURS": "1", "SOAK_JOBS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--part", "soak:soak"],
        cwd=_ROOT,
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert "120 jobs" in rows[0]["what"]
    lost = next(row for row in rows if "jobs lost" in row["what"])
    assert lost["value"] == "0", lost
    assert "processes were killed" in lost["note"]


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
