"""Each call of the GitHub client: what is asked, and what is made of the answer."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import msgspec
import pytest
from doubles.clocks import SteppedClock
from doubles.scripted_github import (
    DEFAULT_GROUP,
    INSTALLATION,
    JIT,
    JOB,
    MINTED,
    REPOSITORY,
    TOKEN,
    ScriptedGitHub,
    minted,
    ok,
    refused,
)

from paddock.base.secrets import Secret
from paddock.clients.github import (
    Conflict,
    Forbidden,
    GitHub,
    GitHubClient,
    GitHubJob,
    GitHubRunner,
    GroupRefused,
    IncompleteList,
    Installation,
    Invalid,
    MintedRunner,
    NotFound,
    RunnerPlace,
    Unauthenticated,
    Unavailable,
)

ORGANISATION = RunnerPlace(INSTALLATION, "acme")
PROJECT = RunnerPlace(INSTALLATION, "acme", "rocket")
MINT_ORGANISATION = "POST /orgs/acme/actions/runners/generate-jitconfig"
MINT_PROJECT = "POST /repos/acme/rocket/actions/runners/generate-jitconfig"


def test_the_client_keeps_the_contract(github: ScriptedGitHub):
    contract: GitHub = github.client()
    assert contract.budgets() == []


# Minting


async def test_a_runner_is_minted_for_the_organisation(github: ScriptedGitHub):
    github.script = [ok(MINTED, 201)]
    runner = await github.client().mint(
        INSTALLATION, REPOSITORY, name="runner-1", labels=["macos", "m4"], work_folder="/Users/runner/work"
    )
    assert (runner.runner_id, runner.name, runner.place) == (9, "runner-1", ORGANISATION)
    assert runner.config == Secret(JIT)
    (request,) = github.requests
    assert github.asked == [MINT_ORGANISATION]
    assert request.headers["Authorization"] == f"Bearer {TOKEN}-1"
    assert request.headers["Accept"] == "application/vnd.github.v3+json"
    assert msgspec.json.decode(request.content) == {
        "name": "runner-1",
        "runner_group_id": 1,
        "labels": ["macos", "m4"],
        "work_folder": "/Users/runner/work",
    }


async def test_where_the_owner_is_no_organisation_the_runner_is_the_repositorys(
    github: ScriptedGitHub, clock: SteppedClock
):
    github.script = [refused(404), ok(MINTED, 201)]
    client = github.client()
    assert (await minted(client)).place == PROJECT
    assert github.asked == [MINT_ORGANISATION, MINT_PROJECT]
    await minted(client, repository="ACME/rocket")  # remembered, whatever the case of its letters
    assert len(github.requests) == 3
    clock.step(901)
    github.script = [ok(MINTED, 201)]
    assert (await minted(client)).place == ORGANISATION


async def test_neither_place_is_not_found_and_is_not_remembered(github: ScriptedGitHub):
    github.script = [refused(404), refused(404), ok(MINTED, 201)]
    client = github.client()
    with pytest.raises(NotFound):
        await minted(client)
    assert (await minted(client)).place == ORGANISATION


@pytest.mark.parametrize(
    ("status", "kind"), [(401, Unauthenticated), (409, Conflict), (422, Invalid), (502, Unavailable)]
)
@pytest.mark.parametrize("place", ["organisation", "repository"])
async def test_a_refused_mint_is_not_tried_elsewhere(
    github: ScriptedGitHub, status: int, kind: type[Exception], place: str
):
    github.script = [refused(status)] if place == "organisation" else [refused(404), refused(status)]
    with pytest.raises(kind):
        await minted(github.client())
    assert (MINT_PROJECT in github.asked) == (place == "repository")


async def test_where_the_organisation_refuses_the_runner_is_the_repositorys(github: ScriptedGitHub):
    github.script = [refused(403), ok(MINTED, 201)]
    client = github.client()
    assert (await minted(client)).place == PROJECT
    await minted(client)  # remembered: the organisation is not asked again for a while
    assert github.asked == [MINT_ORGANISATION, MINT_PROJECT, MINT_PROJECT]


async def test_where_both_places_refuse_the_message_has_both(github: ScriptedGitHub):
    github.script = [refused(403, "no organisation_self_hosted_runners"), refused(403, "no administration")]
    with pytest.raises(Forbidden, match=r"(?s)organisation says.*self_hosted_runners.*repository says.*administration"):
        await minted(github.client())


@pytest.mark.parametrize("status", [403, 404])
async def test_a_pool_of_the_organisation_alone_never_falls_back(github: ScriptedGitHub, status: int):
    github.script = [refused(status)]
    with pytest.raises((Forbidden, NotFound)):
        await mint(github.client(), scope="organization")
    assert github.asked == [MINT_ORGANISATION]


async def test_a_pool_of_repositories_never_asks_the_organisation(github: ScriptedGitHub):
    github.script = [ok(MINTED, 201)]
    assert (await mint(github.client(), scope="repository")).place == PROJECT
    assert (github.asked, github.group_questions) == ([MINT_PROJECT], [])


async def test_a_group_is_found_by_name_and_its_number_is_remembered(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [ok(MINTED, 201)]
    github.groups = [ok(groups(DEFAULT_GROUP, {"id": 4, "name": "Macs"}))]
    client = github.client()
    for _ in range(3):
        await mint(client, group="macs")
    assert {msgspec.json.decode(request.content)["runner_group_id"] for request in github.requests} == {4}
    assert len(github.group_questions) == 1
    assert "visible_to_repository=rocket" in github.group_questions[0]
    clock.step(901)
    await mint(client, group="macs")
    assert len(github.group_questions) == 2


async def test_a_group_that_is_not_there_is_named_with_those_that_are_and_nothing_is_minted(github: ScriptedGitHub):
    github.groups = [ok(groups(DEFAULT_GROUP))]
    with pytest.raises(GroupRefused, match=r"no runner group 'macs' \(it has: Default\).*spec\.runnerGroup"):
        await mint(github.client(), group="macs")
    assert github.asked == []


async def test_a_group_that_is_closed_to_the_repository_is_named_and_nothing_is_minted(github: ScriptedGitHub):
    github.groups = [ok(groups(DEFAULT_GROUP)), ok(groups(DEFAULT_GROUP, {"id": 4, "name": "macs"}))]
    with pytest.raises(GroupRefused, match=r"'macs' of acme is closed to acme/rocket: open it"):
        await mint(github.client(), group="macs")
    assert github.asked == []


async def test_a_closed_default_group_makes_the_runner_the_repositorys(github: ScriptedGitHub):
    github.script = [ok(MINTED, 201)]
    github.groups = [ok(groups())]
    client = github.client()
    assert [(await minted(client)).place for _ in range(2)] == [PROJECT, PROJECT]
    assert len(github.group_questions) == 1  # remembered, for this repository


async def test_a_closed_default_group_of_a_pool_of_the_organisation_is_said(github: ScriptedGitHub):
    github.groups = [ok(groups())]
    with pytest.raises(GroupRefused, match="the default runner group of acme is closed to acme/rocket"):
        await mint(github.client(), scope="organization")
    assert github.asked == []


async def test_a_group_made_anew_is_looked_up_again_after_one_refusal(github: ScriptedGitHub):
    github.script = [ok(MINTED, 201), refused(404), ok(MINTED, 201)]
    github.groups = [ok(groups({"id": 4, "name": "macs"})), ok(groups({"id": 5, "name": "macs"}))]
    client = github.client()
    await mint(client, group="macs")
    with pytest.raises(GroupRefused):
        await mint(client, group="macs")
    await mint(client, group="macs")
    assert [msgspec.json.decode(request.content)["runner_group_id"] for request in github.requests] == [4, 4, 5]


async def test_without_an_answer_about_groups_the_default_one_is_taken_on_trust_and_a_named_one_is_not(
    github: ScriptedGitHub,
):
    github.script = [ok(MINTED, 201)]
    github.groups = [refused(403)]
    assert (await minted(github.client())).place == ORGANISATION
    with pytest.raises(Forbidden):
        await mint(github.client(), group="macs")


async def test_only_organisations_have_groups(github: ScriptedGitHub):
    with pytest.raises(Invalid, match="only organisations"):
        await mint(github.client(), group="macs", scope="repository")
    assert github.requests == []


async def test_a_repository_is_known_by_its_number(github: ScriptedGitHub):
    github.script = [ok({"id": 8, "full_name": "acme/rocket", "owner": {"id": 1, "login": "acme"}})]
    found = await github.client().repository(INSTALLATION, "Acme/Rocket")
    assert (found.repository_id, found.full_name, found.owner_id) == (8, "acme/rocket", 1)


def groups(*there: dict[str, Any]) -> dict[str, Any]:
    return {"total_count": len(there), "runner_groups": list(there)}


async def mint(client: GitHubClient, **more: Any) -> MintedRunner:
    return await client.mint(INSTALLATION, REPOSITORY, name="runner-1", labels=["macos"], work_folder="/w", **more)


async def test_the_two_places_of_a_mint_share_one_deadline(github: ScriptedGitHub, clock: SteppedClock):
    def slow(_: httpx2.Request) -> httpx2.Response:
        clock.step(16)
        return refused(404)

    github.script = [slow, ok(MINTED, 201)]
    with pytest.raises(Unavailable, match="nothing was sent") as raised:
        await minted(github.client())
    assert not raised.value.effect_unknown
    assert github.asked == [MINT_ORGANISATION]


@pytest.mark.parametrize(
    "changes", [{"name": ""}, {"name": "r" * 65}, {"labels": []}], ids=["no name", "too long", "no labels"]
)
async def test_what_github_would_refuse_is_not_sent(github: ScriptedGitHub, changes: dict[str, Any]):
    values: dict[str, Any] = {"name": "runner-1", "labels": ["macos"], "work_folder": "/work"}
    with pytest.raises(Invalid):
        await github.client().mint(INSTALLATION, REPOSITORY, **(values | changes))
    assert github.requests == []


@pytest.mark.parametrize("repository", ["", "acme", "acme/", "/rocket", "acme/rocket/more", "../rocket", "acme/.."])
async def test_what_is_no_repository_is_not_asked_for(github: ScriptedGitHub, repository: str):
    client = github.client()
    for call in (
        minted(client, repository=repository),
        client.job(INSTALLATION, repository, 5),
        client.waiting_jobs(INSTALLATION, repository),
    ):
        with pytest.raises(Invalid, match="owner/name"):
            await call
    assert github.requests == []


async def test_odd_letters_stay_within_their_part_of_the_path(github: ScriptedGitHub):
    github.script = [ok(JOB)]
    await github.client().job(INSTALLATION, "ac?me/ro#cket", 5)
    assert github.requests[0].url.raw_path == b"/repos/ac%3Fme/ro%23cket/actions/jobs/5"


# Jobs


async def test_a_job_is_read_with_all_that_github_knows(github: ScriptedGitHub):
    github.script = [
        ok(
            {
                "id": 5,
                "status": "completed",
                "conclusion": "success",
                "runner_id": 9,
                "runner_name": "runner-1",
                "run_id": 3,
                "run_attempt": 2,
                "name": "build",
                "workflow_name": None,
                "head_branch": "main",
                "head_sha": "abc",
                "labels": ["macos"],
                "created_at": "2026-06-01T12:00:00Z",
                "started_at": "2026-06-01T12:00:05Z",
                "completed_at": "2026-06-01T12:01:00Z",
                "steps": [{"status": "completed"}, {"status": "in_progress"}, {}],
                "unknown": {"to": "us"},
            }
        )
    ]
    assert await github.client().job(INSTALLATION, REPOSITORY, 5) == GitHubJob(
        job_id=5,
        status="completed",
        conclusion="success",
        runner_name="runner-1",
        runner_id=9,
        run_id=3,
        run_attempt=2,
        name="build",
        head_branch="main",
        head_sha="abc",
        labels=("macos",),
        created_at=datetime(2026, 6, 1, 12, 0, tzinfo=UTC),
        started_at=datetime(2026, 6, 1, 12, 0, 5, tzinfo=UTC),
        completed_at=datetime(2026, 6, 1, 12, 1, tzinfo=UTC),
        steps_done=1,
    )
    assert github.asked == ["GET /repos/acme/rocket/actions/jobs/5"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [("queued", "queued"), ("waiting", "waiting"), ("pending", "waiting"), ("in_progress", "in_progress")],
)
async def test_a_status_is_one_of_four(github: ScriptedGitHub, status: str, expected: str):
    github.script = [ok({"id": 5, "status": status, "runner_id": None, "runner_name": None, "steps": None})]
    assert (await github.client().job(INSTALLATION, REPOSITORY, 5)).status == expected


async def test_waiting_jobs_are_found_in_queued_runs_and_in_those_that_have_begun(github: ScriptedGitHub):
    runs = {"queued": [3, 4], "in_progress": [4, 6]}
    jobs = {3: [("queued", 31), ("waiting", 32)], 6: [("in_progress", 61), ("queued", 62), ("new status", 63)]}

    def answer(request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path.endswith("/runs"):
            found = [{"id": run} for run in runs[request.url.params["status"]]]
            return ok({"total_count": len(found), "workflow_runs": found})
        assert request.url.params["filter"] == "latest"
        run = int(path.split("/")[-2])
        if run not in jobs:
            return refused(404)  # deleted since
        found = [{"id": number, "status": status, "run_id": run} for status, number in jobs[run]]
        return ok({"total_count": len(found), "jobs": found})

    github.script = [answer]
    waiting = await github.client().waiting_jobs(INSTALLATION, REPOSITORY)
    assert [(job.job_id, job.status, job.run_id) for job in waiting] == [
        (31, "queued", 3),
        (32, "waiting", 3),
        (62, "queued", 6),
    ]


async def test_a_repository_that_is_not_to_be_seen_has_no_list_of_waiting_jobs(github: ScriptedGitHub):
    github.script = [refused(404)]
    with pytest.raises(NotFound):
        await github.client().waiting_jobs(INSTALLATION, REPOSITORY)


# Runners


@pytest.mark.parametrize("place", [ORGANISATION, PROJECT])
async def test_runners_are_listed_where_they_are_registered(github: ScriptedGitHub, place: RunnerPlace):
    github.script = [
        ok(
            {
                "total_count": 2,
                "runners": [
                    {"id": 1, "name": "a", "status": "online", "busy": True, "labels": [{"id": 7, "name": "macos"}]},
                    {"id": 2, "name": "b", "status": "offline", "busy": False},
                ],
            }
        )
    ]
    assert await github.client().runners(place) == [
        GitHubRunner(runner_id=1, name="a", online=True, busy=True, labels=("macos",)),
        GitHubRunner(runner_id=2, name="b", online=False, busy=False),
    ]
    assert github.asked == [f"GET /{place.path}/actions/runners"]


@pytest.mark.parametrize("answer", [httpx2.Response(204), refused(404)])
async def test_removing_a_runner_that_is_gone_is_no_error(github: ScriptedGitHub, answer: httpx2.Response):
    github.script = [answer]
    await github.client().remove_runner(ORGANISATION, 9)
    assert github.asked == ["DELETE /orgs/acme/actions/runners/9"]


@pytest.mark.parametrize("status", [409, 422])
async def test_a_busy_runner_is_a_conflict(github: ScriptedGitHub, status: int):
    github.script = [refused(status, 'Runner "a" is currently running a job and cannot be deleted.')]
    with pytest.raises(Conflict, match="currently running"):
        await github.client().remove_runner(ORGANISATION, 9)


@pytest.mark.parametrize("number", [0, -1])
async def test_numbers_that_github_never_gave_are_not_sent(github: ScriptedGitHub, number: int):
    client = github.client()
    for call in (
        client.remove_runner(ORGANISATION, number),
        client.job(INSTALLATION, REPOSITORY, number),
        client.redeliver(number),
    ):
        with pytest.raises(Invalid):
            await call
    assert github.requests == []


# The App


async def test_installations_are_asked_for_by_the_app_itself(github: ScriptedGitHub):
    github.script = [
        ok(
            [
                {"id": 1, "account": {"id": 10, "login": "acme"}, "suspended_at": None},
                {"id": 2, "account": {"id": 20, "slug": "big"}, "suspended_at": "2026-01-01T00:00:00Z"},
                {"id": 3, "account": None},
            ]
        )
    ]
    assert await github.client().installations() == [
        Installation(1, 10, "acme"),
        Installation(2, 20, "big", suspended=True),
        Installation(3, 0, ""),
    ]
    assert github.grants == []
    assert not github.credentials[0].startswith(f"Bearer {TOKEN}")


class DeliveryLog:
    """A log of deliveries, one each minute, newest first, paged by cursor."""

    def __init__(self, now: datetime, count: int) -> None:
        self.entries = [
            {
                "id": 1000 - number,
                "guid": f"g{number}",
                "delivered_at": (now - timedelta(minutes=number)).isoformat(),
                "redelivery": False,
                "status_code": 200 if number % 2 else 502,
                "event": "workflow_job",
                "action": "queued",
            }
            for number in range(count)
        ]

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        cursor = request.url.params.get("cursor")
        start = 0 if cursor is None else next(i for i, e in enumerate(self.entries) if e["id"] == int(cursor[3:]))
        page = self.entries[start : start + 100]
        rest = self.entries[start + 100 :]
        # The log grows while it is read.
        self.entries.insert(0, self.entries[0] | {"id": self.entries[0]["id"] + 1})
        link = f'<http://elsewhere.example/?cursor=v1_{rest[0]["id"]}&per_page=100>; rel="next"' if rest else ""
        return ok(page, headers={"link": link} if link else None)


async def test_deliveries_are_read_by_cursor_until_they_are_too_old(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [DeliveryLog(clock.now(), 500)]
    since = clock.now() - timedelta(minutes=150)
    found = await github.client().deliveries(since)
    assert [delivery.guid for delivery in found] == [f"g{number}" for number in range(151)]
    assert found[0].arrived is False
    assert found[1].arrived is True
    assert len(github.requests) == 2
    assert {request.url.host for request in github.requests} == {"127.0.0.1"}


async def test_deliveries_end_with_the_log(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [DeliveryLog(clock.now(), 130)]
    assert len(await github.client().deliveries(clock.now() - timedelta(days=3))) == 130


async def test_a_delivery_dated_before_its_neighbours_ends_nothing(github: ScriptedGitHub, clock: SteppedClock):
    log = DeliveryLog(clock.now(), 120)
    log.entries[99]["delivered_at"] = (clock.now() - timedelta(minutes=119, seconds=30)).isoformat()
    github.script = [log]
    found = await github.client().deliveries(clock.now() - timedelta(minutes=119))
    assert len(found) == 119


async def test_a_log_without_an_end_is_incomplete(github: ScriptedGitHub, clock: SteppedClock):
    entry = DeliveryLog(clock.now(), 1).entries
    github.script = [ok(entry, headers={"link": '<http://127.0.0.1:1/?cursor=v1_1>; rel="next"'})]
    with pytest.raises(IncompleteList, match="does not end"):
        await github.client().deliveries(clock.now() - timedelta(days=3))


async def test_a_delivery_is_asked_for_again(github: ScriptedGitHub):
    github.script = [ok({}, 202)]
    await github.client().redeliver(12)
    assert github.asked == ["POST /app/hook/deliveries/12/attempts"]


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_a_delivery_that_is_too_old_is_invalid(github: ScriptedGitHub, status: int):
    github.script = [refused(status)]
    with pytest.raises(Invalid):
        await github.client().redeliver(12)
