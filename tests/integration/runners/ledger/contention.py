"""A pool whose Pods never rest: who gets them, in which order."""

import random
from collections.abc import Sequence

from integration.runners.ledger.rig import POOL, Bench, job, pod


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


async def most_passed_over(
    bench: Bench, accounts: Sequence[int], pods: int, *, batched: bool, rounds: int
) -> dict[int, int]:
    """How often each account was served while another waited that held nothing: the most in a row of any such wait."""
    rng, held, number = random.Random(9), dict[str, int](), 0
    passed = {one: dict.fromkeys(accounts, 0) for one in accounts}
    most = dict.fromkeys(accounts, 0)
    for _ in range(rounds):
        while len(held) > (0 if batched else pods - 1):
            uid = rng.choice(sorted(held))
            account = held.pop(uid)
            claim = await bench.ledger.claims.of_pod(uid)
            assert claim is not None
            assert claim.job_id is not None
            await bench.completed(job(claim.job_id, account), uid.removeprefix("uid-"))
        waiting = [pod(number + n) for n in range(pods - len(held))]
        number += len(waiting)
        for answer in await bench.ledger.claims.claim_many(POOL, waiting):
            for other in set(accounts) - set(held.values()) - {answer.account_id}:
                passed[other][answer.account_id] += 1
                most[answer.account_id] = max(most[answer.account_id], passed[other][answer.account_id])
            passed[answer.account_id] = dict.fromkeys(accounts, 0)
            await bench.ledger.claims.commit(answer, f"{answer.pod_name}-mint")
            held[answer.pod_uid] = answer.account_id
    return most
