"""A Mac asks for the jobs of its own Pods and posts their logs; its key is proven afresh before a job is handed over."""

from dataclasses import replace

import pytest
from integration.gateway.rig import HOSTS, NAMESPACE, FakeMac, Rig, a_rig, until

from paddock.base.secrets import Secret
from paddock.clients.gateway.messages import PodReport, PodState
from paddock.gateway.jobs import KeyProof
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Pod
from paddock.runners.dispatch.identity import IdentityError, NotAllowed, Unauthenticated
from paddock.runners.dispatch.waiting_pods import HandedJob, PollAnswer


async def proof_of(rig: Rig, mac: FakeMac, pod: Pod) -> KeyProof:
    await mac.job(pod.metadata.uid)
    _, proof = rig.dispatch.asked[-1]
    assert isinstance(proof, KeyProof)
    return proof


async def refusal(proof: KeyProof) -> IdentityError | None:
    try:
        await proof.confirm()
    except IdentityError as error:
        return error
    return None


async def test_a_mac_is_handed_the_job_of_its_pod_with_the_pool_that_the_pods_label_names(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    assert (await mac.job(pod.metadata.uid)).status_code == 204
    rig.dispatch.answer = PollAnswer(200, "handed", handed=HandedJob(Secret("jit-config"), "acme", 42))
    handed = await mac.job(pod.metadata.uid, softnet=False)
    assert handed.json() == {"encoded_jit_config": "jit-config", "owner": "acme", "workflow_job_id": 42}
    identity, proof = rig.dispatch.asked[-1]
    assert (identity.name, identity.uid, identity.pool) == ("runner-1", pod.metadata.uid, "mac")
    assert proof.mac is not None
    assert not proof.mac.softnet
    await proof.confirm()


async def test_a_refusal_of_dispatch_reaches_the_mac_in_its_own_words(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    rig.dispatch.answer = PollAnswer(503, "neighbour", "another account works there", retry_after=25.0)
    answer = await mac.job(pod.metadata.uid)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "25")
    assert answer.json() == {"error": "neighbour", "reason": "another account works there"}


async def test_a_pod_of_another_fleet_gets_no_job_on_this_mac(rig: Rig):
    mac = await rig.machine("mac-1", fleet="m2")
    pod = await rig.pod("runner-1", "mac-1", fleet="m4")
    refused = await mac.job(pod.metadata.uid)
    assert refused.status_code == 403
    assert "this Mac is of m2" in refused.json()["reason"]
    assert rig.dispatch.asked == []


async def test_a_machine_that_is_being_deleted_gets_no_new_job_and_its_reports_count(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    proof = await proof_of(rig, mac, pod)
    await rig.client.merge_patch(
        ScalewayAppleSiliconMachine, "mac-1", {"metadata": {"finalizers": ["tuist.dev/test"]}}, HOSTS
    )
    await rig.client.delete(ScalewayAppleSiliconMachine, "mac-1", HOSTS)
    assert isinstance(await refusal(proof), NotAllowed)
    await until(lambda: is_leaving(rig))
    assert (await mac.job(pod.metadata.uid)).status_code == 410
    await mac.report()


def is_leaving(rig: Rig) -> bool:
    seen = rig.gateways[0].machines.reader.get("mac-1", HOSTS)
    return seen is not None and seen.metadata.deletion_timestamp is not None


async def test_a_key_that_ended_while_its_request_was_held_hands_over_nothing(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    proof = await proof_of(rig, mac, pod)
    assert await refusal(proof) is None
    await rig.client.merge_patch(
        ScalewayAppleSiliconHost, "host-of-mac-1", {"spec": {"claim": {"keyHash": None}}}, HOSTS
    )
    assert isinstance(await refusal(proof), Unauthenticated)


@pytest.mark.parametrize("change", ["deleted", "gone"])
async def test_a_pod_that_is_on_its_way_out_is_handed_nothing(rig: Rig, change: str):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    proof = await proof_of(rig, mac, pod)
    if change == "deleted":
        await rig.delete(pod)
    else:
        await rig.client.delete(Pod, "runner-1", NAMESPACE, grace_period=0)
    assert isinstance(await refusal(proof), NotAllowed)


async def test_a_claim_whose_machine_is_gone_may_only_say_how_its_pods_ended(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    await rig.client.delete(ScalewayAppleSiliconMachine, "mac-1", HOSTS)
    await until(lambda: rig.gateways[0].machines.reader.get("mac-1", HOSTS) is None)
    began = pod.metadata.creation_timestamp
    said = PodReport(state=PodState.READY, namespace=NAMESPACE, name="runner-1", accepted_at=began, running_at=began)
    await mac.report({pod.metadata.uid: said})
    assert (await mac.job(pod.metadata.uid)).status_code == 410
    assert (await mac.log(pod.metadata.uid, 0, b"last words")).json() == {"next": 10}
    await rig.delete(pod)
    cleared = PodReport(state=PodState.CLEARED, namespace=NAMESPACE, name="runner-1", accepted_at=began)
    await mac.report({pod.metadata.uid: cleared})
    await until(lambda: is_gone(rig, pod))
    assert await rig.node("mac-1") is None, "no Node is made for a Mac without a Machine"


async def is_gone(rig: Rig, pod: Pod) -> bool:
    return await rig.seen(pod) is None


async def test_marks_count_only_with_the_report_that_brought_them(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    uid, began = pod.metadata.uid, pod.metadata.creation_timestamp
    working = PodReport(state=PodState.HANDED, namespace=NAMESPACE, name="runner-1", accepted_at=began, mark="17")
    late = mac.body({uid: working})
    await mac.report({uid: working})
    await mac.send(late)
    assert rig.dispatch.marks == [(uid, "17")]


async def test_without_a_ledger_reports_go_on_and_jobs_and_logs_wait(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    gateway = rig.gateways[0]
    gateway._deps = replace(gateway._deps, jobs=lambda: None)
    for answer in (await mac.job(pod.metadata.uid), await mac.log(pod.metadata.uid, 0, b"x")):
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    await mac.report()
    await until(lambda: rig.node("mac-1"))


async def test_two_replicas_tell_one_story(rig: Rig):
    async with a_rig(2) as both:
        mac = await both.machine("mac-1")
        pod = await both.pod("runner-1", "mac-1")
        uid, began = pod.metadata.uid, pod.metadata.creation_timestamp
        waits = PodReport(state=PodState.ACCEPTED, namespace=NAMESPACE, name="runner-1", accepted_at=began)
        runs = PodReport(
            state=PodState.READY, namespace=NAMESPACE, name="runner-1", accepted_at=began, running_at=began, asks=True
        )
        for turn in range(6):
            await mac.report({uid: waits if turn < 3 else runs}, via=turn % 2)
        await until(lambda: runs_now(both, pod))


async def runs_now(rig: Rig, pod: Pod) -> bool:
    seen = await rig.seen(pod)
    return seen is not None and seen.status.phase == "Running"


async def test_a_mac_that_reports_too_often_is_told_to_wait_and_its_key_alone():
    async with a_rig(paced=True) as rig:
        mac, other = await rig.machine("mac-1"), await rig.machine("mac-2")
        answers = [(await mac.send(mac.body())).status_code for _ in range(8)]
        assert answers[:4] == [200] * 4
        assert 429 in answers
        assert (await other.send(other.body())).status_code == 200
