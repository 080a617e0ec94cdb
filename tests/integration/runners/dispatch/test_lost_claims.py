"""A claim whose answer was lost is looked for and given back; one that was served meanwhile is not."""

import random

from integration.runners.ledger.rig import ACME, POOL, Bench, job, pod

from paddock.runners.dispatch.metrics import DispatchMetrics
from paddock.runners.dispatch.pending_releases import PendingReleases


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
