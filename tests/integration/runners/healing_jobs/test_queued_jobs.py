"""Jobs that wait here and not there, and there and not here."""

from datetime import timedelta
from typing import Any

import pytest
from doubles.github import StubGitHub
from integration.runners.healing_jobs.scripted import INSTALLATION, REPOSITORY, stub_github
from integration.runners.ledger.rig import ACME, BOLT, START, Bench, job

from paddock.clients.github import BudgetSpent, GitHubJob, Unavailable
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.queued_jobs import LongQueued, UnheardJobs
from paddock.runners.ledger import Moved, Outcome
from paddock.runners.ledger.rows import Announced
from paddock.runners.ledger.scale_sets import FIRST_JOB_ID

HOUR = 3600.0


async def _waiting(bench: Bench, age: float) -> tuple[StubGitHub, LongQueued]:
    await bench.accounts(ACME)
    await bench.queue(job(10, age=age))
    github = stub_github()
    return github, LongQueued(bench.ledger, github, HealingSettings(), bench.clock)


async def _kinds(worker: Any) -> list[str]:
    return [heal.kind for heal in (await worker.heal()).healed]


async def test_a_job_that_has_waited_for_less_than_ten_minutes_is_not_asked_about(bench: Bench):
    github, worker = await _waiting(bench, 599)
    assert await _kinds(worker) == []
    assert github.calls == []


async def test_a_job_that_is_over_at_github_is_settled_with_its_own_conclusion(bench: Bench):
    github, worker = await _waiting(bench, 601)
    github.says(10, "completed", conclusion="cancelled")
    assert await _kinds(worker) == ["queued_completed"]
    assert await bench.status(10) == "cancelled"


async def test_a_job_that_github_has_not_known_for_minutes_is_settled(bench: Bench):
    github, worker = await _waiting(bench, 601)
    for _ in range(5):
        assert await _kinds(worker) == [], "what is settled can never run: no single 404 is enough"
        bench.clock.advance(60)
    assert await _kinds(worker) == ["queued_completed"]
    row = await bench.ledger.jobs.get(10)
    assert row is not None
    assert (row.status, row.conclusion) == ("completed", "stale")
    assert github.asked("waiting_jobs") == 6


async def test_a_job_that_waits_at_github_too_waits_here_and_is_served_after_however_many_days(bench: Bench):
    github, worker = await _waiting(bench, 23.9 * HOUR)
    github.says(10, "queued")
    for _ in range(9 * 24):
        assert await _kinds(worker) == []
        bench.clock.advance(HOUR)
    assert await bench.ledger.jobs.enqueue(job(10)) is Moved.KNOWN, "its `queued`, once more"
    assert (await bench.claim(1)).won


# Approvals


async def test_a_job_that_github_holds_back_leaves_the_line_and_comes_back_after_however_many_days(bench: Bench):
    """An environment may be approved weeks after the job was made; a job that was given up could not run any more."""
    github, worker = await _waiting(bench, 601)
    github.says(10, "waiting")
    assert await _kinds(worker) == ["hold_found"]
    assert (await bench.status(10), (await bench.claim(1)).outcome) == ("waiting", Outcome.EMPTY)
    for _ in range(9 * 24):
        assert await _kinds(worker) == []
        bench.clock.advance(HOUR)
    github.says(10, "queued")
    bench.clock.advance(HOUR)
    assert await _kinds(worker) == ["approval_found"]
    assert (await bench.claim(1)).won


async def test_whether_a_held_job_was_approved_is_asked_in_the_very_next_pass(bench: Bench):
    """A `queued` and a `waiting` that arrived together do not say which of them was the last word."""
    github, worker = await _waiting(bench, 5)
    assert await bench.ledger.jobs.enqueue(job(10), status="waiting") is Moved.HELD
    github.says(10, "queued")
    assert await _kinds(worker) == ["approval_found"]
    assert (await bench.claim(1)).won


async def test_a_held_job_is_asked_about_however_many_have_waited_for_longer(bench: Bench):
    """Approvals may take weeks: a thousand that nobody gives must not hide the one that was given."""
    github, worker = await _waiting(bench, 5)
    await bench.accounts(BOLT)
    await bench.queue(job(1, BOLT, age=9 * HOUR))
    await bench.ask(
        "INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, enqueued_at, changed_at,"
        " changed_by, changed_why) SELECT 1000 + n, account_id, pool, platform, vcpus, memory_mb, 'waiting', repository, enqueued_at,"
        " enqueued_at, changed_by, changed_why FROM jobs, generate_series(1, 1000) n WHERE job_id = 1 RETURNING job_id"
    )
    assert await bench.ledger.jobs.enqueue(job(10), status="waiting") is Moved.HELD
    github.says(10, "queued")
    await worker.heal()
    assert await bench.status(10) == "queued"


async def test_a_job_that_is_held_is_asked_about_less_and_less_often(bench: Bench):
    github, worker = await _waiting(bench, 5)
    await bench.ledger.jobs.enqueue(job(10), status="waiting")
    github.says(10, "waiting")
    for _ in range(24 * 60):
        await worker.heal()
        bench.clock.advance(60)
    assert github.asked("job") < 24 * 3 + 30


@pytest.mark.parametrize(("days", "end"), [(20, "waiting"), (32, "completed")])
async def test_a_held_job_is_not_given_up_because_github_does_not_answer(bench: Bench, days: int, end: str):
    github, worker = await _waiting(bench, 5)
    await bench.ledger.jobs.enqueue(job(10), status="waiting")
    github.jobs[10] = Unavailable("timeout")
    bench.clock.advance(days * 24 * HOUR)
    await worker.heal()
    assert await bench.status(10) == end


async def test_a_job_that_was_made_a_week_before_it_was_announced_is_served_once_github_confirms_it(bench: Bench):
    github, worker = await _waiting(bench, 8 * 24 * HOUR)
    github.says(10, "queued")
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
    await worker.heal()
    assert (await bench.claim(1)).won


async def test_a_job_in_progress_at_github_is_never_ended_but_bound_to_its_runner(bench: Bench):
    github, worker = await _waiting(bench, 48 * HOUR)
    github.says(10, "in_progress")
    assert await _kinds(worker) == []
    assert await bench.status(10) == "queued"
    bench.clock.advance(300)
    github.says(10, "in_progress", runner_name="somebody", started_at=START)
    assert await _kinds(worker) == ["queued_started"]
    assert await bench.status(10) == "running"


@pytest.mark.parametrize("status", ["in_progress", "completed"])
async def test_a_job_that_no_pool_serves_is_over_here_when_a_runner_that_is_not_ours_has_it(bench: Bench, status: str):
    github, worker = await _waiting(bench, 700)
    await bench.ledger.jobs.enqueue(job(11, age=700), status="unserved")
    for number in (10, 11):
        github.says(number, status, runner_name="their-mac-3", started_at=START, conclusion="success")
    report = await worker.heal()
    assert "job 11 of org1/app (mac-m4) was left to the runner that has it" in report.healed[-1].sentence
    row = await bench.ledger.jobs.get(11)
    assert row is not None
    assert (row.status, row.conclusion, row.runner_name) == ("completed", "elsewhere", None)
    assert await bench.status(10) == {"in_progress": "running"}.get(status, status), "a pool of ours serves that one"
    assert (await bench.ledger.overview.summary()).running == (status == "in_progress")


async def test_a_job_that_no_pool_serves_is_bound_to_a_runner_of_ours_that_has_it(bench: Bench):
    github, worker = await _waiting(bench, 100)
    await bench.running(1)
    await bench.ledger.jobs.enqueue(job(11, age=700), status="unserved")
    github.says(11, "in_progress", runner_name="runner-1-mint", started_at=START)
    assert await _kinds(worker) == ["queued_started"]
    assert (await bench.status(10), await bench.status(11)) == ("queued", "running")


@pytest.mark.parametrize("here", ["queued", "waiting", "unserved"])
@pytest.mark.parametrize("status", ["in_progress", "completed"])
async def test_a_job_that_a_scale_sets_runner_has_takes_nothing_from_the_sets_own_row(
    bench: Bench, status: str, here: Announced
):
    github, worker = await _waiting(bench, 100)
    await bench.ledger.jobs.completed(10, account_id=ACME, conclusion="cancelled", completed_at=START)
    await bench.queue(job(FIRST_JOB_ID))
    await bench.running(1)
    await bench.ledger.jobs.enqueue(job(11, age=700), status=here)
    github.says(11, status, runner_name="runner-1-mint", started_at=START, conclusion="success")
    await worker.heal()
    row = await bench.ledger.jobs.get(11)
    assert row is not None
    assert (row.status, row.conclusion, row.runner_name) == ("completed", "elsewhere", None)
    assert await bench.status(FIRST_JOB_ID) == "running"
    assert [claim.job_id for claim in await bench.ledger.claims.all()] == [FIRST_JOB_ID]


@pytest.mark.parametrize(("age", "end"), [(2 * HOUR, "queued"), (25 * HOUR, "completed")])
async def test_while_github_does_not_answer_only_the_day_counts(bench: Bench, age: float, end: str):
    github, worker = await _waiting(bench, age)
    github.jobs[10] = Unavailable("timeout")
    await worker.heal()
    assert await bench.status(10) == end


async def test_a_spent_budget_is_no_answer_however_long_the_job_has_waited(bench: Bench):
    github, worker = await _waiting(bench, 25 * HOUR)
    github.jobs[10] = BudgetSpent("spent", retry_after=60)
    report = await worker.heal()
    assert (report.healed, len(report.refused)) == ((), 1)
    assert await bench.status(10) == "queued"


async def test_the_job_of_an_account_without_an_installation_is_given_up_after_a_day(bench: Bench):
    await bench.ledger.accounts.enrol(ACME, "org1")
    await bench.queue(job(10, age=2 * HOUR))
    worker = LongQueued(bench.ledger, stub_github(), HealingSettings(), bench.clock)
    report = await worker.heal()
    assert (report.healed, len(report.refused)) == ((), 1)
    bench.clock.advance(22.1 * HOUR)
    assert await _kinds(worker) == ["queued_gave_up"]


async def test_a_job_older_than_any_that_is_served_still_gets_its_end(bench: Bench):
    github, worker = await _waiting(bench, 30 * 86_400)
    github.jobs[10] = Unavailable("timeout")
    assert await _kinds(worker) == ["queued_gave_up"]


async def test_giving_up_leaves_a_job_alone_that_was_taken_in_between(bench: Bench):
    await _waiting(bench, 25 * HOUR)
    row = await bench.ledger.jobs.get(10)
    assert row is not None
    claim = await bench.running(1)
    assert not await bench.ledger.unconfirmed.give_up(row, conclusion="stale", by="test", why="old news")
    assert [held.generation for held in await bench.ledger.claims.all()] == [claim.generation]


def _at_github(number: int, *, age: float = 120.0) -> GitHubJob:
    return GitHubJob(
        job_id=number, status="queued", labels=("paddock-macos",), created_at=START - timedelta(seconds=age)
    )


class WebhookWorker:
    """Routes as the lead's callback does: odd numbers are of no pool of ours."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.heard: list[tuple[int, str, int]] = []

    async def __call__(self, installation_id: int, repository: str, found: GitHubJob) -> bool:
        self.heard.append((installation_id, repository, found.job_id))
        if found.job_id % 2:
            return False
        return await self.bench.ledger.jobs.enqueue(job(found.job_id, repository=repository)) is Moved.QUEUED


async def _unheard(bench: Bench, **settings) -> tuple[StubGitHub, WebhookWorker, UnheardJobs]:
    await bench.accounts(ACME)
    await bench.queue(job(10))
    github, announce = stub_github(), WebhookWorker(bench)
    return github, announce, UnheardJobs(bench.ledger, github, announce, HealingSettings(**settings), bench.clock)


async def test_a_job_that_waits_at_github_and_was_never_announced_is_found(bench: Bench):
    """GitHub never tried to deliver its `queued`."""
    github, announce, worker = await _unheard(bench)
    github.waiting[REPOSITORY] = [_at_github(10), _at_github(20), _at_github(22, age=10)]
    report = await worker.heal()
    assert [(heal.kind, heal.subject) for heal in report.healed] == [("queued_found", "job 20")]
    assert announce.heard == [(INSTALLATION, REPOSITORY, 20)]  # 10 is known, 22 may still be on its way
    assert await bench.status(20) == "queued"
    assert await _kinds(worker) == []


async def test_a_finished_job_in_an_old_list_is_not_announced_again(bench: Bench):
    github, announce, worker = await _unheard(bench)
    await bench.completed(job(10), conclusion="cancelled")
    await bench.queue(job(12))
    github.waiting[REPOSITORY] = [_at_github(10)]
    assert await _kinds(worker) == []
    assert announce.heard == []


async def test_a_job_of_no_pool_of_ours_is_offered_once_and_counts_for_nothing(bench: Bench):
    github, announce, worker = await _unheard(bench, cap=1)
    github.waiting[REPOSITORY] = [_at_github(21), _at_github(24)]
    assert await _kinds(worker) == ["queued_found"]
    assert await _kinds(worker) == []
    assert [number for _, _, number in announce.heard] == [21, 24]


async def test_a_job_that_came_while_no_pool_had_its_label_is_offered_again_later(bench: Bench):
    """Its event was answered long ago, and GitHub sends no other: nobody else would ever speak of it."""
    github, announce, worker = await _unheard(bench)
    github.waiting[REPOSITORY] = [_at_github(21)]
    assert await _kinds(worker) == []
    bench.clock.advance(301)
    assert await _kinds(worker) == []
    assert [number for _, _, number in announce.heard] == [21, 21]


async def test_one_repository_a_pass_each_in_its_turn_and_an_error_holds_up_no_other(bench: Bench):
    github, _, worker = await _unheard(bench)
    await bench.accounts(BOLT)
    await bench.queue(job(11, BOLT, repository="org2/web"), job(12, repository="org1/zoo"))
    github.waiting = {REPOSITORY: Unavailable("502"), "org1/zoo": [], "org2/web": []}
    reports = [await worker.heal() for _ in range(4)]
    asked = [repository for _, repository in github.calls]
    assert asked == [REPOSITORY, "org1/zoo", "org2/web", REPOSITORY]
    assert [len(report.failed) for report in reports] == [1, 0, 0, 1]


async def test_finding_jobs_can_be_switched_to_report_only(bench: Bench):
    github, announce, worker = await _unheard(bench, report_only=frozenset({"queued_found"}))
    github.waiting[REPOSITORY] = [_at_github(20)]
    report = await worker.heal()
    assert (len(report.reported), announce.heard) == (1, [])
