"""A Mac asks for its Pods' jobs with a key of its own: what it is given, and never more than it has VMs."""

import asyncio
from dataclasses import dataclass

from integration.runners.dispatch.rig import NAMESPACE, Dispatcher, Rig, RunnerPod
from integration.runners.ledger.rig import ACME, BOLT, job

from paddock.kube.builtin import Pod
from paddock.runners.dispatch.identity import NotAllowed, Unreachable
from paddock.runners.dispatch.pod_proof import AskingMac
from paddock.runners.dispatch.waiting_pods import PollAnswer

MAC = "mac-1"
BEHIND_SOFTNET = AskingMac("uid-of-mac-1", softnet=True)


@dataclass
class Key:
    """The proof of a Mac's key, as the gateway makes it."""

    mac: AskingMac = BEHIND_SOFTNET
    refusal: Exception | None = None
    seconds: float = float("inf")

    async def confirm(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def lasts(self) -> float:
        return self.seconds


async def stays() -> None:
    await asyncio.Event().wait()


async def ask(dispatcher: Dispatcher, pod: RunnerPod, key: Key, hold: float = 5.0) -> PollAnswer | None:
    return await dispatcher.service.requests.wait_for_job(pod.identity, key, hold, stays)


async def ends(rig: Rig, pod: RunnerPod) -> None:
    """Its VM has ended, as the cluster shows it; the ledger does not know it yet."""
    await rig.cluster.client.merge_patch(
        Pod, pod.name, {"status": {"phase": "Succeeded"}}, NAMESPACE, subresource="status"
    )


async def gets_a_job(rig: Rig, dispatcher: Dispatcher, number: int, account: int = ACME) -> RunnerPod:
    pod = await rig.cluster.pod(number, node=MAC)
    await rig.bench.queue(job(number, account))
    answer = await ask(dispatcher, pod, Key())
    assert answer is not None
    assert answer.handed is not None, answer
    assert answer.handed.job_id == number
    return pod


async def test_a_mac_is_given_two_jobs_and_no_third_until_one_of_its_pods_has_ended(rig: Rig):
    await rig.accounts(ACME, vcpus=24)
    await rig.cluster.node(MAC, softnet=True)
    dispatcher = await rig.dispatcher()
    first = await gets_a_job(rig, dispatcher, 1)
    await gets_a_job(rig, dispatcher, 2)
    rig.bench.clock.advance(300.0)
    third = await rig.cluster.pod(3, node=MAC)
    await rig.bench.queue(job(3))
    refused = await ask(dispatcher, third, Key())
    assert refused is not None
    assert (refused.status, dispatcher.count("paddock_dispatch_undone_total", reason="mac_full")) == (503, 1)
    assert "Mac mac-1 has 2 jobs" in refused.reason
    assert await rig.bench.status(3) == "queued", "the job keeps its place for another Mac"
    await ends(rig, first)
    served = await ask(await rig.dispatcher(), third, Key())
    assert served is not None
    assert served.handed is not None


async def test_a_mac_that_ends_every_job_at_once_gets_one_a_minute_for_each_of_its_vms(rig: Rig):
    await rig.accounts(ACME, vcpus=24)
    await rig.cluster.node(MAC, softnet=True)
    dispatcher = await rig.dispatcher()
    for number in (1, 2):
        await ends(rig, await gets_a_job(rig, dispatcher, number))
    third = await rig.cluster.pod(3, node=MAC)
    await rig.bench.queue(job(3))
    refused = await ask(dispatcher, third, Key())
    assert refused is not None
    assert (refused.status, dispatcher.count("paddock_dispatch_undone_total", reason="mac_hasty")) == (503, 1)
    rig.bench.clock.advance(61.0)
    served = await ask(await rig.dispatcher(), third, Key())
    assert served is not None
    assert served.handed is not None


async def test_two_accounts_meet_on_a_mac_only_where_its_node_and_its_own_word_say_softnet(rig: Rig):
    await rig.accounts(ACME, BOLT)
    await rig.cluster.node(MAC, softnet=True)
    dispatcher = await rig.dispatcher()
    await gets_a_job(rig, dispatcher, 1)
    beside = await rig.cluster.pod(2, node=MAC)
    await rig.bench.queue(job(2, BOLT))
    lagging = await ask(dispatcher, beside, Key(AskingMac("uid-of-mac-1", softnet=False)))
    assert lagging is not None
    assert (lagging.status, lagging.outcome) == (503, "neighbour"), "the label lags a VM without Softnet"
    other = await rig.cluster.pod(3, node="mac-2")
    served = await ask(dispatcher, other, Key(AskingMac("uid-of-mac-2", softnet=False)))
    assert served is not None
    assert served.handed is not None, "alone on its Mac it needs no Softnet"


async def test_a_key_that_is_refused_at_the_hand_over_costs_the_job_nothing(rig: Rig):
    await rig.accounts(ACME)
    dispatcher = await rig.dispatcher()
    pod = await rig.cluster.pod(1, node=MAC)
    await rig.bench.queue(job(1))
    gone = await ask(dispatcher, pod, Key(refusal=NotAllowed("the Mac was let go")))
    assert gone is not None
    assert (gone.status, gone.reason) == (403, "the Mac was let go")
    unknown = await ask(dispatcher, pod, Key(refusal=Unreachable("the cluster cannot be asked")))
    assert unknown is not None
    assert unknown.status == 503
    assert (await rig.bench.status(1), rig.github.minted) == ("queued", [])


async def test_a_request_is_held_no_longer_than_its_proof_lasts(rig: Rig):
    await rig.accounts(ACME)
    dispatcher = await rig.dispatcher()
    pod = await rig.cluster.pod(1, node=MAC)
    answer = await ask(dispatcher, pod, Key(seconds=0.05), hold=60.0)
    assert answer is not None
    assert answer.status == 204
