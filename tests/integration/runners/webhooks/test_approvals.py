"""Jobs that wait for a person: known, shown, handed to nobody, and released by the approval, whatever the order of words."""

import itertools

import pytest
from integration.runners.ledger.rig import Bench
from integration.runners.webhooks.rig import MAC, Dispatcher

from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Outcome


async def test_a_job_that_waits_for_approval_is_known_and_handed_to_nobody(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    assert await dispatcher.deliver(dispatcher.job(7, "waiting", status="waiting")) == ["held"]
    assert await bench.status(7) == "waiting"
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    signals = await bench.ledger.signals.of_pool("mac-m4")
    assert (signals.queued, signals.withheld, signals.oldest_dispatchable_seconds) == (0, 0, 0.0)
    summary = await bench.ledger.overview.summary()
    assert (summary.held, summary.dispatchable, summary.withheld, summary.resting) == (1, 0, 0, 0)
    _, load = await bench.ledger.signals.of_pools([])
    assert load.line == []


async def test_a_job_that_waits_for_approval_says_so(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, "waiting", status="waiting"))
    (shown,) = await bench.ledger.overview.queue()
    assert (shown.job_id, shown.reason, shown.position) == (7, "approval", None)
    assert "until somebody approves" in shown.why
    alone = await bench.ledger.overview.waiting(7)
    assert alone is not None
    assert alone.reason == "approval"


async def test_the_queued_after_the_approval_releases_it_and_its_wait_counts_from_then(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, "waiting", status="waiting"))
    bench.clock.advance(3 * 3600.0)
    assert await dispatcher.deliver(dispatcher.job(7, status="queued")) == ["queued"]
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert (row.status, row.enqueued_at) == ("queued", bench.clock.now())
    assert (await bench.claim(1)).job_id == 7
    assert [line.became for line in await bench.ledger.transitions.of_job(7) if line.subject == "job"] == [
        "waiting",
        "queued",
        "claimed",
    ]


@pytest.mark.parametrize("pools", [[MAC], []], ids=["it_waited_unheard", "no_pool_was_there"])
async def test_a_job_whose_hold_was_not_kept_waits_from_its_approval_on(bench: Bench, pools: list[RunnerPool]):
    """GitHub names the day of its creation. A job so old would never be in line, and be given up with GitHub's next silence."""
    await bench.accounts(1)
    dispatcher, created = Dispatcher(bench), bench.clock.now()
    if not pools:
        dispatcher.pools = []
        held = dispatcher.job(7, "waiting", status="waiting", created=created)
        assert await dispatcher.deliver(held) == ["ignored: no_pools"]
    bench.clock.advance(8 * 86_400.0)
    dispatcher.pools = [MAC]
    assert await dispatcher.deliver(dispatcher.job(7, status="queued", created=created)) == ["queued"]
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert row.enqueued_at == bench.clock.now()
    assert (await bench.claim(1)).job_id == 7


async def test_a_queued_that_is_sent_before_the_approval_holds_the_job_too(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    assert await dispatcher.deliver(dispatcher.job(7, "queued", status="waiting")) == ["held"]
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    assert await dispatcher.deliver(dispatcher.job(7, "queued", status="queued")) == ["queued"]
    assert (await bench.claim(1)).job_id == 7


async def test_a_waiting_takes_a_queued_job_out_of_the_line(bench: Bench):
    """Which of the two was said last is not to be seen: GitHub is asked, and until then nobody gets the job."""
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, status="queued"))
    assert await dispatcher.deliver(dispatcher.job(7, "waiting", status="waiting")) == ["held"]
    assert (await bench.claim(1)).outcome is Outcome.EMPTY


async def test_a_waiting_that_comes_again_after_the_approval_holds_nothing(bench: Bench):
    """GitHub holds a job back once in its life: the second word is late, or somebody sends an old one again."""
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    waiting = dispatcher.job(7, "waiting", status="waiting")
    await dispatcher.deliver(waiting, dispatcher.job(7, status="queued"))
    assert await dispatcher.deliver(waiting) == ["known"]
    assert (await bench.claim(1)).job_id == 7


async def test_a_late_waiting_about_a_job_that_a_runner_has_changes_nothing(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, status="queued"))
    await bench.running(1)
    assert await dispatcher.deliver(dispatcher.job(7, "waiting", status="waiting")) == ["known"]
    assert await bench.status(7) == "running"


@pytest.mark.parametrize("order", list(itertools.permutations(["waiting", "queued", "in_progress", "completed"])))
async def test_words_about_an_approved_job_end_alike_in_any_order(bench: Bench, order: tuple[str, ...]):
    dispatcher = Dispatcher(bench)
    payloads = {
        action: dispatcher.job(
            7, action, status=action, runner_name="other" if action in ("in_progress", "completed") else None
        )
        for action in order
    }
    for action in (*order, *order):
        await dispatcher.deliver(payloads[action])
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert (row.status, row.conclusion, row.runner_name) == ("completed", "success", "other")


async def test_a_job_that_is_cancelled_while_it_waits_for_approval_is_over(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(
        dispatcher.job(7, "waiting", status="waiting"), dispatcher.job(7, "completed", conclusion="cancelled")
    )
    assert await bench.status(7) == "cancelled"
    assert (await bench.ledger.overview.summary()).held == 0
