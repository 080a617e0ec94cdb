"""Who may run jobs: nobody but those on the list, by number, with a line in the audit for every change."""

import asyncio

import psycopg
import pytest
from integration.runners.ledger.rig import ACME, BOLT, POOL, Bench, job, pod

from paddock.base.rng import seeded
from paddock.runners.ledger import Listener, Outcome

APP, WEB = 70, 71


async def enrolled(bench: Bench, *numbers: int, vcpus: int = 600) -> None:
    """Accounts as a webhook makes them: known, and on no list."""
    for number in numbers:
        await bench.ledger.accounts.enrol(number, f"org{number}", 1000 + number)
        await bench.ledger.limits.set(
            number, "macos", vcpus=vcpus, memory_mb=100_000 * vcpus, by="test", why="as the test needs it"
        )


async def reason_of(bench: Bench, job_id: int) -> tuple[str, str]:
    waiting = await bench.ledger.overview.waiting(job_id)
    assert waiting is not None
    return waiting.reason, waiting.why


async def test_a_job_of_nobody_on_the_list_waits_and_says_which_command_would_allow_it(bench: Bench):
    await enrolled(bench, ACME)
    await bench.queue(job(10, repository_id=APP))
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    reason, why = await reason_of(bench, 10)
    assert reason == "not_allowed"
    assert "`paddock accounts allow org1`" in why
    assert "`paddock accounts allow org1/app`" in why
    signals = await bench.ledger.signals.of_pool(POOL)
    assert (signals.queued, signals.withheld, signals.not_allowed) == (0, 0, 1)
    assert signals.oldest_dispatchable_seconds == 0
    summary = await bench.ledger.overview.summary()
    assert (summary.dispatchable, summary.withheld, summary.not_allowed) == (0, 0, 1)
    _, load = await bench.ledger.signals.of_pools([])
    assert [one.may_run for one in load.line] == [False]


async def test_what_is_allowed_goes_at_once_and_listeners_are_told(bench: Bench):
    await enrolled(bench, ACME)
    await bench.queue(job(10))
    listener = Listener(bench.dsn, schema=bench.schema, clock=bench.clock, rng=seeded("listener"), timeout=30.0)
    hints = aiter(listener.hints())
    async with asyncio.timeout(30):
        await anext(hints)  # connected
        assert await bench.ledger.allow_list.allow(ACME, "org1", by="alice", why="a customer")
        assert await anext(hints) == {POOL}
    await hints.aclose()  # type: ignore[attr-defined]
    assert (await bench.claimed(1)).job_id == 10


async def test_a_repositorys_own_line_counts_more_than_its_accounts(bench: Bench):
    await enrolled(bench, ACME, BOLT)
    allow = bench.ledger.allow_list
    await allow.allow(ACME, "org1/app", repository_id=APP, by="alice", why="only this one")
    await allow.allow(BOLT, "org2", by="alice", why="all of it")
    await allow.deny(BOLT, "org2/web", repository_id=WEB, by="alice", why="but this one")
    await bench.queue(
        job(10, ACME, age=9, repository="org1/web", repository_id=WEB),
        job(11, ACME, age=8, repository_id=APP),
        job(20, BOLT, age=7, repository="org2/web", repository_id=WEB),
        job(21, BOLT, age=6, repository_id=APP),
    )
    claims = [await bench.claimed(n) for n in (1, 2)]
    assert {(claim.job_id, claim.wholly_allowed) for claim in claims} == {(11, False), (21, False)}
    assert (await bench.claim(3)).outcome is Outcome.EMPTY
    assert [(await reason_of(bench, number))[0] for number in (10, 20)] == ["not_allowed", "not_allowed"]


async def test_a_claim_knows_whether_all_of_its_account_may_run(bench: Bench):
    await enrolled(bench, ACME)
    await bench.ledger.allow_list.allow(ACME, "org1", by="alice", why="all of it")
    await bench.queue(job(10, ACME, age=9, repository_id=APP), job(11, ACME, age=8, repository_id=APP))
    assert (await bench.claimed(1)).wholly_allowed
    await bench.ledger.allow_list.deny(ACME, "org1/web", repository_id=WEB, by="alice", why="but this one")
    assert not (await bench.claimed(2)).wholly_allowed


async def test_a_renamed_repository_keeps_its_line_and_its_old_name_opens_nothing(bench: Bench):
    await enrolled(bench, ACME)
    await bench.ledger.allow_list.allow(ACME, "org1/app", repository_id=APP, by="alice", why="only this one")
    await bench.queue(
        job(10, age=9, repository="org1/app", repository_id=WEB),  # another repository took the name
        job(11, age=8, repository="org1/application", repository_id=APP),
    )
    assert (await bench.claimed(1)).job_id == 11
    assert (await bench.claim(2)).outcome is Outcome.EMPTY


async def test_a_job_without_a_number_goes_by_name_within_its_account_and_a_denial_counts(bench: Bench):
    # What the release before announces during an upgrade.
    await enrolled(bench, ACME, BOLT)
    await bench.ledger.allow_list.allow(ACME, "org1", by="alice", why="all of it")
    await bench.ledger.allow_list.deny(ACME, "org1/Secret", repository_id=WEB, by="alice", why="but this one")
    await bench.ledger.allow_list.allow(BOLT, "org2/app", repository_id=APP, by="alice", why="only this one")
    await bench.queue(
        job(10, age=9, repository="org1/secret"),
        job(11, age=8),
        job(20, BOLT, age=7, repository="org2/other"),
        job(21, BOLT, age=6),
    )
    assert {(await bench.claimed(n)).job_id for n in (1, 2)} == {11, 21}
    assert (await bench.claim(3)).outcome is Outcome.EMPTY


async def test_denying_an_account_ends_nothing_that_is_claimed_or_runs(bench: Bench):
    await enrolled(bench, ACME)
    await bench.ledger.allow_list.allow(ACME, "org1", by="alice", why="a customer")
    await bench.queue(job(10, age=9), job(11, age=8), job(12))
    await bench.running(1)
    minting = await bench.claimed(2)
    assert await bench.ledger.allow_list.deny(ACME, "org1", by="bob", why="they left")
    assert [await bench.status(number) for number in (10, 11, 12)] == ["running", "claimed", "queued"]
    await bench.ledger.claims.commit(minting, "runner-2-mint")
    await bench.started(job(11), 2)
    await bench.completed(job(10), 1)
    await bench.completed(job(11), 2)
    assert [await bench.status(number) for number in (10, 11, 12)] == ["completed", "completed", "queued"]
    assert (await bench.claim(3)).outcome is Outcome.EMPTY


async def test_a_denial_between_ranking_and_admission_is_seen(bench: Bench):
    await enrolled(bench, ACME)
    await bench.queue(job(10))
    ranked = await bench.ask("SELECT * FROM admit('{10}', '{u}', '{n}', NULL, 'test', now())")
    assert ranked[0][0] == "lost_race"
    assert await bench.status(10) == "queued"


async def test_every_change_says_who_when_and_from_what_to_what_and_what_changes_nothing_says_nothing(bench: Bench):
    await enrolled(bench, ACME)
    allow = bench.ledger.allow_list
    before = len(await allow.changes())
    assert await allow.allow(ACME, "org1", by="alice", why="a customer")
    assert not await allow.allow(ACME, "org1", by="bob", why="again")
    assert await allow.deny(ACME, "org1", by="bob", why="they left")
    await bench.ledger.limits.set(ACME, "macos", vcpus=6, memory_mb=14_336, by="carol", why="smaller")
    changes = (await allow.changes())[: len(await allow.changes()) - before]
    assert [(one.subject, one.was, one.became, one.by, one.why) for one in reversed(changes)] == [
        ("list", "", "allowed", "alice", "a customer"),
        ("list", "allowed", "denied", "bob", "they left"),
        ("limit", "macos 600 vCPU 60000000 MB", "macos 6 vCPU 14336 MB", "carol", "smaller"),
    ]
    assert all(one.at == bench.clock.now() for one in changes)


async def test_the_audit_cannot_be_rewritten(bench: Bench):
    await bench.ledger.allow_list.allow(ACME, "org1", by="alice", why="a customer")
    for statement in ("UPDATE account_changes SET by = 'nobody'", "DELETE FROM account_changes"):
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            await bench.ask(statement)


async def test_a_repository_is_held_to_its_own_limit_within_its_accounts(bench: Bench):
    await enrolled(bench, ACME)
    await bench.ledger.allow_list.allow(ACME, "org1", by="alice", why="a customer")
    await bench.ledger.allow_list.limit_repository(
        ACME, APP, "org1/app", "macos", vcpus=12, memory_mb=28_672, by="alice", why="a noisy one"
    )
    await bench.queue(*(job(100 + n, age=500 - n, repository_id=APP) for n in range(20)))
    await bench.queue(*(job(200 + n, age=50 - n, repository="org1/web", repository_id=WEB) for n in range(3)))
    answers = await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(8)])
    # A line of a repository that is full holds up nobody behind it.
    assert sorted(answer.job_id for answer in answers if answer.won) == [100, 101, 200, 201, 202]
    assert (await reason_of(bench, 102))[0] == "repository_limit_reached"
    signals = await bench.ledger.signals.of_pool(POOL)
    assert (signals.queued, signals.withheld, signals.not_allowed) == (0, 18, 0)
    (limit,) = await bench.ledger.allow_list.repository_limits()
    assert (limit.used_vcpus, limit.vcpus) == (12, 12)
    assert await bench.ledger.allow_list.lift_repository_limit(ACME, APP, "macos", by="alice", why="quiet again")
    assert (await bench.claimed(20)).job_id == 102


async def test_many_dispatchers_at_once_never_take_a_repository_over_its_limit(bench: Bench):
    await enrolled(bench, ACME)
    await bench.ledger.allow_list.allow(ACME, "org1", by="alice", why="a customer")
    await bench.ledger.allow_list.limit_repository(
        ACME, APP, "org1/app", "macos", vcpus=18, memory_mb=500_000, by="alice", why="a noisy one"
    )
    await bench.queue(*(job(100 + n, repository_id=APP) for n in range(30)))
    for _ in range(4):
        await asyncio.gather(
            *(bench.ledger.claims.claim_many(POOL, [pod(f"{n}-{m}") for m in range(3)]) for n in range(8))
        )
    held = await bench.ask("SELECT sum(vcpus) FROM claims WHERE repository_id = %s", [APP])
    assert held == [(18,)]


async def test_a_claim_counts_for_the_repository_whose_job_its_runner_was_given(bench: Bench):
    await enrolled(bench, ACME)
    await bench.ledger.allow_list.allow(ACME, "org1", by="alice", why="a customer")
    one, other = job(10, age=9, repository_id=APP), job(11, repository="org1/web", repository_id=WEB)
    await bench.queue(one)
    await bench.running(1)
    await bench.queue(other)
    await bench.started(other, 1)
    assert await bench.ask("SELECT job_id, repository_id FROM claims") == [(11, WEB)]


async def test_a_name_of_the_settings_means_for_good_what_it_meant_first(bench: Bench):
    allow = bench.ledger.allow_list
    first = await asyncio.gather(*(allow.bind("Acme", number) for number in (1, 2, 3)))
    assert len({bound.account_id for bound in first}) == 1
    assert (await allow.bind("acme", 99)).account_id == first[0].account_id
    assert (await allow.bound("ACME")) == first[0]
