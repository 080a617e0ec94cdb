"""A Pod whose Node is being drained gets no job: it is told why, and gets one again when the Node is opened."""

from doubles.clocks import NOON
from integration.runners.dispatch.rig import Rig, until
from integration.runners.ledger.rig import ACME, job

from paddock.base.failing_mac import JobsFail


async def test_a_pod_on_a_cordoned_node_gets_no_job_and_is_told_why(rig: Rig):
    await rig.accounts(ACME)
    await rig.cluster.node("mac-1", cordoned=True)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1, node="mac-1")
    await rig.bench.queue(job(1))
    answer = await dispatcher.ask(pod, wait=0.2)
    assert answer.status_code == 503
    assert answer.json()["error"] == "cordoned"
    assert "Node mac-1 is cordoned" in answer.json()["reason"]
    assert int(answer.headers["Retry-After"]) >= 1
    assert await rig.ledger.claims.all() == []
    assert await rig.bench.status(1) == "queued"


async def test_a_job_goes_past_the_cordoned_node_to_an_open_one(rig: Rig):
    await rig.accounts(ACME)
    await rig.cluster.node("mac-1", cordoned=True)
    await rig.cluster.node("mac-2")
    dispatcher = await rig.dispatcher()
    first, second = await rig.cluster.pod(1, node="mac-1"), await rig.cluster.pod(2, node="mac-2")
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(first, wait=0.2)).status_code == 503
    assert (await dispatcher.ask(second, wait=5)).status_code == 200


async def test_a_pod_that_waits_when_its_node_is_cordoned_is_sent_away_and_comes_back_after_the_uncordon(rig: Rig):
    await rig.accounts(ACME)
    await rig.cluster.node("mac-1")
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1, node="mac-1")
    held = dispatcher.asking(pod, wait=5)
    await dispatcher.waits(1)
    await rig.cluster.node("mac-1", cordoned=True)
    assert (await held).status_code == 503
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=0.2)).json()["error"] == "cordoned"
    await rig.cluster.node("mac-1", cordoned=False)

    async def handed() -> bool:
        return (await dispatcher.ask(pod, wait=0.5)).status_code == 200

    await until(handed, 30)


async def test_a_pod_whose_node_nobody_knows_is_served(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1, node="mac-9")
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200


async def test_a_mac_on_which_jobs_fail_gets_none_until_its_mark_is_taken_off(rig: Rig):
    await rig.accounts(ACME)
    await rig.cluster.node("mac-1")
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1, node="mac-1")
    held = dispatcher.asking(pod, wait=5)
    await dispatcher.waits(1)
    await rig.cluster.node("mac-1", mark=JobsFail("", NOON, NOON, "runner-7 of another account failed"))
    assert (await held).status_code == 503, "it waits when its Mac is marked, and is sent away"
    await rig.bench.queue(job(1))
    refused = await dispatcher.ask(pod, wait=0.2)
    assert refused.json()["error"] == "jobs_fail"
    assert (
        refused.json()["reason"]
        == "jobs fail at once on Node mac-1: its Pods get none until 2026-06-01 12:00 UTC at most"
    )
    assert await rig.bench.status(1) == "queued"
    await rig.cluster.node("mac-1", mark=JobsFail("an earlier boot", NOON, NOON, "they failed"))

    async def handed() -> bool:
        return (await dispatcher.ask(pod, wait=0.5)).status_code == 200

    await until(handed, 30)


async def test_on_which_mac_a_handed_runner_is_is_written_down(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1, node="mac-1")
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200

    async def placed() -> bool:
        return await rig.bench.ask("SELECT node_name FROM sessions WHERE pod_uid = %s", [pod.uid]) == [("mac-1",)]

    await until(placed, 30)
