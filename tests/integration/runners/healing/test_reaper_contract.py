"""What the reaper owes whoever runs it: where it looks and in which order, what it never does, and what it says."""

import httpx2
import pytest
from integration.runners.healing.healing_rig import MINUTE, NAMESPACE, HealingRig, runner_of
from structlog.testing import capture_logs

from paddock.kube.builtin import Pod, ServiceAccount
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource
from paddock.runners.api import OWNER_LABEL
from paddock.runners.healing.worker import Report

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
REFUSED = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}


async def test_stamped_pods_of_other_namespaces_are_nobodys_business(healing_rig: HealingRig) -> None:
    await healing_rig.hands.create({"metadata": {"name": "elsewhere"}}, NAMESPACES)
    leak = await healing_rig.leaked(linux=True)
    theirs = await healing_rig.hands.create(
        Pod(
            metadata=ObjectMeta(name=leak.metadata.name, namespace="elsewhere", labels=dict(leak.metadata.labels)),
            spec=leak.spec,
        )
    )
    healing_rig.clock.advance(3600)
    await healing_rig.heal()
    assert not await healing_rig.there(leak)
    assert (await healing_rig.hands.get(Pod, theirs.metadata.name, "elsewhere")).metadata.deletion_timestamp is None
    assert all(f"/namespaces/{NAMESPACE}/" in path for _, path in healing_rig.wire.requests)


async def test_pods_are_listed_before_claims_and_sessions_are_read(healing_rig: HealingRig) -> None:
    """A claim that is made in between then protects its Pod."""
    await healing_rig.leaked()
    order: list[str] = []
    claims, sessions = healing_rig.ledger.claims.all, healing_rig.ledger.sessions.open

    async def claims_read() -> object:
        order.append("claims")
        return await claims()

    async def sessions_read(**more: object) -> object:
        order.append("sessions")
        return await sessions(**more)  # pyright: ignore[reportArgumentType]

    async def before(request: httpx2.Request) -> None:
        if request.method == "GET" and request.url.path.endswith("/pods"):
            order.append("Pods")

    healing_rig.ledger.claims.all = claims_read  # pyright: ignore[reportAttributeAccessIssue]
    healing_rig.ledger.sessions.open = sessions_read  # pyright: ignore[reportAttributeAccessIssue]
    healing_rig.wire.before = before
    await healing_rig.heal()
    assert order[0] == "Pods"
    assert "claims" in order


async def test_no_worker_ever_takes_a_stamp_off_or_writes_to_a_pod(healing_rig: HealingRig) -> None:
    """A zombie without its label looks warm, and blocks the queue: Pods are reaped, or left as they are."""
    leaked = await healing_rig.leaked()
    claimed, _ = await healing_rig.claimed()
    finished, _ = await healing_rig.finished()
    forgotten = await healing_rig.label(await healing_rig.idle(), owner="org1")
    for _ in range(20):
        healing_rig.clock.advance(MINUTE)
        for worker in healing_rig.healer.workers:
            await healing_rig.healer.once(worker)
    assert not await healing_rig.there(leaked)
    assert not await healing_rig.there(finished)
    assert {method for method, path in healing_rig.wire.requests if "/pods" in path} <= {"GET", "DELETE"}
    for pod in (claimed, forgotten):
        seen = await healing_rig.hands.get(Pod, pod.metadata.name, NAMESPACE)
        assert seen.metadata.labels[OWNER_LABEL] == "org1"


async def test_a_reap_is_warned_of_by_name_and_the_pass_is_summed_up(healing_rig: HealingRig) -> None:
    pods = [await healing_rig.leaked(pool=pool, age=0) for pool in ("one", "two")]
    healing_rig.clock.advance(3600)
    with capture_logs() as written:
        await healing_rig.heal()
    warned = [line for line in written if line["event"] == "reaped a Pod"]
    assert {(line["log_level"], line["pod"], line["kind"]) for line in warned} == {
        ("warning", pod.metadata.name, "orphaned_stamped_pod") for pod in pods
    }
    assert all(line["why"] for line in warned)
    (summary,) = [line for line in written if line["event"] == "healing"]
    assert (summary["worker"], summary["healed"], summary["put_off"], summary["failed"]) == ("pods", 2, 0, 0)
    assert healing_rig.counted("paddock_heals_total", kind="orphaned_stamped_pod") == 2


async def test_a_pod_that_goes_by_itself_in_the_moment_of_its_delete_is_reaped_all_the_same(
    healing_rig: HealingRig,
) -> None:
    pod = await healing_rig.leaked()

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE" and "/pods/" in request.url.path:
            await healing_rig.vanish(pod)

    healing_rig.wire.before = before
    report = await healing_rig.heal()
    assert (len(report.healed), report.failed) == (1, ())
    assert not await healing_rig.account_there(pod)
    assert await healing_rig.ledger.fences.standing() == []


async def test_a_pod_whose_account_is_gone_already_is_reaped_all_the_same(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    await healing_rig.hands.delete(ServiceAccount, pod.metadata.name, NAMESPACE)
    report = await healing_rig.heal()
    assert (len(report.healed), report.failed) == (1, ())
    assert not await healing_rig.there(pod)


async def test_an_account_that_cannot_be_deleted_is_left_for_its_own_sweep(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.leaked(), await healing_rig.idle()
    healing_rig.wire.refuse = lambda request: (
        httpx2.Response(403, json=REFUSED)
        if request.method == "DELETE" and "/serviceaccounts/" in request.url.path
        else None
    )
    report = await healing_rig.heal()
    assert (len(report.healed), report.failed) == (1, ()), "the Pod is what was leaked"
    assert not await healing_rig.there(pod)
    assert await healing_rig.account_there(pod)
    assert await healing_rig.ledger.fences.standing() == []
    healing_rig.wire.refuse = lambda _: None
    await healing_rig.healer.once(healing_rig.accounts)
    assert not await healing_rig.account_there(pod)


async def test_an_account_of_that_name_that_is_no_runners_is_left_alone(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    patch = {"metadata": {"labels": {"tuist.dev/runner-pool": None}}}
    await healing_rig.hands.merge_patch(ServiceAccount, pod.metadata.name, patch, NAMESPACE)
    assert len((await healing_rig.heal()).healed) == 1
    assert await healing_rig.account_there(pod)


@pytest.mark.parametrize("minutes", [5, -5])
async def test_a_clock_that_is_five_minutes_wrong_kills_nobody(healing_rig: HealingRig, minutes: int) -> None:
    """Our clock jumps against that of the cluster and the ledger, and back again, between any two passes."""
    busy, _ = await healing_rig.busy()
    linux, _ = await healing_rig.busy(linux=True)
    early, claim = await healing_rig.claimed()
    unheard, _ = await healing_rig.busy(heard=False)
    idle = await healing_rig.idle()
    for turn in range(40):
        healing_rig.clock.advance(minutes * MINUTE * (1 if turn % 2 else -1))
        if turn == 3:
            # The claim of a living Pod ends by mistake in the midst of it.
            held = await healing_rig.ledger.claims.of_pod(unheard.metadata.uid)
            assert held is not None
            await healing_rig.ledger.claims.release(held, by="somebody", why="by mistake")
        for worker in healing_rig.healer.workers:
            await healing_rig.healer.once(worker)
        healing_rig.clock.advance(10)
    for pod in (busy, linux, early, unheard, idle):
        assert await healing_rig.there(pod)
    held = await healing_rig.ledger.claims.of_pod(early.metadata.uid)
    assert held is not None
    assert held.generation == claim.generation
    assert healing_rig.deletes() == []


@pytest.mark.parametrize("share", [0.5, 0.0])
async def test_half_a_list_or_none_makes_nobody_a_leak(healing_rig: HealingRig, share: float) -> None:
    """Lists lack Pods at random: whatever they lack, no living Pod, claim or session ends."""
    pods = [(await healing_rig.busy())[0] for _ in range(8)]
    shown = pods[: int(len(pods) * share)]

    def partly(request: httpx2.Request) -> httpx2.Response | None:
        if request.method == "GET" and request.url.path.endswith("/pods"):
            names = ",".join(f"metadata.name!={pod.metadata.name}" for pod in pods if pod not in shown)
            request.url = request.url.copy_merge_params({"fieldSelector": names})
        return None

    healing_rig.wire.refuse = partly
    reports: list[Report | None] = []
    for _ in range(40):
        healing_rig.clock.advance(MINUTE)
        reports += [await healing_rig.healer.once(worker) for worker in healing_rig.healer.workers]
    assert sum(len(report.healed) for report in reports if report is not None) == 0
    assert all([await healing_rig.there(pod) for pod in pods])
    assert len(await healing_rig.ledger.claims.all()) == len(pods)
    assert {runner_of(pod) for pod in pods} == {each.runner_name for each in await healing_rig.ledger.sessions.open()}
