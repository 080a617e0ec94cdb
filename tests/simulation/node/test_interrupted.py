"""The agent dies before and after each effect, and each answer is lost: one VM a uid, no orphan, one report of the end."""

import pytest
from simulation.branches import interrupted_calls
from simulation.node.node_world import NODE, NodeWorld, over_gateway

from paddock.simulator.faults import EffectCall
from paddock.simulator.interruptions import Interruption
from paddock.simulator.process import World


def an_effect(call: EffectCall) -> bool:
    """Everything that the agent changes; reads are repeated anyway, and Leases and posts of the log have tests of their own."""
    if call.process != "agent":
        return False
    if call.method == "GET":
        return False
    return "leases" not in call.name and not call.name.endswith("/log")


def a_write_of_the_gateway(call: EffectCall) -> bool:
    """Its Leases, too: by them every replica knows which report counts."""
    return call.process == "gateway" and call.method != "GET"


async def job_runs_once(world: World, *, replicas: int = 1) -> None:
    """From a Pod to the end of its job, to its deletion, and to nothing."""
    mac = NodeWorld(world, replicas=replicas)
    mac.duration = 6.0
    mac.dispatch.jobs.append("job-1")
    uid = await mac.pod("p1")

    async def over() -> bool:
        return await mac.phase("p1") in ("Succeeded", "Failed")

    await mac.eventually("the Pod has ended", over, within=200.0)
    pod = await mac.see("p1")
    assert pod is not None
    assert len([name for name in mac.tart.ledger.runs if name == mac.vm(uid)]) == 1, mac.tart.ledger.runs
    assert len(mac.ran) <= 1
    # A job that dispatch gave away was run, or its answer was lost on the way, and then no guest had it.
    state = pod.status.container_statuses[0].state.terminated
    assert state is not None
    assert (pod.status.phase, state.exit_code) == ("Succeeded", 0)
    assert mac.ran == ["job-1"] or "dispatch lets the Pod go" in state.message, state
    await world.clock.sleep(15.0)
    again = await mac.see("p1")
    assert again is not None
    assert again.status == pod.status, "the end changed after it was reported"
    await mac.delete("p1")
    await mac.eventually("nothing is left", lambda: not mac.entries() and mac.vm(uid) not in mac.tart.vms)
    assert not mac.tart.running()
    assert await mac.node() is not None


async def deletion_ends_the_vm(world: World) -> None:
    """An idle Pod is deleted: its VM halts, and the object goes last."""
    mac = NodeWorld(world)
    uid = await mac.pod("p1")
    await mac.is_ready("p1")
    await mac.delete("p1")

    async def gone() -> bool:
        return await mac.phase("p1") == "gone"

    await mac.eventually("the Pod is gone", gone, within=200.0)
    assert not mac.tart.running(), "the object went before its VM"
    await mac.eventually("nothing is left", lambda: not mac.entries() and mac.vm(uid) not in mac.tart.vms)
    assert len(mac.tart.ledger.runs) == 1


async def image_is_pulled(world: World) -> None:
    mac = NodeWorld(world, held=False)
    uid = await mac.pod("p1")
    await mac.is_ready("p1", within=400.0)
    assert mac.tart.ledger.runs == [mac.vm(uid)]
    assert await mac.node() is not None, NODE


# A crash behind every effect belongs to every change; the other ways are tried by `test-slow`.
KINDS = [
    pytest.param(kind, id=kind.value, marks=() if kind is Interruption.CRASH_AFTER else pytest.mark.slow)
    for kind in Interruption
]


@pytest.mark.parametrize("kind", KINDS)
def test_one_vm_and_one_end_whatever_happens_at_any_effect_of_a_job(kind: Interruption) -> None:
    calls = interrupted_calls(job_runs_once, kinds=[kind], only=an_effect)
    names = {call.name.split(" /")[0].split(" pdk")[0] for call in calls}
    assert {"tart clone", "tart set", "tart run", "tart delete", "disk write pod.json", "disk write job"} <= names
    assert len(calls) > 20


@pytest.mark.parametrize("kind", KINDS)
def test_the_vm_ends_before_its_pod_whatever_happens_at_any_effect_of_a_deletion(kind: Interruption, link: str) -> None:
    calls = interrupted_calls(deletion_ends_the_vm, kinds=[kind], only=an_effect)
    assert "disk write stop" in {call.name for call in calls}
    assert ("DELETE" in {call.method for call in calls}) == (link == "kubernetes"), "a gateway removes the Pod"


@over_gateway
@pytest.mark.parametrize("kind", KINDS)
def test_one_vm_and_one_end_whatever_happens_at_any_write_of_the_gateway_for_a_job(kind: Interruption) -> None:
    calls = interrupted_calls(job_runs_once, kinds=[kind], only=a_write_of_the_gateway)
    names = {call.name for call in calls}
    assert {"POST /api/v1/nodes", "PATCH /api/v1/namespaces/default/pods/p1/status"} <= names
    assert any("leases" in name for name in names)


@over_gateway
@pytest.mark.parametrize("kind", KINDS)
def test_the_vm_ends_before_its_pod_whatever_happens_at_any_write_of_the_gateway_for_a_deletion(
    kind: Interruption,
) -> None:
    calls = interrupted_calls(deletion_ends_the_vm, kinds=[kind], only=a_write_of_the_gateway)
    assert "DELETE /api/v1/namespaces/default/pods/p1" in {call.name for call in calls}


@over_gateway
@pytest.mark.parametrize("kind", KINDS)
def test_one_vm_and_one_end_whatever_happens_at_any_write_of_one_of_two_replicas(kind: Interruption) -> None:
    async def with_two(world: World) -> None:
        await job_runs_once(world, replicas=2)

    calls = interrupted_calls(with_two, kinds=[kind], only=a_write_of_the_gateway)
    assert any("leases" in call.name for call in calls)


def test_a_pull_that_is_interrupted_is_made_again() -> None:
    calls = interrupted_calls(
        image_is_pulled, only=lambda call: call.name.startswith(("tart pull", "tart clone tuist"))
    )
    assert len(calls) == 8
