"""Nodes that are drained: an idle Pod goes at once, one with a job is left to its end, whoever drains."""

from typing import Any

import httpx2
import pytest
from integration.runners.dispatch.rig import ADMIN, NAMESPACE, Rig
from integration.runners.ledger.rig import ACME, job

from paddock.clients import github
from paddock.kube.builtin import Pod
from paddock.runners.api import UNDISTURBED


async def evicted(rig: Rig, name: str) -> tuple[int, dict[str, Any]]:
    """What `kubectl drain` sends for each Pod of the Node."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
    async with httpx2.AsyncClient(transport=rig.cluster.transport, base_url="http://cluster") as http:
        answer = await http.post(
            f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction",
            json=body,
            headers={"Authorization": f"Bearer {ADMIN.reveal()}"},
        )
    return answer.status_code, answer.json()


async def test_a_pod_with_a_job_is_not_evicted_and_goes_once_it_has_ended(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(7))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    assert UNDISTURBED.items() <= (await rig.cluster.seen(pod)).metadata.annotations.items()
    code, said = await evicted(rig, pod.name)
    assert (code, said["reason"]) == (429, "TooManyRequests")
    assert said["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert (await rig.cluster.seen(pod)).metadata.deletion_timestamp is None
    ended = {"status": {"phase": "Succeeded"}}
    await rig.cluster.client.merge_patch(Pod, pod.name, ended, NAMESPACE, subresource="status")
    assert (await evicted(rig, pod.name))[0] == 201


async def test_an_idle_pod_is_evicted_at_once(rig: Rig):
    pod = await rig.cluster.pod(1)
    assert (await evicted(rig, pod.name))[0] == 201


@pytest.mark.parametrize("before", [True, False])
async def test_a_pod_whose_job_was_given_back_may_be_evicted_again(rig: Rig, before: bool):
    """Also one that was assigned by a release which put no such annotations on."""
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    rig.github.mint_failures = [github.Invalid("labels")]

    async def without() -> None:
        if not before:
            bare = {"metadata": {"annotations": dict.fromkeys(UNDISTURBED)}}
            await rig.cluster.client.merge_patch(Pod, pod.name, bare, NAMESPACE)

    rig.github.before_mint = without
    await rig.bench.queue(job(7))
    assert (await dispatcher.ask(pod, wait=1)).status_code == 204
    assert not UNDISTURBED.keys() & (await rig.cluster.seen(pod)).metadata.annotations.keys()
    assert (await evicted(rig, pod.name))[0] == 201
