"""A job that no pool serves and that seems to be meant for us is known, and says which labels nobody offers."""

import asyncio

import pytest
from integration.runners.ledger.rig import Bench, job
from integration.runners.webhooks.rig import LINUX, MAC, Dispatcher
from msgspec.structs import replace

from paddock.runners.ledger import Ledger, Moved, Outcome, rerouting
from paddock.runners.webhooks import events
from paddock.runners.webhooks.rerouting import Rerouter


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (("self-hosted", "macos-62"), "nobody offers macos-62; the nearest pool is mac-m4"),
        (("macOS", "macos-62"), "nobody offers macos-62; the nearest pool is mac-m4, whose jobs carry paddock-macos"),
        (("self-hosted", "macOS"), "it carries no dispatch label; the nearest pool is mac-m4"),
    ],
)
async def test_a_job_that_is_perhaps_ours_is_shown_and_counted_apart(bench: Bench, labels: tuple[str, ...], words: str):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    for _ in range(2):
        await dispatcher.deliver(dispatcher.job(7, labels=labels))
    assert await bench.status(7) == "unserved"
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    waiting = await bench.ledger.overview.waiting(7)
    assert waiting is not None
    assert words in waiting.why
    assert "If it is meant for other runners of yours, nothing is to do." in waiting.why
    summary = await bench.ledger.overview.summary()
    assert (summary.unserved, summary.unsure) == (0, 1)
    assert words in summary.unsure_why
    assert (await bench.ledger.signals.unserved(), await bench.ledger.rerouting.unsure()) == (0, 1)


@pytest.mark.parametrize("labels", [("self-hosted", "a\x00b"), ("paddock-macos", "a\x00b")])
async def test_a_label_that_postgres_cannot_hold_is_told_without_what_it_refuses(bench: Bench, labels: tuple[str, ...]):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    assert await dispatcher.deliver(dispatcher.job(7, labels=labels)) == ["unserved"]
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert "offer" in row.changed_why
    assert "ab" in row.changed_why
    assert await Rerouter(bench.ledger, lambda: dispatcher.pools, bench.clock).look() == 0


async def test_no_tenant_decides_how_long_the_sentences_of_operators_are(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    many = tuple(f"{n:03}" + "x" * 990 for n in range(190))
    await dispatcher.deliver(dispatcher.job(7, labels=("self-hosted", *many)))
    why = (await bench.ledger.overview.summary()).unsure_why
    waiting = await bench.ledger.overview.waiting(7)
    assert waiting is not None
    assert "004xxx" in why
    assert "… and 185 more; the nearest pool is" in why
    assert len(why) < 500
    assert len(waiting.why) < 1000


@pytest.mark.parametrize(
    "labels", [("ubuntu-latest",), ("macos-15",), ("macos-14-xlarge",), ("windows-2022",), ("buildjet-4vcpu",), ()]
)
async def test_jobs_for_runners_of_others_are_never_stored(bench: Bench, labels: tuple[str, ...]):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    for action in ("queued", "in_progress", "completed"):
        said = dispatcher.job(7, action, labels=labels, runner_name="GitHub Actions 7")
        assert await dispatcher.deliver(said) == ["ignored: no_matching_pool"]
    assert await bench.ask("SELECT job_id FROM jobs UNION SELECT job_id FROM completions") == []


async def test_nothing_is_kept_of_accounts_that_may_run_no_jobs(bench: Bench):
    dispatcher = Dispatcher(bench)
    said = dispatcher.job(7, labels=("self-hosted", "macos-62"))
    assert await dispatcher.deliver(said) == ["ignored: no_matching_pool"]
    await bench.ledger.accounts.enrol(1, "org1", 1001)
    assert await dispatcher.deliver(said) == ["ignored: not_allowed"]
    assert await bench.status(7) == "none"


async def test_a_job_announced_after_its_pool_was_deleted_is_surely_ours_and_goes_when_the_pool_is_back(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, labels=("paddock-macos",)))
    dispatcher.pools = [LINUX]
    assert await dispatcher.deliver(dispatcher.job(8, labels=("Paddock-macOS",))) == ["unserved"]
    rerouter = Rerouter(bench.ledger, lambda: dispatcher.pools, bench.clock)
    await rerouter.look()
    summary = await bench.ledger.overview.summary()
    assert (summary.unserved, summary.unsure) == (2, 0)
    assert "nobody offers paddock-macos" in summary.unserved_why
    assert await rerouter.look() == 0
    dispatcher.pools = []
    assert await dispatcher.deliver(dispatcher.job(9, labels=("paddock-macos",))) == ["unserved"]
    dispatcher.pools = [MAC, LINUX]
    assert await rerouter.look() == 3
    assert (await bench.claimed(1)).job_id == 7


async def test_jobs_that_were_kept_for_a_label_and_ran_elsewhere_do_not_keep_the_label_ours(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(1, labels=("paddock-macos",)))
    dispatcher.pools = [LINUX]
    assert await dispatcher.deliver(dispatcher.job(2, labels=("paddock-macos",))) == ["unserved"]
    await dispatcher.deliver(dispatcher.job(1, "completed", labels=("paddock-macos",), conclusion="cancelled"))
    began = dispatcher.job(2, "in_progress", labels=("paddock-macos",), runner_name="their-mac-3")
    assert await dispatcher.deliver(began) == ["elsewhere"]
    assert await bench.ledger.rerouting.former() == {}


async def test_a_label_is_ours_by_the_newest_jobs_that_were_dispatched_however_many_others_are_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rerouting, "_NEWEST", 2)
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(1))
    await bench.running(1)
    await dispatcher.deliver(dispatcher.job(1, "completed", runner_name="runner-1-mint"))
    for n in range(2, 12):
        await dispatcher.deliver(dispatcher.job(n, labels=("self-hosted", "their-macs")))
    assert set(await bench.ledger.rerouting.former()) == {"paddock-macos"}
    await dispatcher.deliver(*(dispatcher.job(n, labels=("paddock-linux",)) for n in (12, 13)))
    assert set(await bench.ledger.rerouting.former()) == {"paddock-linux"}


async def test_former_labels_are_read_once_a_minute_however_many_jobs_come_together(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    read, reads = bench.ledger.rerouting.former, 0

    async def former() -> dict[str, rerouting.FormerPool]:
        nonlocal reads
        reads += 1
        return await read()

    monkeypatch.setattr(bench.ledger.rerouting, "former", former)
    for minute in (1, 2):
        monkeypatch.setattr(dispatcher.worker._former, "_read_at", float("-inf"))
        jobs = range(100 * minute, 100 * minute + 64)
        await dispatcher.deliver(*(dispatcher.job(n, labels=("self-hosted", "macos-62")) for n in jobs))
        assert reads == minute


async def test_a_job_that_is_perhaps_ours_is_queued_as_soon_as_a_pool_offers_its_labels(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    dispatcher.pools = [LINUX]
    await dispatcher.deliver(dispatcher.job(7, labels=("self-hosted", "paddock-macos")))
    assert await bench.ledger.rerouting.unsure() == 1
    dispatcher.pools = [MAC, LINUX]
    await Rerouter(bench.ledger, lambda: dispatcher.pools, bench.clock).look()
    assert (await bench.claimed(1)).job_id == 7


async def test_a_job_that_another_runner_takes_up_is_over_for_us(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    labels = ("self-hosted", "their-macs")
    await dispatcher.deliver(dispatcher.job(7, labels=labels))
    began = dispatcher.job(7, "in_progress", labels=labels, runner_name="their-mac-3")
    assert await dispatcher.deliver(began) == ["elsewhere"]
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert (row.status, row.conclusion, row.runner_name) == ("completed", "elsewhere", None)
    assert "their-mac-3, which is not ours" in (await bench.ledger.transitions.of_job(7))[-1].why
    # Late and repeated words change nothing.
    ended = dispatcher.job(7, "completed", labels=labels, runner_name="their-mac-3")
    assert await dispatcher.deliver(began, ended, dispatcher.job(7, labels=labels)) == ["finished"] * 3
    assert (await bench.ledger.overview.summary()).unsure == 0


async def test_a_job_without_a_dispatch_label_that_a_runner_of_ours_takes_up_runs_here(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    await bench.running(1)
    labels = ("self-hosted", "macOS")
    await dispatcher.deliver(dispatcher.job(8, labels=labels))
    await dispatcher.deliver(dispatcher.job(8, "in_progress", labels=labels, runner_name="runner-1-mint"))
    assert (await bench.status(7), await bench.status(8)) == ("queued", "running")


async def test_one_that_is_cancelled_ends(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    labels = ("self-hosted", "macos-62")
    await dispatcher.deliver(dispatcher.job(7, labels=labels))
    await dispatcher.deliver(dispatcher.job(7, "completed", labels=labels, conclusion="cancelled"))
    assert await bench.status(7) == "cancelled"


async def test_jobs_that_are_perhaps_ours_are_no_flood_and_keep_out_none_that_surely_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "_MOST_UNSURE", 3)
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    for n in range(1, 7):
        await dispatcher.deliver(dispatcher.job(n, labels=("self-hosted", "their-macs")))
    assert await bench.ledger.rerouting.unsure() == 3
    assert dispatcher.counted("queued", "too_many_unserved") == 3
    assert await dispatcher.deliver(dispatcher.job(8, labels=("paddock-macos", "x"))) == ["unserved"]
    assert await dispatcher.deliver(dispatcher.job(9)) == ["queued"]


async def test_many_at_once_are_no_flood_either_and_no_account_hides_anothers(bench: Bench):
    await bench.accounts(1, 2)
    dispatchers = [Dispatcher(bench), Dispatcher(bench)]
    written = [
        dispatchers[0].job(n, account=2 if n == 200 else 1, labels=("self-hosted", "their-macs")) for n in range(1, 201)
    ]
    for n, payload in enumerate(written):
        await bench.ledger.deliveries.store(f"flood-{n}", "workflow_job", payload)
    await asyncio.gather(*(dispatcher.worker.drain() for dispatcher in dispatchers))
    kept = await bench.ask("SELECT account_id, count(*) FROM jobs GROUP BY 1 ORDER BY 1")
    assert kept == [(1, events._MOST_UNSURE_OF_ACCOUNT), (2, 1)]


async def test_the_cap_holds_among_processes_that_count_at_the_same_moment(bench: Bench):
    await bench.accounts(1)
    cap = {"why": "nobody offers it", "most": 5, "most_of_account": 9}
    perhaps = [replace(job(n), label="") for n in range(1, 21)]
    async with Ledger.open(bench.dsn, clock=bench.clock, schema=bench.schema) as rival:
        both = (bench.ledger, rival) * 10
        told = await asyncio.gather(
            *(ledger.jobs.enqueue_unsure(one, **cap) for ledger, one in zip(both, perhaps, strict=True))
        )
    assert sorted(str(moved) for moved in told) == ["None"] * 15 + ["unserved"] * 5
    kept = perhaps[[moved is Moved.UNSERVED for moved in told].index(True)]
    assert await bench.ledger.jobs.enqueue_unsure(kept, **cap) is Moved.KNOWN, "said again, it is there"


async def test_one_that_waits_for_an_approval_is_kept_once_it_is_approved(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    labels = ("self-hosted", "macos-62")
    assert await dispatcher.deliver(dispatcher.job(7, "waiting", labels=labels)) == ["ignored: no_matching_pool"]
    assert await dispatcher.deliver(dispatcher.job(7, labels=labels)) == ["unserved"]
