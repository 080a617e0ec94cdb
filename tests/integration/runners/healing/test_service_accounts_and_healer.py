"""ServiceAccounts without Pods; and the frame of all workers: turns, failures, what is written down."""

import asyncio
from contextlib import AsyncExitStack

import httpx2
import pytest
from integration.runners.healing.healing_rig import MINUTE, NAMESPACE, HealingRig
from integration.runners.ledger.rig import Bench

from paddock.base.rng import seeded
from paddock.kube.builtin import ServiceAccount
from paddock.kube.errors import TransportError
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import POOL_LABEL
from paddock.runners.healing.healer import Healer
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import Ledger


async def _account(healing_rig: HealingRig, name: str, *, labelled: bool = True) -> ServiceAccount:
    labels = {POOL_LABEL: "mac-m4"} if labelled else {}
    return await healing_rig.hands.create(
        ServiceAccount(metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels=labels))
    )


async def _accounts(healing_rig: HealingRig) -> set[str]:
    return {each.metadata.name for each in (await healing_rig.hands.list(ServiceAccount, NAMESPACE)).items}


async def _pass(healing_rig: HealingRig) -> Report:
    report = await healing_rig.healer.once(healing_rig.accounts)
    assert report is not None, healing_rig.healer.last_reports
    return report


async def test_a_service_account_without_pod_goes_after_its_grace(healing_rig: HealingRig) -> None:
    pod = await healing_rig.idle()
    await _account(healing_rig, "orphan")
    await _account(healing_rig, "not-a-runners", labelled=False)
    assert (await _pass(healing_rig)).healed == (), "its Pod may be on its way"
    healing_rig.clock.advance(6 * MINUTE)
    assert [heal.subject for heal in (await _pass(healing_rig)).healed] == ["orphan"]
    left = await _accounts(healing_rig)
    assert "orphan" not in left
    assert {"not-a-runners", pod.metadata.name} <= left


async def test_a_pod_without_labels_still_keeps_its_account(healing_rig: HealingRig) -> None:
    pod = await healing_rig.idle()
    await healing_rig.label(pod, pool=None)
    healing_rig.clock.advance(3600)
    assert (await _pass(healing_rig)).healed == ()
    assert await healing_rig.account_there(pod)


async def test_most_accounts_without_pods_is_a_wrong_list(healing_rig: HealingRig) -> None:
    for number in range(12):
        await _account(healing_rig, f"orphan-{number}")
    healing_rig.clock.advance(3600)
    report = await _pass(healing_rig)
    assert report.healed == ()
    assert any("wrong read" in sentence for sentence in report.refused)
    assert len(await _accounts(healing_rig)) >= 12


async def test_a_failed_list_of_pods_deletes_no_account(healing_rig: HealingRig) -> None:
    await _account(healing_rig, "orphan")
    healing_rig.clock.advance(3600)
    healing_rig.wire.refuse = lambda request: httpx2.Response(500) if request.url.path.endswith("/pods") else None
    assert await healing_rig.healer.once(healing_rig.accounts) is None
    assert "orphan" in await _accounts(healing_rig)


async def test_an_account_that_cannot_be_deleted_does_not_take_the_turn_of_others(healing_rig: HealingRig) -> None:
    healing_rig.start(cap=1)
    for name in ("orphan-a", "orphan-b"):
        await _account(healing_rig, name)
    healing_rig.clock.advance(3600)
    healing_rig.wire.refuse = lambda request: (
        httpx2.Response(403, json={"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})
        if request.method == "DELETE" and request.url.path.endswith("orphan-a")
        else None
    )
    assert (await _pass(healing_rig)).failed
    assert [heal.subject for heal in (await _pass(healing_rig)).healed] == ["orphan-b"]


async def test_accounts_are_only_reported_where_that_is_asked_for(healing_rig: HealingRig) -> None:
    healing_rig.start(report_only=frozenset({"orphan_service_account"}))
    await _account(healing_rig, "orphan")
    healing_rig.clock.advance(3600)
    assert [heal.subject for heal in (await _pass(healing_rig)).reported] == ["orphan"]
    assert "orphan" in await _accounts(healing_rig)


# The frame


class StubWorker:
    def __init__(self, name: str, *reports: Report | BaseException, every: float = 0.01) -> None:
        self.name = name
        self.every = every
        self.reports = list(reports)
        self.passes = 0
        self.gate: asyncio.Event | None = None

    async def heal(self) -> Report:
        self.passes += 1
        if self.gate is not None:
            await self.gate.wait()
        result = self.reports.pop(0) if self.reports else Report()
        if isinstance(result, BaseException):
            raise result
        return result


def _healer(bench: Bench, *workers: StubWorker) -> Healer:
    return Healer(workers, bench.ledger, bench.clock, seeded(1))


async def test_only_one_process_at_a_time_does_a_workers_pass(bench: Bench) -> None:
    ours, theirs = StubWorker("same"), StubWorker("same")
    ours.gate = asyncio.Event()
    first, second = _healer(bench, ours), _healer(bench, theirs)
    under_way = asyncio.create_task(first.once(ours))
    while ours.passes == 0:
        await asyncio.sleep(0.01)
    assert await second.once(theirs) is None
    assert theirs.passes == 0
    ours.gate.set()
    assert await under_way is not None
    assert await second.once(theirs) is not None


async def test_a_turn_ends_with_whoever_had_it(bench: Bench) -> None:
    worker = StubWorker("cut short")
    worker.gate = asyncio.Event()
    healer = _healer(bench, worker)
    task = asyncio.create_task(healer.once(worker))
    while worker.passes == 0:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with bench.ledger.locks.taken("healing/cut short") as mine:
        assert mine


async def test_two_ledgers_in_one_database_have_turns_of_their_own(bench: Bench) -> None:
    async with bench.ledger.locks.taken("a") as mine, bench.ledger.locks.taken("b") as other:
        assert mine
        assert other
        async with bench.ledger.locks.taken("a") as again:
            assert not again


async def test_a_pass_that_fails_ends_nothing(bench: Bench) -> None:
    healed = Report(looked=3, healed=(Healed("stale_claim", "runner-1", "it was stale", {"job_id": 7}, 12.0),))
    worker = StubWorker("shaky", TransportError("no route"), ValueError("a mistake"), healed)
    other = StubWorker("steady")
    healer = _healer(bench, worker, other)
    async with asyncio.timeout(20):
        task = asyncio.create_task(healer.run())
        while worker.passes < 4 or other.passes < 3:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    (line,) = await bench.ledger.heals.newest()
    assert (line.kind, line.subject, line.job_id, line.seconds) == ("stale_claim", "runner-1", 7, 12.0)
    assert line.done_at is not None


async def test_a_pass_that_somebody_elses_cancellation_ended_comes_again(bench: Bench) -> None:
    """What it awaited was cancelled, and not the worker: task groups forget a task that ends so without a word."""
    worker = StubWorker("cut off", asyncio.CancelledError())
    healer = _healer(bench, worker)
    task = asyncio.create_task(healer.run())
    async with asyncio.timeout(20):
        while worker.passes < 2:
            bench.clock.advance(1.0)
            await asyncio.sleep(0.01)
    assert healer.metrics.failed.labels("cut off")._value.get() == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_workers_of_one_name_are_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="one name"):
        _healer(bench, StubWorker("twin"), StubWorker("twin"))


async def test_heals_are_counted_by_kind_and_time(healing_rig: HealingRig) -> None:
    await healing_rig.leaked()
    await healing_rig.heal()
    assert healing_rig.counted("paddock_heals_total", kind="orphaned_stamped_pod") == 1
    assert healing_rig.counted("paddock_heal_seconds_count", kind="orphaned_stamped_pod") == 1
    assert healing_rig.counted("paddock_suspects", kind="orphaned_stamped_pod") == 1
    assert (
        healing_rig.counted("paddock_healing_last_pass_timestamp_seconds", worker="pods")
        == healing_rig.clock.now().timestamp()
    )
    await healing_rig.heal()
    assert healing_rig.counted("paddock_suspects", kind="orphaned_stamped_pod") == 0


async def test_workers_without_a_plan_are_rehearsed(bench: Bench) -> None:
    told = Report(reported=(Healed("stale_claim", "runner-1", "it is stale"),))
    healer = Healer(
        [StubWorker("claims"), StubWorker("silent")],
        bench.ledger,
        bench.clock,
        seeded(1),
        rehearsals=[StubWorker("claims", told)],
    )
    plans = await healer.plan()
    assert plans["claims"] == told
    assert plans["silent"].refused


async def test_any_number_of_turns_leaves_the_connections_to_the_work(bench: Bench) -> None:
    async with Ledger.open(bench.dsn, clock=bench.clock, schema=bench.schema, size=2, timeout=2.0) as small:
        async with AsyncExitStack() as locks:
            for number in range(12):
                assert await locks.enter_async_context(small.locks.taken(f"worker {number}"))
            assert await small.claims.all() == []
            async with bench.ledger.locks.taken("worker 3") as mine:
                assert not mine, "another process must not have it, too"
        async with bench.ledger.locks.taken("worker 3") as mine:
            assert mine
