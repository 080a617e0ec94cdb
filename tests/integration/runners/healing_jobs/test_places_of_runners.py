"""Whether a runner is still there: by the list of the place where it was minted, and by no other."""

from typing import Any

import pytest
from doubles.github import StubGitHub
from integration.runners.healing_jobs.scripted import ORGANISATION, REPOSITORY, runner, stub_github
from integration.runners.ledger.rig import ACME, Bench, job

from paddock.clients.github import Forbidden, NotFound, Unavailable
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.left_claims import LeftClaims
from paddock.runners.healing.runner_lists import RunnerLists
from paddock.runners.healing.verdicts.pod_facts import RunnerRow

AT_REPOSITORY = f"repos/{REPOSITORY}"
NO_RIGHT = Forbidden("Resource not accessible by integration", status=403)
AWAY = Unavailable("502", status=502)
NOT_THERE = NotFound("no", status=404)


async def _handed(bench: Bench, place: str | None, *, number: int = 1) -> None:
    await bench.queue(job(10 + number))
    claim = await bench.claimed(number)
    await bench.ledger.claims.commit(claim, f"runner-{number}-mint", place=place)


async def _row(bench: Bench, github: StubGitHub, name: str = "runner-1-mint") -> RunnerRow:
    registration = await bench.ledger.registrations.of_runner(ACME, name, REPOSITORY)
    assert registration is not None
    return (await RunnerLists(github, bench.ledger).standing(registration)).row


@pytest.mark.parametrize(
    ("place", "organisation", "repository", "row"),
    [
        (ORGANISATION, [], NO_RIGHT, RunnerRow.ABSENT),
        (ORGANISATION, [runner(1)], NO_RIGHT, RunnerRow.OFFLINE),
        (ORGANISATION, NO_RIGHT, [], RunnerRow.UNKNOWN),
        (ORGANISATION, NOT_THERE, [], RunnerRow.UNKNOWN),
        (ORGANISATION, AWAY, [runner(1)], RunnerRow.UNKNOWN),
        (AT_REPOSITORY, NO_RIGHT, [], RunnerRow.ABSENT),
        (AT_REPOSITORY, NO_RIGHT, [runner(1, online=True)], RunnerRow.IDLE),
        (AT_REPOSITORY, [], NO_RIGHT, RunnerRow.UNKNOWN),
        (AT_REPOSITORY, [runner(1)], [], RunnerRow.ABSENT),
        (None, [], [], RunnerRow.ABSENT),
        (None, NOT_THERE, [], RunnerRow.ABSENT),
        (None, NOT_THERE, NOT_THERE, RunnerRow.UNKNOWN),
        (None, NO_RIGHT, [], RunnerRow.UNKNOWN),
        (None, [], NO_RIGHT, RunnerRow.UNKNOWN),
        (None, NO_RIGHT, [runner(1, busy=True)], RunnerRow.BUSY),
    ],
)
async def test_the_list_of_the_place_of_registration_alone_counts(
    bench: Bench, place: str | None, organisation: Any, repository: Any, row: RunnerRow
):
    await bench.accounts(ACME)
    await _handed(bench, place)
    github = stub_github()
    github.places = {ORGANISATION: organisation, AT_REPOSITORY: repository}
    assert await _row(bench, github) is row


async def test_a_runner_without_a_session_may_be_at_either_place(bench: Bench):
    await bench.accounts(ACME)
    github = stub_github()
    github.places = {ORGANISATION: [], AT_REPOSITORY: NO_RIGHT}
    assert await _row(bench, github, "runner-of-old") is RunnerRow.UNKNOWN
    github.places[AT_REPOSITORY] = [runner(7, name="runner-of-old")]
    assert await _row(bench, github, "runner-of-old") is RunnerRow.OFFLINE


async def test_an_organisation_that_was_renamed_is_asked_by_its_new_name(bench: Bench):
    await bench.accounts(ACME)
    await _handed(bench, ORGANISATION)
    await bench.ledger.accounts.enrol(ACME, "acme-corp", installation_id=1000 + ACME)
    github = stub_github()
    github.places = {"orgs/acme-corp": [runner(1, online=True)]}
    assert await _row(bench, github) is RunnerRow.IDLE


@pytest.mark.parametrize(("elsewhere", "row"), [(AT_REPOSITORY, RunnerRow.UNKNOWN), (ORGANISATION, RunnerRow.ABSENT)])
async def test_an_empty_list_counts_only_where_nobody_works_who_should_be_in_it(
    bench: Bench, elsewhere: str, row: RunnerRow
):
    await bench.accounts(ACME)
    await _handed(bench, AT_REPOSITORY)
    await _handed(bench, elsewhere, number=2)
    await bench.started(job(12), 2)
    github = stub_github()
    github.places = {ORGANISATION: [runner(2, online=True, busy=True)], AT_REPOSITORY: []}
    assert await _row(bench, github) is row


async def test_no_claim_ends_beside_a_live_runner_because_a_right_was_taken_away(bench: Bench):
    """The App may not list the repository's runners any more: that they cannot be seen does not mean that they are gone."""
    await bench.accounts(ACME)
    await _handed(bench, AT_REPOSITORY)
    await bench.completed(job(11))
    bench.clock.advance(86_400)
    github = stub_github()
    github.places = {ORGANISATION: [], AT_REPOSITORY: NO_RIGHT}
    worker = LeftClaims(bench.ledger, github, HealingSettings(), bench.clock)
    report = await worker.heal()
    assert report.healed == ()
    assert any(AT_REPOSITORY in sentence for sentence in report.refused)
    assert [claim.pod_uid for claim in await bench.ledger.claims.all()] == ["uid-1"]
    github.places[AT_REPOSITORY] = [runner(1, online=True)]
    assert [heal.kind for heal in (await worker.heal()).healed] == ["completed_claim"]
    assert github.removed == [1]
