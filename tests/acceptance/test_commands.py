"""The commands that look, typed in the folder of a real `paddock up --simulate`, as a person would type them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acceptance.instance import PADDOCK, Instance, eventually, running

pytestmark = pytest.mark.slow

KINDS = ("hosts", "machines", "fleets", "pools", "pods", "nodes", "jobs", "claims", "accounts", "heals")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a Paddock runs that has Macs, Pods and jobs to show."""
    here = tmp_path_factory.mktemp("commands")
    with running(here / ".paddock", "--hosts", "4", "--seed", "7") as instance:
        _busy(instance, here)
        yield here


def _busy(instance: Instance, here: Path) -> None:
    instance.all_bound(4, ready=True)
    eventually("a job runs", lambda: "running" in typed(here, "get", "jobs").stdout, within=60, every=0.5)


def typed(here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PADDOCK), *words],
        cwd=here,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def shown(here: Path, *words: str) -> Any:
    outcome = typed(here, *words, "-o", "json")
    assert outcome.returncode in (0, 3), outcome.stderr
    return json.loads(outcome.stdout)


def first(here: Path, kind: str) -> str:
    return typed(here, "get", kind, "-o", "name").stdout.splitlines()[0].partition("/")[2]


def test_status_fits_one_screen_and_its_exit_code_says_whether_all_is_well(folder: Path) -> None:
    outcome = typed(folder, "status")
    healthy = not outcome.stdout.startswith("Not healthy: ")
    assert outcome.returncode == (0 if healthy else 3), outcome.stdout + outcome.stderr
    assert "hosts ready              4 of 4" in outcome.stdout
    assert "jobs killed in 24 h      0" in outcome.stdout
    assert len(outcome.stdout.splitlines()) < 50


@pytest.mark.parametrize("kind", [*KINDS[:2], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[2:])])
def test_every_kind_is_listed_for_people_and_for_scripts(folder: Path, kind: str) -> None:
    outcome = typed(folder, "get", kind, "-o", "wide")
    assert outcome.returncode == 0, outcome.stderr
    assert isinstance(shown(folder, "get", kind)["items"], list)


@pytest.mark.parametrize(
    "kind",
    ["host", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("machine", "fleet", "pool", "node")), "job"],
)
def test_one_of_everything_is_described_and_explained(folder: Path, kind: str) -> None:
    name = first(folder, f"{kind}s")
    outcome = typed(folder, "describe", kind, name)
    assert outcome.returncode == 0, outcome.stderr
    assert "the same without paddock" in outcome.stdout
    if kind != "node":
        assert typed(folder, "why", kind, name).stdout.startswith(f"{kind} {name}: ")


def test_a_waiting_or_running_job_says_why(folder: Path) -> None:
    job = first(folder, "jobs")
    answer = shown(folder, "why", "job", job)
    assert answer["sentence"]
    assert {item["ledger"] for item in answer["evidence"]} >= {"database"}


def test_the_tree_events_sweep_and_leaks_are_shown(folder: Path) -> None:
    assert typed(folder, "tree").stdout.startswith("fleet mac-fleet  4 of 4 ready")
    assert "Adopted" in typed(folder, "events", "--limit", "200").stdout
    assert "4 hosts: 4 owned" in typed(folder, "sweep").stdout
    leaks = typed(folder, "leaks")
    assert leaks.returncode in (0, 3), leaks.stderr


def test_the_doctor_finds_nothing_wrong(folder: Path) -> None:
    checks = shown(folder, "doctor")["items"]
    assert [check for check in checks if check["state"] == "problem"] == []
    assert {"cluster", "clock", "definitions", "dispatch service", "database", "your rights"} <= {
        check["about"] for check in checks if check["state"] == "ok"
    }


def test_a_folder_without_paddock_is_told_how_to_name_one(tmp_path: Path) -> None:
    outcome = typed(tmp_path, "get", "jobs", "--server", "http://127.0.0.1:1")
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("paddock: ")
    assert "Traceback" not in outcome.stderr
