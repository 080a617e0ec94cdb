"""What a Mac reports becomes a Node and the status of its Pods, and nothing else."""

import asyncio

from integration.gateway.rig import FLEET, NAMESPACE, Rig, until
from msgspec.structs import replace

from paddock.base.names import FLEET_LABEL, MACOS_TAINT, VM_RESOURCE
from paddock.clients.gateway.messages import End, PodReport, PodState, Reason, Stated
from paddock.kube.builtin import Node, Pod


def living(pod: Pod, state: PodState, **more) -> PodReport:
    meta = pod.metadata
    return PodReport(
        state=state, namespace=meta.namespace, name=meta.name, accepted_at=meta.creation_timestamp, vm="pdk-a", **more
    )


def ended(pod: Pod, rig: Rig, state: PodState = PodState.ENDED) -> PodReport:
    end = End(True, 0, "Completed", rig.clock.now(), "the last lines")
    return living(pod, state, running_at=pod.metadata.creation_timestamp, end=end)


def named(pod: Pod, report: PodReport) -> dict[str, PodReport]:
    return {pod.metadata.uid: report}


async def phase(rig: Rig, pod: Pod) -> str:
    seen = await rig.seen(pod)
    return seen.status.phase if seen is not None else "gone"


async def test_a_report_makes_the_node_with_what_its_machine_says_and_the_mac_can_only_lower(rig: Rig):
    mac = await rig.machine("mac-1")
    mac.facts = replace(mac.facts, seats=9)
    await mac.report()
    node: Node = await until(lambda: rig.node("mac-1"))
    assert node.metadata.labels[FLEET_LABEL] == FLEET
    assert MACOS_TAINT in {taint.key for taint in node.spec.taints}
    assert node.spec.provider_id == "scw-applesilicon://fr-par-1/mac-1"
    assert node.status.capacity[VM_RESOURCE] == "2"
    ready = await until(lambda: shown(rig, "mac-1", "Ready"))
    assert ready == ("True", "AgentReady")


async def shown(rig: Rig, name: str, kind: str) -> tuple[str, str] | None:
    node = await rig.node(name)
    found = [each for each in node.status.conditions if each.type == kind] if node is not None else []
    return (found[0].status, found[0].reason) if found else None


async def test_a_pod_goes_from_waiting_to_its_end_and_is_removed_only_after_the_mac_let_go_of_it(rig: Rig):
    mac = await rig.machine("mac-1")
    answer = await mac.report()
    pod = await rig.pod("runner-1", "mac-1")
    answer = await mac.report()
    assert [(each.name, each.recorded) for each in answer.pods] == [("runner-1", None)]
    await mac.report(named(pod, living(pod, PodState.PULLING, waits=Reason("ImagePulling", "macos:26 is pulled"))))
    await until(lambda: phase_is(rig, pod, "Pending"))
    began = pod.metadata.creation_timestamp
    await mac.report(
        named(pod, living(pod, PodState.READY, running_at=began, ready_at=began, asking_at=began, asks=True))
    )
    await until(lambda: phase_is(rig, pod, "Running"))
    await rig.delete(pod)
    await until(lambda: is_leaving(rig, pod))
    answer = await mac.report(named(pod, ended(pod, rig)))
    assert [each.ending for each in answer.pods] == [30]
    await until(lambda: phase_is(rig, pod, "Succeeded"))
    answer = await mac.report(named(pod, ended(pod, rig)))
    assert [each.recorded for each in answer.pods] == [PodState.ENDED], "its clone is still there, and so is the Pod"
    await mac.report(named(pod, ended(pod, rig, PodState.CLEARED)))
    await until(lambda: phase_is(rig, pod, "gone"))


def is_leaving(rig: Rig, pod: Pod) -> bool:
    seen = rig.gateways[0].pods.reader.get(pod.metadata.name, NAMESPACE)
    return seen is not None and seen.metadata.deletion_timestamp is not None


async def phase_is(rig: Rig, pod: Pod, wanted: str) -> bool:
    return await phase(rig, pod) == wanted


async def test_an_end_is_written_once_and_a_pod_never_goes_back(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    await mac.report(named(pod, ended(pod, rig)))
    await until(lambda: phase_is(rig, pod, "Succeeded"))
    began = pod.metadata.creation_timestamp
    await mac.report(named(pod, living(pod, PodState.READY, running_at=began, asks=True)))
    failed = replace(ended(pod, rig), end=End(False, 1, "Error", rig.clock.now(), "another end"))
    await mac.report(named(pod, failed))
    mac.conditions = {"Ready": Stated(False, "NoSession", "nobody is logged in")}
    await mac.report(named(pod, failed))
    await until(lambda: shown_is(rig, "Ready", ("False", "NoSession")))
    assert await phase(rig, pod) == "Succeeded"


async def shown_is(rig: Rig, kind: str, wanted: tuple[str, str]) -> bool:
    return await shown(rig, "mac-1", kind) == wanted


async def test_a_mac_writes_no_pod_that_is_bound_elsewhere(rig: Rig):
    mac, other = await rig.machine("mac-1"), await rig.machine("mac-2")
    mine, theirs = await rig.pod("runner-1", "mac-1"), await rig.pod("runner-2", "mac-2")
    await other.report()
    await rig.delete(theirs)
    await mac.report(
        named(theirs, ended(theirs, rig, PodState.CLEARED)) | named(mine, ended(mine, rig, PodState.CLEARED))
    )
    await until(lambda: phase_is(rig, mine, "Succeeded"))
    assert await phase(rig, theirs) == "Pending"
    assert (await mac.log(theirs.metadata.uid, 0, b"hello")).status_code == 404
    assert (await mac.job(theirs.metadata.uid)).status_code == 503
    assert (rig.dispatch.asked, rig.dispatch.logs) == ([], {})


async def test_a_held_report_is_answered_as_soon_as_a_pod_is_bound(rig: Rig):
    mac = await rig.machine("mac-1")
    await mac.report()
    held = asyncio.create_task(mac.report(hold=20))
    await until(lambda: rig.gateways[0]._changes._waiting)
    pod = await rig.pod("runner-1", "mac-1")
    answer = await held
    assert [each.uid for each in answer.pods] == [pod.metadata.uid]


async def test_while_the_watch_does_not_follow_reports_are_held_and_answered_as_soon_as_it_does(rig: Rig):
    mac, gateway = await rig.machine("mac-1"), rig.gateways[0]
    gateway.pods.synced.clear()
    assert not (await mac.report()).complete
    held = asyncio.create_task(mac.report(hold=20))
    await until(lambda: gateway._changes._waiting)
    assert not held.done()
    gateway.pods.synced.set()
    gateway._changes.ring_all()
    assert (await held).complete


async def test_a_report_that_arrives_late_changes_nothing(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    began = pod.metadata.creation_timestamp
    late = mac.body(named(pod, living(pod, PodState.ACCEPTED)))
    await mac.report(named(pod, living(pod, PodState.READY, running_at=began, asks=True)))
    await until(lambda: phase_is(rig, pod, "Running"))
    assert (await mac.send(late)).status_code == 200
    assert await phase(rig, pod) == "Running"


async def test_another_agent_with_the_same_key_is_refused_and_counts_for_nothing(rig: Rig):
    mac = await rig.machine("mac-1")
    await mac.report()
    await until(lambda: rig.node("mac-1"))
    twin = type(mac)(rig, "mac-1", mac.key, folder="folder-2")
    assert (await twin.send(twin.body())).status_code == 409
    copied = type(mac)(rig, "mac-1", mac.key)
    copied.sequence, copied.facts = 10, replace(copied.facts, machine_id="another-mac")
    refused = await copied.send(copied.body())
    assert refused.status_code == 409
    assert "another Mac reports as Node mac-1" in refused.json()["reason"]


async def test_the_first_report_of_another_mac_than_the_one_that_was_given_the_key_counts_for_nothing(rig: Rig):
    mac = await rig.machine("mac-1", machine_id="id-of-mac-1")
    copied = type(mac)(rig, "mac-1", mac.key, folder="folder-2")
    copied.facts = replace(copied.facts, machine_id="another-mac")
    refused = await copied.send(copied.body())
    assert refused.status_code == 409
    assert "another Mac reports as Node mac-1" in refused.json()["reason"]
    assert await rig.node("mac-1") is None
    await mac.report()
    await until(lambda: rig.node("mac-1"))
    assert (await copied.send(copied.body())).status_code == 409, "and neither does a later one"


async def test_a_node_of_somebody_else_is_never_written(rig: Rig):
    await rig.client.create(
        {"metadata": {"name": "mac-1", "labels": {"node-role.kubernetes.io/control-plane": ""}}, "spec": {}},
        Node.RESOURCE,
    )
    mac = await rig.machine("mac-1")
    before = await rig.node("mac-1")
    await mac.report()
    await until(lambda: rig.gateways[0].writing.idle("mac-1"))
    after = await rig.node("mac-1")
    assert before is not None
    assert after is not None
    assert (after.metadata.labels, after.status) == (before.metadata.labels, before.status)


async def test_a_job_without_a_pod_here_keeps_the_mac_from_being_taken_for_idle(rig: Rig):
    mac = await rig.machine("mac-1")
    job = PodReport(state=PodState.HANDED, namespace=NAMESPACE, name="runner-9", vm="pdk-9", cluster="another")
    answer = await mac.report({"uid-9": job})
    node: Node = await until(lambda: rig.node("mac-1"))
    found = {each.type: each.reason for each in node.status.conditions}
    assert found["OtherClusterVMs"] == "OneJob"
    assert answer.absent == {"uid-9": "unknown"}, "the ledger did not say that nothing runs there"
    rig.dispatch.working = {}
    assert (await mac.report({"uid-9": job})).absent == {"uid-9": "unknown"}, "this ledger cannot know of that job"
    over = replace(job, state=PodState.ENDED)
    assert (await mac.report({"uid-9": over})).absent == {"uid-9": "gone"}, "nothing of it runs"
    rig.dispatch.working = {"uid-9": "running"}
    assert (await mac.report({"uid-9": job})).absent == {"uid-9": "unknown"}


async def test_a_released_mac_is_refused_by_a_fresh_read_and_no_node_is_made_for_it(rig: Rig):
    mac = await rig.machine("mac-1")
    await rig.client.merge_patch(
        type_of_host(), "host-of-mac-1", {"spec": {"release": {"policy": "pool", "reason": "Deleted"}}}, "paddock"
    )
    await until(lambda: refused(mac))
    assert await rig.node("mac-1") is None


def type_of_host():
    from paddock.hosts.api import ScalewayAppleSiliconHost

    return ScalewayAppleSiliconHost


async def refused(mac) -> bool:
    return (await mac.send(mac.body())).status_code == 401
