"""Claims that nobody will finish, and those that somebody will."""

from datetime import timedelta

import pytest
from doubles.github import StubGitHub
from integration.runners.healing_jobs.scripted import ORGANISATION, runner, stub_github
from integration.runners.ledger.rig import ACME, POOL, Bench, job, pod

from paddock.clients.github import Conflict, Unavailable
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.left_claims import LeftClaims
from paddock.runners.ledger import LedgerUnavailableError, Outcome, StaleClaimError


def _worker(bench: Bench, github: StubGitHub | None = None, **settings) -> LeftClaims:
    return LeftClaims(bench.ledger, github or stub_github(), HealingSettings(**settings), bench.clock)


async def _rich(bench: Bench) -> None:
    await bench.accounts(ACME, vcpus=600, memory_mb=5_000_000)


async def test_a_claim_that_was_never_minted_is_let_go_after_five_minutes_and_its_job_waits_again(bench: Bench):
    await _rich(bench)
    await bench.queue(job(10))
    await bench.claimed(1)
    bench.clock.advance(299)
    assert (await _worker(bench).heal()).healed == ()
    bench.clock.advance(2)
    report = await _worker(bench).heal()
    assert [heal.kind for heal in report.healed] == ["stale_claim"]
    assert "job 10" in report.healed[0].sentence
    assert report.healed[0].evidence["job_id"] == 10
    assert await bench.status(10) == "queued"
    assert (await _worker(bench).heal()).healed == ()


async def test_the_claims_of_a_dispatcher_that_died_are_free_within_the_minute(bench: Bench):
    await _rich(bench)
    await bench.queue(job(10), job(11))
    dead = await bench.ledger.dispatchers.register("dispatch-a")
    alive = await bench.ledger.dispatchers.register("dispatch-b")
    await bench.ledger.claims.claim(POOL, pod(1), dispatcher=dead)
    await bench.ledger.claims.claim(POOL, pod(2), dispatcher=alive)
    bench.clock.advance(31)
    await bench.ledger.dispatchers.beat(alive)
    worker = _worker(bench)
    assert worker.every <= 15
    report = await worker.heal()
    assert [heal.evidence["pod_uid"] for heal in report.healed] == ["uid-1"]
    assert "silent" in report.healed[0].sentence
    assert [claim.pod_uid for claim in await bench.ledger.claims.all()] == ["uid-2"]


async def test_a_running_claim_is_never_freed_by_age(bench: Bench):
    await _rich(bench)
    await bench.queue(job(10))
    await bench.running(1)
    bench.clock.advance(7 * 86_400)
    report = await _worker(bench).heal()
    assert (report.looked, report.healed) == (0, ())
    assert len(await bench.ledger.claims.all()) == 1


async def test_a_claim_that_is_minted_between_the_read_and_the_release_is_kept(bench: Bench):
    await _rich(bench)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    bench.clock.advance(301)
    (read,) = await bench.ledger.recovery.stale(claimed_before=bench.clock.now(), silent_since=bench.clock.now())
    await bench.ledger.claims.commit(claim, "late-but-first")
    assert await bench.ledger.unconfirmed.release_unminted(read, by="test", why="stale") is None
    assert await bench.status(10) == "running"


async def test_a_mint_that_comes_after_the_release_changes_nothing_of_the_next_claim(bench: Bench):
    """The late dispatcher's confirmation and release name a generation that is gone."""
    await _rich(bench)
    await bench.queue(job(10))
    late = await bench.claimed("a")
    bench.clock.advance(301)
    await _worker(bench).heal()
    fresh = await bench.claimed("b")
    with pytest.raises(StaleClaimError):
        await bench.ledger.claims.commit(late, "runner-of-a")
    with pytest.raises(StaleClaimError):
        await bench.ledger.claims.release(late, by="a", why="late")
    (held,) = await bench.ledger.claims.all()
    assert (held.generation, held.state, await bench.status(10)) == (fresh.generation, "claimed", "claimed")


async def test_the_claim_of_a_finished_job_is_let_go_on_proof_and_nothing_is_put_back(bench: Bench):
    await _rich(bench)
    await bench.queue(job(10, age=2), job(11, age=1))
    await bench.running(1)
    await bench.running(2)
    bench.clock.advance(301)
    await bench.completed(job(10), conclusion="cancelled")
    assert (await _worker(bench).heal()).healed == ()  # a sibling may be on its way to the idle runner
    bench.clock.advance(181)
    report = await _worker(bench).heal()
    assert [(heal.kind, heal.evidence["conclusion"]) for heal in report.healed] == [("completed_claim", "cancelled")]
    assert [claim.pod_uid for claim in await bench.ledger.claims.all()] == ["uid-2"]
    assert await bench.status(10) == "cancelled"


async def test_only_the_executors_claim_goes_when_another_runner_finished_the_job(bench: Bench):
    """Runner B was minted for job 11 and executes job 10; the end of 11, by somebody else, does not free B."""
    await _rich(bench)
    await bench.queue(job(10, age=9), job(11, age=1))
    await bench.running("a")
    await bench.running("b")
    await bench.started(job(10), "b")
    await bench.completed(job(11), "foreign")
    bench.clock.advance(3600)
    github = stub_github()
    github.places[ORGANISATION] = [runner("b", online=True, busy=True)]
    report = await _worker(bench, github).heal()
    assert [heal.evidence["pod_uid"] for heal in report.healed] == ["uid-a"], "which was left without a job"
    assert {claim.pod_uid for claim in await bench.ledger.claims.all()} == {"uid-b"}


async def test_a_claim_that_was_given_another_job_between_the_read_and_the_release_is_kept(bench: Bench):
    await _rich(bench)
    await bench.queue(job(10, age=2), job(11, age=1))
    await bench.running(1)
    await bench.completed(job(10), conclusion="cancelled")
    bench.clock.advance(600)
    (read,) = await bench.ledger.unconfirmed.finished_claims()
    await bench.started(job(11), 1)
    assert await bench.ledger.unconfirmed.release_finished(read, by="test", why="over") is None
    assert await bench.status(11) == "running"


async def test_at_most_the_cap_is_let_go_in_one_pass_and_the_rest_is_counted(bench: Bench):
    await _rich(bench)
    for number in range(1, 31):
        await bench.queue(job(number, age=number))
        await bench.claimed(number)
    bench.clock.advance(301)
    worker = _worker(bench)
    first = await worker.heal()
    assert (len(first.healed), first.deferred, first.looked) == (25, 5, 30)
    second = await worker.heal()
    assert (len(second.healed), second.deferred) == (5, 0)


@pytest.mark.parametrize("kinds", [{"stale_claim"}, {"*"}])
async def test_a_kind_that_only_reports_changes_nothing(bench: Bench, kinds: set[str]):
    await _rich(bench)
    await bench.queue(job(10))
    await bench.claimed(1)
    bench.clock.advance(301)
    report = await _worker(bench, report_only=frozenset(kinds)).heal()
    assert [heal.kind for heal in report.reported] == ["stale_claim"]
    assert report.healed == ()
    assert await bench.status(10) == "claimed"


async def test_one_claim_that_cannot_be_let_go_keeps_no_other_from_it(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    await _rich(bench)
    await bench.queue(job(10, age=2), job(11, age=1))
    await bench.claimed(1)
    await bench.claimed(2)
    bench.clock.advance(301)
    release = bench.ledger.unconfirmed.release_unminted

    async def moody(claim, **words):
        if claim.pod_uid == "uid-1":
            raise RuntimeError("a mistake of ours")
        return await release(claim, **words)

    monkeypatch.setattr(bench.ledger.unconfirmed, "release_unminted", moody)
    report = await _worker(bench, claim_grace=timedelta(minutes=5)).heal()
    assert [heal.evidence["pod_uid"] for heal in report.healed] == ["uid-2"]
    assert len(report.failed) == 1


async def test_a_ledger_that_goes_away_ends_the_pass_and_what_was_healed_is_still_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    await _rich(bench)
    for number in (1, 2, 3):
        await bench.queue(job(number, age=9 - number))
        await bench.claimed(number)
    bench.clock.advance(301)
    release, calls = bench.ledger.unconfirmed.release_unminted, []

    async def gone_after_one(claim, **words):
        calls.append(claim.pod_uid)
        if len(calls) > 1:
            raise LedgerUnavailableError("the ledger's database went away")
        return await release(claim, **words)

    with monkeypatch.context() as patched:
        patched.setattr(bench.ledger.unconfirmed, "release_unminted", gone_after_one)
        report = await _worker(bench).heal()
    assert (len(report.healed), len(report.failed), calls) == (1, 1, ["uid-1", "uid-2"])
    assert len((await _worker(bench).heal()).healed) == 2


async def _cancelled_before_it_began(bench: Bench) -> None:
    """Pod 1 was handed a runner for job 10, which was cancelled before any runner took it; jobs 11 and 12 wait."""
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.queue(job(10))
    await bench.running(1)
    await bench.completed(job(10), None, "cancelled")
    await bench.queue(job(11), job(12))
    bench.clock.advance(360)


async def test_the_slot_of_an_idle_runner_is_free_only_once_github_has_unregistered_it(bench: Bench):
    await _cancelled_before_it_began(bench)
    github = stub_github()
    github.places[ORGANISATION] = [runner(1, online=True)]
    report = await _worker(bench, github).heal()
    assert [heal.kind for heal in report.healed] == ["completed_claim"]
    assert github.removed == [1], "GitHub can give it nothing any more"
    assert await bench.ledger.claims.of_pod("uid-1") is None


@pytest.mark.parametrize("when", ["before the list", "after the list"])
async def test_an_idle_runner_that_is_given_a_sibling_keeps_its_slot_so_that_no_limit_is_exceeded(
    bench: Bench, when: str
):
    await _cancelled_before_it_began(bench)
    github = stub_github()
    github.places[ORGANISATION] = [runner(1, online=True, busy=when == "before the list")]
    github.refusals[1] = Conflict("busy", status=422)
    report = await _worker(bench, github).heal()
    assert report.healed == ()
    assert (await bench.claim(2)).outcome is Outcome.EMPTY, "the limit is one, and one runs"
    await bench.started(job(11), 1)
    assert await bench.status(11) == "running"
    assert (await bench.claim(2)).outcome is Outcome.EMPTY


async def test_while_github_does_not_list_its_runners_the_slot_is_kept(bench: Bench):
    await _cancelled_before_it_began(bench)
    github = stub_github()
    github.places[ORGANISATION] = Unavailable("502", status=502)
    report = await _worker(bench, github).heal()
    assert report.healed == ()
    assert report.failed
    assert await bench.ledger.claims.of_pod("uid-1") is not None


async def test_a_runner_that_executed_its_job_itself_frees_its_slot_without_a_question_to_github(bench: Bench):
    await _rich(bench)
    await bench.queue(job(10))
    claim = await bench.running(1)
    await bench.started(job(10), 1)
    await bench.completed(job(10), 1)
    assert claim.job_id == 10
    github = stub_github()
    bench.clock.advance(360)
    await _worker(bench, github).heal()
    assert await bench.ledger.claims.of_pod("uid-1") is None
    assert github.calls == []


# Runners that were left without a job


async def _displaced(bench: Bench, github: StubGitHub) -> None:
    """Runner A was minted for job 10, which GitHub gave to B; job 11, which B was minted for, was cancelled."""
    await _rich(bench)
    await bench.queue(job(10, age=9), job(11, age=1))
    await bench.running("aa")
    await bench.running("b")
    github.places[ORGANISATION] = [runner("aa", online=True), runner("b", online=True, busy=True)]
    await bench.started(job(10), "b")
    await bench.completed(job(11), None, "cancelled")


async def test_an_idle_runner_whose_job_went_elsewhere_gives_its_slot_back_after_three_minutes(bench: Bench):
    github = stub_github()
    await _displaced(bench, github)
    bench.clock.advance(179)
    assert (await _worker(bench, github).heal()).healed == ()
    assert github.removed == []
    bench.clock.advance(2)
    (heal,) = (await _worker(bench, github).heal()).healed
    assert (heal.kind, heal.subject, round(heal.seconds)) == ("displaced_claim", "Pod runner-aa", 181)
    assert github.removed == [902], "unregistered before its slot is anybody else's"
    assert [claim.pod_name for claim in await bench.ledger.claims.all()] == ["runner-b"]


@pytest.mark.parametrize("how", ["busy", "just given one", "unreadable"])
async def test_a_displaced_runner_that_has_a_job_or_cannot_be_asked_about_keeps_its_slot(bench: Bench, how: str):
    github = stub_github()
    await _displaced(bench, github)
    if how == "busy":
        github.places[ORGANISATION] = [runner("aa", online=True, busy=True)]
    elif how == "just given one":
        github.refusals[902] = Conflict("Runner is running a job", status=422)
    else:
        github.places[ORGANISATION] = Unavailable("timeout")  # type: ignore[assignment]
    bench.clock.advance(3600)
    assert (await _worker(bench, github).heal()).healed == ()
    assert {claim.pod_name for claim in await bench.ledger.claims.all()} == {"runner-aa", "runner-b"}


async def test_a_displaced_runner_that_was_given_another_job_is_none(bench: Bench):
    github = stub_github()
    await _displaced(bench, github)
    await bench.queue(job(12))
    await bench.started(job(12), "aa")
    bench.clock.advance(3600)
    assert (await _worker(bench, github).heal()).healed == ()
