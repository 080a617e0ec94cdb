"""The simulated world outlives Paddock: Macs, VMs and GitHub go on through a `kill -9`, as the real ones would."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from acceptance.instance import MACHINES, Instance, eventually, running

pytestmark = pytest.mark.slow

MACS = 2
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
OPTIONS = ("--hosts", str(MACS), "--jobs", "0")
JOBS = 3
DURATION = 1600.0
"""Simulated seconds: eight real ones, long enough to be killed in."""


def statuses(paddock: Instance) -> set[str]:
    return {job["status"] for job in paddock.github_jobs().values()}


def all_over(paddock: Instance, ids: set[int]) -> dict[int, Any] | None:
    jobs = paddock.github_jobs()
    return jobs if all(jobs[each]["status"] == "completed" for each in ids) else None


def kill_and_wait(paddock: Instance) -> None:
    world = paddock.world()
    assert world is not None
    paddock.kill()
    eventually("Postgres goes by itself", lambda: not paddock.left_over(world=False), within=30)
    assert world.is_running(), "the world does not go with Paddock"


def judge(paddock: Instance, ids: set[int]) -> None:
    """Every job succeeded, once; and whatever is shown as running is in the journal of a Mac that is there."""
    jobs = eventually("every job is over", lambda: all_over(paddock, ids), within=120, every=0.5)
    assert {(jobs[each]["conclusion"], jobs[each]["starts"]) for each in ids} == {("success", 1)}

    def nothing_seems_to_run() -> bool:
        nodes = {node["metadata"]["name"] for node in paddock.items(NODES)}
        journals = {
            file.parent.name for file in (paddock.data / "macs").glob("*/root/Users/*/.paddock/node/vms/*/pod.json")
        }
        shown = [pod for pod in paddock.items(PODS) if pod.get("status", {}).get("phase") == "Running"]
        return all(pod["spec"]["nodeName"] in nodes and pod["metadata"]["uid"] in journals for pod in shown)

    eventually("no Pod seems to run on a Mac that does not know it", nothing_seems_to_run, within=60)


def test_a_kill_of_paddock_loses_no_job_and_runs_none_twice_because_the_world_goes_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, *OPTIONS, world_stays=True) as first:
        first.all_bound(MACS, ready=True, within=90)
        ids = first.submit(JOBS, duration=DURATION)
        eventually("a job runs", lambda: "in_progress" in statuses(first), within=60)
        world = first.world()
        kill_and_wait(first)
    with running(data, *OPTIONS) as second:
        assert second.world() == world, "the same world, and no second one"
        judge(second, ids)
        assert second.bound(ready=True), "the Macs are as ready as before"
        second.tree()
        assert second.interrupt() == 0
        eventually("no process is left", lambda: not second.left_over() and second.world() is None, within=15)
        assert "Traceback" not in second.complaints


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_kills_at_any_moment_lose_no_job(tmp_path: Path, seed: int) -> None:
    data, rng = tmp_path / "data", random.Random(seed)
    ids: set[int] = set()
    for kill in range(3):
        with running(data, *OPTIONS, world_stays=True) as paddock:
            if kill == 0:
                paddock.all_bound(MACS, ready=True, within=90)
            ids |= paddock.submit(2, duration=DURATION)
            time.sleep(rng.uniform(0.0, 12.0))  # no proof: the moment of the kill
            kill_and_wait(paddock)
    with running(data, *OPTIONS) as last:
        judge(last, ids)
        assert last.interrupt() == 0


@pytest.mark.slow
def test_a_mac_that_loses_power_takes_its_vms_with_it_and_github_notices(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--hosts", "1", "--jobs", "0") as paddock:
        (server,) = paddock.all_bound(1, ready=True, within=90).values()
        ids = paddock.submit(1, duration=20_000.0)
        eventually("the job runs", lambda: "in_progress" in statuses(paddock), within=60)
        with paddock.control() as control:
            order = {"kind": "power-off", "server_id": server}
            assert control.post("/faults", content=json.dumps(order)).status_code == 204
        paddock.ended_by_others = 1
        jobs = eventually("GitHub gives the job up", lambda: all_over(paddock, ids), within=60)
        assert {(jobs[each]["conclusion"], jobs[each]["starts"]) for each in ids} == {("failure", 1)}


@pytest.mark.slow
def test_a_killed_world_is_started_again_and_remembers(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, *OPTIONS) as paddock:
        paddock.all_bound(MACS, ready=True, within=90)
        ids = paddock.submit(2, duration=DURATION)
        eventually("a job runs", lambda: "in_progress" in statuses(paddock), within=60)
        before = paddock.world()
        assert before is not None
        before.kill()
        paddock.ended_by_others = 2

        def after() -> bool:
            now = paddock.world()
            return now is not None and now != before

        eventually("another world is there", after, within=60)
        eventually("Paddock says so", lambda: "the simulated world has ended" in paddock.output + paddock.complaints)
        assert ids <= set(eventually("GitHub answers", lambda: _known(paddock), within=60)), "it knows its jobs"
        # What ran was cut off, as by a power cut: GitHub fails it after its own time-out, and what waited runs, once the operator
        # has logged in the users of Macs that came up without a session, which takes minutes.
        eventually("every job is over", lambda: all_over(paddock, ids), within=400, every=0.5)
        assert max(job["starts"] for job in paddock.github_jobs().values()) == 1
        paddock.all_bound(MACS, ready=True, within=90)
        assert paddock.interrupt() == 0


def _known(paddock: Instance) -> dict[int, Any] | None:
    try:
        return paddock.github_jobs() or None
    except (AssertionError, httpx2.TransportError):
        return None  # the world is on its way up


@pytest.mark.slow
def test_a_job_that_a_person_gives_up_is_counted_and_github_saw_the_same(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--hosts", "1", "--jobs", "0") as paddock:
        (machine,) = paddock.all_bound(1, ready=True, within=90)
        paddock.submit(1, duration=20_000.0)
        eventually("the job runs", lambda: "in_progress" in statuses(paddock), within=60)
        with paddock.api() as api:
            path = f"{MACHINES}/{machine}"
            merge = {"Content-Type": "application/merge-patch+json"}
            force = {"metadata": {"annotations": {"tuist.dev/force": "true"}}}
            api.patch(path, content=json.dumps(force), headers=merge).raise_for_status()
            api.delete(path).raise_for_status()
        eventually("GitHub loses the runner", lambda: any(j["lost"] for j in paddock.github_jobs().values()), within=90)
        assert paddock.metric("paddock_live_kills_total") == 1
        [row] = eventually("the ledger has it", lambda: paddock.get("/api/v1/kills").json(), within=60)
        assert (row["path"], row["machine"], bool(row["job_id"])) == ("force", machine, True)
        paddock.judge()
        assert paddock.interrupt() == 0
    with running(tmp_path / "data", "--hosts", "1", "--jobs", "0") as paddock:
        summary = paddock.get("/api/v1/strip").json()
        assert (summary["killed_last_day"], summary["forced_last_day"]) == (1, 1), "a new process counts it, too"
        assert paddock.metric("paddock_live_kills_total") == 0
        paddock.ended_by_others += 1  # by the process before
