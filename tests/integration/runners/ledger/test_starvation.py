"""How long an account may be passed over: at most once by each other account, whatever the size of the pool."""

import random

import pytest
from integration.runners.ledger.rig import ACME, BOLT, CRUX, POOL, Bench, job, pod


async def served_in_turns(bench: Bench, pods: int, batch: int, turns: int) -> list[int]:
    """Pods that never rest and jobs that last alike: each that ends asks again, `batch` of them in one statement; whose job each got, in order."""
    order: list[int] = []
    held: list[str] = []
    number = 0
    while len(order) < turns:
        free = min(batch, pods - len(held)) or 1
        for _ in range(free + len(held) - pods):
            uid = held.pop(0)
            claim = await bench.ledger.claims.of_pod(uid)
            assert claim is not None
            assert claim.job_id is not None
            await bench.completed(job(claim.job_id, claim.account_id), uid.removeprefix("uid-"))
        waiting = [pod(number + n) for n in range(free)]
        number += free
        for answer in await bench.ledger.claims.claim_many(POOL, waiting):
            assert answer.won
            await bench.ledger.claims.commit(answer, f"{answer.pod_name}-mint")
            order.append(answer.account_id)
            held.append(answer.pod_uid)
    return order


@pytest.mark.parametrize(("pods", "batch"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (4, 2), (7, 3)])
async def test_two_accounts_that_always_wait_take_turns_in_a_pool_of_any_size(bench: Bench, pods: int, batch: int):
    await bench.accounts(ACME, BOLT, vcpus=600, memory_mb=5_000_000)
    # All of ACME's jobs are older than any of BOLT's: by age alone BOLT would wait for all of them.
    await bench.queue(*(job(100 + n, ACME, age=900 - n) for n in range(40)))
    await bench.queue(*(job(200 + n, BOLT, age=40 - n) for n in range(40)))
    order = await served_in_turns(bench, pods, batch, 24)
    longest = max(len(run) for run in "".join("A" if one == ACME else "B" for one in order).split("B"))
    # Somebody who holds less is served first, so that runs as long as the pool are fair; never longer.
    assert longest <= pods
    assert abs(order.count(ACME) - order.count(BOLT)) <= pods


@pytest.mark.parametrize("pods", [1, 2, 3, 5])
@pytest.mark.parametrize("batched", [False, True])
async def test_who_holds_nothing_is_passed_over_at_most_once_by_each_other(bench: Bench, pods: int, batched: bool):
    accounts = [ACME, BOLT, CRUX, 4]
    await bench.accounts(*accounts, vcpus=600, memory_mb=5_000_000)
    for place, number in enumerate(accounts):
        await bench.queue(*(job(1000 * number + n, number, age=900 - 100 * place - n) for n in range(30)))
    rng, held, number = random.Random(9), list[str](), 0
    passed = {one: dict.fromkeys(accounts, 0) for one in accounts}
    for _ in range(20):
        while len(held) > (0 if batched else pods - 1):
            uid = held.pop(rng.randrange(len(held)))
            claim = await bench.ledger.claims.of_pod(uid)
            assert claim is not None
            assert claim.job_id is not None
            await bench.completed(job(claim.job_id, claim.account_id), uid.removeprefix("uid-"))
        waiting = [pod(number + n) for n in range(pods - len(held))]
        number += len(waiting)
        for answer in await bench.ledger.claims.claim_many(POOL, waiting):
            holding = {(await bench.ledger.claims.of_pod(uid)).account_id for uid in held}  # type: ignore[union-attr]
            for other in set(accounts) - holding - {answer.account_id}:
                passed[other][answer.account_id] += 1
                assert passed[other][answer.account_id] <= 1, f"{answer.account_id} passed {other} twice"
            passed[answer.account_id] = dict.fromkeys(accounts, 0)
            await bench.ledger.claims.commit(answer, f"{answer.pod_name}-mint")
            held.append(answer.pod_uid)
        for one in accounts:
            if one in {(await bench.ledger.claims.of_pod(uid)).account_id for uid in held}:  # type: ignore[union-attr]
                passed[one] = dict.fromkeys(accounts, 0)


async def test_turns_of_one_pool_do_not_count_in_another(bench: Bench):
    await bench.accounts(ACME, BOLT, vcpus=600, memory_mb=5_000_000)
    for n in range(3):
        await bench.queue(job(100 + n, ACME, pool="other", age=900 - n))
        claim = await bench.running(f"other-{n}", "other")
        await bench.completed(job(claim.job_id, ACME, pool="other"), f"other-{n}")
    await bench.queue(job(200, BOLT, age=5), job(201, BOLT, age=4), job(110, ACME, age=3))
    order = []
    for n in range(3):
        claim = await bench.running(n)
        order.append(claim.account_id)
        await bench.completed(job(claim.job_id, claim.account_id), n)
    assert order == [BOLT, ACME, BOLT]
