"""gidgethub, written against the real GitHub, finds the same API here: auth, paging, refusals, signatures."""

import asyncio
from collections.abc import AsyncIterator

import gidgethub
import httpx2
import pytest
from gidgethub import apps, sansio
from gidgethub.httpx import GitHubAPI
from unit.simulator.github.rig import LABELS, Receiver

from paddock.simulator.github import Fault, FaultKind, SimulatedGitHub

MINT = "/orgs/acme/actions/runners/generate-jitconfig"


def wish(name: str, **fields: object) -> dict[str, object]:
    return {"name": name, "runner_group_id": 1, "labels": LABELS, "work_folder": "_work", **fields}


@pytest.fixture
async def gh(api_url: str) -> AsyncIterator[GitHubAPI]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield GitHubAPI(client, "conformance", base_url=api_url)


@pytest.fixture
async def token(gh: GitHubAPI, github: SimulatedGitHub) -> str:
    granted = await apps.get_installation_access_token(
        gh,
        installation_id=str(github.account("acme").installation_id),
        app_id=github.app_id,
        private_key=github.private_key.reveal(),
    )
    return granted["token"]


def app_jwt(github: SimulatedGitHub) -> str:
    return apps.get_jwt(app_id=github.app_id, private_key=github.private_key.reveal())


async def test_its_jwt_is_accepted_and_a_wrong_app_is_not(gh: GitHubAPI, github: SimulatedGitHub):
    logins = [entry["account"]["login"] async for entry in gh.getiter("/app/installations", jwt=app_jwt(github))]
    assert logins == ["acme", "bob"]
    wrong = apps.get_jwt(app_id="1", private_key=github.private_key.reveal())
    with pytest.raises(gidgethub.BadRequest, match="Integration not found"):
        await gh.getitem("/app", jwt=wrong)


async def test_its_installation_token_works_where_it_should(gh: GitHubAPI, token: str):
    minted = await gh.post(MINT, data=wish("mac-1"), oauth_token=token)
    assert minted["runner"]["name"] == "mac-1"
    with pytest.raises(gidgethub.BadRequest) as raised:
        await gh.getitem("/repos/bob/toy/actions/runs", oauth_token=token)
    assert raised.value.status_code == 404
    with pytest.raises(gidgethub.BadRequest) as raised:
        await gh.getitem("/repos/acme/app/actions/runs", oauth_token="ghs_wrong")
    assert raised.value.status_code == 401


async def test_its_iterator_walks_all_pages(gh: GitHubAPI, token: str):
    names = [f"mac-{number}" for number in range(65)]
    for name in names:
        await gh.post(MINT, data=wish(name), oauth_token=token)
    runners = gh.getiter("/orgs/acme/actions/runners", oauth_token=token, iterable_key="runners")
    assert [runner["name"] async for runner in runners] == names


async def test_its_iterator_walks_the_delivery_log(gh: GitHubAPI, github: SimulatedGitHub, receiver: Receiver):
    for _ in range(7):
        github.submit("acme/app", labels=LABELS)
    async with asyncio.timeout(10):
        while len(github.state.attempts) < 7:
            await asyncio.sleep(0.01)
    log = gh.getiter("/app/hook/deliveries?per_page=3", jwt=app_jwt(github))
    ids = [entry["id"] async for entry in log]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 7


async def test_its_validation_accepts_every_webhook(github: SimulatedGitHub, receiver: Receiver):
    github.submit("acme/app", labels=LABELS, name="test-ios")
    async with asyncio.timeout(10):
        while not receiver.received:
            await asyncio.sleep(0.01)
    headers, body = receiver.received[0]
    event = sansio.Event.from_http(headers, body, secret=github.webhook_secret.reveal())
    assert event.event == "workflow_job"
    assert event.data["workflow_job"]["name"] == "test-ios"
    with pytest.raises(gidgethub.ValidationFailure):
        sansio.Event.from_http(headers, body + b" ", secret=github.webhook_secret.reveal())


async def test_its_errors_tell_the_refusals_apart(gh: GitHubAPI, github: SimulatedGitHub, token: str):
    await gh.post(MINT, data=wish("mac-1"), oauth_token=token)
    assert gh.rate_limit is not None
    assert (gh.rate_limit.limit, gh.rate_limit.remaining) == (10_000, 9_999)
    with pytest.raises(gidgethub.BadRequest) as taken:
        await gh.post(MINT, data=wish("mac-1"), oauth_token=token)
    assert taken.value.status_code == 409
    with pytest.raises(gidgethub.InvalidField, match="name"):
        await gh.post(MINT, data=wish("x" * 65), oauth_token=token)
    github.inject(Fault(kind=FaultKind.PRIMARY_LIMIT))
    with pytest.raises(gidgethub.RateLimitExceeded):
        await gh.getitem("/orgs/acme/actions/runners", oauth_token=token)
    github.inject(Fault(kind=FaultKind.BAD_GATEWAY))
    with pytest.raises(gidgethub.GitHubBroken):
        await gh.getitem("/orgs/acme/actions/runners", oauth_token=token)


async def test_a_connection_breaks_after_the_effect(gh: GitHubAPI, github: SimulatedGitHub, token: str):
    github.inject(Fault(kind=FaultKind.LOST, operations=("mint",), after_effect=True))
    with pytest.raises(httpx2.TransportError):
        await gh.post(MINT, data=wish("mac-1"), oauth_token=token)
    assert [runner.name for runner in github.runners()] == ["mac-1"]
