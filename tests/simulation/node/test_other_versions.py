"""The agent is replaced under two running jobs by a newer and by an older one: both jobs finish, once, with their own times."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from simulation.node.node_world import NodeWorld

from paddock.simulator.process import World, simulate

_YOUNG = ("cluster", "seats", "asking_at", "cut_off_at")
"""What the first agents did not write."""


def _as_older(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in _YOUNG}


def _as_newer(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {"snapshots": [{"taken": "2027-01-01T00:00:00Z"}], "lane": "fast"}


@pytest.mark.slow
@pytest.mark.parametrize("written", [_as_older, _as_newer], ids=["an upgrade", "a downgrade"])
def test_two_jobs_outlive_the_change_of_the_agents_version(written: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 300.0
        for name in ("p1", "p2"):
            await mac.pod(name)
            await mac.is_ready(name)
        mac.dispatch.jobs += ["job-1", "job-2"]
        await mac.eventually("both jobs run", lambda: sorted(mac.ran) == ["job-1", "job-2"])
        before = {name: await mac.see(name) for name in ("p1", "p2")}
        world.processes["agent"].crash()
        rewritten = 0
        for path, content in list(mac.disk.files.items()):
            if path.name == "pod.json":
                entry = json.loads(content)
                changed = written(entry)
                assert changed != entry
                mac.disk.files[path] = json.dumps(changed).encode()
                rewritten += 1
        assert rewritten == 2
        for name, was in before.items():
            pod = await mac.phase_is(name, "Succeeded", within=900.0)
            assert pod is not None
            assert was is not None
            assert pod.status.start_time == was.status.start_time
        assert sorted(mac.ran) == sorted(mac.finished) == ["job-1", "job-2"]
        assert len(mac.tart.ledger.runs) == 2
        assert not mac.tart.ledger.stopped

    simulate(scenario, seed=5)
