"""Pods that cannot end because their Node is gone are let go; nobody else's finalizer is touched."""

from integration.healing.ward import MINUTE, NAMESPACE, Ward

from paddock.kube.builtin import Container, Node, Pod, PodSpec
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import POOL_LABEL, RUNNER, RUNNER_LABEL
from paddock.runners.healing.sightings import count_pods

FINALIZER = "tart-kubelet.tuist.dev/vm-cleanup"


async def _dying(ward: Ward, node: str, name: str = "runner-dying") -> Pod:
    """A Pod on a Node, whose deletion was asked for and waits for the node agent."""
    made = await ward.hands.create(
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
    await ward.hands.delete(Pod, name, NAMESPACE, uid=made.metadata.uid)
    return made


async def _listed(ward: Ward) -> list[str]:
    return [pod.metadata.name for pod in (await ward.hands.list(Pod, NAMESPACE)).items]


async def _nodes(ward: Ward, *names: str) -> None:
    for name in names:
        await ward.hands.create(Node(metadata=ObjectMeta(name=name)))


async def test_a_pod_whose_node_is_gone_is_let_go_after_its_grace(ward: Ward) -> None:
    await _nodes(ward, "other")
    pod = await _dying(ward, "gone")
    ward.clock.advance(4 * MINUTE)
    report = await ward.healer.once(ward.immortal)
    assert report is not None
    assert report.healed == ()
    ward.clock.advance(3 * MINUTE)
    report = await ward.healer.once(ward.immortal)
    assert report is not None
    assert [heal.kind for heal in report.healed] == ["immortal_pod"]
    assert pod.metadata.name not in await _listed(ward)


async def test_a_pod_whose_node_is_there_waits_for_its_agent(ward: Ward) -> None:
    await _nodes(ward, "there")
    pod = await _dying(ward, "there")
    ward.clock.advance(24 * 60 * MINUTE)
    report = await ward.healer.once(ward.immortal)
    assert report is not None
    assert report.healed == ()
    assert pod.metadata.name in await _listed(ward)


async def test_a_pod_that_nobody_deleted_is_not_touched_although_its_node_is_gone(ward: Ward) -> None:
    await _nodes(ward, "other")
    pod = await ward.idle()
    ward.clock.advance(24 * 60 * MINUTE)
    report = await ward.healer.once(ward.immortal)
    assert report is not None
    assert report.looked == 0
    assert await ward.there(pod)


async def test_no_nodes_at_all_is_a_wrong_list(ward: Ward) -> None:
    pod = await _dying(ward, "gone")
    ward.clock.advance(60 * MINUTE)
    report = await ward.healer.once(ward.immortal)
    assert report is not None
    assert report.healed == ()
    assert any("wrong read" in sentence for sentence in report.refused)
    assert pod.metadata.name in await _listed(ward)


async def test_the_census_tells_ended_pods_from_living_ones(ward: Ward) -> None:
    alive, ended = await ward.idle(), await ward.idle()
    await ward.containers(ended, phase="Succeeded")
    census = await count_pods(ward.pods._reader, NAMESPACE)()
    assert census.alive == {alive.metadata.uid}
    assert census.ended == {ended.metadata.uid}
