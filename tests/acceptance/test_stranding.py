"""A machine forced past its finalizer: its host is orphaned, seen, and brought back only where that is allowed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from acceptance.instance import MACHINES, Instance, eventually, running

pytestmark = pytest.mark.slow

HOSTS_IN_ALL = 3
SWEEP_EVERY = 2
SWEEP = ("--hosts", str(HOSTS_IN_ALL), "--orphan-reclaim-interval", f"{SWEEP_EVERY}s")
REPORT = (*SWEEP, "--orphan-reclaim-claim-name-prefix", "")
RECLAIM = (*SWEEP, "--orphan-reclaim-claim-name-prefix", "mac-fleet-")


def force_delete(paddock: Instance, name: str) -> None:
    """What must not be done: pause the machine, so that nobody puts the finalizer back, empty it, delete."""
    past = {"metadata": {"finalizers": [], "annotations": {"cluster.x-k8s.io/paused": "true"}}}
    with paddock.api() as api:
        headers = {"Content-Type": "application/merge-patch+json"}
        api.patch(f"{MACHINES}/{name}", content=json.dumps(past), headers=headers).raise_for_status()
        api.delete(f"{MACHINES}/{name}").raise_for_status()
        assert api.get(f"{MACHINES}/{name}").status_code == 404


@pytest.mark.slow
def test_a_forced_deletion_strands_a_host_which_is_reported_and_reclaimed_only_on_request(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, *REPORT) as reporting:
        name, server = next(iter(reporting.all_bound(HOSTS_IN_ALL).items()))
        eventually("the gauge starts at none", lambda: reporting.metric("scaleway_orphan_servers") == 0.0)
        eventually("the saved cloud shows its name", lambda: reporting.cloud()[server]["name"] == name, within=5)
        before = reporting.cloud()[server]
        force_delete(reporting, name)
        eventually("the Host says stranded", lambda: reporting.states()[server] == "stranded", within=10)
        eventually("the gauge says one", lambda: reporting.metric("scaleway_orphan_servers") == 1.0, within=5)
        assert 'data-state="stranded"' in reporting.get("/").text
        time.sleep(3 * SWEEP_EVERY)  # report-only stays report-only, however often it looks
        after = reporting.cloud()[server]
        assert (after["name"], after["install"]) == (before["name"], before["install"]) == (name, 1)
        assert reporting.states()[server] == "stranded"
        assert reporting.interrupt() == 0
    with running(data, *RECLAIM) as reclaiming:
        assert reclaiming.states()[server] == "stranded"
        eventually("it is given back", lambda: reclaiming.states()[server] == "releasing", within=20)
        replaced = reclaiming.all_bound(HOSTS_IN_ALL, within=45)
        assert server in replaced.values(), "it is wiped, pooled and claimed again"
        assert name not in replaced
        eventually("its disk was wiped", lambda: reclaiming.cloud()[server]["install"] == 2, within=3)
        assert reclaiming.metric("scaleway_orphan_servers_reclaimed_total") == 1.0
        eventually("the gauge is back at none", lambda: reclaiming.metric("scaleway_orphan_servers") == 0.0)
        assert reclaiming.interrupt() == 0
