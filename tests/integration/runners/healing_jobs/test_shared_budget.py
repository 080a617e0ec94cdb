"""GitHub's budget is shared: no account's long line keeps GitHub from being asked about another's jobs or leaks."""

import asyncio

from doubles.clocks import SteppedClock
from doubles.github import StubGitHub
from doubles.scripted_github import JOB, ScriptedGitHub, limits, ok
from integration.runners.ledger.rig import ACME, BOLT, Bench, job

from paddock.clients.github import (
    BudgetSpent,
    Installation,
    Priority,
)
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.queued_jobs import LongQueued

HOUR = 3600.0


async def test_a_line_of_more_than_a_thousand_hides_nobody_elses_job(bench: Bench):
    await bench.accounts(ACME, BOLT)
    github = StubGitHub(
        Installation(1000 + ACME, ACME, "org1"), Installation(1000 + BOLT, BOLT, "org2"), unknown_jobs="queued"
    )
    await asyncio.gather(*(bench.ledger.jobs.enqueue(job(1000 + n, ACME, age=9 * HOUR)) for n in range(1100)))
    await bench.queue(job(1, BOLT, age=HOUR))
    github.says(1, "completed", conclusion="success")
    report = await LongQueued(bench.ledger, github, HealingSettings(), bench.clock).heal()
    assert [heal.subject for heal in report.healed] == ["job 1"]
    assert 1 < github.asked("job") <= 31
    assert any("installation 1001" in sentence for sentence in report.refused)


async def test_the_line_is_asked_about_with_what_proofs_of_leaks_leave_over(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10, age=HOUR))
    github = StubGitHub(Installation(1000 + ACME, ACME, "org1"), unknown_jobs="queued")
    await LongQueued(bench.ledger, github, HealingSettings(), bench.clock).heal()
    assert github.priorities == {Priority.CLEAN_UP}


async def test_below_half_of_the_hour_only_the_line_is_refused():
    clock = SteppedClock()
    github = ScriptedGitHub(clock)
    github.script = [lambda _: ok(JOB, headers=limits(clock, 2400))]
    client = github.client()
    await client.job(77, "acme/rocket", 5)
    refused = 0
    try:
        await client.job(77, "acme/rocket", 5, priority=Priority.CLEAN_UP)
    except BudgetSpent:
        refused += 1
    assert (refused, (await client.job(77, "acme/rocket", 5)).job_id) == (1, 5)
