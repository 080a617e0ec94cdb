"""Refusals and sessions of scale sets: what is a limit, what may be trusted, and what is never shown."""

from collections.abc import AsyncIterator, Callable

import httpx2
import msgspec
import pytest
from doubles.clocks import SteppedClock

from paddock.base.rng import seeded
from paddock.clients.github import (
    Conflict,
    GitHubClient,
    GitHubError,
    NotFound,
    RateLimited,
    RunnerPlace,
    Unavailable,
)
from paddock.clients.github.scaleset import QueueSession, ScaleSets
from paddock.simulator.github import SimulatedGitHub

Change = Callable[[httpx2.Request, httpx2.Response], httpx2.Response]


class Between(httpx2.AsyncBaseTransport):
    """The simulated GitHub, some of whose answers are changed on their way."""

    def __init__(self, github: SimulatedGitHub) -> None:
        self._github = github.transport()
        self.changes: dict[tuple[str, str], Change] = {}
        self.seen: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._github.handle_async_request(request)
        self.seen.append(f"{request.method} {request.url.path}")
        for (method, part), change in self.changes.items():
            if request.method == method and part in request.url.path:
                await answer.aread()
                return change(request, answer)
        return answer


class Stage:
    def __init__(self, clock: SteppedClock) -> None:
        self.github = SimulatedGitHub(clock, seeded("the twin"))
        account = self.github.add_organization("acme", "app")
        self.place = RunnerPlace(installation_id=account.installation_id, owner="acme")
        self.wire = Between(self.github)

    async def session(self, sets: ScaleSets) -> tuple[int, QueueSession]:
        made = await sets.create(self.place, name="macos-26", group_id=1, labels=["macos-26"])
        return made.scale_set_id, await sets.open_session(self.place, made.scale_set_id, "me")


@pytest.fixture
def stage(clock: SteppedClock) -> Stage:
    return Stage(clock)


@pytest.fixture
async def sets(stage: Stage, clock: SteppedClock) -> AsyncIterator[ScaleSets]:
    async with GitHubClient(stage.github.settings(), clock, seeded("the client"), stage.wire) as client:
        yield client.scale_sets


def answered(status: int, message: str, **headers: str) -> Change:
    """With the message, in which {id} is the last part of the request's path."""

    def change(request: httpx2.Request, _answer: httpx2.Response) -> httpx2.Response:
        text = message.replace("{id}", request.url.path.rpartition("/")[2])
        return httpx2.Response(
            status, json={"message": text}, headers={key.replace("_", "-"): value for key, value in headers.items()}
        )

    return change


@pytest.mark.parametrize("path", ["/runnergroups", "/runner-registration"])
async def test_a_403_that_says_when_to_come_again_is_a_limit(stage: Stage, sets: ScaleSets, path: str):
    for method in ("GET", "POST"):
        stage.wire.changes[method, path] = answered(403, "a secondary rate limit", retry_after="20")
    with pytest.raises(RateLimited) as raised:
        await sets.group(stage.place, "Default")
    assert raised.value.retry_after == 20
    stage.wire.changes.clear()
    assert await sets.group(stage.place, "Default") == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 429, 500])
async def test_no_error_shows_the_id_of_a_session(stage: Stage, sets: ScaleSets, status: int):
    number, session = await stage.session(sets)
    shown = [repr(session), str(session)]
    echo = answered(status, f"session {{id}} ({session.session_id}) at {session.session_id}")
    for method in ("GET", "PATCH", "DELETE"):
        stage.wire.changes[method, session.session_id] = echo
    for call in (
        sets.renew_session(stage.place, number, session.session_id),
        sets.close_session(stage.place, number, session.session_id),
        sets.poll(session, after=0, capacity=1),
        sets.acknowledge(session, 5),
    ):
        try:
            await call
        except GitHubError as error:
            shown += [str(error), repr(error), repr(vars(error))]
    assert len(shown) > 5
    assert not [text for text in shown if session.session_id in text]


@pytest.mark.parametrize(
    "odd",
    [
        {"messageQueueUrl": ""},
        {"messageQueueUrl": None},
        {"messageQueueUrl": "queue"},
        {"messageQueueAccessToken": None},
    ],
    ids=repr,
)
async def test_a_session_whose_queue_cannot_be_used_is_closed(stage: Stage, sets: ScaleSets, odd: dict[str, object]):
    def change(_request: httpx2.Request, answer: httpx2.Response) -> httpx2.Response:
        return httpx2.Response(200, json=msgspec.json.decode(answer.content) | odd)

    stage.wire.changes["POST", "/sessions"] = change
    with pytest.raises(Unavailable):
        await stage.session(sets)
    assert [call.startswith("DELETE") for call in stage.wire.seen][-1]
    assert [each.session for each in stage.github.state.scale_sets.values()] == [""]


async def test_no_token_goes_to_a_queue_over_plain_http(stage: Stage, clock: SteppedClock):
    def change(_request: httpx2.Request, answer: httpx2.Response) -> httpx2.Response:
        said = msgspec.json.decode(answer.content)
        return httpx2.Response(200, json=said | {"messageQueueUrl": said["messageQueueUrl"].replace("https:", "http:")})

    settings = stage.github.settings("https://api.github.test")
    async with GitHubClient(settings, clock, seeded("the client"), stage.wire) as client:
        number, session = await stage.session(client.scale_sets)
        assert session.url.startswith("https:")
        stage.wire.changes["PATCH", "/sessions/"] = change
        with pytest.raises(Unavailable, match="no address that can be used"):
            await client.scale_sets.renew_session(stage.place, number, session.session_id)


async def test_a_session_is_opened_whose_statistics_are_odd(stage: Stage, sets: ScaleSets):
    def change(_request: httpx2.Request, answer: httpx2.Response) -> httpx2.Response:
        return httpx2.Response(
            200, json=msgspec.json.decode(answer.content) | {"statistics": {"totalAssignedJobs": None}}
        )

    stage.wire.changes["POST", "/sessions"] = change
    assert (await stage.session(sets))[1].statistics.total_assigned_jobs == 0


async def test_an_empty_answer_of_the_queue_is_no_message(stage: Stage, sets: ScaleSets):
    _, session = await stage.session(sets)
    stage.github.behaviour.empty_polls = True
    assert await sets.poll(session, after=0, capacity=1) is None


@pytest.mark.parametrize("assembly", ["", ", GitHub.Actions.Runtime.WebApi"])
async def test_a_session_that_has_expired_is_gone_in_whatever_way_github_names_that(
    stage: Stage, sets: ScaleSets, assembly: str
):
    number, session = await stage.session(sets)
    kind = f"GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionExpiredException{assembly}"

    def expired(_request: httpx2.Request, _answer: httpx2.Response) -> httpx2.Response:
        return httpx2.Response(400, json={"typeName": kind, "message": "The session identifier is not valid."})

    for method in ("GET", "PATCH", "DELETE"):
        stage.wire.changes[method, session.session_id] = expired
    await sets.close_session(stage.place, number, session.session_id)
    with pytest.raises(NotFound):
        await sets.renew_session(stage.place, number, session.session_id)
    with pytest.raises(NotFound):
        await sets.poll(session, after=0, capacity=1)


async def test_a_name_that_is_taken_is_a_conflict(stage: Stage, sets: ScaleSets):
    await stage.session(sets)
    with pytest.raises(Conflict):
        await sets.create(stage.place, name="macos-26", group_id=1, labels=["macos-26"])
