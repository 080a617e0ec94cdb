"""What healing is told about a job whose number at GitHub is not known."""

import pytest
from doubles.github import StubGitHub
from integration.runners.ledger.rig import Bench
from integration.runners.ledger.test_scale_sets import POOL, entry, source_of

from paddock.clients.github import GitHubJob, NotFound
from paddock.runners.ledger.scale_sets import FIRST_JOB_ID
from paddock.runners.scale_sets.book import LedgerBook
from paddock.runners.scale_sets.github_view import GitHubView


async def test_a_job_is_what_the_queue_said_until_a_runner_has_it_and_then_what_its_own_record_says(
    bench: Bench,
) -> None:
    source, book, github = await source_of(bench), LedgerBook(bench.ledger, bench.clock), StubGitHub()
    view = GitHubView(github, bench.ledger.assignments)
    await book.apply(source, entry("JobAssigned"), POOL)
    (row,) = await bench.ledger.assignments.open(source)
    assert (await view.job(1, "org1/app", row.job_id)).status == "queued"
    await book.apply(source, entry("JobStarted", runner="r1"), POOL)
    assert (await view.job(1, "org1/app", row.job_id)).status == "in_progress"
    # The message about its end was lost: GitHub's own record of the run has it.
    github.jobs[77] = GitHubJob(job_id=77, status="completed", conclusion="failure", runner_name="r1", run_id=7)
    found = await view.job(1, "org1/app", row.job_id)
    assert (found.job_id, found.status, found.conclusion) == (row.job_id, "completed", "failure")
    known = await bench.ledger.assignments.job(row.job_id)
    assert known is not None
    assert known.forge_job_id == 77


async def test_a_number_that_no_scale_set_gave_is_not_found_and_others_go_to_github(bench: Bench) -> None:
    github = StubGitHub()
    github.jobs[5] = GitHubJob(job_id=5, status="queued")
    view = GitHubView(github, bench.ledger.assignments)
    with pytest.raises(NotFound):
        await view.job(1, "org1/app", FIRST_JOB_ID + 9)
    assert (await view.job(1, "org1/app", 5)).job_id == 5
