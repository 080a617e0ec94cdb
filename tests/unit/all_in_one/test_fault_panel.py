"""The fault panel: what it offers is explained, and what it strikes is what it says."""

from __future__ import annotations

from typing import Any

import pytest
from unit.hosts.made import NOW
from unit.web.page_fixture import page_data
from unit.web.test_acting import Cluster

from paddock.all_in_one.fault_panel import FaultContext, SimulatedFaults
from paddock.all_in_one.outage import Outage
from paddock.all_in_one.world_client import WorldAwayError
from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.runners.api.settings import HealingSettings
from paddock.simulator.pods import Hang
from paddock.simulator.world.messages import FaultOrder
from paddock.web.page_data import PageData


class World:
    def __init__(self, seen: PageData, *, webhooks: bool = True) -> None:
        self.cluster = Cluster()
        self.orders: list[FaultOrder] = []
        self.away = False
        clock = SystemClock()
        self.outage = Outage(clock)
        client: Any = self.cluster
        context = FaultContext(
            client=client,
            seen=lambda: seen,
            order=self.order,
            outage=self.outage,
            clock=clock,
            rng=seeded(1),
            webhooks=webhooks,
        )
        self.panel = SimulatedFaults(context, healing=HealingSettings(), reclaims=False)

    async def order(self, fault: FaultOrder) -> None:
        if self.away:
            raise WorldAwayError("the simulated world does not answer")
        self.orders.append(fault)


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
    runners = ["loses the answer", "never registers", "hangs after its job"]
    assert world.orders == [
        *(FaultOrder(kind="runner", runner=Hang(each).value) for each in runners),
        FaultOrder(kind="lose-webhook"),
    ]


async def test_where_github_is_asked_for_jobs_no_webhook_can_be_lost() -> None:
    panel = World(page_data(12, now=NOW), webhooks=False).panel
    assert "lose-webhook" not in {each.name for each in panel.breakages()}
    assert not [each for each in panel.breakages() if "webhook" in f"{each.breaks} {each.expect} {each.heals}"]
    with pytest.raises(KeyError):
        await panel.strike("lose-webhook")


async def test_where_the_world_is_away_nothing_is_said_to_be_broken(world: World) -> None:
    world.away = True
    assert await world.panel.strike("lose-webhook") is None
    assert world.panel.struck() == ()


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
