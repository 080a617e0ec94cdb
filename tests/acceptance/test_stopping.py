"""How `paddock up` ends, politely or not, and what the next start finds."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx2
import psycopg
import pytest
from acceptance.instance import HOSTS, MACHINES, STOP_WITHIN, eventually, running

pytestmark = pytest.mark.slow


def test_ctrl_c_stops_everything_at_once_and_keeps_everything(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--hosts", "3") as first:
        started = {each.name() for each in first.tree()}
        assert "postgres" in started
        assert first.interrupt() == 0
        eventually("no process is left", lambda: not first.left_over(), within=1.0)
        assert "stopped" in first.output
        assert not [line for line in first.complaints.splitlines() if "Traceback" in line], first.complaints
    with running(data, "--hosts", "3") as second:
        assert second.terminate() == 0
        eventually("no process is left after SIGTERM either", lambda: not second.left_over(), within=1.0)


def test_ctrl_c_with_pages_and_watches_open_prints_two_lines(tmp_path: Path) -> None:
    with ExitStack() as stack, running(tmp_path / "data", "--hosts", "3") as up:
        page = stack.enter_context(httpx2.Client(base_url=up.page, trust_env=False, timeout=30))
        api = stack.enter_context(up.api())
        # What browsers and `kubectl get -w` hold open: two pages' streams, a watch of objects and one of a table.
        table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
        for opened in (
            page.stream("GET", "live"),
            page.stream("GET", "live"),
            api.stream("GET", MACHINES, params={"watch": "true"}, timeout=30),
            api.stream("GET", HOSTS, params={"watch": "true"}, headers=table, timeout=30),
        ):
            answer = stack.enter_context(opened)
            assert answer.status_code == 200
            assert next(answer.iter_bytes()), "the stream has begun"
        before = len(up.output)
        assert up.interrupt() == 0
        said = up.output[before:].strip().splitlines()
        assert said == ["stopping…", f"stopped; everything is kept in {tmp_path / 'data'}"]
        assert up.complaints == ""


def test_a_paddock_whose_store_was_taken_over_ends_and_the_next_start_has_everything(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--hosts", "1") as first:
        socket = (data / "postgres" / "socket").read_text(encoding="utf-8").strip()
        with psycopg.connect(host=socket, user="paddock", dbname="postgres", autocommit=True) as connection:
            connection.execute("UPDATE paddock_objects.store_counter SET incarnation = 'somebody else'")
        assert first.process.wait(STOP_WITHIN) == 1
        assert "another process has taken the store over" in first.complaints
        eventually("no process is left", lambda: not first.left_over(), within=1.0)
    with running(data, "--hosts", "1") as second:
        second.all_bound(1)


@pytest.mark.slow
def test_a_killed_paddock_finds_its_objects_and_its_cloud_and_strands_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--hosts", "3") as first:
        # Somewhere in the middle of claiming: this is where a kill would hurt.
        eventually("a claim has begun", lambda: any("claim" in h["spec"] for h in first.items(HOSTS)), every=0.02)
        uids = {machine["metadata"]["uid"] for machine in first.items(MACHINES)}
        first.kill()
        eventually("Postgres goes by itself", lambda: not first.left_over(world=False), within=10.0)
    with running(data, "--hosts", "3", "--orphan-reclaim-interval", "1s") as second:
        assert {machine["metadata"]["uid"] for machine in second.items(MACHINES)} == uids
        bound = second.all_bound(3)
        assert set(bound.values()) == set(second.cloud()), "the same three Macs, each with one machine"
        eventually("the sweep has looked", lambda: second.metric("scaleway_orphan_servers") == 0.0)
        eventually("every Mac is owned", lambda: set(second.states().values()) == {"owned"}, within=15)
        assert second.interrupt() == 0
