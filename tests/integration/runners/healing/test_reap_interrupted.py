"""The process dies before or after each effect of a reap, or its answer is lost: the next one finishes, and only that."""

from collections.abc import Awaitable, Callable

import httpx2
import pytest
from integration.runners.healing.healing_rig import MINUTE, Crash, HealingRig

from paddock.kube.builtin import Pod
from paddock.runners.ledger import FINISHED

Leak = Callable[[HealingRig], Awaitable[Pod]]


async def _assigned(healing_rig: HealingRig) -> Pod:
    return await healing_rig.leaked(linux=True)


async def _finished(healing_rig: HealingRig) -> Pod:
    pod, _ = await healing_rig.finished()
    await healing_rig.reports(pod, still_for=5 * MINUTE)
    return pod


async def _recover(healing_rig: HealingRig) -> None:
    """A new process runs everything that it would run, for some minutes."""
    healing_rig.interruptions.arm(None)
    healing_rig.start()
    for _ in range(7):
        healing_rig.clock.advance(MINUTE)
        for worker in healing_rig.healer.workers:
            assert await healing_rig.healer.once(worker) is not None


@pytest.mark.parametrize(("leak", "kind"), [(_assigned, "orphaned_stamped_pod"), (_finished, "finished_job_pod")])
@pytest.mark.parametrize("after", [False, True])
async def test_whatever_is_interrupted_is_finished_by_the_next_process(
    healing_rig: HealingRig, leak: Leak, kind: str, after: bool
) -> None:
    bystander, running = await healing_rig.busy()
    idle = await healing_rig.idle()
    healing_rig.watch_ledger()
    calm = await leak(healing_rig)
    healing_rig.interruptions.arm(None)
    await healing_rig.healer.once(healing_rig.pods)
    effects = list(healing_rig.interruptions.effects)
    assert not await healing_rig.there(calm)
    for needed in ("raise_fence", "intend", "DELETE pods", "DELETE serviceaccounts", "lift", "record"):
        assert needed in effects, effects
    healed = 1
    for number, effect in enumerate(effects):
        pod = await leak(healing_rig)
        healing_rig.interruptions.arm(number, after=after)
        with pytest.raises(Crash):
            await healing_rig.healer.once(healing_rig.pods)
        await _recover(healing_rig)
        where = f"died {'after' if after else 'before'} {effect}"
        assert not await healing_rig.there(pod), where
        assert not await healing_rig.account_there(pod), where
        assert await healing_rig.ledger.fences.standing() == [], where
        assert await healing_rig.ledger.heals.intended() == [], where
        session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
        assert session is None or session.ended_at is not None, where
        lines = [
            heal
            for heal in await healing_rig.ledger.heals.newest()
            if heal.pod_uid == pod.metadata.uid and heal.kind == kind
        ]
        assert len(lines) == 1, f"{where}: one heal, one line"
        healed += 1
    assert (await healing_rig.kinds())[kind] == healed
    for innocent in (bystander, idle):
        assert await healing_rig.there(innocent)
    assert await healing_rig.bench.status(running) not in FINISHED


@pytest.mark.parametrize("what", ["pods", "serviceaccounts"])
async def test_a_delete_whose_answer_is_lost_is_found_out(healing_rig: HealingRig, what: str) -> None:
    pod = await healing_rig.leaked()
    inner = healing_rig.wire._inner.handle_async_request
    lost = []

    async def lossy(request: httpx2.Request) -> httpx2.Response:
        response = await inner(request)
        if request.method == "DELETE" and f"/{what}/" in request.url.path and not lost:
            await response.aclose()
            lost.append(request)
            raise httpx2.ReadError("the line went dead", request=request)
        return response

    healing_rig.wire._inner.handle_async_request = lossy  # pyright: ignore[reportAttributeAccessIssue]
    await healing_rig.healer.once(healing_rig.pods)
    assert lost
    await _recover(healing_rig)
    assert not await healing_rig.there(pod)
    assert not await healing_rig.account_there(pod)
    assert await healing_rig.ledger.fences.standing() == []
    assert (await healing_rig.kinds())["orphaned_stamped_pod"] == 1


async def test_a_fence_of_a_pod_that_turns_out_to_live_is_taken_down(healing_rig: HealingRig) -> None:
    """Died after the fence; by the next pass the Pod shows that it is no leak."""
    pod = await healing_rig.leaked(linux=True)
    healing_rig.watch_ledger()
    healing_rig.interruptions.arm(0, after=True)
    with pytest.raises(Crash):
        await healing_rig.healer.once(healing_rig.pods)
    assert len(await healing_rig.ledger.fences.standing()) == 1
    await healing_rig.containers(pod, runner="running", poller="terminated")
    await _recover(healing_rig)
    assert await healing_rig.there(pod)
    assert await healing_rig.ledger.fences.standing() == []
    assert await healing_rig.ledger.heals.newest() == []


async def test_a_pod_that_takes_its_time_to_end_is_followed_to_its_end(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    finalizer = {"metadata": {"finalizers": ["tart-kubelet.tuist.dev/vm-cleanup"]}}
    await healing_rig.hands.merge_patch(Pod, pod.metadata.name, finalizer, "default")
    assert len((await healing_rig.heal()).healed) == 1
    assert len(await healing_rig.ledger.fences.standing()) == 1, "it is still there, and must not win anything"
    healing_rig.clock.advance(MINUTE)
    assert (await healing_rig.heal()).healed == (), "healed once, counted once"
    await healing_rig.hands.merge_patch(Pod, pod.metadata.name, {"metadata": {"finalizers": None}}, "default")
    healing_rig.clock.advance(MINUTE)
    await healing_rig.heal()
    assert await healing_rig.ledger.fences.standing() == []
    assert await healing_rig.kinds() == {"orphaned_stamped_pod": 1}
