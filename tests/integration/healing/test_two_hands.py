"""Two hands on one Pod: what one of them proved must not be what the other deletes on."""

import httpx2
from integration.healing.ward import MINUTE, Ward, as_ledger, runner_of
from integration.ledger.rig import job

from paddock.clients.github import ForgeRunner
from paddock.runners.books_ledger import LedgerBooks
from paddock.runners.healing.reaping import BY


async def _nothing(*_: object) -> None:
    return None


async def test_the_operator_does_not_delete_on_a_fence_that_healing_may_take_down(ward: Ward) -> None:
    pod = await ward.idle()
    books = LedgerBooks(ward.ledger, ward.clock, recheck=_nothing)
    fence = await ward.ledger.fences.raise_fence(as_ledger(pod), by=BY, why="orphaned_stamped_pod: test")
    assert await books.retire([as_ledger(pod)], why="scale down") == frozenset()
    await ward.ledger.fences.lift(fence, by=BY, why="kept: its stamp came off")  # pyright: ignore[reportArgumentType]
    await ward.ledger.jobs.enqueue(job(500))
    assert (await ward.ledger.claims.attempt(500, as_ledger(pod))).won
    assert await books.retire([as_ledger(pod)], why="scale down") == frozenset()


async def test_a_process_that_has_the_turn_leaves_the_fence_of_one_that_lost_it(ward: Ward) -> None:
    """The first is about to delete when its connection breaks; the second remembers less, and finds no leak."""
    pod = await ward.label(await ward.idle(linux=True), owner="org1")
    await ward.idle(linux=True)
    first = ward.pods
    for _ in range(5):
        ward.clock.advance(MINUTE)
        assert (await first.heal()).healed == ()
    ward.clock.advance(MINUTE)
    ward.start()
    claims: list[bool] = []

    async def meanwhile(request: httpx2.Request) -> None:
        if request.method == "DELETE" and "/pods/" in request.url.path and not claims:
            await ward.pods.heal()
            await ward.ledger.jobs.enqueue(job(500, platform="linux"))
            claims.append((await ward.ledger.claims.attempt(500, as_ledger(pod))).won)

    ward.wire.before = meanwhile
    assert [heal.kind for heal in (await first.heal()).healed] == ["orphaned_stamped_pod"]
    assert claims == [False], "a Pod that is being deleted won a job"
    assert not await ward.there(pod)


async def test_a_pod_whose_fence_is_gone_at_the_last_moment_is_not_deleted(ward: Ward) -> None:
    pod = await ward.leaked(linux=True)

    async def lifted(request: httpx2.Request) -> None:
        if request.url.path.endswith("/log"):
            for fence in await ward.ledger.fences.standing():
                await ward.ledger.fences.lift(fence, by="test", why="somebody knew better")

    ward.wire.before = lifted
    assert (await ward.heal()).healed == ()
    assert await ward.there(pod)
    assert await ward.ledger.heals.newest() == []


async def test_a_claim_that_got_a_job_while_its_pod_was_judged_is_not_let_go(ward: Ward) -> None:
    """Its own job went to another runner, and GitHub gives it a sibling in the very moment of the verdict."""
    pod, job_id = await ward.busy(heard=False)
    await ward.ledger.jobs.started(job(job_id), runner_name="other", started_at=ward.clock.now())
    ward.at_github(job_id, "in_progress", "other")
    ward.forge.rows = {"other": ForgeRunner(runner_id=1, name="other", online=True, busy=True)}
    release, asked = ward.ledger.doubts.release_displaced, []

    async def late(*args: object, **kwargs: object) -> object:
        asked.append(True)
        await ward.ledger.jobs.started(job(999), runner_name=runner_of(pod), started_at=ward.clock.now())
        return await release(*args, **kwargs)  # pyright: ignore[reportArgumentType]

    ward.ledger.doubts.release_displaced = late  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(30):
        ward.clock.advance(MINUTE)
        assert (await ward.heal()).healed == ()
        if asked:
            break
    assert asked
    assert await ward.there(pod)
    assert await ward.bench.status(999) == "running"
    claim = await ward.ledger.claims.of_pod(pod.metadata.uid)
    assert claim is not None
    assert claim.job_id == 999
