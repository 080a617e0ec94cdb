"""Two accounts are never served beside each other on a Mac without Softnet, whoever asks, in whatever order, of however many."""

import asyncio
import random
from typing import Any

import httpx2
import pytest
from integration.runners.dispatch.rig import NAMESPACE, Dispatcher, Rig, RunnerPod, until
from integration.runners.ledger.rig import ACME, BOLT, job

from paddock.kube.builtin import Pod
from paddock.runners.api import ACCOUNT_LABEL, OWNER_LABEL
from paddock.runners.ledger import Ledger, Tenant

MAC = "mac-1"


async def ended(rig: Rig, pod: RunnerPod) -> None:
    await rig.cluster.client.merge_patch(
        Pod, pod.name, {"status": {"phase": "Succeeded"}}, NAMESPACE, subresource="status"
    )


async def works(rig: Rig, dispatcher: Dispatcher, number: int, account: int = ACME) -> RunnerPod:
    """A Pod of the Mac that was handed a job of this account."""
    pod = await rig.cluster.pod(number, node=MAC)
    await rig.bench.queue(job(number, account))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    return pod


async def test_another_accounts_job_is_not_put_beside_it_and_another_mac_takes_it(rig: Rig):
    await rig.accounts(ACME, BOLT)
    await rig.cluster.node(MAC)
    dispatcher = await rig.dispatcher()
    await works(rig, dispatcher, 1)
    beside = await rig.cluster.pod(2, node=MAC)
    await rig.bench.queue(job(9, BOLT))
    refused = await dispatcher.ask(beside, wait=5)
    assert (refused.status_code, refused.json()["error"]) == (503, "neighbour")
    assert "Mac mac-1 runs VMs without Softnet" in refused.json()["reason"]
    assert 20 <= int(refused.headers["Retry-After"]) <= 31
    assert await rig.bench.status(9) == "queued"
    assert OWNER_LABEL not in (await rig.cluster.seen(beside)).metadata.labels
    assert len(rig.github.minted) == 1, "no runner was minted for it"
    taken = await dispatcher.ask(await rig.cluster.pod(3, node="mac-2"), wait=5)
    assert taken.json()["workflow_job_id"] == 9


async def test_a_blocked_pod_rests_and_is_not_claimed_for_meanwhile(rig: Rig):
    await rig.accounts(ACME, BOLT)
    dispatcher = await rig.dispatcher()
    await works(rig, dispatcher, 1)
    beside = await rig.cluster.pod(2, node=MAC)
    await rig.bench.queue(job(9, BOLT))
    assert (await dispatcher.ask(beside, wait=5)).status_code == 503
    given_back = dispatcher.count("paddock_dispatch_undone_total", reason="neighbour")
    for _ in range(5):
        again = await dispatcher.ask(beside, wait=1)
        assert (again.status_code, again.json()["error"]) == (503, "neighbour")
    assert dispatcher.count("paddock_dispatch_undone_total", reason="neighbour") == given_back == 1


async def test_the_same_account_has_both_seats(rig: Rig):
    await rig.accounts(ACME, BOLT)
    dispatcher = await rig.dispatcher()
    await works(rig, dispatcher, 1)
    await works(rig, dispatcher, 2)


async def test_behind_softnet_two_accounts_share_a_mac(rig: Rig):
    await rig.accounts(ACME, BOLT)
    await rig.cluster.node(MAC, softnet=True)
    dispatcher = await rig.dispatcher()
    await works(rig, dispatcher, 1)
    await works(rig, dispatcher, 2, BOLT)


async def test_a_mac_is_free_for_the_next_account_once_the_pod_has_ended_and_no_sooner(rig: Rig):
    await rig.accounts(ACME, BOLT)
    first, second = await rig.dispatcher(), await rig.dispatcher()
    pod = await works(rig, first, 1)
    # The job is over and its session closed, and the label was lost on the way: the VM is still there.
    await rig.cluster.label(pod, {ACCOUNT_LABEL: None, OWNER_LABEL: None})
    held, now = await rig.ledger.claims.of_pod(pod.uid), rig.bench.clock.now()
    assert held is not None
    await rig.ledger.jobs.completed(
        1, account_id=ACME, conclusion="success", completed_at=now, runner_name=held.runner_name
    )
    await rig.ledger.sessions.end(pod.uid, now, by="test", why="the job is over")
    assert await rig.ledger.claims.at_work([pod.uid]) == {}
    beside = await rig.cluster.pod(2, node=MAC)
    await rig.bench.queue(job(9, BOLT))
    assert (await first.ask(beside, wait=5)).json()["error"] == "neighbour"
    await ended(rig, pod)
    # Another process has not heard that the Pod rests.
    assert (await second.ask(beside, wait=5)).status_code == 200


async def test_a_pod_that_the_ledger_does_not_know_counts_by_its_label(rig: Rig):
    await rig.accounts(ACME, BOLT)
    dispatcher = await rig.dispatcher()
    await works(rig, dispatcher, 1)
    await rig.cluster.pod(5, node="mac-5", labels={ACCOUNT_LABEL: "77"})
    beside = await rig.cluster.pod(6, node="mac-5")
    await rig.bench.queue(job(9, BOLT))
    answer = await dispatcher.ask(beside, wait=5)
    assert "account number 77" in answer.json()["reason"]


class NoLists(httpx2.AsyncBaseTransport):
    """The way to a cluster that answers everything but a list of one Node's Pods."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.asked = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if "spec.nodeName" in request.url.query.decode():
            self.asked += 1
            raise httpx2.ReadError("the line is cut", request=request)
        return await self._inner.handle_async_request(request)


async def test_what_cannot_be_read_lets_nobody_meet_and_costs_a_lone_account_nothing(rig: Rig):
    await rig.accounts(ACME, BOLT)
    cut = NoLists(rig.cluster.transport)
    dispatcher = await rig.dispatcher(client=rig.cluster.connect(cut))
    await works(rig, dispatcher, 1)
    assert cut.asked == 0, "nobody else was ever here"
    beside = await rig.cluster.pod(2, node=MAC)
    await rig.bench.queue(job(9, BOLT))
    answer = await dispatcher.ask(beside, wait=5)
    assert (answer.status_code, answer.json()["error"]) == (503, "unreachable")
    assert cut.asked
    assert await rig.bench.status(9) == "queued"


async def test_a_linux_pool_is_not_looked_at(rig: Rig):
    await rig.accounts(ACME, BOLT)
    cut = NoLists(rig.cluster.transport)
    await rig.cluster.pool("linux", os="linux")
    dispatcher = await rig.dispatcher(client=rig.cluster.connect(cut))
    for number, account in ((1, ACME), (2, BOLT)):
        pod = await rig.cluster.pod(number, node="vm", pool="linux")
        await rig.bench.queue(job(number, account, pool="linux", platform="linux"))
        assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    assert cut.asked == 0


async def test_the_ledger_tells_whose_pods_are_by_number(rig: Rig):
    await rig.accounts(ACME, BOLT)
    assert await rig.ledger.claims.alone(ACME)
    await rig.bench.queue(job(1, ACME), job(2, BOLT))
    first, second = await rig.bench.claim(1), await rig.bench.claim(2)
    await rig.ledger.claims.commit(first, "runner-one")
    found = await rig.ledger.claims.tenants([first.pod_uid, second.pod_uid, "uid-of-nobody"])
    assert found == {
        first.pod_uid: Tenant(first.account_id, first.login, True),
        second.pod_uid: Tenant(second.account_id, second.login, False),
    }
    assert not await rig.ledger.claims.alone(ACME)
    assert not await rig.ledger.claims.alone(BOLT)


@pytest.mark.parametrize("seed", range(4))
async def test_two_processes_and_two_accounts_at_once_never_share_a_mac(rig: Rig, seed: int):
    """Every rival's claim is in the ledger before anybody looks: both may yield, and never do both pass."""
    await rig.accounts(ACME, BOLT)
    rng = random.Random(seed)
    first, second = await rig.dispatcher(), await rig.dispatcher()
    await rig.bench.queue(job(1, ACME), job(2, BOLT))
    pods = [await rig.cluster.pod(number, node=MAC) for number in (1, 2)]

    async def asks(dispatcher: Dispatcher, pod: RunnerPod) -> int:
        await asyncio.sleep(rng.random() * 0.02)
        return (await dispatcher.ask(pod, wait=2)).status_code

    answers = await asyncio.gather(asks(first, pods[0]), asks(second, pods[1]))
    assert answers.count(200) <= 1
    assert len(rig.github.minted) <= 1
    tenants = await rig.ledger.claims.tenants([pod.uid for pod in pods])
    assert len({tenant.account_id for tenant in tenants.values()}) <= 1
    statuses = sorted([await rig.bench.status(1), await rig.bench.status(2)])
    assert statuses.count("queued") == 2 - answers.count(200), "what was not handed out waits for the next Pod"


class Together:
    """A ledger whose readers of neighbours wait until this many have claimed, and again until as many have looked."""

    def __init__(self, real: Ledger, barrier: asyncio.Barrier) -> None:
        self._real = real
        self.claims = _ClaimsTogether(real.claims, barrier)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _ClaimsTogether:
    def __init__(self, real: Any, barrier: asyncio.Barrier) -> None:
        self._real = real
        self._barrier = barrier

    async def alone(self, account_id: int) -> bool:
        await self._barrier.wait()
        return await self._real.alone(account_id)

    async def tenants(self, uids: Any) -> Any:
        found = await self._real.tenants(uids)
        await self._barrier.wait()  # else one may have given its claim back before the other looks, which then passes
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def test_rivals_that_both_claimed_before_either_looked_both_yield(rig: Rig):
    """The older claim does not pass: it cannot know whether the younger one looked before it could be seen."""
    await rig.accounts(ACME, BOLT)
    barrier = asyncio.Barrier(2)
    first, second = [await rig.dispatcher(ledger=Together(rig.ledger, barrier)) for _ in range(2)]  # pyright: ignore[reportArgumentType] - the same, but slower
    await rig.bench.queue(job(1, ACME), job(2, BOLT))
    pods = [await rig.cluster.pod(number, node=MAC) for number in (1, 2)]
    answers = await asyncio.gather(first.ask(pods[0], wait=5), second.ask(pods[1], wait=5))
    assert [answer.json()["error"] for answer in answers] == ["neighbour", "neighbour"]
    assert {int(answer.headers["Retry-After"]) for answer in answers} <= set(range(2, 8))
    assert rig.github.minted == []
    assert [await rig.bench.status(number) for number in (1, 2)] == ["queued", "queued"]


async def test_rivals_of_one_batch_both_yield_and_one_is_served_after_its_rest(rig: Rig):
    await rig.accounts(ACME, BOLT)
    dispatcher = await rig.dispatcher()
    pods = [await rig.cluster.pod(number, node=MAC) for number in (1, 2)]
    held = [dispatcher.asking(pod, wait=5) for pod in pods]
    await dispatcher.waits(2)
    await rig.bench.queue(job(1, ACME), job(2, BOLT))
    answers = await asyncio.gather(*held)
    assert sum(answer.status_code == 200 for answer in answers) <= 1

    async def one_works() -> bool:
        asked = await asyncio.gather(*(dispatcher.ask(pod, wait=0.5) for pod in pods))
        return any(answer.status_code in (200, 410) for answer in asked)

    await until(one_works, 30)
    assert len(rig.github.minted) == 1
