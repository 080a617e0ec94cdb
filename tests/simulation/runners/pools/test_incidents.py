"""What went wrong elsewhere, by its number in the list of behaviours, and cannot here."""

import pytest
from simulation.runners.pools.pool_world import PoolWorld

from paddock.kube.builtin import Event, Node, Pod, ServiceAccount
from paddock.runners.api import Provisioning, RunnerPool
from paddock.runners.api.settings import HealingSettings
from paddock.simulator.faults import Fail
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


@simulated(3)
async def test_a_claimed_mac_without_a_stamp_survives_scale_down(world: World) -> None:
    """The stamp is best effort, and on macOS it is all that can be seen; the ledger knows better."""
    pools = PoolWorld(world, nodes=2)
    await pools.pool("mac", 3)
    await pools.settled("mac", 3)
    for pod in pools.pods("mac")[:2]:
        await pools.take(pod, assign=False)
    taken = {pod.metadata.uid for pod in pools.pods("mac")[:2]}
    await pools.change("mac", replicas=0)
    await pools.eventually("the idle one is gone", lambda: len(pools.pods("mac")) == 2)
    await world.clock.sleep(600)
    assert {pod.metadata.uid for pod in pools.pods("mac")} == taken
    seen = pools.seen_pool("mac")
    assert seen is not None
    assert seen.status.busy == 2


@simulated(2)
async def test_without_the_ledger_no_live_pod_is_deleted_and_the_pool_says_so(world: World) -> None:
    pools = PoolWorld(world, nodes=2)
    await pools.pool("mac", 3)
    await pools.settled("mac", 3)
    pools.account.away = True
    await pools.change("mac", replicas=1)
    await pools.eventually("the condition says so", lambda: pools.ready_condition("mac").reason == "LedgerUnavailable")
    await world.clock.sleep(600)
    assert len(pools.pods("mac")) == 3
    assert "cannot be asked" in pools.ready_condition("mac").message
    pools.account.away = False
    await pools.settled("mac", 1)


@simulated(2)
async def test_renaming_a_pool_kills_no_job(world: World) -> None:
    pools = PoolWorld(world, nodes=2)
    await pools.pool("old", 2)
    await pools.settled("old", 2)
    busy, _ = pools.pods("old")
    await pools.take(busy)
    await pools.api.delete(RunnerPool, "old", "default")
    await pools.pool("new", 2, dispatch_label="label-old")
    await pools.settled("new", 2)
    await world.clock.sleep(3600)
    assert [pod.metadata.uid for pod in pools.pods("old")] == [busy.metadata.uid]


@simulated(2)
async def test_a_pod_of_a_host_that_is_gone_does_not_stay_for_ever(world: World) -> None:
    pools = PoolWorld(world, nodes=2)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    (pod,) = [each for each in pools.pods("mac") if each.spec.node_name == "mac-0"][:1]
    held = {"metadata": {"finalizers": ["tart-kubelet.tuist.dev/vm-cleanup"]}}
    await pools.api.merge_patch(Pod, pod.metadata.name, held, "default")
    await pools.api.delete(Node, "mac-0")
    gone = lambda: pod.metadata.uid not in {each.metadata.uid for each in pools.pods(living=False)}  # noqa: E731
    await pools.eventually(
        "it is being deleted", lambda: pod.metadata.uid not in {p.metadata.uid for p in pools.pods()}
    )
    await world.clock.sleep(20)
    assert not gone(), "its time was not over"
    await pools.eventually("it is gone", gone, within=300)
    await pools.settled("mac", 2)
    assert [(heal.kind, heal.subject) for heal in pools.healed] == [("immortal_pod", pod.metadata.name)]


@pytest.mark.parametrize("report_only", [True, False])
@simulated(1)
async def test_lesson_14_a_pod_that_cannot_end_stays_unless_healing_may_act(world: World, report_only: bool) -> None:
    """The controller has no hand in it: without healing, or where it may only report, the finalizers stay."""
    told = HealingSettings(report_only=frozenset({"immortal_pod"})) if report_only else None
    pools = PoolWorld(world, nodes=2, healing=told)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    (pod,) = [each for each in pools.pods("mac") if each.spec.node_name == "mac-0"][:1]
    held = {"metadata": {"finalizers": ["tart-kubelet.tuist.dev/vm-cleanup"]}}
    await pools.api.merge_patch(Pod, pod.metadata.name, held, "default")
    await pools.api.delete(Node, "mac-0")
    await pools.eventually("its place is filled", lambda: len(pools.warm("mac")) == 2)
    await world.clock.sleep(1800)
    assert pod.metadata.uid in {each.metadata.uid for each in pools.pods(living=False)}
    assert not pools.healed


@simulated(1)
async def test_a_deleting_pod_on_a_living_node_keeps_its_finalizers(world: World) -> None:
    pools = PoolWorld(world, nodes=1)
    await pools.pool("mac", 1)
    await pools.settled("mac", 1)
    (pod,) = pools.pods("mac")
    held = {"metadata": {"finalizers": ["tart-kubelet.tuist.dev/vm-cleanup"]}}
    await pools.api.merge_patch(Pod, pod.metadata.name, held, "default")
    pools.store.forgiven.add(pod.metadata.uid)
    await pools.api.delete(Pod, pod.metadata.name, "default")
    await world.clock.sleep(900)
    assert pod.metadata.uid in {each.metadata.uid for each in pools.pods(living=False)}


async def _with_a_bad_node(world: World) -> PoolWorld:
    """Three Nodes, nine Pods, and none of them starts on `lin-0`."""
    pools = PoolWorld(world, linux=3)
    pools.broken.add("lin-0")
    quick = Provisioning(max_concurrent_per_node=6, start_timeout_seconds=60)
    await pools.pool("lin", 9, os="linux", provisioning=quick)
    return pools


@simulated(2)
async def test_a_bad_node_is_named_and_avoided_and_the_fleet_does_not_starve(world: World) -> None:
    pools = await _with_a_bad_node(world)
    await pools.eventually("the others start", lambda: len(pools.warm("lin")) >= 6)
    await pools.eventually("the Node is named", lambda: "lin-0 (" in pools.ready_condition("lin").message, within=600)
    newest = max(pools.pods("lin"), key=lambda pod: pod.metadata.creation_timestamp or world.clock.now())
    made = await pools.api.get(Pod.RESOURCE, newest.metadata.name, "default")
    required = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert "lin-0" in str(required)
    events = [each.reason for each in pools.store.present(Event)]
    assert "RunnerDidNotStart" in events


@simulated(2)
async def test_a_bad_node_gets_no_pod_while_it_is_avoided(world: World) -> None:
    pools = await _with_a_bad_node(world)
    await pools.eventually("the Node is named", lambda: "lin-0 (" in pools.ready_condition("lin").message, within=600)
    await world.clock.sleep(900)
    failed = [each for each in pools.store.present(Event) if each.reason == "RunnerDidNotStart"]
    assert sum(each.count for each in failed) == 3, "the three that were there first"


@simulated(2)
async def test_a_pod_made_in_the_pass_that_proves_a_node_bad_avoids_it_already(world: World) -> None:
    """The pass that lets the third Pod of a Node go has a Pod to make, too: it is made with what was learned a moment before."""
    pools = await _with_a_bad_node(world)
    await pools.eventually("the others start", lambda: len(pools.warm("lin")) == 6, within=50)
    before = {pod.metadata.uid for pod in pools.pods("lin", living=False)}
    await pools.operator.stop()
    await pools.end(pools.warm("lin")[0])
    await world.clock.sleep(90)
    pools.operator.start()
    made: dict[str, str] = {}

    def seen() -> bool:
        made.update(
            (pod.metadata.uid, pod.metadata.name) for pod in pools.pods("lin") if pod.metadata.uid not in before
        )
        return bool(made)

    await pools.eventually("the Pod that ended is replaced", seen)
    first = await pools.api.get(Pod.RESOURCE, next(iter(made.values())), "default")
    assert "lin-0" in str(first["spec"].get("affinity", {})), "it may be bound to the Node that just failed three Pods"


@simulated(2)
async def test_pods_without_room_are_replaced_and_only_one_keeps_asking(world: World) -> None:
    pools = PoolWorld(world, linux=1)
    await pools.pool("big", 4, os="linux", pod_memory_mb=900_000)
    await pools.eventually("it says so", lambda: pools.ready_condition("big").reason == "Unschedulable")
    since = _placeable(pools)
    await world.clock.sleep(1800)
    assert len(pools.pods("big")) <= 1
    assert _placeable(pools) == since, "the shortage is as old as it is, however often its Pods were replaced"
    await pools.add_node("huge", "linux")
    await pools.api.merge_patch(
        Node, "huge", {"status": {"allocatable": {"cpu": "64", "memory": "9000Gi", "pods": "99"}}}, subresource="status"
    )
    await pools.settled("big", 4, within=900)


def _placeable(pools: PoolWorld) -> object:
    seen = pools.seen_pool("big")
    assert seen is not None
    return [each.last_transition_time for each in seen.status.conditions if each.type == "Placeable"]


@simulated(2)
async def test_a_pod_that_somebody_deletes_is_reported(world: World) -> None:
    """Its session ends when it does, not hours later."""
    pools = PoolWorld(world, nodes=1)
    await pools.pool("mac", 1)
    await pools.settled("mac", 1)
    (pod,) = pools.pods("mac")
    await pools.take(pod)
    pools.store.forgiven.add(pod.metadata.uid)
    await pools.api.delete(Pod, pod.metadata.name, "default")
    await pools.eventually("the stop is reported", lambda: pod.metadata.uid in dict(pools.account.stops), within=30)


@simulated(1)
async def test_a_drained_node_is_free_as_soon_as_its_jobs_are_done(world: World) -> None:
    pools = PoolWorld(world, nodes=2)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    first = pools.pods("mac")[0]
    await pools.take(first)
    await pools.cordon(first.spec.node_name)
    await pools.end(first)
    await pools.settled("mac", 2)
    assert first.spec.node_name not in {pod.spec.node_name for pod in pools.pods("mac")}


@simulated(2)
async def test_a_pod_whose_service_account_is_gone_is_replaced(world: World) -> None:
    pools = PoolWorld(world, nodes=2)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    poor, busy = pools.pods("mac")
    await pools.take(busy)
    for each in (poor, busy):
        await pools.api.delete(ServiceAccount, each.metadata.name, "default")
    await pools.eventually(
        "the idle one is replaced", lambda: poor.metadata.uid not in {p.metadata.uid for p in pools.pods()}
    )
    await world.clock.sleep(300)
    assert busy.metadata.uid in {pod.metadata.uid for pod in pools.pods()}


@simulated(1)
async def test_a_server_that_refuses_pods_is_quoted_and_no_try_leaves_an_account_behind(world: World) -> None:
    """Without healing: what the controller cannot finish it takes back itself, or its accounts would grow for ever."""
    pools = PoolWorld(world, nodes=1, healing=None)
    rule = world.faults.inject(Fail(status=403), method="POST", path="*/pods")
    await pools.pool("mac", 1)
    await pools.eventually("it says so", lambda: pools.ready_condition("mac").reason == "CreateFailed")
    await world.clock.sleep(600)
    assert rule.fired > 5
    assert not pools.accounts()
    rule.times = rule.fired
    await pools.settled("mac", 1, within=400)


@simulated(2)
async def test_two_mac_pools_never_put_a_third_vm_on_a_mac(world: World) -> None:
    """The licence is ours to keep."""
    pools = PoolWorld(world, nodes=2)
    await pools.pool("one", 5)
    await pools.pool("two", 5)
    most = 0

    def looked() -> bool:
        nonlocal most
        there = [pod.spec.node_name for pod in pools.pods(living=False) if pod.spec.node_name]
        most = max([most, *(there.count(name) for name in set(there))])
        return world.clock.monotonic() > 300

    await pools.eventually("five minutes", looked, within=400)
    assert (most, len(pools.pods())) == (2, 4)
    assert {pools.ready_condition(name).reason for name in ("one", "two")} == {"LicenceLimit"}


@simulated(2)
async def test_a_foreground_deletion_of_a_pool_kills_no_job(world: World) -> None:
    """Garbage collection deletes dependents before their owner, past every finalizer of ours: Pods are no dependents."""
    pools = PoolWorld(world, nodes=2)
    await pools.pool("mac", 3)
    await pools.settled("mac", 3)
    busy = pools.pods("mac")[0]
    await pools.take(busy)
    await pools.api.delete(RunnerPool, "mac", "default", propagation="Foreground")
    await pools.eventually("the idle ones are gone", lambda: len(pools.pods("mac", living=False)) == 1)
    await world.clock.sleep(600)
    assert [pod.metadata.uid for pod in pools.pods("mac")] == [busy.metadata.uid]
    await pools.end(busy)
    await pools.eventually("the pool is gone", lambda: pools.seen_pool("mac") is None)
    await pools.eventually("so is everything of it", lambda: not pools.pods(living=False) and not pools.accounts())


@simulated(2)
async def test_a_pool_whose_finalizer_is_taken_off_by_hand_kills_no_job_and_leaves_nothing(world: World) -> None:
    pools = PoolWorld(world, nodes=2)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    busy = pools.pods("mac")[0]
    await pools.take(busy)
    await pools.api.delete(RunnerPool, "mac", "default")
    await pools.api.merge_patch(RunnerPool, "mac", {"metadata": {"finalizers": None}}, "default")
    await pools.eventually("the pool is gone at once", lambda: pools.seen_pool("mac") is None)
    await pools.eventually("the idle one is gone", lambda: len(pools.pods("mac", living=False)) == 1)
    await world.clock.sleep(600)
    assert [pod.metadata.uid for pod in pools.pods("mac")] == [busy.metadata.uid]
    await pools.end(busy)
    await pools.eventually("so is everything of it", lambda: not pools.pods(living=False) and not pools.accounts())


@simulated(2)
async def test_a_pool_made_anew_under_the_same_name_leaves_the_jobs_of_its_namesake_alone(world: World) -> None:
    pools = PoolWorld(world, nodes=3)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    busy, idle = pools.pods("mac")
    await pools.take(busy)
    await pools.api.delete(RunnerPool, "mac", "default")
    await pools.api.merge_patch(RunnerPool, "mac", {"metadata": {"finalizers": None}}, "default")
    await pools.pool("mac", 2)
    await pools.eventually(
        "the namesake's idle Pod is gone, and the new pool is whole",
        lambda: (
            idle.metadata.uid not in {pod.metadata.uid for pod in pools.pods("mac", living=False)}
            and len(pools.warm("mac")) >= 2
        ),
    )
    await world.clock.sleep(600)
    assert busy.metadata.uid in {pod.metadata.uid for pod in pools.pods("mac")}
    await pools.end(busy)
    await pools.eventually("nothing of it is left", lambda: len(pools.pods(living=False)) == 2)


@simulated(1)
async def test_pods_of_many_nodes_that_are_gone_are_let_go_although_none_of_them_can_end(world: World) -> None:
    """Nodes are asked for a few at a time: those whose Pods are leaving already must not be asked for again and again."""
    pools = PoolWorld(world, nodes=14, healing=None, bound=None)
    await pools.pool("mac", 14, provisioning=Provisioning(max_concurrent_per_node=2))
    await pools.settled("mac", 14)
    held = {"metadata": {"finalizers": ["tart-kubelet.tuist.dev/vm-cleanup"]}}
    for pod in pools.pods("mac"):
        await pools.api.merge_patch(Pod, pod.metadata.name, held, "default")
    gone = {f"mac-{number}" for number in range(1, 14)}
    for name in gone:
        await pools.api.delete(Node, name)
    await pools.eventually(
        "none of them counts any more",
        lambda: not [p for p in pools.pods("mac") if p.spec.node_name in gone],
        within=120,
    )
