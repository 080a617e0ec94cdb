"""One Pod, one job, one claim: who gets what, and what becomes of it."""

import pytest
from integration.runners.ledger.rig import ACME, BOLT, POOL, Bench, attempt, job, pod

from paddock.runners.ledger import (
    InvalidEntryError,
    JobGoneError,
    NewJob,
    Outcome,
    Pod,
    StaleClaimError,
    UnknownAccountError,
)


async def test_a_waiting_pod_gets_the_job_and_all_that_minting_needs(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    assert (claim.job_id, claim.account_id, claim.login, claim.repository) == (10, ACME, "org1", "org1/app")
    assert (claim.pod_uid, claim.pod_name, claim.label) == ("uid-1", "runner-1", "paddock-macos")
    assert claim.claimed_at == bench.clock.now()
    row = await bench.ledger.jobs.get(10)
    assert row is not None
    assert (row.status, row.generation, row.pod_uid, row.pod_name) == ("claimed", claim.generation, "uid-1", "runner-1")


async def test_an_empty_queue_is_said_to_be_empty(bench: Bench):
    await bench.accounts(ACME)
    assert (await bench.claim(1)).outcome is Outcome.EMPTY


async def test_a_job_is_claimed_once(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    assert (await attempt(bench.ledger, 10, pod(1))).outcome is Outcome.CLAIMED
    assert (await attempt(bench.ledger, 10, pod(2))).outcome is Outcome.LOST_RACE
    assert (await bench.claim(3)).outcome is Outcome.EMPTY


async def test_a_pod_holds_one_claim_across_accounts_and_platforms(bench: Bench):
    await bench.accounts(ACME, BOLT)
    await bench.queue(job(10), job(11, BOLT, platform="linux", pool="linux-2"))
    await bench.claimed(1)
    assert (await attempt(bench.ledger, 11, pod(1))).outcome is Outcome.POD_IN_USE
    assert (await bench.claim(1, "linux-2")).outcome is Outcome.POD_IN_USE
    assert await bench.status(11) == "queued"


async def test_a_pod_that_was_handed_a_runner_never_gets_another(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10), job(11))
    await bench.running(1)
    await bench.completed(job(10), 1)
    assert await bench.ledger.claims.of_pod("uid-1") is None
    assert (await bench.claim(1)).outcome is Outcome.POD_SPENT
    assert (await attempt(bench.ledger, 11, pod(1))).outcome is Outcome.POD_SPENT
    assert await bench.status(11) == "queued"


async def test_a_spent_pod_is_told_so_even_when_nothing_waits(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    await bench.completed(job(10), 1)
    assert (await bench.claim(1)).outcome is Outcome.POD_SPENT


async def test_a_shape_over_the_limit_is_refused_and_leaves_nothing_behind(bench: Bench):
    await bench.accounts(ACME, vcpus=12, memory_mb=20_000)
    await bench.queue(job(10), job(11))
    await bench.claimed(1)
    refused = await attempt(bench.ledger, 11, pod(2))
    assert refused.outcome is Outcome.LIMIT_REACHED  # there would be vCPU, but no memory
    assert await bench.ledger.claims.of_pod("uid-2") is None
    assert await bench.status(11) == "queued"
    assert (await bench.claim(2)).outcome is Outcome.EMPTY


async def test_the_platforms_of_an_account_are_counted_apart(bench: Bench):
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.queue(job(10), job(11, platform="linux", pool="linux-6"), job(12))
    await bench.claimed(1)
    await bench.claimed(2, "linux-6")
    assert (await bench.claim(3)).outcome is Outcome.EMPTY
    usage = {
        row.platform: (row.used_vcpus, row.used_memory_mb, row.claims) for row in await bench.ledger.limits.usage(1)
    }
    assert usage == {"macos": (6, 14_336, 1), "linux": (6, 14_336, 1)}


async def test_an_account_without_a_limit_gets_nothing(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.ask("DELETE FROM limits")
    assert (await attempt(bench.ledger, 10, pod(1))).outcome is Outcome.LIMIT_MISSING
    assert (await bench.claim(1)).outcome is Outcome.EMPTY


async def test_an_enrolled_account_has_the_default_limits_at_once(bench: Bench):
    await bench.ledger.accounts.enrol(9, "fresh")
    await bench.ledger.accounts.enrol(9, "renamed", installation_id=77)
    limits = {row.platform: (row.vcpus, row.memory_mb) for row in await bench.ledger.limits.usage(9)}
    assert limits == {"linux": (32, 65_536), "macos": (12, 28_672)}
    found = await bench.ledger.accounts.of_installation(77)
    assert found is not None
    assert found == await bench.ledger.accounts.of_login("ReNamed")


async def test_a_raised_limit_lets_the_next_job_in_and_a_lowered_one_ends_nothing(bench: Bench):
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.queue(job(10), job(11))
    await bench.claimed(1)
    assert (await bench.claim(2)).outcome is Outcome.EMPTY
    await bench.ledger.limits.set(ACME, "macos", vcpus=12, memory_mb=28_672, by="ada", why="bigger plan")
    await bench.claimed(2)
    await bench.ledger.limits.set(ACME, "macos", vcpus=6, memory_mb=14_336, by="ada", why="smaller plan")
    assert len(await bench.ledger.claims.all()) == 2
    await bench.ledger.limits.set(ACME, "macos", vcpus=12, memory_mb=28_672, by="ada", why="bigger plan")


@pytest.mark.parametrize("wrong", [{"uid": "", "name": "a"}, {"uid": "a", "name": ""}], ids=["no uid", "no name"])
async def test_a_pod_without_uid_or_name_is_refused(bench: Bench, wrong: dict[str, str]):
    with pytest.raises(InvalidEntryError, match="empty"):
        await bench.ledger.claims.claim(POOL, Pod(**wrong))


@pytest.mark.parametrize("field", ["job_id", "vcpus", "memory_mb", "pool", "repository"])
async def test_a_job_with_a_senseless_field_is_refused_by_name(bench: Bench, field: str):
    await bench.accounts(ACME)
    fields = {name: getattr(job(10), name) for name in NewJob.__struct_fields__}
    fields[field] = type(fields[field])()
    with pytest.raises(InvalidEntryError, match=field):
        await bench.ledger.jobs.enqueue(NewJob(**fields))


async def test_the_same_pod_twice_in_a_batch_and_too_large_a_batch_are_refused(bench: Bench):
    with pytest.raises(InvalidEntryError, match="twice"):
        await bench.ledger.claims.claim_many(POOL, [pod(1), pod(1)])
    with pytest.raises(InvalidEntryError, match="at most"):
        await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(257)])
    assert await bench.ledger.claims.claim_many(POOL, []) == []


async def test_a_job_of_an_unknown_account_is_refused(bench: Bench):
    with pytest.raises(UnknownAccountError):
        await bench.ledger.jobs.enqueue(job(10, 99))


async def test_an_unknown_job_cannot_be_claimed(bench: Bench):
    assert (await attempt(bench.ledger, 404, pod(1))).outcome is Outcome.UNKNOWN_JOB


async def test_a_commit_moves_claim_and_job_and_opens_the_session_together(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    await bench.ledger.claims.commit(claim, "r-1")
    held = await bench.ledger.claims.of_pod("uid-1")
    row = await bench.ledger.jobs.get(10)
    assert held is not None
    assert row is not None
    assert (held.state, held.runner_name, row.status, row.runner_name) == ("running", "r-1", "running", "r-1")
    session = await bench.ledger.sessions.of_pod("uid-1")
    assert session is not None
    assert (session.runner_name, session.job_id, session.ended_at) == ("r-1", 10, None)


async def test_committing_twice_is_committing_once(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    await bench.ledger.claims.commit(claim, "r-1")
    lines = len(await bench.ledger.transitions.of_job(10))
    await bench.ledger.claims.commit(claim, "r-1")
    assert len(await bench.ledger.transitions.of_job(10)) == lines
    with pytest.raises(StaleClaimError):
        await bench.ledger.claims.commit(claim, "another-mint")


async def test_a_released_claim_cannot_be_confirmed(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    await bench.ledger.claims.release(claim, by="test", why="too slow")
    with pytest.raises(StaleClaimError):
        await bench.ledger.claims.commit(claim, "r-1")
    assert await bench.ledger.sessions.of_pod("uid-1") is None
    assert await bench.status(10) == "queued"


async def test_a_late_mint_of_a_reaped_generation_cannot_promote_the_replacement(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    first = await bench.claimed("a")
    await bench.ledger.claims.release(first, by="stale claims", why="five minutes old")
    second = await bench.claimed("b")
    before = (await bench.ledger.claims.of_pod("uid-b"), await bench.ledger.jobs.get(10))
    with pytest.raises(StaleClaimError):
        await bench.ledger.claims.commit(first, "late")
    assert (await bench.ledger.claims.of_pod("uid-b"), await bench.ledger.jobs.get(10)) == before
    assert second.generation > first.generation


async def test_a_late_mint_cannot_promote_a_newer_claim_of_the_same_pod(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    first = await bench.claimed("a")
    await bench.ledger.claims.release(first, by="stale claims", why="five minutes old")
    second = await bench.claimed("a")
    with pytest.raises(StaleClaimError):
        await bench.ledger.claims.commit(first, "late")
    with pytest.raises(StaleClaimError):
        await bench.ledger.claims.release(first, by="stale claims", why="again")
    held = await bench.ledger.claims.of_pod("uid-a")
    assert held is not None
    assert (held.generation, held.state) == (second.generation, "claimed")


async def test_releasing_puts_the_job_back_in_its_old_place_and_clears_its_binding(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10, age=60), job(11, age=30))
    claim = await bench.running(1)
    assert claim.job_id == 10
    ended = await bench.ledger.claims.release(claim, by="orphaned runners", why="never registered")
    assert (ended.job_id, ended.requeued, ended.state) == (10, True, "running")
    row = await bench.ledger.jobs.get(10)
    assert row is not None
    assert (row.status, row.generation, row.pod_uid, row.runner_name, row.claimed_at, row.started_at) == (
        "queued", None, None, None, None, None,
    )  # fmt: skip
    assert row.enqueued_at == job(10, age=60).enqueued_at
    assert (await bench.claimed(2)).job_id == 10


async def test_a_release_cannot_bring_back_a_job_that_finished(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    await bench.completed(job(10), conclusion="cancelled")
    ended = await bench.ledger.claims.release(claim, by="dispatch", why="the job is gone")
    assert not ended.requeued
    assert await bench.status(10) == "cancelled"


async def test_a_claim_whose_job_finished_before_the_mint_is_told_so(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    await bench.completed(job(10), conclusion="cancelled")
    with pytest.raises(JobGoneError):
        await bench.ledger.claims.commit(claim, "r-1")
    held = await bench.ledger.claims.of_pod("uid-1")
    assert held is not None
    assert held.state == "claimed"
    assert await bench.ledger.sessions.of_pod("uid-1") is None


async def test_a_job_that_waited_for_a_week_is_not_handed_out(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10, age=7 * 86_400 + 1), job(11))
    assert (await bench.claimed(1)).job_id == 11
    assert (await bench.claim(2)).outcome is Outcome.EMPTY


async def test_a_batch_answers_every_pod_in_order(bench: Bench):
    await bench.accounts(ACME, BOLT, vcpus=60, memory_mb=500_000)
    await bench.queue(job(9, age=99), job(10, age=3), job(11, BOLT, age=2), job(12, age=1))
    taken = await bench.claimed("used")
    assert taken.job_id == 9
    await bench.ledger.fences.raise_fence(pod("fenced"), by="test", why="reaped")
    waiting = [pod(n) for n in ("used", 1, "fenced", 2, 3, 4, 5)]
    answers = await bench.ledger.claims.claim_many(POOL, waiting)
    assert [answer.pod_uid for answer in answers] == [one.uid for one in waiting]
    assert answers[0].outcome is Outcome.POD_IN_USE
    assert answers[2].outcome is Outcome.POD_FENCED
    won = [answer.job_id for answer in answers if answer.won]
    assert sorted(won) == [10, 11, 12]
    assert [answer.outcome for answer in answers].count(Outcome.EMPTY) == 2
