"""Pods that cannot end because their Node is gone are let go; nobody else's finalizer is touched."""

import httpx2
from integration.runners.healing.healing_rig import MINUTE, NAMESPACE, HealingRig

from paddock.kube.builtin import Container, Node, Pod, PodSpec
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import POOL_LABEL, RUNNER, RUNNER_LABEL
from paddock.runners.healing.observations import count_pods

FINALIZER = "tart-kubelet.tuist.dev/vm-cleanup"


async def _dying(healing_rig: HealingRig, node: str, name: str = "runner-dying") -> Pod:
    """A Pod on a Node, whose deletion was asked for and waits for the node agent."""
    made = await healing_rig.hands.create(
        Pod(
            metadata=ObjectMeta(
                name=name,
                namespace=NAMESPACE,
                labels={RUNNER_LABEL: "true", POOL_LABEL: "mac-m4"},
                finalizers=(FINALIZER,),
            ),
            spec=PodSpec(node_name=node, containers=(Container(name=RUNNER, image="img"),)),
        )
    )
    await healing_rig.hands.delete(Pod, name, NAMESPACE, uid=made.metadata.uid)
    return made


async def _listed(healing_rig: HealingRig) -> list[str]:
    return [pod.metadata.name for pod in (await healing_rig.hands.list(Pod, NAMESPACE)).items]


async def _nodes(healing_rig: HealingRig, *names: str) -> None:
    for name in names:
        await healing_rig.hands.create(Node(metadata=ObjectMeta(name=name)))


async def test_a_pod_whose_node_is_gone_is_let_go_after_its_grace(healing_rig: HealingRig) -> None:
    await _nodes(healing_rig, "other")
    pod = await _dying(healing_rig, "gone")
    healing_rig.clock.advance(0.9 * MINUTE)
    report = await healing_rig.healer.once(healing_rig.immortal)
    assert report is not None
    assert report.healed == (), "its own grace of 30 s, and as much again"
    healing_rig.clock.advance(0.2 * MINUTE)
    report = await healing_rig.healer.once(healing_rig.immortal)
    assert report is not None
    assert [heal.kind for heal in report.healed] == ["immortal_pod"]
    assert pod.metadata.name not in await _listed(healing_rig)


async def test_a_pod_whose_node_is_there_waits_for_its_agent(healing_rig: HealingRig) -> None:
    await _nodes(healing_rig, "there")
    pod = await _dying(healing_rig, "there")
    healing_rig.clock.advance(24 * 60 * MINUTE)
    report = await healing_rig.healer.once(healing_rig.immortal)
    assert report is not None
    assert report.healed == ()
    assert pod.metadata.name in await _listed(healing_rig)


async def test_a_pod_that_nobody_deleted_is_not_touched_although_its_node_is_gone(healing_rig: HealingRig) -> None:
    await _nodes(healing_rig, "other")
    pod = await healing_rig.idle()
    healing_rig.clock.advance(24 * 60 * MINUTE)
    report = await healing_rig.healer.once(healing_rig.immortal)
    assert report is not None
    assert report.looked == 0
    assert await healing_rig.there(pod)


async def test_no_nodes_at_all_is_a_wrong_list(healing_rig: HealingRig) -> None:
    pod = await _dying(healing_rig, "gone")
    healing_rig.clock.advance(60 * MINUTE)
    report = await healing_rig.healer.once(healing_rig.immortal)
    assert report is not None
    assert report.healed == ()
    assert any("wrong read" in sentence for sentence in report.refused)
    assert pod.metadata.name in await _listed(healing_rig)


async def test_a_pod_that_cannot_be_let_go_does_not_take_the_turn_of_its_own_pool(healing_rig: HealingRig) -> None:
    await _nodes(healing_rig, "other")
    for name in ("runner-a", "runner-b"):
        await _dying(healing_rig, "gone", name)
    healing_rig.clock.advance(60 * MINUTE)
    healing_rig.wire.refuse = lambda request: (
        httpx2.Response(403, json={"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})
        if request.method == "PATCH" and request.url.path.endswith("runner-a")
        else None
    )
    for _ in range(2):
        assert await healing_rig.healer.once(healing_rig.immortal) is not None
    assert await _listed(healing_rig) == ["runner-a"]


async def test_the_census_tells_ended_pods_from_living_ones(healing_rig: HealingRig) -> None:
    alive, ended = await healing_rig.idle(), await healing_rig.idle()
    await healing_rig.containers(ended, phase="Succeeded")
    snapshot = await count_pods(healing_rig.pods._reader, NAMESPACE)()
    assert snapshot.alive == {alive.metadata.uid}
    assert snapshot.ended == {ended.metadata.uid}
