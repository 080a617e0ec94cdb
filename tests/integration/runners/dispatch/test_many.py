"""Many Pods, many jobs, several processes: every job once, and quickly."""

import asyncio
from collections import Counter

import pytest
from integration.runners.dispatch.rig import Rig
from integration.runners.ledger.rig import ACME, BOLT, CRUX, job


async def test_two_processes_share_one_ledger_and_no_job_is_handed_out_twice(rig: Rig):
    await rig.accounts(ACME, BOLT, vcpus=600)
    desks = [await rig.dispatcher(), await rig.dispatcher()]
    pods = [await rig.cluster.pod(number) for number in range(30)]
    asking = [desks[number % 2].asking(pod, wait=5) for number, pod in enumerate(pods)]
    await asyncio.gather(*[dispatcher.waits(15) for dispatcher in desks])
    await rig.bench.queue(*[job(number, ACME if number % 2 else BOLT) for number in range(1, 31)])
    answers = await asyncio.gather(*asking)
    assert Counter(answer.status_code for answer in answers) == {200: 30}
    assert sorted(answer.json()["workflow_job_id"] for answer in answers) == list(range(1, 31))
    assert len({answer.json()["encoded_jit_config"] for answer in answers}) == 30


@pytest.mark.slow
async def test_a_burst_of_two_hundred_jobs_reaches_two_hundred_waiting_pods(rig: Rig):
    await rig.accounts(ACME, BOLT, CRUX, vcpus=600)
    dispatcher = await rig.dispatcher(hold=25.0, serve_deadline=20.0)
    pods = [await rig.cluster.pod(number) for number in range(200)]
    asking = [dispatcher.asking(pod, wait=25) for pod in pods]
    await dispatcher.waits(200)
    await asyncio.gather(*[rig.ledger.jobs.enqueue(job(number, 1 + number % 3)) for number in range(1, 201)])
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*asking)
    handed = [answer.json()["workflow_job_id"] for answer in answers if answer.status_code == 200]
    assert sorted(handed) == list(range(1, 201))
    assert len({runner["name"] for runner in rig.github.minted}) == 200
    assert {claim.state for claim in await rig.ledger.claims.all()} == {"running"}
