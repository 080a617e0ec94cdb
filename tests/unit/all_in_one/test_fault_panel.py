"""The fault panel: what it offers is explained, and what it strikes is what it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from unit.hosts.made import NOW
from unit.web.page_fixture import page_data
from unit.web.test_acting import Cluster

from paddock.all_in_one.fault_panel import FaultContext, SimulatedFaults
from paddock.all_in_one.outage import Outage
from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.runners.api.settings import HealingSettings
from paddock.simulator.github.faults import FaultKind
from paddock.simulator.pods import Hang, RunnerFaults
from paddock.web.page_data import PageData


class World:
    def __init__(self, seen: PageData) -> None:
        self.cluster = Cluster()
        self.injected: list[Any] = []
        self.runner_faults = RunnerFaults()
        clock = SystemClock()
        runners: Any = SimpleNamespace(
            github=SimpleNamespace(inject=self.injected.append), pods=SimpleNamespace(runner_faults=self.runner_faults)
        )
        self.outage = Outage(clock)
        client: Any = self.cluster
        hosts: Any = SimpleNamespace()
        context = FaultContext(
            client=client,
            seen=lambda: seen,
            hosts=hosts,
            runners=runners,
            outage=self.outage,
            clock=clock,
            rng=seeded(1),
        )
        self.panel = SimulatedFaults(context, healing=HealingSettings(), reclaims=False)


@pytest.fixture
def world() -> World:
    return World(page_data(12, now=NOW))


def test_every_fault_says_what_to_watch_for_and_how_long_it_takes(world: World) -> None:
    offered = world.panel.breakages()
    assert len({one.name for one in offered}) == len(offered) >= 9
    for one in offered:
        assert one.breaks
        assert one.expect
        assert one.heals


async def test_a_forced_deletion_takes_the_finalizer_first_and_names_the_very_machine(world: World) -> None:
    struck = await world.panel.strike("force-delete-machine")
    assert struck is not None
    pause, bare, gone = world.cluster.changes
    assert pause[2]["metadata"]["annotations"] == {"cluster.x-k8s.io/paused": "true"}
    assert bare[2]["metadata"]["finalizers"] is None
    assert gone[0] == "delete"
    assert gone[2]["uid"] == pause[2]["metadata"]["uid"] == bare[2]["metadata"]["uid"]
    assert world.panel.struck() == (struck,)


async def test_runners_and_webhooks_go_wrong_once_each(world: World) -> None:
    for name in ("lose-answer", "never-registers", "hangs-after-job", "lose-webhook"):
        assert await world.panel.strike(name) is not None
    assert world.runner_faults.next == [Hang.LOSES_ANSWER, Hang.NEVER_REGISTERS, Hang.HANGS_AFTER_JOB]
    assert [(fault.kind, fault.operations, fault.times) for fault in world.injected] == [
        (FaultKind.UNDELIVERED, ("queued",), 1)
    ]


async def test_a_killed_dispatcher_is_away_and_cannot_be_killed_twice(world: World) -> None:
    assert await world.panel.strike("kill-dispatcher") is not None
    import asyncio

    await asyncio.sleep(0)
    assert world.outage.down
    assert await world.panel.strike("kill-dispatcher") is None
    await world.panel.stop()
    assert not world.outage.down


async def test_where_nothing_runs_there_is_nothing_to_break_and_a_wrong_name_is_no_fault() -> None:
    empty = World(PageData(now=NOW))
    for name in ("force-delete-machine", "delete-node", "wedge-sshd", "seal-password"):
        assert await empty.panel.strike(name) is None
    assert empty.panel.struck() == ()
    with pytest.raises(KeyError):
        await empty.panel.strike("everything")
