"""From a waiting Pod and a queued job to a runner, and everything that can be said instead."""

import asyncio

import msgspec
from integration.runners.dispatch.github import MARK
from integration.runners.dispatch.rig import NAMESPACE, Rig, until
from integration.runners.ledger.rig import ACME, BOLT, POOL, job

from paddock.kube.builtin import Pod as KubePod
from paddock.runners.api import ACCOUNT_LABEL, DRAIN_ELIGIBLE_LABEL, OPERATOR_DRAIN_LABEL, OWNER_LABEL
from paddock.runners.dispatch import PATH
from paddock.runners.ledger import Pod


async def test_a_waiting_pod_is_handed_the_job_that_arrives(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    asking = dispatcher.asking(pod, wait=5)
    await dispatcher.waits(1)
    await rig.bench.queue(job(7))
    answer = await asking
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["owner"] == "org1"
    assert body["workflow_job_id"] == 7
    assert body["encoded_jit_config"].startswith(f"{MARK}-runner-1-")
    assert answer.headers["cache-control"] == "no-store"
    (minted,) = rig.github.minted
    assert minted["installation"] == 1001
    assert minted["repository"] == "org1/app"
    assert minted["labels"] == ("self-hosted", "macOS", "paddock-macos")
    assert minted["work_folder"] == "/Users/runner/work"
    assert await rig.bench.status(7) == "running"
    session = await rig.ledger.sessions.of_pod(pod.uid)
    assert session is not None
    assert session.runner_name == minted["name"]
    labels = (await rig.cluster.seen(pod)).metadata.labels
    assert labels[OWNER_LABEL] == "org1"
    assert labels[ACCOUNT_LABEL] == str(ACME)
    assert dispatcher.count("paddock_dispatch_requests_total", pool=POOL, outcome="handed") == 1


async def test_a_job_that_waits_is_handed_to_the_pod_that_arrives(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(7))
    answer = await dispatcher.ask(pod, wait=0)
    if answer.status_code == 204:  # a hold of nothing may be over before the ledger answered
        answer = await dispatcher.ask(pod, wait=5)
    assert answer.status_code == 200


async def test_without_a_job_the_pod_is_let_go_after_its_hold(rig: Rig):
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await dispatcher.ask(pod, wait=1)
    assert answer.status_code == 204
    assert answer.content == b""
    assert 0.9 < loop.time() - began < 3
    assert len(dispatcher.service.waiting) == 0


async def test_the_label_that_a_job_asked_for_is_offered(rig: Rig):
    await rig.accounts(ACME)
    await rig.cluster.pool("linux-x", os="linux", dispatchLabel="paddock-linux", runnerLabels=["self-hosted", "Linux"])
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1, pool="linux-x")
    wanted = msgspec.structs.replace(job(1, pool="linux-x", platform="linux"), label="Paddock-Linux-Large")
    await rig.bench.queue(wanted)
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    assert rig.github.minted[0]["labels"] == ("self-hosted", "Linux", "Paddock-Linux-Large")
    assert rig.github.minted[0]["work_folder"] == "/home/runner/work"


async def test_a_pod_waits_for_its_own_pool_alone(rig: Rig):
    await rig.accounts(ACME)
    await rig.cluster.pool("other")
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(1, pool="other"))
    assert (await dispatcher.ask(pod, wait=1)).status_code == 204
    assert await rig.bench.status(1) == "queued"


# Drains


async def test_an_operators_drain_is_seen_before_any_claim(rig: Rig):
    await rig.accounts(ACME)
    await rig.bench.queue(job(1))
    dispatcher = await rig.dispatcher()
    pod = await rig.cluster.pod(1, labels={OPERATOR_DRAIN_LABEL: "true"})
    await until(lambda: dispatcher.service.pods.reader.get(pod.name, NAMESPACE) is not None)
    answer = await dispatcher.ask(pod, wait=1)
    assert (answer.status_code, answer.json()["error"]) == (410, "operator_drain")
    assert await rig.bench.status(1) == "queued"


async def test_a_pod_that_is_drained_while_it_waits_is_told_at_once(rig: Rig):
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    asking = dispatcher.asking(pod, wait=5)
    await dispatcher.waits(1)
    await rig.cluster.label(pod, {OPERATOR_DRAIN_LABEL: "true"})
    async with asyncio.timeout(2):
        assert (await asking).status_code == 410


async def test_an_older_image_goes_only_when_its_turn_has_come(rig: Rig):
    await rig.accounts(ACME)
    await rig.bench.queue(job(1))
    dispatcher = await rig.dispatcher()
    stale = await rig.cluster.pod(1, image="macos:14")
    eligible = await rig.cluster.pod(2, image="macos:14", labels={DRAIN_ELIGIBLE_LABEL: "true"})
    await until(lambda: len(dispatcher.service.pods.reader) == 2)
    answer = await dispatcher.ask(eligible, wait=1)
    assert (answer.status_code, answer.json()["error"]) == (410, "drain")
    assert (await dispatcher.ask(stale, wait=5)).status_code == 200


async def test_a_pod_that_is_deleted_while_it_waits_gets_no_job(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    asking = dispatcher.asking(pod, wait=5)
    await dispatcher.waits(1)
    await rig.cluster.client.delete(KubePod, pod.name, NAMESPACE, grace_period=0)
    assert (await asking).status_code == 410
    await rig.bench.queue(job(1))
    assert await rig.bench.status(1) == "queued"


# Spent, fenced, held


async def test_a_committed_pod_that_asks_again_is_told_to_exit_without_a_claim(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(1), job(2))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    asked = dispatcher.count("paddock_dispatch_claims_total", pool=POOL, outcome="pod_in_use")
    answer = await dispatcher.ask(pod, wait=5)
    assert (answer.status_code, answer.json()["error"]) == (410, "committed")
    assert dispatcher.count("paddock_dispatch_claims_total", pool=POOL, outcome="pod_in_use") == asked
    assert await rig.bench.status(2) == "queued"


async def test_a_lost_answer_is_never_followed_by_a_second_tenant(rig: Rig):
    """Whichever process is asked, whether or not the Pod's labels were written, and long after its claim is gone."""
    await rig.accounts(ACME, BOLT, vcpus=24)
    dispatcher, other = await rig.dispatcher(), await rig.dispatcher()
    pod = await rig.cluster.pod(1)
    await rig.bench.queue(job(1), job(2, BOLT))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200  # and the Pod never heard it
    await rig.cluster.label(pod, {OWNER_LABEL: None, ACCOUNT_LABEL: None})
    await until(lambda: OWNER_LABEL not in _labels(other, pod))
    answer = await other.ask(pod, wait=5)
    assert (answer.status_code, answer.json()["error"]) == (410, "committed")
    held = await rig.ledger.claims.of_pod(pod.uid)
    assert held is not None
    await rig.ledger.claims.release(held, by="test", why="GitHub gave the job to somebody else")
    third = await rig.dispatcher()
    answer = await third.ask(pod, wait=5)
    assert (answer.status_code, answer.json()["error"]) == (410, "spent")
    assert len(rig.github.minted) == 1


async def test_a_fenced_pod_is_told_to_exit(rig: Rig):
    await rig.accounts(ACME)
    await rig.bench.queue(job(1))
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.ledger.fences.raise_fence(Pod(pod.uid, pod.name), by="test", why="scaled down")
    answer = await dispatcher.ask(pod, wait=5)
    assert (answer.status_code, answer.json()["error"]) == (410, "fenced")


async def test_a_pod_that_another_process_serves_waits_and_is_told_nothing(rig: Rig):
    await rig.accounts(ACME, vcpus=24)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    number = await rig.ledger.dispatchers.register("somebody else")
    await rig.bench.queue(job(1), job(2))
    claim = await rig.ledger.claims.claim(POOL, Pod(pod.uid, pod.name), dispatcher=number)
    answer = await dispatcher.ask(pod, wait=1)
    assert answer.status_code == 204
    assert await rig.bench.status(2) == "queued"
    asking = dispatcher.asking(pod, wait=5)
    await dispatcher.waits(1)
    await rig.ledger.claims.release(claim, by="test", why="the other one gave up")
    assert (await asking).status_code == 200


async def test_a_newer_request_of_a_pod_takes_the_place_of_the_older(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    older = dispatcher.asking(pod, wait=5)
    await dispatcher.waits(1)
    newer = dispatcher.asking(pod, wait=5)
    assert (await older).status_code == 204
    await rig.bench.queue(job(1))
    assert (await newer).status_code == 200
    assert len(rig.github.minted) == 1


async def test_a_second_request_while_the_first_is_served_gets_no_second_runner(rig: Rig):
    await rig.accounts(ACME, vcpus=24)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    rig.github.delay = 0.5
    await rig.bench.queue(job(1), job(2))
    first = dispatcher.asking(pod, wait=5)
    await until(lambda: dispatcher.service.waiting.in_hand == 1)
    second = dispatcher.asking(pod, wait=5)
    assert (await first).status_code == 200
    assert (await second).status_code == 410
    assert len(rig.github.minted) == 1


# Limits, clients, hints


async def test_a_capped_account_holds_nobody_else_up(rig: Rig):
    await rig.accounts(ACME, vcpus=6)
    await rig.accounts(BOLT)
    dispatcher = await rig.dispatcher()
    pods = [await rig.cluster.pod(number) for number in range(3)]
    await rig.bench.queue(*[job(number, ACME, age=60) for number in range(1, 6)], job(9, BOLT))
    answers = await asyncio.gather(*[dispatcher.ask(pod, wait=1) for pod in pods])
    got = sorted(answer.json()["workflow_job_id"] for answer in answers if answer.status_code == 200)
    assert got == [1, 9]
    assert sorted(answer.status_code for answer in answers) == [200, 200, 204]


async def test_clients_that_poll_every_two_seconds_and_hang_up_are_served(rig: Rig):
    """No Prefer header, a short limit of their own, a new request each time."""
    await rig.accounts(ACME, vcpus=60)
    dispatcher = await rig.dispatcher(hold_unasked=0.2)
    pods = [await rig.cluster.pod(number) for number in range(5)]

    async def client(pod) -> int:
        while True:
            try:
                async with asyncio.timeout(1.0):
                    answer = await dispatcher.ask(pod)
            except TimeoutError:
                continue
            if answer.status_code == 204:
                await asyncio.sleep(0.05)
                continue
            return answer.status_code

    clients = [asyncio.create_task(client(pod)) for pod in pods]
    for number in range(1, 6):
        await asyncio.sleep(0.1)
        await rig.bench.queue(job(number))
    async with asyncio.timeout(10):
        assert await asyncio.gather(*clients) == [200] * 5
    assert len(rig.github.minted) == 5


async def test_a_lost_hint_costs_seconds_and_no_job(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(listen=False), await rig.cluster.pod(1)
    asking = dispatcher.asking(pod, wait=5)
    await dispatcher.waits(1)
    await until(lambda: dispatcher.service.waiting.lines[POOL].dry)
    await rig.bench.queue(job(1))
    assert (await asking).status_code == 200


async def test_pods_that_enter_a_dry_pool_cost_no_statement(rig: Rig):
    dispatcher = await rig.dispatcher(listen=False, backstop=30.0)
    pods = [await rig.cluster.pod(number) for number in range(10)]
    first = dispatcher.asking(pods[0], wait=3)
    await until(lambda: POOL in dispatcher.service.waiting.lines and dispatcher.service.waiting.lines[POOL].dry)
    asked = dispatcher.count("paddock_dispatch_claims_total", pool=POOL, outcome="empty")
    answers = await asyncio.gather(*[dispatcher.ask(pod, wait=1) for pod in pods[1:]])
    assert {answer.status_code for answer in answers} == {204}
    assert dispatcher.count("paddock_dispatch_claims_total", pool=POOL, outcome="empty") == asked == 1
    await first


async def test_a_large_or_slow_body_is_refused(rig: Rig):
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    headers = {"Authorization": f"Bearer {pod.token}"}
    answer = await dispatcher.http.post(PATH, headers=headers, content=b"x" * 100_000)
    assert answer.status_code == 413
    assert (await dispatcher.http.get(PATH, headers=headers)).status_code == 405


def _labels(dispatcher, pod):
    seen = dispatcher.service.pods.reader.get(pod.name, NAMESPACE)
    return {} if seen is None else seen.metadata.labels
