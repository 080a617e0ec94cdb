"""A job that healing finds in GitHub's list, which tells no number of its repository, is denied and limited as an announced one."""

from integration.runners.ledger.rig import Bench, job
from integration.runners.webhooks.rig import Dispatcher

from paddock.clients.github import GitHubJob
from paddock.runners.ledger import Outcome
from paddock.runners.webhooks.reconciled import enqueue_from_github


async def found(bench: Bench, job_id: int, repository: str) -> bool:
    announce = enqueue_from_github(bench.ledger, lambda: Dispatcher(bench).pools, bench.clock)
    return await announce(1001, repository, GitHubJob(job_id=job_id, status="queued", labels=("paddock-macos",)))


async def number(bench: Bench, job_id: int) -> int:
    row = await bench.ledger.jobs.get(job_id)
    assert row is not None
    return row.repository_id


async def limited(bench: Bench, repository_id: int, name: str) -> None:
    size = {"vcpus": 6, "memory_mb": 14_336}
    await bench.ledger.allow_list.limit_repository(1, repository_id, name, "macos", **size, by="test", why="as needed")


async def test_a_job_that_was_approved_after_days_and_is_found_waits_from_now_on(bench: Bench):
    await bench.accounts(1)
    announce = enqueue_from_github(bench.ledger, lambda: Dispatcher(bench).pools, bench.clock)
    created = bench.clock.now()
    bench.clock.advance(8 * 86_400.0)
    waits = GitHubJob(job_id=7, status="queued", labels=("paddock-macos",), created_at=created)
    assert await announce(1001, "org1/app", waits)
    assert (await bench.claim(1)).job_id == 7


async def test_a_repositorys_limit_holds_for_a_job_that_was_found(bench: Bench):
    await bench.accounts(1, vcpus=60, memory_mb=200_000)
    await limited(bench, 5, "org1/app")
    await bench.queue(job(1, repository_id=5))
    await bench.claimed(1)
    assert await found(bench, 3, "Org1/App")
    assert await number(bench, 3) == 5
    assert (await bench.claim(2)).outcome is Outcome.EMPTY


async def test_a_limit_is_known_by_name_where_no_job_was_announced(bench: Bench):
    await bench.accounts(1)
    await limited(bench, 5, "org1/app")
    assert await found(bench, 3, "org1/app")
    assert await number(bench, 3) == 5


async def test_a_repository_that_was_denied_and_renamed_is_denied_for_a_job_that_was_found(bench: Bench):
    await bench.accounts(1)
    await bench.ledger.allow_list.deny(1, "org1/secret", repository_id=5, by="test", why="as the test needs it")
    await bench.queue(job(1, repository="org1/renamed", repository_id=5))
    assert await found(bench, 3, "org1/renamed")
    assert (await bench.claim(1)).outcome is Outcome.EMPTY


async def test_a_name_means_the_repository_that_had_it_last_and_that_of_no_other_account(bench: Bench):
    await bench.accounts(1, 2)
    await bench.queue(job(1, repository="org1/app", repository_id=5), job(2, repository="org1/app", repository_id=6))
    await bench.queue(job(9, 2, repository="org1/app", repository_id=7))
    assert await found(bench, 10, "org1/app")
    assert await number(bench, 10) == 6


async def test_what_github_says_later_tells_the_number_that_was_not_known(bench: Bench):
    await bench.accounts(1)
    for job_id in (3, 4):
        assert await found(bench, job_id, "org1/app")
        assert await number(bench, job_id) == 0
    await bench.queue(job(3, repository_id=5))
    claim = await bench.running(1)
    await bench.started(job(4, repository_id=5), 1)
    await bench.started(job(4, repository_id=6), 1)
    assert (await number(bench, 3), await number(bench, 4)) == (5, 5)
    (held,) = await bench.ask("SELECT job_id, repository_id FROM claims")
    assert held == (4, 5), claim


async def test_a_claim_counts_for_the_repository_of_a_job_that_is_heard_of_only_as_it_begins(bench: Bench):
    await bench.accounts(1)
    await bench.queue(job(1, repository="org1/app", repository_id=5))
    await bench.running(1)
    await bench.started(job(2, repository="org1/other", repository_id=6), 1)
    assert await bench.ask("SELECT job_id, repository_id FROM claims") == [(2, 6)]
