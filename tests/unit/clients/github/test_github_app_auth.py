"""The App's JWT, and installation tokens: fetched once, kept, replaced in time and after a 401."""

import asyncio
import random
from datetime import timedelta

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from doubles.clocks import SteppedClock
from doubles.scripted_github import (
    INSTALLATION,
    JOB,
    MINTED,
    REPOSITORY,
    TOKEN,
    ScriptedGitHub,
    app_key,
    minted,
    ok,
    refused,
    until,
)

from paddock.clients.github import (
    BudgetSpent,
    Forbidden,
    GitHubClient,
    GitHubError,
    RateLimited,
    Unauthenticated,
    Unavailable,
)
from paddock.simulator.github import SimulatedGitHub


async def job(client: GitHubClient, installation_id: int = INSTALLATION):
    return await client.job(installation_id, REPOSITORY, 5)


async def test_the_app_signs_for_ten_minutes_from_a_minute_ago(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [ok(JOB)]
    await job(github.client())
    scheme, _, token = github.grants[0].headers["Authorization"].partition(" ")
    assert scheme == "Bearer"
    public = load_pem_private_key(app_key().encode(), None).public_key()
    claims = jwt.decode(token, public, algorithms=["RS256"], options={"verify_exp": False, "verify_iat": False})  # pyright: ignore[reportArgumentType] - an RSA key
    now = int(clock.now().timestamp())
    assert claims == {"iss": "12345", "iat": now - 60, "exp": now + 540}


async def test_a_token_is_used_until_shortly_before_its_end(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [ok(JOB)]
    client = github.client()
    await job(client)
    clock.step(54 * 60)
    await job(client)
    assert len(github.grants) == 1
    clock.step(90)
    await job(client)
    assert len(github.grants) == 2
    assert github.credentials == [f"Bearer {TOKEN}-1"] * 2 + [f"Bearer {TOKEN}-2"]


async def test_a_token_that_lives_for_minutes_is_used_for_half_of_them(github: ScriptedGitHub, clock: SteppedClock):
    github.token_life = timedelta(minutes=4)
    github.script = [ok(JOB)]
    client = github.client()
    await job(client)
    clock.step(110)
    await job(client)
    assert len(github.grants) == 1
    clock.step(20)
    await job(client)
    assert len(github.grants) == 2


async def test_installations_have_tokens_of_their_own(github: ScriptedGitHub):
    github.script = [ok(JOB)]
    client = github.client()
    await job(client, 1)
    await job(client, 2)
    assert [request.url.path for request in github.grants] == [
        "/app/installations/1/access_tokens",
        "/app/installations/2/access_tokens",
    ]


async def test_many_calls_at_once_ask_for_one_token(github: ScriptedGitHub):
    github.script = [ok(JOB)]
    github.gate = asyncio.Event()
    client = github.client()
    calls = [asyncio.create_task(job(client)) for _ in range(30)]
    await until(lambda: bool(github.grants))
    calls[0].cancel()  # whoever asked first and gave up takes nothing from the others
    github.gate.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert all(getattr(result, "job_id", 0) == 5 for result in results[1:])
    assert len(github.grants) == 1


async def test_those_who_wait_for_one_token_share_its_failure(github: ScriptedGitHub):
    github.script = [ok(JOB)]
    github.gate = asyncio.Event()
    github.token_script = [refused(403, "This installation has been suspended")]
    client = github.client()
    calls = [asyncio.create_task(job(client)) for _ in range(5)]
    await until(lambda: bool(github.grants))
    github.gate.set()
    assert [type(result) for result in await asyncio.gather(*calls, return_exceptions=True)] == [Forbidden] * 5
    assert len(github.grants) == 1
    assert (await job(client)).job_id == 5  # a failure is not kept


async def test_a_token_that_was_withdrawn_is_replaced_once_and_the_mint_goes_through(github: ScriptedGitHub):
    github.script = [ok(JOB), refused(401, "Bad credentials"), ok(MINTED, 201)]
    client = github.client()
    await job(client)
    assert (await minted(client)).runner_id == 9
    assert github.credentials == [f"Bearer {TOKEN}-1"] * 2 + [f"Bearer {TOKEN}-2"]


async def test_many_calls_with_a_withdrawn_token_ask_for_one_new_one(github: ScriptedGitHub):
    def answer(request: httpx2.Request) -> httpx2.Response:
        return refused(401) if request.headers["Authorization"].endswith("-1") else ok(JOB)

    github.script = [answer]
    client = github.client()
    await asyncio.gather(*(job(client) for _ in range(20)))
    assert len(github.grants) == 2


async def test_a_403_lets_a_token_of_some_age_go_because_permissions_may_have_been_granted_since(
    github: ScriptedGitHub, clock: SteppedClock
):
    github.script = [ok(JOB), refused(403), refused(403), ok(JOB)]
    client = github.client()
    await job(client)
    clock.step(300)
    with pytest.raises(Forbidden):
        await job(client)
    with pytest.raises(Forbidden):
        await job(client)
    await job(client)
    assert len(github.grants) == 2  # the new one was not replaced in turn


async def test_an_installation_that_is_gone_is_no_proof_that_a_job_is(github: ScriptedGitHub):
    github.script = [ok(JOB)]
    github.token_script = [refused(404, "Not Found")] * 3
    for call in (job, minted):
        with pytest.raises(Unauthenticated, match="not installed as 77"):
            await call(github.client())
    assert github.requests == []


async def test_a_key_that_github_does_not_take_is_unauthenticated(github: ScriptedGitHub):
    github.token_script = [refused(401, "A JSON web token could not be decoded")] * 2
    with pytest.raises(Unauthenticated, match="could not be decoded"):
        await minted(github.client())
    assert len(github.grants) == 2


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(502), Unavailable),
        (httpx2.ReadError("reset"), Unavailable),
        (refused(403, "wait", retry_after="50"), RateLimited),
        (ok({"token": 3}), Unavailable),
    ],
)
async def test_a_mint_without_a_token_was_not_sent(
    github: ScriptedGitHub, answer: httpx2.Response | Exception, kind: type[GitHubError]
):
    github.token_script = [answer]
    with pytest.raises(kind) as raised:
        await minted(github.client(), scope="repository")  # without a question about groups, which would be asked again
    assert not getattr(raised.value, "effect_unknown", False)
    assert github.requests == []


async def test_a_read_survives_a_token_that_failed_once(github: ScriptedGitHub):
    github.script = [ok(JOB)]
    github.token_script = [refused(502)]
    assert (await job(github.client())).job_id == 5


async def test_the_app_is_left_alone_as_long_as_github_asks_for(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [ok(JOB)]
    github.token_script = [refused(429, "wait", retry_after="50")]
    client = github.client()
    with pytest.raises(RateLimited):
        await job(client)
    with pytest.raises(BudgetSpent):
        await job(client)
    assert len(github.grants) == 1
    clock.step(51)
    await job(client)


async def test_closing_ends_a_request_for_a_token(github: ScriptedGitHub):
    github.gate = asyncio.Event()
    async with github.client() as client:
        call = asyncio.create_task(job(client))
        await until(lambda: bool(github.grants))
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_clock_that_is_off_is_corrected_by_githubs_own(clock: SteppedClock):
    """An hour ahead: the JWT is from the future, GitHub refuses it, and the next one is signed by GitHub's clock."""
    behind = SteppedClock(clock.now() - timedelta(hours=1))
    github = SimulatedGitHub(behind, random.Random(3))
    account = github.add_organization("acme", "app")
    async with GitHubClient(github.settings(), clock, random.Random(4), github.transport()) as client:
        assert [each.login for each in await client.installations()] == ["acme"]
        assert await client.waiting_jobs(account.installation_id, "acme/app") == []
