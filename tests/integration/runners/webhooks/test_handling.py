"""Stored deliveries, worked off: what each does to the ledger, and that no bad one stops or loses another."""

import asyncio
import itertools
import random
from datetime import timedelta
from typing import Any

import pytest
from integration.runners.ledger.rig import Bench, job
from integration.runners.webhooks.rig import LINUX, MAC, Dispatcher, until

from paddock.runners.ledger import Delivery, Ledger, LedgerUnavailableError


async def test_a_queued_job_gets_its_row_with_pool_size_and_times_of_the_payload(bench: Bench):
    dispatcher = Dispatcher(bench)
    assert await dispatcher.deliver(dispatcher.job(7, labels=["Paddock-Linux"]), dispatcher.job(8)) == [
        "queued",
        "queued",
    ]
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert (row.pool, row.platform, row.vcpus, row.memory_mb, row.label) == (
        "linux-x64",
        "linux",
        4,
        8192,
        "Paddock-Linux",
    )
    assert row.enqueued_at == bench.clock.now() - timedelta(seconds=5)
    assert (row.repository, row.workflow_run_id, row.workflow_name, row.job_name) == ("org1/app", 9007, "CI", "test")
    assert await bench.status(8) == "queued"
    assert dispatcher.counted("queued", "queued") == 2


async def test_a_job_of_the_future_is_not_older_than_now(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, created=bench.clock.now() + timedelta(hours=2)))
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert row.enqueued_at == bench.clock.now()


async def test_each_reason_to_ignore_a_job_is_counted_apart(bench: Bench):
    dispatcher = Dispatcher(bench)
    assert await dispatcher.deliver(dispatcher.job(1, labels=["ubuntu-latest"])) == ["ignored: no_matching_pool"]
    dispatcher.pools = []
    assert await dispatcher.deliver(dispatcher.job(4)) == ["ignored: no_pools"]
    dispatcher.pools = [MAC]
    assert await dispatcher.deliver(dispatcher.job(5, "in_progress")) == ["ignored: no_runner"]
    assert await dispatcher.deliver(dispatcher.job(6, "requested")) == ["ignored: unknown_action"]
    assert await dispatcher.deliver(b'{"action":"opened"}', event="pull_request") == ["ignored: unknown_event"]
    assert await dispatcher.deliver(b"[", dispatcher.job(-1)) == ["ignored: malformed", "ignored: malformed"]
    for action, outcome in (
        ("queued", "no_matching_pool"),
        ("queued", "no_pools"),
        ("in_progress", "no_runner"),
        ("other", "unknown_action"),
        ("other", "unknown_event"),
        ("workflow_job", "malformed"),
        ("queued", "malformed"),
    ):
        assert dispatcher.counted(action, outcome) == 1, (action, outcome)
    assert await bench.ask("SELECT FROM jobs") == []


async def test_while_the_pools_are_not_known_deliveries_wait_instead_of_being_ignored(bench: Bench):
    dispatcher = Dispatcher(bench)
    dispatcher.pools = None
    await bench.ledger.deliveries.store("d-0", "workflow_job", dispatcher.job(7))
    assert await dispatcher.worker.drain() == 0
    dispatcher.pools = [MAC]
    assert await dispatcher.worker.drain() == 1
    assert await bench.status(7) == "queued"


async def test_a_zero_character_in_a_name_loses_no_job(bench: Bench):
    dispatcher = Dispatcher(bench)
    assert await dispatcher.deliver(dispatcher.job(7, name="te\x00st", head_branch="\x00")) == ["queued"]


# Any order


@pytest.mark.parametrize("order", list(itertools.permutations(["queued", "in_progress", "completed"])))
async def test_late_repeated_and_reordered_words_end_alike(bench: Bench, order: tuple[str, ...]):
    dispatcher = Dispatcher(bench)
    payloads = {
        action: dispatcher.job(7, action, runner_name=None if action == "queued" else "other") for action in order
    }
    await dispatcher.deliver(*(payloads[action] for action in order))
    for action in (*order, *reversed(order)):
        await dispatcher.deliver(payloads[action])
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert (row.status, row.conclusion, row.runner_name) == ("completed", "success", "other")


async def test_a_replay_storm_changes_nothing(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7), dispatcher.job(7, "completed", conclusion="cancelled"))
    before = await bench.ask("SELECT * FROM transitions ORDER BY transition_id")
    rng = random.Random(5)
    for _ in range(3):
        storm = [dispatcher.job(7, rng.choice(["queued", "waiting", "completed", "in_progress"])) for _ in range(40)]
        await dispatcher.deliver(*storm)
    assert await bench.ask("SELECT * FROM transitions ORDER BY transition_id") == before
    assert await bench.status(7) == "cancelled"


async def test_a_job_cancelled_while_it_waited_releases_no_runner(bench: Bench):
    dispatcher = Dispatcher(bench)
    await bench.accounts(1)
    await bench.queue(job(7))
    await bench.running(1)
    await dispatcher.deliver(dispatcher.job(7, "completed", conclusion="cancelled"))
    assert await bench.status(7) == "cancelled"
    assert await bench.ledger.claims.of_pod("uid-1") is not None


async def test_the_executors_claim_ends_and_a_runner_of_that_name_elsewhere_keeps_its_own(bench: Bench):
    dispatcher = Dispatcher(bench)
    await bench.accounts(1, 2)
    await bench.queue(job(7, 1))
    await bench.running("a")
    await bench.queue(job(8, 2))
    other = await bench.claimed("b")
    await bench.ledger.claims.commit(other, "runner-a-mint")
    await dispatcher.deliver(dispatcher.job(8, "completed", account=2, runner_name="runner-a-mint"))
    assert await bench.ledger.claims.of_pod("uid-a") is not None
    assert await bench.ledger.claims.of_pod("uid-b") is None


async def test_in_progress_binds_the_runner_to_the_job_it_was_given(bench: Bench):
    dispatcher = Dispatcher(bench)
    await bench.accounts(1)
    await bench.queue(job(7), job(8))
    claim = await bench.running(1)
    taken, other = claim.job_id, 15 - claim.job_id
    assert await dispatcher.deliver(dispatcher.job(other, "in_progress", runner_name="runner-1-mint")) == ["mismatch"]
    assert [await bench.status(other), await bench.status(taken)] == ["running", "queued"]
    assert await dispatcher.deliver(dispatcher.job(other, "in_progress", runner_name="runner-1-mint")) == ["matched"]
    assert await dispatcher.deliver(dispatcher.job(9, "in_progress", runner_name="nobody")) == ["unknown_runner"]


# Jobs that carry no dispatch label of ours


async def test_in_progress_with_a_foreign_label_does_not_touch_the_database(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    dispatcher = Dispatcher(bench)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the database was asked")

    for part in ("jobs", "accounts", "overview"):
        monkeypatch.setattr(bench.ledger, part, type("Closed", (), {"__getattr__": refuse})())
    foreign = dispatcher.job(7, "in_progress", labels=["ubuntu-latest"], runner_name="GitHub Actions 3")
    assert await dispatcher.deliver(foreign) == ["ignored: no_matching_pool"]


async def test_a_foreign_job_that_ended_leaves_nothing_and_enrols_nobody(bench: Bench):
    dispatcher = Dispatcher(bench)
    foreign = dispatcher.job(7, "completed", labels=["ubuntu-latest"], runner_name="GitHub Actions 3")
    assert await dispatcher.deliver(foreign) == ["ignored: no_matching_pool"]
    assert await bench.ask("SELECT FROM completions") == await bench.ask("SELECT FROM accounts") == []


async def test_a_runner_of_ours_that_was_given_a_job_without_our_label_gives_its_own_job_back(bench: Bench):
    dispatcher = Dispatcher(bench)
    await bench.accounts(1)
    await bench.queue(job(7))
    await bench.running(1)
    stolen = {"labels": ["self-hosted", "macOS"], "runner_name": "runner-1-mint"}
    assert await dispatcher.deliver(dispatcher.job(99, "in_progress", **stolen)) == ["mismatch"]
    assert [await bench.status(7), await bench.status(99)] == ["queued", "running"]
    assert await dispatcher.deliver(dispatcher.job(99, "completed", **stolen)) == ["completed"]
    assert await bench.ledger.claims.of_pod("uid-1") is None


async def test_somebody_elses_runner_with_labels_like_ours_is_none_of_our_business(bench: Bench):
    dispatcher = Dispatcher(bench)
    await bench.accounts(1)
    foreign = {"labels": ["self-hosted", "macOS"], "runner_name": "their-own-mac"}
    for action in ("in_progress", "completed"):
        assert await dispatcher.deliver(dispatcher.job(99, action, **foreign)) == ["ignored: no_matching_pool"]
    assert await bench.ask("SELECT FROM jobs") == []
    for action, outcome in (("queued", "unserved"), ("in_progress", "elsewhere"), ("completed", "finished")):
        assert await dispatcher.deliver(dispatcher.job(98, action, **foreign)) == [outcome]
    assert await bench.ask("SELECT conclusion, pod_uid FROM jobs") == [("elsewhere", None)]


async def test_the_end_of_a_job_is_heard_although_its_pool_is_gone(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    dispatcher.pools = [LINUX]
    assert await dispatcher.deliver(dispatcher.job(7, "completed", conclusion="cancelled")) == ["completed"]
    assert await bench.status(7) == "cancelled"


# Failures


async def test_a_delivery_that_fails_does_not_stop_the_others_and_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    dispatcher = Dispatcher(bench)
    enqueue, broken = bench.ledger.jobs.enqueue, True

    async def sometimes(one: Any, **more: Any) -> Any:
        if broken and one.job_id == 3:
            raise RuntimeError("a mistake of ours")
        return await enqueue(one, **more)

    monkeypatch.setattr(bench.ledger.jobs, "enqueue", sometimes)
    outcomes = await dispatcher.deliver(*(dispatcher.job(n) for n in range(1, 40)))
    assert outcomes.count("queued") == 38
    assert outcomes[2] == "RuntimeError: a mistake of ours"
    assert dispatcher.counted("workflow_job", "retried") == 1
    broken = False
    bench.clock.advance(2)
    await dispatcher.worker.drain()
    assert await bench.status(3) == "queued"


async def test_a_delivery_that_always_fails_is_given_up_with_its_body(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    dispatcher = Dispatcher(bench)

    async def never(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(bench.ledger.jobs, "enqueue", never)
    sent = dispatcher.job(3)
    await dispatcher.deliver(sent)
    for _ in range(8):
        bench.clock.advance(600)
        await dispatcher.worker.drain()
    assert dispatcher.counted("workflow_job", "given_up") == 1
    ((payload,),) = await bench.ask("SELECT payload FROM deliveries")
    assert bytes(payload) == sent


async def test_a_database_that_is_away_makes_deliveries_wait_however_often(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    dispatcher = Dispatcher(bench)
    enqueue, away = bench.ledger.jobs.enqueue, True

    async def sometimes(one: Any, **more: Any) -> Any:
        if away:
            raise LedgerUnavailableError("the database went away")
        return await enqueue(one, **more)

    monkeypatch.setattr(bench.ledger.jobs, "enqueue", sometimes)
    await bench.ledger.deliveries.store("d-0", "workflow_job", dispatcher.job(3))
    for _ in range(10):
        with pytest.raises(LedgerUnavailableError):
            await dispatcher.worker.drain()
        bench.clock.advance(600)
    away = False
    await dispatcher.worker.drain()
    assert await bench.status(3) == "queued"


async def test_a_worker_that_died_leaves_its_deliveries_to_the_next(bench: Bench):
    dispatcher = Dispatcher(bench)
    await bench.ledger.deliveries.store("d-0", "workflow_job", dispatcher.job(3))
    assert len(await bench.ledger.deliveries.take()) == 1
    await dispatcher.worker.drain()
    assert await bench.status(3) == "none"
    bench.clock.advance(61)
    await dispatcher.worker.drain()
    assert await bench.status(3) == "queued"


async def test_two_workers_share_the_work_and_end_alike(bench: Bench):
    dispatcher = Dispatcher(bench)
    rival = Dispatcher(bench)
    for n in range(60):
        payload = dispatcher.job(1 + n % 20, ("queued", "in_progress", "completed")[n // 20], runner_name="theirs")
        await bench.ledger.deliveries.store(f"d-{n}", "workflow_job", payload)
    handled = await asyncio.gather(dispatcher.worker.drain(), rival.worker.drain())
    assert sum(handled) == 60
    assert {await bench.status(n) for n in range(1, 21)} == {"completed"}


async def test_the_running_worker_wakes_at_once_and_survives_a_database_that_is_away(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    dispatcher = Dispatcher(bench)
    take, failures = bench.ledger.deliveries.take, 2

    async def sometimes(limit: int = 20) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise LedgerUnavailableError("the database went away")
        return await take(limit)

    monkeypatch.setattr(bench.ledger.deliveries, "take", sometimes)
    monkeypatch.setattr("paddock.runners.webhooks.worker._AWAY.__class__.delay", lambda *_: 0.01)
    working = asyncio.ensure_future(dispatcher.worker.run())
    try:
        for n in (1, 2, 3):
            stored = await bench.ledger.deliveries.store(f"d-{n}", "workflow_job", dispatcher.job(n))
            assert stored is not None
            dispatcher.worker.take(stored)
            await until(lambda n=n: _queued(bench.ledger, n), seconds=1.5)
    finally:
        working.cancel()


async def test_what_was_taken_as_it_was_stored_is_handled_without_asking_for_it(bench: Bench, monkeypatch):
    dispatcher = Dispatcher(bench)

    async def never(_: int) -> list[Any]:
        return []

    monkeypatch.setattr(bench.ledger.deliveries, "take", never)
    for n in (1, 2):
        assert dispatcher.worker.has_room
        stored = await bench.ledger.deliveries.store(f"d-{n}", "workflow_job", dispatcher.job(n), take=True)
        assert stored is not None
        dispatcher.worker.take(stored)
    assert await dispatcher.worker.drain() == 2
    assert await _queued(bench.ledger, 2)
    assert await bench.ledger.deliveries.backlog() == 0


async def test_what_others_left_is_looked_for_now_and_then_however_much_is_given(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("paddock.runners.webhooks.worker._LOOK_AGAIN", 1000.0)
    dispatcher = Dispatcher(bench)
    looked: list[int] = []
    take = bench.ledger.deliveries.take

    async def counted(limit: int = 20) -> list[Any]:
        looked.append(limit)
        return await take(limit)

    monkeypatch.setattr(bench.ledger.deliveries, "take", counted)
    await bench.ledger.deliveries.store("left", "workflow_job", dispatcher.job(1))
    for n in range(2, 12):
        given = await bench.ledger.deliveries.store(f"d-{n}", "workflow_job", dispatcher.job(n), take=True)
        assert given is not None
        dispatcher.worker.take(given)
        await dispatcher.worker.drain()
    assert len(looked) == 1
    assert await _queued(bench.ledger, 1)
    assert await bench.ledger.deliveries.backlog() == 0


async def test_what_others_left_is_handled_while_new_deliveries_never_stop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("paddock.runners.webhooks.worker._LOOK_AGAIN", 0.0)
    dispatcher, numbers = Dispatcher(bench), iter(range(100, 120))
    settle = bench.ledger.deliveries.settle
    left_after: list[int] = []

    async def give(number: int) -> None:
        given = await bench.ledger.deliveries.store(f"d-{number}", "workflow_job", dispatcher.job(number), take=True)
        assert given is not None
        dispatcher.worker.take(given)

    async def settle_and_give_the_next(delivery: Delivery, outcome: str) -> None:
        if (number := next(numbers, None)) is not None:
            left_after.extend([number] if delivery.delivery_id == "left" else [])
            await give(number)
        await settle(delivery, outcome)

    await give(1)
    await dispatcher.worker.drain()
    await bench.ledger.deliveries.store("left", "workflow_job", dispatcher.job(2))
    monkeypatch.setattr(bench.ledger.deliveries, "settle", settle_and_give_the_next)
    await give(3)
    await dispatcher.worker.drain()
    assert left_after, "it waited until the last of them was handled"
    assert next(numbers, None) is None
    assert await _queued(bench.ledger, 2)
    assert await bench.ledger.deliveries.backlog() == 0


async def test_a_backlog_of_many_batches_is_worked_off_at_once(bench: Bench):
    dispatcher = Dispatcher(bench)
    for n in range(1, 301):
        await bench.ledger.deliveries.store(f"d-{n}", "workflow_job", dispatcher.job(n))
    assert await dispatcher.worker.drain() == 300
    assert await bench.ledger.deliveries.backlog() == 0


async def _queued(ledger: Ledger, job_id: int) -> bool:
    return await ledger.jobs.get(job_id) is not None
