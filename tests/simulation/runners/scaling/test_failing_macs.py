"""A Mac on which jobs fail at once is marked by the operator, gets no Pod, and is free again; its job goes on elsewhere."""

from datetime import timedelta

from simulation.runners.scaling.rig import ScalingWorld

from paddock.base.failing_mac import JOBS_FAIL, mark_of
from paddock.kube.builtin import Event, Node, Pod
from paddock.runners.ledger.mac_ends import EndOnMac
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


def _node(fleet: ScalingWorld, name: str = "node-0") -> Node:
    return next(node for node in fleet.store.present(Node) if node.metadata.name == name)


def _marked(fleet: ScalingWorld) -> list[str]:
    return [node.metadata.name for node in fleet.store.present(Node) if JOBS_FAIL in node.metadata.annotations]


def _on(fleet: ScalingWorld, name: str = "node-0") -> int:
    return sum(pod.spec.node_name == name for pod in fleet.store.present(Pod))


def _events(fleet: ScalingWorld) -> list[str]:
    return [event.reason for event in fleet.store.present(Event) if event.reason.startswith("JobsFail")]


def _fail(fleet: ScalingWorld, node: str = "node-0") -> None:
    now = fleet.clock.now()
    for account in (1, 2, 3):
        fleet.retirement.ends.append(
            EndOnMac(node, account, f"pod-{account}", now - timedelta(minutes=1), now, "failed_at_once")
        )


async def _full(world: World) -> ScalingWorld:
    fleet = ScalingWorld(world)
    await fleet.nodes(4)
    await fleet.pool("xcode", enabled=False, replicas=4)
    await fleet.until("a full fleet", lambda: [_on(fleet, name) for name in fleet.node_names] == [1, 1, 1, 1])
    return fleet


@simulated(seeds=2)
async def test_a_marked_mac_loses_its_idle_pods_and_gets_none_until_it_is_rebooted(world: World) -> None:
    fleet = await _full(world)
    _fail(fleet)
    await fleet.until("marked and empty", lambda: _marked(fleet) == ["node-0"] and _on(fleet) == 0, within=60)
    assert _events(fleet) == ["JobsFailAtOnce"]
    await fleet.stays("empty", lambda: _on(fleet) == 0, during=300)
    boot = {"status": {"nodeInfo": {"bootID": "next boot"}}}
    await fleet.api.merge_patch(Node, "node-0", boot, subresource="status")
    await fleet.until("full again", lambda: _on(fleet) == 1, within=90)
    await fleet.stays("full", lambda: _on(fleet) == 1, during=3900)
    assert _marked(fleet) == [], "the record of it is gone, too"


@simulated(seeds=1)
async def test_a_mark_ends_after_an_hour_also_while_the_ledger_is_away_and_no_operator_change_loses_it(
    world: World,
) -> None:
    fleet = await _full(world)
    _fail(fleet)
    await fleet.until("marked", lambda: _marked(fleet) == ["node-0"])
    fleet.retirement.silent.add("ends")
    mark = mark_of(_node(fleet).metadata.annotations)
    fleet.operator.crash()
    await fleet.stays("as it was", lambda: mark_of(_node(fleet).metadata.annotations) == mark, during=3400)
    await fleet.until("free", lambda: not _marked(fleet) and _on(fleet) == 1, within=400)
    assert "JobsFailNoMore" in _events(fleet)


@simulated(seeds=1)
async def test_where_every_mac_fails_none_is_avoided(world: World) -> None:
    fleet = await _full(world)
    for name in fleet.node_names:
        _fail(fleet, name)
    await fleet.stays("full", lambda: not _marked(fleet) and _on(fleet) == 1, during=300)
