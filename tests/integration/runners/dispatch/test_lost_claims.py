"""A claim whose answer was lost is looked for and given back; one that was served meanwhile is not."""

import asyncio
import random

import pytest
from integration.runners.ledger.rig import ACME, POOL, Bench, job, pod

from paddock.base.backoff import Backoff
from paddock.base.supervise import keep_running
from paddock.runners.dispatch.metrics import DispatchMetrics
from paddock.runners.dispatch.pending_releases import PendingReleases, Release
from paddock.runners.ledger import LedgerUnavailableError


async def test_a_claim_that_was_committed_since_it_was_read_is_not_given_back(bench: Bench) -> None:
    await bench.accounts(ACME)
    await bench.queue(job(10))
    mine = await bench.ledger.dispatchers.register("dispatch")
    pending_releases = PendingReleases(
        bench.ledger,
        bench.clock,
        random.Random(1),
        DispatchMetrics(),
        mine=lambda number: number == mine,
        held=lambda _: False,
    )
    claim = await bench.ledger.claims.claim(POOL, pod(1), dispatcher=mine)
    read = await bench.ledger.claims.of_pod(pod(1).uid)
    assert read is not None
    await bench.ledger.claims.commit(claim, "runner-1-mint")
    await pending_releases.look_after(read)
    assert await bench.status(10) == "running", "its Pod has the runner: nobody else may be given the job"
    assert len(await bench.ledger.claims.all()) == 1


async def test_what_is_owed_is_given_back_though_settling_failed_in_a_way_that_nobody_foresaw(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.accounts(ACME)
    await bench.queue(job(10), job(11))
    clock, rng = bench.clock, random.Random(1)
    owed = PendingReleases(bench.ledger, clock, rng, DispatchMetrics(), mine=lambda _: True, held=lambda _: False)
    first, second = [await bench.claimed(number) for number in (1, 2)]
    release, failures = bench.ledger.claims.release, [LedgerUnavailableError("away"), RuntimeError("unforeseen")]

    async def failing(claim, **said):
        if failures and claim.generation == first.generation:
            raise failures.pop(0)
        return await release(claim, **said)

    monkeypatch.setattr(bench.ledger.claims, "release", failing)
    await owed.pay(Release(first, "the mint took too long"))
    owed.doubt(second.pod_uid)
    settling = asyncio.create_task(keep_running("pending releases", owed.run, clock, rng, Backoff(base=0.01)))
    async with asyncio.timeout(5):
        while await bench.ledger.claims.all():
            await asyncio.sleep(0.01)
    settling.cancel()
    assert (await bench.status(10), await bench.status(11)) == ("queued", "queued")
