"""Incidents of handing jobs to Pods that the system that Paddock follows had to learn from, one sentence each."""

from collections.abc import Awaitable, Callable
from typing import Any

from integration.runners.dispatch.rig import Rig, until
from integration.runners.ledger.rig import ACME, BOLT, job
from unit.runners.pools.built import SETTINGS, pool

from paddock.clients.github import errors as github
from paddock.runners.api import ACCOUNT_LABEL, OWNER_LABEL
from paddock.runners.pools.pod_template import pod_of


async def test_a_job_that_finds_its_pods_token_gets_nobody_elses_job_with_it(rig: Rig):
    """The token speaks for the whole pool, and job code could read it and ask for more."""
    await rig.accounts(ACME, BOLT, vcpus=60)
    dispatcher, other = await rig.dispatcher(), await rig.dispatcher()
    pod = await rig.cluster.pod(1)
    await rig.bench.queue(job(1), job(2, BOLT))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    (mine,) = await rig.ledger.claims.all()
    # With root in its VM it wipes every mark, asks every process, and goes on after its own job is over.
    await rig.cluster.label(pod, {OWNER_LABEL: None, ACCOUNT_LABEL: None})
    for process in (dispatcher, other):
        assert (await process.ask(pod, wait=1)).status_code == 410
    assert mine.job_id is not None
    await rig.ledger.jobs.completed(
        mine.job_id,
        account_id=mine.account_id,
        conclusion="success",
        completed_at=rig.bench.clock.now(),
        runner_name=mine.runner_name,
    )
    for process in (dispatcher, other):
        assert (await process.ask(pod, wait=1)).status_code == 410
    left = {1, 2} - {mine.job_id}
    assert [await rig.bench.status(number) for number in left] == ["queued"]
    assert len(rig.github.minted) == 1
    # On Linux it does not even find it.
    (runner,) = pod_of(pool("lin", os="linux", runtime_class="kata-qemu"), "p", SETTINGS)["spec"]["containers"]
    assert all("token" not in mount["name"] for mount in runner["volumeMounts"])


async def test_one_job_that_can_never_be_minted_does_not_stop_the_line(rig: Rig):
    """Every Pod took the same head of the line, failed, and went away with nothing."""
    await rig.accounts(ACME, BOLT, vcpus=600)
    dispatcher = await rig.dispatcher()
    tried: list[str] = []
    mint: Callable[..., Awaitable[Any]] = rig.github.mint

    async def poisoned(installation_id: int, repository: str, **more: Any) -> Any:
        tried.append(repository)
        if repository == "org1/poison":
            raise github.Invalid("a label that GitHub does not take")
        return await mint(installation_id, repository, **more)

    rig.github.mint = poisoned  # pyright: ignore[reportAttributeAccessIssue]
    await rig.bench.queue(job(1, repository="org1/poison", age=900))
    await rig.bench.queue(*(job(10 + n, age=90 - n) for n in range(4)), *(job(20 + n, BOLT, age=50) for n in range(4)))
    pods = [await rig.cluster.pod(number) for number in range(8)]
    answers = [await dispatcher.ask(pod, wait=5) for pod in pods]
    assert [answer.status_code for answer in answers] == [200] * 8
    assert {answer.json()["workflow_job_id"] for answer in answers} == {10, 11, 12, 13, 20, 21, 22, 23}
    assert tried.count("org1/poison") == 1, "it rests, and longer each time; its place in the line stays"
    row = await rig.ledger.jobs.get(1)
    assert row is not None
    assert (row.status, row.enqueued_at) == ("queued", job(1, age=900).enqueued_at)


async def test_an_account_that_is_called_otherwise_at_github_gets_its_runners(rig: Rig):
    """Runners were asked for under the account's name here, and the organisation there was another: 404 for ever."""
    await rig.accounts(ACME)
    await rig.ledger.accounts.enrol(ACME, "acme-incorporated", installation_id=1001)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(1, repository="acme/app"))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    (minted,) = rig.github.minted
    assert (minted["installation"], minted["repository"]) == (1001, "acme/app"), "the owner is the repository's"


async def test_a_deploy_of_the_dispatcher_touches_no_job_that_runs(rig: Rig):
    """A rolling restart ended builds. The ledger is all that a new process needs, and it kills nothing."""
    await rig.accounts(ACME, vcpus=60)
    dispatcher = await rig.dispatcher()
    pods = [await rig.cluster.pod(number) for number in range(3)]
    await rig.bench.queue(*(job(number) for number in (1, 2, 3)))
    for pod in pods:
        assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    before = await rig.ledger.claims.all()
    for _ in range(3):
        await dispatcher.kill()
        rig.bench.clock.advance(60)
        dispatcher = await rig.dispatcher()
        stale = await rig.ledger.recovery.stale(
            claimed_before=rig.bench.clock.now(), silent_since=rig.bench.clock.now()
        )
        assert stale == [], "what was minted is nobody's to free for its age or its dispatcher's silence"
    assert await rig.ledger.claims.all() == before
    assert {await rig.bench.status(number) for number in (1, 2, 3)} == {"running"}
    fresh = await rig.cluster.pod(9)
    await rig.bench.queue(job(4))
    assert (await dispatcher.ask(fresh, wait=5)).json()["workflow_job_id"] == 4
    await until(lambda: len(rig.github.minted) == 4)
