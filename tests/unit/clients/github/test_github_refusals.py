"""Each shape of a failed call, through the client: what is raised, how often it was sent, what is known after it."""

from datetime import timedelta
from email.utils import format_datetime

import httpx2
import pytest
from doubles.clocks import SteppedClock
from doubles.scripted_github import (
    INSTALLATION,
    JOB,
    REPOSITORY,
    Reply,
    ScriptedGitHub,
    SilentGitHub,
    limits,
    minted,
    ok,
    refused,
)

from paddock.clients.github import (
    Conflict,
    Forbidden,
    GitHubError,
    Invalid,
    NotFound,
    RateLimited,
    RunnerPlace,
    Unauthenticated,
    Unavailable,
)

HTML = httpx2.Response(502, text="<html><h1>Unicorn!</h1></html>")


async def asked_for_a_job(github: ScriptedGitHub, **changes: float):
    return await github.client(**changes).job(INSTALLATION, REPOSITORY, 5)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, NotFound),
        (418, GitHubError),
        (422, Invalid),
    ],
)
async def test_a_refusal_is_its_own_class_and_is_not_repeated(
    github: ScriptedGitHub, status: int, kind: type[GitHubError]
):
    github.script = [refused(status, "Resource not accessible by integration")]
    with pytest.raises(GitHubError, match="not accessible") as raised:
        await asked_for_a_job(github)
    assert type(raised.value) is kind
    assert raised.value.status == status
    assert len(github.requests) == 1


async def test_a_401_that_stays_is_unauthenticated_after_one_new_token(github: ScriptedGitHub):
    github.script = [refused(401, "Bad credentials")]
    with pytest.raises(Unauthenticated):
        await asked_for_a_job(github)
    assert len(github.requests) == 2
    assert len(github.grants) == 2


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (refused(429, "too many"), 60),
        (refused(429, "too many", retry_after="30"), 30),
        (httpx2.Response(429, text="<html>slow down</html>"), 60),
        (refused(403, "wait", retry_after="90"), 90),
        (refused(403, "You have exceeded a secondary rate limit."), 60),
        (refused(403, "API rate limit exceeded", x_ratelimit_remaining="0"), 60),
        (refused(429, "too many", retry_after="999999999"), 3600),
        (refused(429, "too many", retry_after="soon"), 60),
    ],
)
async def test_every_shape_of_too_many_is_rate_limited(github: ScriptedGitHub, answer: httpx2.Response, seconds: float):
    github.script = [answer]
    with pytest.raises(RateLimited) as raised:
        await asked_for_a_job(github)
    assert raised.value.retry_after == seconds
    assert raised.value.status == answer.status_code
    assert len(github.requests) == 1


async def test_the_documentation_link_alone_tells_a_secondary_limit(github: ScriptedGitHub):
    link = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
    github.script = [httpx2.Response(403, json={"message": "Slow down.", "documentation_url": link})]
    with pytest.raises(RateLimited):
        await asked_for_a_job(github)


async def test_a_spent_hour_says_when_it_is_over_by_githubs_own_clock(github: ScriptedGitHub, clock: SteppedClock):
    headers = limits(clock, 0, reset_in=1200)
    clock.step(500)  # our clock is ahead, GitHub's Date is not
    github.script = [httpx2.Response(403, json={"message": "API rate limit exceeded"}, headers=headers)]
    with pytest.raises(RateLimited) as raised:
        await asked_for_a_job(github)
    assert raised.value.retry_after == 1200


async def test_a_retry_after_may_be_a_date(github: ScriptedGitHub, clock: SteppedClock):
    later = format_datetime(clock.now() + timedelta(seconds=45), usegmt=True)
    github.script = [refused(429, "too many", retry_after=later)]
    with pytest.raises(RateLimited) as raised:
        await asked_for_a_job(github)
    assert raised.value.retry_after == 45


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422])
async def test_a_refusal_that_is_not_githubs_proves_nothing(github: ScriptedGitHub, status: int):
    github.script = [httpx2.Response(status, text="<html>your proxy</html>")]
    with pytest.raises(Unavailable, match="your proxy"):
        await asked_for_a_job(github)


@pytest.mark.parametrize(
    "failure",
    [
        refused(500),
        HTML,
        httpx2.Response(503),
        ok({"message": "rate"}, status=408),
        refused(429, "a moment", retry_after="1"),
        httpx2.ReadError("reset"),
        httpx2.ConnectError("refused"),
        httpx2.ReadTimeout("slow"),
        httpx2.RemoteProtocolError("broken"),
        httpx2.DecodingError("not gzip"),
    ],
    ids=repr,
)
async def test_a_read_is_repeated_after_what_may_pass(
    github: ScriptedGitHub, clock: SteppedClock, failure: httpx2.Response | Exception
):
    github.script = [failure, failure, ok(JOB)]
    job = await asked_for_a_job(github)
    assert job.job_id == 5
    assert len(github.requests) == 3
    assert clock.monotonic() < 15


@pytest.mark.parametrize(
    "body", ["<html>a captive portal</html>", '{"id": 5}', '{"id": 5, "status": "dreaming"}', "[]"]
)
async def test_a_success_that_cannot_be_used_is_unavailable(github: ScriptedGitHub, body: str):
    github.script = [httpx2.Response(200, text=body)]
    with pytest.raises(Unavailable) as raised:
        await asked_for_a_job(github)
    assert not raised.value.effect_unknown


async def test_a_read_gives_up_after_its_attempts(github: ScriptedGitHub):
    github.script = [HTML]
    with pytest.raises(Unavailable, match="Unicorn") as raised:
        await asked_for_a_job(github)
    assert not raised.value.effect_unknown
    assert len(github.requests) == 4


async def test_a_read_gives_up_before_its_deadline(github: ScriptedGitHub, clock: SteppedClock):
    started: list[float] = []

    def slow(_: httpx2.Request) -> httpx2.Response:
        started.append(clock.monotonic())
        clock.step(2)
        return HTML

    github.script = [slow]
    with pytest.raises(Unavailable):
        await asked_for_a_job(github, read_attempts=50)
    assert len(started) > 3
    assert started[-1] < 15


async def test_a_request_without_an_answer_ends_by_its_timeout(clock: SteppedClock):
    with pytest.raises(Unavailable, match="no answer in time") as raised:
        await minted(SilentGitHub(clock).client(request_timeout=0.02))
    assert raised.value.effect_unknown


@pytest.mark.parametrize(
    ("failure", "effect_unknown"),
    [
        (HTML, True),
        (refused(500), True),
        (httpx2.Response(404, text="<html>your proxy</html>"), True),
        (httpx2.Response(201, text="<html>"), True),
        (httpx2.Response(201, json={"runner": {"id": 9}}), True),
        (httpx2.Response(201, json={"runner": {"id": 9}, "encoded_jit_config": ""}), True),
        (httpx2.ReadError("reset"), True),
        (httpx2.ReadTimeout("slow"), True),
        (httpx2.WriteError("broken pipe"), True),
        (httpx2.RemoteProtocolError("closed"), True),
        (httpx2.ConnectError("refused"), False),
        (httpx2.ConnectTimeout("slow"), False),
        (httpx2.PoolTimeout("busy"), False),
    ],
    ids=repr,
)
async def test_a_mint_is_sent_once_and_says_whether_it_may_have_happened(
    github: ScriptedGitHub, failure: Reply, effect_unknown: bool
):
    github.script = [failure]
    with pytest.raises(Unavailable) as raised:
        await minted(github.client())
    assert raised.value.effect_unknown is effect_unknown
    assert len(github.requests) == 1


async def test_a_lost_answer_to_a_removal_leaves_its_effect_unknown(github: ScriptedGitHub):
    github.script = [httpx2.ReadError("reset")]
    with pytest.raises(Unavailable) as raised:
        await github.client().remove_runner(RunnerPlace(INSTALLATION, "acme"), 9)
    assert raised.value.effect_unknown
    assert len(github.requests) == 1


async def test_a_renamed_repository_is_followed_within_the_api_only(github: ScriptedGitHub):
    moved = httpx2.Response(301, headers={"Location": "http://127.0.0.1:1/repositories/8/actions/jobs/5"})
    github.script = [moved, ok(JOB)]
    assert (await asked_for_a_job(github)).job_id == 5
    assert github.asked[1] == "GET /repositories/8/actions/jobs/5"

    github.requests.clear()
    github.script = [httpx2.Response(301, headers={"Location": "http://elsewhere.example/jobs/5"})]
    with pytest.raises(Unavailable):
        await asked_for_a_job(github)
    assert {request.url.host for request in github.requests} == {"127.0.0.1"}


async def test_redirects_in_a_circle_end(github: ScriptedGitHub):
    github.script = [httpx2.Response(307, headers={"Location": "/round/and/round"})]
    with pytest.raises(Unavailable):
        await minted(github.client())
    assert len(github.requests) == 3
