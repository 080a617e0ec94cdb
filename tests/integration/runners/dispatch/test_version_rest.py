"""A pool whose runners GitHub calls too old: it rests, one runner is tried, and one that works ends it."""

from integration.runners.ledger.rig import ACME, POOL, Bench, job

from paddock.runners.dispatch.version_rest import VersionRest

TOO_OLD = "the Pod ended with exit code 7 (Error): deprecated"


async def _refused(bench: Bench, number: int, *, heard: bool = False, why: str = TOO_OLD) -> None:
    await bench.queue(job(number))
    await bench.running(number)
    if heard:
        await bench.started(job(number), number)
    bench.clock.advance(5)
    await bench.ledger.recovery.pod_stopped(f"uid-{number}", bench.clock.now(), by="operator", why=why)
    await bench.completed(job(number))


async def _room(bench: Bench) -> int | None:
    return await VersionRest(bench.ledger, bench.clock).room(POOL)


async def test_a_pool_rests_after_a_refusal_then_tries_one_and_goes_on_when_it_works(bench: Bench):
    await bench.accounts(ACME, vcpus=6000, memory_mb=14_336_000)
    assert await _room(bench) is None
    await _refused(bench, 10)
    await _refused(bench, 11)
    assert await _room(bench) == 0
    assert await VersionRest(bench.ledger, bench.clock).room("another-pool") is None, "also of the same image"
    bench.clock.advance(61)
    rest = VersionRest(bench.ledger, bench.clock)
    assert [await rest.room(POOL) for _ in range(3)] == [1, 0, 0], "one is tried, and no second one beside it"
    await _refused(bench, 12, heard=True, why="the Pod ended with exit code 0 (Completed)")
    assert await _room(bench) is None


async def test_a_job_that_writes_the_code_stops_nobody(bench: Bench):
    await bench.accounts(ACME, vcpus=6000, memory_mb=14_336_000)
    for number in (10, 11, 12):
        await _refused(bench, number, heard=True)
    assert await _room(bench) is None
    assert (await bench.ledger.signals.of_pool(POOL)).too_old == 0
    assert await bench.ledger.runner_troubles.now() == []


async def test_refused_runners_are_told_to_the_autoscaler_and_to_people(bench: Bench):
    await bench.accounts(ACME, vcpus=6000, memory_mb=14_336_000)
    since = bench.clock.now()
    for number in (10, 11, 12):
        await _refused(bench, number)
    signals = await bench.ledger.signals.of_pool(POOL)
    assert signals.too_old == 3
    assert signals.too_old_since is not None
    assert signals.too_old_since > since
    assert [(one.kind, one.pods) for one in await bench.ledger.runner_troubles.now()] == [("runner_too_old", 3)]
