"""The autoscaler against a real API in virtual time."""

from contextlib import suppress
from datetime import timedelta

import pytest
from msgspec.structs import replace
from simulation.runners.scaling.rig import ScalingWorld

from paddock.base.metrics import exposition
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition, set_condition
from paddock.kube.crd import crd_of
from paddock.kube.errors import ConflictError
from paddock.kube.objects import Condition, ObjectMeta
from paddock.runners.api import FINALIZER, Autoscaling, RunnerPool, WarmWindow
from paddock.runners.pools.autoscaler import RUNNER_VERSION
from paddock.runners.pools.capacity import RuntimeClass
from paddock.runners.pools.warm_windows import WARM_WINDOWS
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


@simulated(seeds=2)
async def test_a_queue_is_followed_up_at_once_and_the_condition_says_why(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(20)
    await fleet.pool("xcode")
    await fleet.until("the floor stands", lambda: fleet.replicas("xcode") == [1])

    fleet.retirement.say("xcode", claimed=2, queued=3, withheld=4)
    took = await fleet.until("load, one for what is blocked, and the floor", lambda: fleet.replicas("xcode") == [7])

    assert took <= 6
    await fleet.until("it is said", lambda: fleet.seen("xcode").status.queued == 3)
    assert fleet.seen("xcode").status.withheld == 4
    assert fleet.said("xcode").status == "True"
    assert "2 busy + 3 queued + 1 for 4 that their accounts' limits hold back" in fleet.said("xcode").message
    assert fleet.seen("xcode").status.last_scale_down_at is None


@simulated(seeds=2)
async def test_a_pool_shrinks_only_after_less_was_enough_for_its_whole_cooldown(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(20)
    await fleet.pool("xcode", cooldown=300)
    fleet.retirement.say("xcode", claimed=9)
    await fleet.until("grown", lambda: fleet.replicas("xcode") == [10])
    fleet.retirement.say("xcode")

    await fleet.stays("as large as it was", lambda: fleet.replicas("xcode") == [10], during=295)
    assert fleet.said("xcode").reason == "CoolingDown"
    fleet.retirement.say("xcode", claimed=5)
    await fleet.clock.sleep(5.5)
    fleet.retirement.say("xcode")

    await fleet.until("down to the peak in between", lambda: fleet.replicas("xcode") == [6], within=20)
    await fleet.stays("the peak has its own cooldown", lambda: fleet.replicas("xcode") == [6], during=280)
    await fleet.until("down to the floor", lambda: fleet.replicas("xcode") == [1], within=40)
    await fleet.until("it is written down", lambda: fleet.seen("xcode").status.last_scale_down_at is not None)


@pytest.mark.slow
@simulated(seeds=2)
async def test_a_ledger_that_cannot_be_asked_changes_no_replicas_and_the_condition_says_so(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(20)
    await fleet.pool("xcode", cooldown=0)
    fleet.retirement.say("xcode", claimed=4)
    await fleet.until("grown", lambda: fleet.replicas("xcode") == [5])

    fleet.retirement.silent.add("xcode")
    fleet.retirement.say("xcode")
    await fleet.until("it is said", lambda: fleet.said("xcode").status == "False")
    assert fleet.said("xcode").reason == "SignalsUnavailable"
    assert "5 kept" in fleet.said("xcode").message
    await fleet.stays("kept", lambda: fleet.replicas("xcode") == [5], during=900)

    fleet.retirement.silent.clear()
    took = await fleet.until("asked again", lambda: fleet.replicas("xcode") == [1])
    assert took <= 6


@simulated(seeds=2)
async def test_a_silent_sibling_or_a_dark_fleet_makes_nobody_smaller(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(4)
    await fleet.pool("one", floor=3, cooldown=0)
    await fleet.pool("two", floor=0, cooldown=0)
    await fleet.until("the floor stands", lambda: fleet.replicas("one", "two") == [3, 0])

    fleet.retirement.silent.add("two")
    await fleet.stays("a silent sibling takes nothing", lambda: fleet.replicas("one") == [3], during=30)
    assert "not shared with siblings" in fleet.said("one").message
    fleet.retirement.silent.clear()

    for name in fleet.node_names:
        dark = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        await fleet.api.merge_patch(Node, name, dark, subresource="status")
    await fleet.stays("a dark fleet takes nothing", lambda: fleet.replicas("one") == [3], during=30)
    assert "no healthy Node" in fleet.said("one").message


@simulated(seeds=2)
async def test_waiting_jobs_of_one_pool_take_the_warm_macs_of_another_without_a_cooldown(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(5)
    await fleet.nodes(3, Ready="False")
    await fleet.nodes(2, MemoryPressure="True")
    await fleet.pool("idle", floor=4)
    await fleet.pool("busy", floor=0)
    await fleet.until("warm", lambda: fleet.replicas("idle", "busy") == [4, 0])

    fleet.retirement.say("busy", queued=4)
    await fleet.until("the warm ones yield", lambda: fleet.replicas("idle", "busy") == [1, 4], within=12)
    assert "room for 1 beside the load of busy" in fleet.said("idle").message
    assert b'paddock_runner_pool_warm_deficit{pool="idle"} 3.0' in exposition(fleet.registry)
    assert b'paddock_runner_pool_ready_nodes{pool="idle"} 5.0' in exposition(fleet.registry)


@simulated(seeds=2)
async def test_blocked_pools_on_a_full_fleet_get_exactly_one_pod_each(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(9)
    fleet.retirement.say("a", claimed=9, occupied=9)
    fleet.retirement.say("b", withheld=1)
    fleet.retirement.say("c", withheld=30)
    for name in ("a", "b", "c"):
        await fleet.pool(name, floor=1)
        await fleet.until("looked at", lambda name=name: fleet.said(name).status == "True")
    await fleet.until("one each", lambda: fleet.replicas("a", "b", "c") == [9, 1, 1])
    await fleet.stays("one each", lambda: fleet.replicas("a", "b", "c") == [9, 1, 1], during=60)


@simulated(seeds=2)
async def test_linux_pools_share_nine_tenths_of_their_nodes_memory_with_pools_of_a_fixed_size(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(2, fleet="metal", memory="100Gi")
    linux = {"os": "linux", "fleet_selector": "metal", "pod_memory_mb": 8 * 1024}
    await fleet.pool("fixed", enabled=False, replicas=10, **linux)
    await fleet.pool("scaled", floor=20, **linux)
    # 180 GiB are 22 Pods of 8 GiB, and ten of them are spoken for.
    await fleet.until("what is left", lambda: fleet.replicas("scaled", "fixed") == [12, 10])


@simulated(seeds=2)
async def test_pools_that_are_deleted_or_not_autoscaled_are_left_alone(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(20)
    await fleet.pool("fixed", enabled=False, replicas=3)
    await fleet.pool("leaving", limit=5)
    await fleet.until("scaled", lambda: fleet.replicas("leaving") == [1])
    held = {"metadata": {"finalizers": [FINALIZER, "test/hold"]}}
    await fleet.api.merge_patch(RunnerPool, "leaving", held, namespace="default")
    await fleet.api.delete(RunnerPool, "leaving", "default")
    fleet.retirement.say("leaving", queued=4)
    fleet.retirement.say("fixed", queued=9)
    await fleet.stays("left alone", lambda: fleet.replicas("fixed", "leaving") == [3, 1], during=60)
    assert b'warm_deficit{pool="leaving"}' not in exposition(fleet.registry)

    await fleet.api.merge_patch(RunnerPool, "leaving", {"metadata": {"finalizers": None}}, namespace="default")
    await fleet.until("gone from the metrics", lambda: b'pool="leaving"' not in exposition(fleet.registry))
    assert b'paddock_runner_pool_want{pool="fixed"} 3.0' in exposition(fleet.registry)


@simulated(seeds=2)
async def test_switching_it_off_keeps_the_replicas_and_takes_back_what_was_said(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(20)
    await fleet.pool("xcode", floor=4)
    await fleet.until("said", lambda: fleet.replicas("xcode") == [4] and fleet.said("xcode").status == "True")
    off = {"spec": {"autoscaling": {"enabled": False}}}
    await fleet.api.merge_patch(RunnerPool, "xcode", off, namespace="default")
    await fleet.until("silence", lambda: all(c.type != "Autoscaled" for c in fleet.seen("xcode").status.conditions))
    assert fleet.replicas("xcode") == [4]


@simulated(seeds=2)
async def test_a_condition_that_another_writes_at_the_same_time_is_never_lost(world: World) -> None:
    fleet = ScalingWorld(world, alone=True)
    await fleet.nodes(20)
    await fleet.pool("xcode", cooldown=0)
    rng = world.rng("another writer")
    reasons: dict[str, str] = {}
    for number in range(80):
        fleet.retirement.say("xcode", claimed=number % 7)
        await fleet.clock.sleep(rng.uniform(0.0, 1.0))
        await _write_beside(fleet, f"Round{number}")
        await fleet.clock.sleep(rng.uniform(0.0, 1.0))
        reasons = {c.type: c.reason for c in fleet.seen("xcode").status.conditions}
        assert reasons["Other"] == f"Round{number}"
    assert "Autoscaled" in reasons


async def _write_beside(fleet: ScalingWorld, reason: str) -> None:
    """Another writer of the same list, as careful as the autoscaler."""
    while True:
        pool = await fleet.api.get(RunnerPool, "xcode", "default")
        other = Condition(type="Other", status="True", reason=reason)
        patch = {
            "metadata": {"resourceVersion": pool.metadata.resource_version},
            "status": {"conditions": set_condition(pool.status.conditions, other, fleet.clock.now())},
        }
        with suppress(ConflictError):
            await fleet.api.merge_patch(RunnerPool, "xcode", patch, namespace="default", subresource="status")
            return


def uncounted(pool: RunnerPool) -> RunnerPool:
    """Without the moment at which it was counted, and the version that comes with it."""
    meta = replace(pool.metadata, resource_version="")
    return replace(pool, metadata=meta, status=replace(pool.status, observed_at=None))


@simulated(seeds=2)
async def test_of_an_idle_pool_only_when_it_was_counted_is_written(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(20)
    await fleet.pool("xcode", floor=0)
    await fleet.until("looked at", lambda: fleet.said("xcode").status == "True")
    await fleet.clock.sleep(120)
    before = uncounted(fleet.seen("xcode"))
    asked = len(fleet.retirement.asked)
    await fleet.clock.sleep(300)
    assert uncounted(fleet.seen("xcode")) == before
    assert len(fleet.retirement.asked) - asked >= 50


@simulated(seeds=2)
async def test_the_overhead_of_a_runtime_class_counts_and_a_missing_one_changes_nothing(world: World) -> None:
    fleet = ScalingWorld(world, crd_of(RuntimeClass))
    await fleet.nodes(1, fleet="metal", memory="100Gi")
    linux = {"os": "linux", "fleet_selector": "metal", "pod_memory_mb": 8 * 1024, "runtime_class": "kata-qemu"}
    await fleet.pool("kata", floor=20, replicas=2, **linux)
    await fleet.until("it is said", lambda: fleet.said("kata").reason == "CostUnknown")
    assert "there is no RuntimeClass kata-qemu" in fleet.said("kata").message
    assert fleet.replicas("kata") == [2]

    overhead = RuntimeClass.Overhead(pod_fixed={"memory": "1Gi", "cpu": "250m"})
    await fleet.api.create(RuntimeClass(metadata=ObjectMeta(name="kata-qemu"), overhead=overhead))
    await fleet.until("90 GiB are ten Pods of 9 GiB", lambda: fleet.replicas("kata") == [10])


@simulated(seeds=1)
async def test_a_pool_grows_when_a_window_opens_and_shrinks_after_it_has_closed(world: World) -> None:
    fleet = ScalingWorld(world, alone=True)
    await fleet.nodes(20)
    opens = fleet.clock.now() + timedelta(minutes=2)
    window = WarmWindow(
        name="rush", start=f"{opens.minute} {opens.hour} * * *", duration_minutes=5, min_warm_pool_floor=6
    )
    scaling = Autoscaling(
        enabled=True, min_warm_pool_floor=1, max_replicas=9, scale_down_cooldown_seconds=60, warm_windows=(window,)
    )
    await fleet.pool("xcode", autoscaling=scaling)
    await fleet.until("its own floor", lambda: fleet.replicas("xcode") == [1])
    await fleet.until("it says when", lambda: "rush opens next" in _windows(fleet).message)

    await fleet.until("the window's floor", lambda: fleet.replicas("xcode") == [6], within=130)
    assert _windows(fleet).reason == "Open"
    assert "6 to stay warm (rush)" in fleet.said("xcode").message
    await fleet.until("its own floor again", lambda: fleet.replicas("xcode") == [1], within=5 * 60 + 75)
    assert _windows(fleet).reason == "Closed"


@simulated(seeds=1)
async def test_what_is_said_of_windows_goes_when_they_are_taken_off(world: World) -> None:
    fleet = ScalingWorld(world, alone=True)
    await fleet.nodes(2)
    bad = WarmWindow(start="every morning", duration_minutes=5, min_warm_pool_floor=6)
    await fleet.pool("xcode", autoscaling=Autoscaling(enabled=False, warm_windows=(bad,)))
    await fleet.until("refused", lambda: _windows(fleet).reason == "WindowRefused")

    await fleet.api.merge_patch(RunnerPool, "xcode", {"spec": {"autoscaling": {"warmWindows": None}}}, "default")
    await fleet.until("nothing is said", lambda: not fleet.seen("xcode").status.conditions)


def _windows(fleet: ScalingWorld) -> Condition:
    found = get_condition(fleet.seen("xcode").status.conditions, WARM_WINDOWS)
    assert found is not None
    return found


@simulated(seeds=1)
async def test_a_pool_says_that_github_calls_its_runners_too_old_until_one_works(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(20)
    await fleet.pool("xcode")
    await fleet.pool("fixed", enabled=False, replicas=1)
    await fleet.until("the floor stands", lambda: fleet.replicas("xcode", "fixed") == [1, 1])

    def said(name: str) -> Condition | None:
        return get_condition(fleet.seen(name).status.conditions, RUNNER_VERSION)

    assert (said("xcode"), said("fixed")) == (None, None)
    since = fleet.clock.now()
    for name in ("xcode", "fixed"):
        fleet.retirement.say(name, too_old=4, too_old_since=since)
    await fleet.until("both say so", lambda: bool(said("xcode") and said("fixed")), within=90.0)
    for name in ("xcode", "fixed"):
        condition = said(name)
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "RunnerTooOld")
        assert "4 runners of image image:1" in condition.message
        fleet.retirement.say(name)
    await fleet.until("one worked", lambda: said("xcode") is None and said("fixed") is None, within=90.0)
