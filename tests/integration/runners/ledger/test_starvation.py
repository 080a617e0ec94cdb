"""How long an account may be passed over: at most once by each other account, whatever the size of the pool."""

import pytest
from integration.runners.ledger.contention import most_passed_over, served_in_turns
from integration.runners.ledger.rig import ACME, BOLT, CRUX, Bench, job


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
    passed = await most_passed_over(bench, accounts, pods, batched=batched, rounds=20)
    assert max(passed.values()) <= 1, passed


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
