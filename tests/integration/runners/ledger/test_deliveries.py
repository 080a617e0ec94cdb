"""The inbox of webhooks."""

import asyncio
from datetime import timedelta

import pytest
from integration.runners.ledger.rig import Bench

from paddock.runners.ledger import InvalidEntryError, StaleDeliveryError


async def test_a_delivery_is_stored_once_and_a_repeat_is_known_by_its_id(bench: Bench):
    inbox = bench.ledger.deliveries
    assert await inbox.store("d-1", "workflow_job", b"{}")
    assert not await inbox.store("d-1", "workflow_job", b'{"other": 1}')
    (delivery,) = await inbox.take()
    assert (delivery.payload, delivery.attempt) == (b"{}", 1)


async def test_who_stores_a_delivery_may_take_it_in_the_same_statement_and_loses_it_soon(bench: Bench):
    inbox = bench.ledger.deliveries
    kept, lost = [await inbox.store(name, "workflow_job", b"{}", take=True) for name in ("kept", "lost")]
    assert kept is not None
    assert lost is not None
    assert await inbox.take() == []
    await inbox.settle(kept, "queued")
    bench.clock.advance(16)
    (again,) = await inbox.take()
    assert (again.delivery_id, again.attempt) == ("lost", 2)
    with pytest.raises(StaleDeliveryError):
        await inbox.settle(lost, "late")


async def test_of_many_copies_at_once_one_is_stored(bench: Bench):
    stored = await asyncio.gather(*(bench.ledger.deliveries.store("d-1", "workflow_job", b"{}") for _ in range(12)))
    assert sum(one is not None for one in stored) == 1


async def test_a_repeat_of_a_handled_delivery_is_not_handled_again(bench: Bench):
    inbox = bench.ledger.deliveries
    await inbox.store("d-1", "workflow_job", b"{}")
    (delivery,) = await inbox.take()
    await inbox.settle(delivery, "queued")
    assert not await inbox.store("d-1", "workflow_job", b"{}")
    bench.clock.advance(3600)
    assert await inbox.take() == []
    assert await inbox.backlog() == 0
    assert await bench.ask("SELECT payload, outcome FROM deliveries") == [(None, "queued")]


async def test_workers_never_hold_the_same_delivery(bench: Bench):
    inbox = bench.ledger.deliveries
    for n in range(30):
        await inbox.store(f"d-{n}", "workflow_job", b"{}")
    taken = [one.delivery_id for batch in await asyncio.gather(*(inbox.take(7) for _ in range(6))) for one in batch]
    assert len(taken) == len(set(taken)) == 30


async def test_the_delivery_of_a_worker_that_died_is_taken_over_and_the_late_worker_is_refused(bench: Bench):
    inbox = bench.ledger.deliveries
    await inbox.store("d-1", "workflow_job", b"{}")
    (first,) = await inbox.take()
    bench.clock.advance(30)
    assert await inbox.take() == []
    bench.clock.advance(31)
    (second,) = await inbox.take()
    assert second.attempt == 2
    with pytest.raises(StaleDeliveryError):
        await inbox.settle(first, "late")
    with pytest.raises(StaleDeliveryError):
        await inbox.fail(first, "late")
    await inbox.settle(second, "queued")


async def test_a_delivery_that_fails_is_tried_with_growing_pauses_and_then_kept_for_a_look(bench: Bench):
    inbox = bench.ledger.deliveries
    await inbox.store("d-1", "workflow_job", b"{}")
    pauses = []
    for attempt in range(1, 7):
        (delivery,) = await inbox.take()
        assert delivery.attempt == attempt
        again = await inbox.fail(delivery, "no such account")
        assert again is (attempt < 6)
        start = bench.clock.now()
        if again:
            assert await inbox.take() == []
            ((due,),) = await bench.ask("SELECT due_at FROM deliveries")
            bench.clock.moment = due
            pauses.append(due - start)
    assert pauses == sorted(pauses)
    assert await inbox.take() == []
    assert await bench.ask("SELECT payload, outcome FROM deliveries") == [(b"{}", "given up: no such account")]


async def test_forgetting_takes_settled_deliveries_only(bench: Bench):
    inbox = bench.ledger.deliveries
    await inbox.store("old", "workflow_job", b"{}")
    (old,) = await inbox.take()
    await inbox.settle(old, "queued")
    await inbox.store("waiting", "workflow_job", b"{}")
    bench.clock.advance(4 * 86_400)
    assert await inbox.forget(bench.clock.now() - timedelta(days=3)) == 1
    assert await inbox.backlog() == 1


async def test_a_delivery_without_an_id_is_refused(bench: Bench):
    with pytest.raises(InvalidEntryError, match="X-GitHub-Delivery"):
        await bench.ledger.deliveries.store("", "workflow_job", b"{}")
