"""The Macs of a simulation run the shipped node agent: their Nodes, Pods and journals are its work, also after a kill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from acceptance.instance import Instance, eventually, running

pytestmark = pytest.mark.slow

MACS = 2
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
PODS = "/api/v1/namespaces/default/pods"


def running_pods(paddock: Instance) -> dict[str, Any]:
    return {
        pod["metadata"]["uid"]: pod
        for pod in paddock.items(PODS)
        if pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def journal(data: Path) -> dict[str, Any]:
    """The entries that the agents wrote on their Macs' disks, by the Pod's uid."""
    files = (data / "macs").glob("*/root/Users/*/.paddock/node/vms/*/pod.json")
    return {file.parent.name: json.loads(file.read_bytes()) for file in files}


@pytest.mark.slow
def test_each_mac_runs_the_agent_with_its_own_journal_and_a_kill_leaves_no_pod_that_seems_to_run(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with running(data, "--hosts", str(MACS)) as first:
        first.all_bound(MACS, ready=True, within=90)
        for node in first.items(NODES):
            assert node["status"]["allocatable"]["tuist.dev/vm"] == "2"
            assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("tart://")
        assert {each["metadata"]["name"] for each in first.items(LEASES)} == set(first.bound())
        before = eventually("a Pod's VM runs", lambda: running_pods(first), within=60)
        assert set(before) <= set(journal(data)), "what runs is in the journal of its Mac"
        managers = {each["manager"] for pod in before.values() for each in pod["metadata"]["managedFields"]}
        assert "paddock-node-agent" in managers
        first.kill()
        eventually("Postgres goes by itself", lambda: not first.left_over(world=False), within=10.0)
    with running(data, "--hosts", str(MACS)) as second:
        second.ended_by_others = 2 * MACS
        # The world was killed, too, so the Macs went down; their agents find their journals, and tell of each VM that was lost.
        eventually("no Pod of before seems to run", lambda: not before.keys() & running_pods(second).keys(), within=60)
        # They come up without a session; the operator logs their users in, minutes later.
        eventually("other Pods run instead", lambda: running_pods(second), within=400)
        second.all_bound(MACS, ready=True, within=60)
        assert second.interrupt() == 0
