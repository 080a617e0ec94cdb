"""A waiting job follows its labels, whatever becomes of the pool that it was first sent to."""

import msgspec
import pytest
from integration.runners.ledger.rig import Bench
from integration.runners.webhooks.rig import LINUX, MAC, Dispatcher

from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Outcome
from paddock.runners.webhooks.rerouting import Rerouter

replace = msgspec.structs.replace


def rerouter(dispatcher: Dispatcher) -> Rerouter:
    return Rerouter(dispatcher.ledger, lambda: dispatcher.pools, dispatcher.bench.clock)


def named(name: str, pool: RunnerPool = MAC) -> RunnerPool:
    return RunnerPool(metadata=ObjectMeta(name=name), spec=pool.spec)


def of_scale_set(pool: RunnerPool) -> RunnerPool:
    return RunnerPool(metadata=pool.metadata, spec=replace(pool.spec, job_source="ScaleSet"))


async def test_the_line_of_a_renamed_pool_goes_to_its_successor(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(*(dispatcher.job(number) for number in range(1, 6)))
    dispatcher.pools = [named("mac-m5"), LINUX]
    assert await rerouter(dispatcher).look() == 5
    assert (await bench.claim(1, "mac-m5")).job_id == 1
    assert (await bench.claim(2)).outcome is Outcome.EMPTY
    lines = await bench.ledger.transitions.of_job(2)
    assert [(line.was, line.became, line.by) for line in lines] == [
        ("", "queued", "webhook"),
        ("queued", "queued", "routing"),
    ]
    assert await rerouter(dispatcher).look() == 0


async def test_a_job_takes_the_size_of_the_pool_that_it_goes_to(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, labels=["paddock-macos"]))
    dispatcher.pools = [
        RunnerPool(metadata=ObjectMeta(name="other"), spec=replace(LINUX.spec, dispatch_label="paddock-macos"))
    ]
    await rerouter(dispatcher).look()
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert (row.pool, row.platform, row.vcpus, row.memory_mb) == ("other", "linux", 4, 8192)


@pytest.mark.parametrize("status", ["queued", "waiting"])
async def test_waiting_jobs_are_counted_as_the_size_that_their_pool_has_now(bench: Bench, status: str):
    """An account may hold 12 vCPU: two of the old Pods, and one of the new."""
    await bench.accounts(1, vcpus=12)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(*(dispatcher.job(number, status, status=status) for number in (7, 8)))
    large = replace(MAC.spec, pod_cpu_milli=12_000, pod_memory_mb=24_576)
    dispatcher.pools = [RunnerPool(metadata=MAC.metadata, spec=large), LINUX]
    await rerouter(dispatcher).look()
    rows = [await bench.ledger.jobs.get(number) for number in (7, 8)]
    assert [(row.status, row.vcpus, row.memory_mb) for row in rows if row is not None] == [(status, 12, 24_576)] * 2
    if status == "queued":
        assert [(await bench.claim(number)).outcome for number in (1, 2)] == [Outcome.CLAIMED, Outcome.EMPTY]
    assert await rerouter(dispatcher).look() == 0


async def test_a_job_that_was_larger_than_its_accounts_limit_runs_once_its_pool_is_smaller(bench: Bench):
    await bench.accounts(1, vcpus=8)
    dispatcher = Dispatcher(bench)
    spec = replace(MAC.spec, pod_cpu_milli=12_000)
    dispatcher.pools = [RunnerPool(metadata=MAC.metadata, spec=spec)]
    await dispatcher.deliver(dispatcher.job(7))
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    dispatcher.pools = [MAC]
    await rerouter(dispatcher).look()
    assert (await bench.claimed(1)).job_id == 7


async def test_the_line_of_a_pool_that_changes_to_a_scale_set_of_another_size_stays_in_it(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    spec = replace(MAC.spec, job_source="ScaleSet", pod_cpu_milli=3000)
    dispatcher.pools = [RunnerPool(metadata=MAC.metadata, spec=spec)]
    await rerouter(dispatcher).look()
    claim = await bench.claimed(1)
    assert (claim.job_id, claim.vcpus) == (7, 3)


async def test_jobs_of_a_deleted_pool_say_that_nobody_serves_them_and_wait_for_one_that_does(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7), dispatcher.job(8, labels=["paddock-linux"]))
    dispatcher.pools = [LINUX]
    assert await rerouter(dispatcher).look() == 1
    assert (await bench.status(7), await bench.status(8)) == ("unserved", "queued")
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    summary = await bench.ledger.overview.summary()
    assert summary.unserved == 1
    assert "paddock-macos" in summary.unserved_why
    shown = {job.job_id: job for job in await bench.ledger.overview.queue()}
    assert shown[7].reason == "no_pool"
    assert "self-hosted, paddock-macos" in shown[7].why
    assert (await bench.ledger.signals.of_pool("mac-m4")).queued == 0
    dispatcher.pools = [LINUX, MAC]
    assert await rerouter(dispatcher).look() == 1
    assert (await bench.claim(1)).job_id == 7


async def test_a_pool_that_offers_a_label_no_more_gives_up_the_jobs_that_need_it(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7), dispatcher.job(8, labels=["paddock-macos"]))
    dispatcher.pools = [RunnerPool(metadata=MAC.metadata, spec=replace(MAC.spec, runner_labels=("macOS",)))]
    assert await rerouter(dispatcher).look() == 1
    assert (await bench.status(7), await bench.status(8)) == ("unserved", "queued")
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert row.changed_why == "the runners of pool mac-m4 do not offer self-hosted"


async def test_a_job_with_a_label_that_nobody_offers_is_known_and_runs_once_somebody_does(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    assert await dispatcher.deliver(dispatcher.job(7, labels=["paddock-macos", "gpu"])) == ["unserved"]
    assert (await bench.ledger.overview.summary()).unserved_why == "the runners of pool mac-m4 do not offer gpu"
    dispatcher.pools = [RunnerPool(metadata=MAC.metadata, spec=replace(MAC.spec, runner_labels=("gpu",)))]
    assert await rerouter(dispatcher).look() == 1
    assert (await bench.claim(1)).job_id == 7


async def test_a_second_pool_of_the_same_label_stops_nothing_that_was_on_its_way(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    dispatcher.pools = [MAC, named("twin")]
    assert await rerouter(dispatcher).look() == 0
    assert await dispatcher.deliver(dispatcher.job(8)) == ["queued"]
    rows = [await bench.ledger.jobs.get(number) for number in (7, 8)]
    assert [row.pool for row in rows if row is not None] == ["mac-m4", "mac-m4"]


async def test_a_job_that_a_runner_has_is_not_routed_anew(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    await bench.running(1)
    dispatcher.pools = [named("mac-m5")]
    assert await rerouter(dispatcher).look() == 0
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert (row.status, row.pool) == ("running", "mac-m4")


async def test_while_the_pools_are_not_known_every_job_stays_where_it_is(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    dispatcher.pools = None
    assert await rerouter(dispatcher).look() == 0
    assert await bench.status(7) == "queued"


async def test_a_job_held_for_approval_follows_its_pool_and_stays_held(bench: Bench):
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7, "waiting", status="waiting"))
    dispatcher.pools = [named("mac-m5")]
    assert await rerouter(dispatcher).look() == 1
    row = await bench.ledger.jobs.get(7)
    assert row is not None
    assert (row.status, row.pool) == ("waiting", "mac-m5")


@pytest.mark.parametrize("labels", [("self-hosted", "paddock-macos"), ("paddock-macos", "gpu")])
async def test_a_job_that_nobody_serves_is_not_queued_a_second_time_beside_a_scale_set(
    bench: Bench, labels: tuple[str, ...]
):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    dispatcher.pools = [LINUX] if "gpu" not in labels else [LINUX, MAC]
    assert await dispatcher.deliver(dispatcher.job(7, labels=labels)) == ["unserved"]
    able = replace(MAC.spec, runner_labels=("self-hosted", "gpu"))
    dispatcher.pools = [LINUX, of_scale_set(RunnerPool(metadata=MAC.metadata, spec=able))]
    assert [await rerouter(dispatcher).look() for _ in range(2)] == [1, 0]
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    summary = await bench.ledger.overview.summary()
    assert (summary.unserved, summary.unsure) == (0, 1)
    assert "pool mac-m4 is told of such jobs by its scale set's queue" in summary.unsure_why
    # Back at webhooks, the pool takes it over.
    dispatcher.pools = [LINUX, RunnerPool(metadata=MAC.metadata, spec=able)]
    assert await rerouter(dispatcher).look() == 1
    assert (await bench.claimed(1)).job_id == 7


async def test_the_line_of_a_deleted_pool_is_left_to_the_scale_set_that_has_its_label(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7), dispatcher.job(8, "waiting", status="waiting"))
    dispatcher.pools = [of_scale_set(named("mac-m5"))]
    assert await rerouter(dispatcher).look() == 1
    assert (await bench.status(7), await bench.status(8)) == ("unserved", "waiting")
    assert (await bench.ledger.overview.summary()).unserved == 0
    assert await bench.ledger.unconfirmed.known([7, 8]) == {8}, "the queue may be silent about it"


async def test_the_line_of_a_pool_that_changes_to_a_scale_set_is_served_to_its_end(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7))
    dispatcher.pools = [of_scale_set(MAC)]
    assert await rerouter(dispatcher).look() == 0
    assert (await bench.claimed(1)).job_id == 7


@pytest.mark.parametrize("gone", [False, True])
async def test_a_line_is_routed_anew_however_long_it_is(bench: Bench, gone: bool):
    """Each job that is moved has a lock of its own, and the locks of a whole line do not fit into the server's memory."""
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(1))
    await bench.ask(
        "INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, label, labels, enqueued_at,"
        " changed_at, changed_by, changed_why) SELECT n, account_id, pool, platform, vcpus, memory_mb, status, repository, label,"
        " labels, enqueued_at, changed_at, changed_by, changed_why FROM jobs, generate_series(2, 12000) n RETURNING job_id"
    )
    dispatcher.pools = [LINUX] if gone else [named("mac-m5"), LINUX]
    assert await rerouter(dispatcher).look() == 12_000
    assert await bench.ask("SELECT DISTINCT pool, status FROM jobs") == [
        ("mac-m4", "unserved") if gone else ("mac-m5", "queued")
    ]
    assert await rerouter(dispatcher).look() == 0
