"""The process dies before or after each effect of a reap, or its answer is lost: the next one finishes, and only that."""

from collections.abc import Awaitable, Callable

import httpx2
import pytest
from integration.healing.ward import MINUTE, Crash, Ward

from paddock.kube.builtin import Pod
from paddock.runners.ledger import FINISHED

Leak = Callable[[Ward], Awaitable[Pod]]


async def _stamped(ward: Ward) -> Pod:
    return await ward.leaked(linux=True)


async def _finished(ward: Ward) -> Pod:
    pod, _ = await ward.finished()
    await ward.reports(pod, still_for=5 * MINUTE)
    return pod


async def _recover(ward: Ward) -> None:
    """A new process runs everything that it would run, for some minutes."""
    ward.interruptions.arm(None)
    ward.start()
    for _ in range(7):
        ward.clock.advance(MINUTE)
        for worker in ward.healer.workers:
            assert await ward.healer.once(worker) is not None


@pytest.mark.parametrize(("leak", "kind"), [(_stamped, "orphaned_stamped_pod"), (_finished, "finished_job_pod")])
@pytest.mark.parametrize("after", [False, True])
async def test_whatever_is_interrupted_is_finished_by_the_next_process(
    ward: Ward, leak: Leak, kind: str, after: bool
) -> None:
    bystander, running = await ward.busy()
    idle = await ward.idle()
    ward.watch_ledger()
    calm = await leak(ward)
    ward.interruptions.arm(None)
    await ward.healer.once(ward.pods)
    effects = list(ward.interruptions.effects)
    assert not await ward.there(calm)
    for needed in ("raise_fence", "intend", "DELETE pods", "DELETE serviceaccounts", "lift", "record"):
        assert needed in effects, effects
    healed = 1
    for number, effect in enumerate(effects):
        pod = await leak(ward)
        ward.interruptions.arm(number, after=after)
        with pytest.raises(Crash):
            await ward.healer.once(ward.pods)
        await _recover(ward)
        where = f"died {'after' if after else 'before'} {effect}"
        assert not await ward.there(pod), where
        assert not await ward.account_there(pod), where
        assert await ward.ledger.fences.standing() == [], where
        assert await ward.ledger.heals.intended() == [], where
        session = await ward.ledger.sessions.of_pod(pod.metadata.uid)
        assert session is None or session.ended_at is not None, where
        lines = [
            heal for heal in await ward.ledger.heals.newest() if heal.pod_uid == pod.metadata.uid and heal.kind == kind
        ]
        assert len(lines) == 1, f"{where}: one heal, one line"
        healed += 1
    assert (await ward.kinds())[kind] == healed
    for innocent in (bystander, idle):
        assert await ward.there(innocent)
    assert await ward.bench.status(running) not in FINISHED


@pytest.mark.parametrize("what", ["pods", "serviceaccounts"])
async def test_a_delete_whose_answer_is_lost_is_found_out(ward: Ward, what: str) -> None:
    pod = await ward.leaked()
    inner = ward.wire._inner.handle_async_request
    lost = []

    async def lossy(request: httpx2.Request) -> httpx2.Response:
        response = await inner(request)
        if request.method == "DELETE" and f"/{what}/" in request.url.path and not lost:
            await response.aclose()
            lost.append(request)
            raise httpx2.ReadError("the line went dead", request=request)
        return response

    ward.wire._inner.handle_async_request = lossy  # pyright: ignore[reportAttributeAccessIssue]
    await ward.healer.once(ward.pods)
    assert lost
    await _recover(ward)
    assert not await ward.there(pod)
    assert not await ward.account_there(pod)
    assert await ward.ledger.fences.standing() == []
    assert (await ward.kinds())["orphaned_stamped_pod"] == 1


async def test_a_fence_of_a_pod_that_turns_out_to_live_is_taken_down(ward: Ward) -> None:
    """Died after the fence; by the next pass the Pod shows that it is no leak."""
    pod = await ward.leaked(linux=True)
    ward.watch_ledger()
    ward.interruptions.arm(0, after=True)
    with pytest.raises(Crash):
        await ward.healer.once(ward.pods)
    assert len(await ward.ledger.fences.standing()) == 1
    await ward.containers(pod, runner="running", poller="terminated")
    await _recover(ward)
    assert await ward.there(pod)
    assert await ward.ledger.fences.standing() == []
    assert await ward.ledger.heals.newest() == []


async def test_a_pod_that_takes_its_time_to_end_is_followed_to_its_end(ward: Ward) -> None:
    pod = await ward.leaked()
    finalizer = {"metadata": {"finalizers": ["tart-kubelet.tuist.dev/vm-cleanup"]}}
    await ward.hands.merge_patch(Pod, pod.metadata.name, finalizer, "default")
    assert len((await ward.heal()).healed) == 1
    assert len(await ward.ledger.fences.standing()) == 1, "it is still there, and must not win anything"
    ward.clock.advance(MINUTE)
    assert (await ward.heal()).healed == (), "healed once, counted once"
    await ward.hands.merge_patch(Pod, pod.metadata.name, {"metadata": {"finalizers": None}}, "default")
    ward.clock.advance(MINUTE)
    await ward.heal()
    assert await ward.ledger.fences.standing() == []
    assert await ward.kinds() == {"orphaned_stamped_pod": 1}
