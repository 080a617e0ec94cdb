"""Two hands on one Pod: what one of them proved must not be what the other deletes on."""

import httpx2
from integration.runners.healing.healing_rig import MINUTE, ORGANISATION, HealingRig, as_ledger, runner_of
from integration.runners.ledger.rig import attempt, job

from paddock.clients.github import GitHubRunner
from paddock.runners.healing.reaping import BY
from paddock.runners.pools.retirement import LedgerRetirementApi


async def _nothing(*_: object) -> None:
    return None


async def test_the_operator_does_not_delete_on_a_fence_that_healing_may_take_down(healing_rig: HealingRig) -> None:
    pod = await healing_rig.idle()
    retirement = LedgerRetirementApi(healing_rig.ledger, healing_rig.clock, recheck=_nothing)
    fence = await healing_rig.ledger.fences.raise_fence(as_ledger(pod), by=BY, why="orphaned_stamped_pod: test")
    assert await retirement.retire([as_ledger(pod)], why="scale down") == frozenset()
    await healing_rig.ledger.fences.lift(fence, by=BY, why="kept: its stamp came off")  # pyright: ignore[reportArgumentType]
    await healing_rig.ledger.jobs.enqueue(job(500))
    assert (await attempt(healing_rig.ledger, 500, as_ledger(pod))).won
    assert await retirement.retire([as_ledger(pod)], why="scale down") == frozenset()


async def test_a_process_that_has_the_turn_leaves_the_fence_of_one_that_lost_it(healing_rig: HealingRig) -> None:
    """The first is about to delete when its connection breaks; the second remembers less, and finds no leak."""
    pod = await healing_rig.label(await healing_rig.idle(linux=True), owner="org1")
    await healing_rig.idle(linux=True)
    first = healing_rig.pods
    for _ in range(5):
        healing_rig.clock.advance(MINUTE)
        assert (await first.heal()).healed == ()
    healing_rig.clock.advance(MINUTE)
    healing_rig.start()
    claims: list[bool] = []

    async def meanwhile(request: httpx2.Request) -> None:
        if request.method == "DELETE" and "/pods/" in request.url.path and not claims:
            await healing_rig.pods.heal()
            await healing_rig.ledger.jobs.enqueue(job(500, platform="linux"))
            claims.append((await attempt(healing_rig.ledger, 500, as_ledger(pod))).won)

    healing_rig.wire.before = meanwhile
    assert [heal.kind for heal in (await first.heal()).healed] == ["orphaned_stamped_pod"]
    assert claims == [False], "a Pod that is being deleted won a job"
    assert not await healing_rig.there(pod)


async def test_a_pod_whose_fence_is_gone_at_the_last_moment_is_not_deleted(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked(linux=True)

    async def lifted(request: httpx2.Request) -> None:
        if request.url.path.endswith("/log"):
            for fence in await healing_rig.ledger.fences.standing():
                await healing_rig.ledger.fences.lift(fence, by="test", why="somebody knew better")

    healing_rig.wire.before = lifted
    assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(pod)
    assert await healing_rig.ledger.heals.newest() == []


async def test_a_claim_that_got_a_job_while_its_pod_was_judged_is_not_let_go(healing_rig: HealingRig) -> None:
    """Its own job went to another runner, and GitHub gives it a sibling in the very moment of the verdict."""
    pod, job_id = await healing_rig.busy(heard=False)
    await healing_rig.ledger.jobs.started(job(job_id), runner_name="other", started_at=healing_rig.clock.now())
    healing_rig.at_github(job_id, "in_progress", "other")
    healing_rig.github.places[ORGANISATION] = [GitHubRunner(runner_id=1, name="other", online=True, busy=True)]
    release, asked = healing_rig.ledger.unconfirmed.release_displaced, []

    async def late(*args: object, **kwargs: object) -> object:
        asked.append(True)
        await healing_rig.ledger.jobs.started(job(999), runner_name=runner_of(pod), started_at=healing_rig.clock.now())
        return await release(*args, **kwargs)  # pyright: ignore[reportArgumentType]

    healing_rig.ledger.unconfirmed.release_displaced = late  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(30):
        healing_rig.clock.advance(MINUTE)
        assert (await healing_rig.heal()).healed == ()
        if asked:
            break
    assert asked
    assert await healing_rig.there(pod)
    assert await healing_rig.bench.status(999) == "running"
    claim = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert claim is not None
    assert claim.job_id == 999
