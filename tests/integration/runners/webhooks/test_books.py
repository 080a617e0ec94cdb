"""What the pool controller asks of the ledger: directly, and over the internal HTTP interface, with the same answers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import httpx2
import pytest
import pytest_asyncio
from integration.runners.ledger.rig import Bench, job, pod
from starlette.applications import Starlette

from paddock.base.secrets import Secret
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.identity import NotAllowed, PodIdentity, Principal, Unauthenticated, Unreachable
from paddock.runners.http.internal import LARGEST_RETIREMENT, internal_routes
from paddock.runners.http.retirement_client import HttpRetirementApi
from paddock.runners.ledger import GivenUp, Outcome, Pod
from paddock.runners.pools.retirement import LedgerRetirementApi, RetirementApi, RetirementUnavailableError
from paddock.simulator.transport import InProcessTransport

SETTINGS = DispatchSettings()
OPERATOR = SETTINGS.controller


class StubIdentity:
    """Tokens by name; `pod-N` is a token for our audience that is bound to a Pod."""

    def __init__(self) -> None:
        self.away = False

    async def principal(self, token: Secret, audience: str) -> Principal:
        if self.away:
            raise Unreachable("the API server does not answer")
        name = token.reveal()
        if name.startswith("pod-"):
            if audience != SETTINGS.audience:
                raise Unauthenticated("not for controllers")
            return Principal(f"system:serviceaccount:default:{name}", name, f"uid-{name[4:]}")
        known = {
            "operator": OPERATOR,
            "somebody": "system:serviceaccount:kube-system:x",
            "person": "alice",
            "half": "system:serviceaccount:default",
        }
        if name not in known or audience != SETTINGS.operator_audience:
            raise NotAllowed("unknown")
        return Principal(known[name])

    async def waiting(self, token: Secret) -> PodIdentity:
        if self.away:
            raise Unreachable("the API server does not answer")
        name = token.reveal()
        if not name.startswith("pod-"):
            raise NotAllowed("the token is bound to no Pod")
        return PodIdentity("default", name, f"uid-{name[4:]}", "mac")


class Office:
    """The retirement API over the ledger, behind its HTTP interface."""

    def __init__(self, bench: Bench) -> None:
        self.checks: list[tuple[Sequence[int], str]] = []
        self.marks: list[tuple[str, str]] = []
        self.direct = LedgerRetirementApi(bench.ledger, bench.clock, recheck=self._recheck)
        self.identity = StubIdentity()
        app = Starlette(
            routes=internal_routes(
                self.direct, self.identity, self._progress, bench.ledger.runner_logs.append, SETTINGS
            ).all
        )
        self.transport = InProcessTransport(app)
        self.client = httpx2.AsyncClient(transport=self.transport, base_url="http://dispatch/api/internal/runners")

    def over_http(self, token: str = "operator") -> HttpRetirementApi:
        identity = FixedIdentity(Identity(Secret(token)))
        return HttpRetirementApi("http://dispatch", identity, transport=self.transport)

    async def post(self, path: str, body: object, token: str | None = "operator") -> httpx2.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await self.client.post(path, json=body, headers=headers)

    async def checked(self) -> None:
        """Until the checks that were begun are over."""
        await asyncio.gather(*self.direct._checks)

    async def _recheck(self, job_ids: Sequence[int], pod_uid: str) -> None:
        self.checks.append((list(job_ids), pod_uid))

    async def _progress(self, pod_uid: str, mark: str) -> None:
        self.marks.append((pod_uid, mark))


@pytest_asyncio.fixture
async def office(bench: Bench) -> Office:
    return Office(bench)


@pytest_asyncio.fixture(params=["direct", "http"])
async def retirement(office: Office, request: pytest.FixtureRequest) -> AsyncIterator[RetirementApi]:
    if request.param == "direct":
        yield office.direct
    else:
        over_http = office.over_http()
        yield over_http
        await over_http.close()


async def test_an_idle_pod_is_retired_and_wins_no_claim_any_more(bench: Bench, retirement: RetirementApi):
    await bench.accounts(1)
    await bench.queue(job(7))
    assert await retirement.retire([pod(1), pod(2)], why="scale down") == {"uid-1", "uid-2"}
    assert await retirement.retire([pod(1)], why="scale down") == {"uid-1"}
    assert (await bench.claim(1)).outcome is Outcome.POD_FENCED
    assert (await bench.claim(3)).won


async def test_a_pod_that_holds_a_claim_or_was_handed_a_runner_is_not_retired(bench: Bench, retirement: RetirementApi):
    await bench.accounts(1, 2)
    await bench.queue(job(7), job(8, 2))
    await bench.claimed("claimed")
    await bench.running("running")
    assert await retirement.retire([pod("claimed"), pod("running"), pod("idle")], why="scale down") == {"uid-idle"}


async def test_who_works_is_told_by_claims_and_open_sessions(bench: Bench, retirement: RetirementApi):
    await bench.accounts(1, 2)
    await bench.queue(job(7), job(8, 2))
    await bench.claimed("claimed")
    await bench.running("running")
    await retirement.retire([pod("fenced")], why="scale down")
    asked = ["uid-claimed", "uid-running", "uid-fenced", "uid-idle"]
    said = await retirement.at_work(asked)
    assert set(said) == {"uid-claimed", "uid-running"}
    assert all(said.values())
    await retirement.stopped(pod("running"), bench.clock.now(), why="ended")
    assert set(await retirement.at_work(asked)) == {"uid-claimed"}
    assert await retirement.at_work([]) == {}


async def test_only_the_operator_may_ask_who_works(office: Office):
    assert (await office.post("/pods/at-work", {"pod_uids": ["uid-1"]}, token="somebody")).status_code == 401


async def test_a_pod_that_tears_down_after_its_job_is_retired_only_when_it_ended(
    bench: Bench, retirement: RetirementApi
):
    await bench.accounts(1)
    await bench.queue(job(7))
    await bench.running(1)
    await bench.completed(job(7), 1)
    assert await bench.ledger.claims.of_pod("uid-1") is None
    assert await retirement.retire([pod(1)], why="scale down") == frozenset()
    assert await bench.ledger.fences.of_pod("uid-1") is None
    await retirement.stopped(pod(1), bench.clock.now(), why="ended")
    assert await retirement.retire([pod(1)], why="scale down") == {"uid-1"}


async def test_a_pod_whose_job_came_and_went_while_it_was_fenced_is_not_retired(
    bench: Bench, retirement: RetirementApi, monkeypatch: pytest.MonkeyPatch
):
    await bench.accounts(1)
    await bench.queue(job(7))
    raise_fence = bench.ledger.fences.raise_fence

    async def late(one: Pod, *, by: str, why: str):
        # Between the first look at its session and the fence the Pod is served, and GitHub is done with the job.
        await bench.running(1)
        await bench.completed(job(7), 1)
        return await raise_fence(one, by=by, why=why)

    monkeypatch.setattr(bench.ledger.fences, "raise_fence", late)
    assert await retirement.retire([pod(1)], why="scale down") == frozenset()
    assert await bench.ledger.fences.of_pod("uid-1") is None


async def test_claiming_and_retiring_the_same_pods_at_once_never_gives_both(bench: Bench, retirement: RetirementApi):
    await bench.accounts(1, vcpus=600, memory_mb=10_000_000)
    await bench.queue(*(job(n) for n in range(1, 21)))
    pods = [pod(n) for n in range(20)]
    retired, claims = await asyncio.gather(
        retirement.retire(pods, why="scale down"),
        asyncio.gather(*(bench.ledger.claims.claim("mac-m4", one) for one in pods)),
    )
    won = {claim.pod_uid for claim in claims if claim.won}
    assert not won & retired
    assert len(won | retired) == 20


async def test_a_stopped_pod_ends_its_session_and_claim_and_its_jobs_are_handed_over(
    bench: Bench, retirement: RetirementApi, office: Office
):
    await bench.accounts(1)
    await bench.queue(job(7), job(8))
    await bench.running(1)
    await bench.running(2)
    ended = bench.clock.now() + timedelta(seconds=30)
    bench.clock.advance(60)
    for _ in range(2):
        await retirement.stopped(pod(1), ended, why="exit 137")
    session = await bench.ledger.sessions.of_pod("uid-1")
    assert session is not None
    assert (session.ended_at, session.end_reason) == (ended, "exit 137")
    assert await bench.ledger.claims.of_pod("uid-1") is None
    assert await bench.ledger.claims.of_pod("uid-2") is not None
    await office.checked()
    assert office.checks == [([7], "uid-1")] * 2


async def test_the_jobs_of_a_stopped_pod_are_handed_over_although_its_claim_is_gone_already(
    bench: Bench, retirement: RetirementApi, office: Office
):
    await bench.accounts(1)
    await bench.queue(job(7))
    await bench.running(1)
    await bench.ledger.recovery.pod_stopped("uid-1", bench.clock.now(), by="test", why="half done")
    await retirement.stopped(pod(1), bench.clock.now(), why="ended")
    await office.checked()
    assert office.checks == [([7], "uid-1")]


async def test_a_job_that_was_never_minted_waits_again_when_its_pod_stops(
    bench: Bench, retirement: RetirementApi, office: Office
):
    await bench.accounts(1)
    await bench.queue(job(7))
    await bench.claimed(1)
    await retirement.stopped(pod(1), bench.clock.now(), why="evicted")
    assert await bench.status(7) == "queued"
    await office.checked()
    assert office.checks == []


async def test_an_end_in_the_future_is_now_and_a_pod_nobody_heard_of_is_no_error(
    bench: Bench, retirement: RetirementApi
):
    await bench.accounts(1)
    await bench.queue(job(7))
    await bench.running(1)
    await retirement.stopped(pod(1), bench.clock.now() + timedelta(days=1), why="its clock is wrong")
    session = await bench.ledger.sessions.of_pod("uid-1")
    assert session is not None
    assert session.ended_at == bench.clock.now()
    await retirement.stopped(pod("never seen"), bench.clock.now(), why="ended")


async def test_the_fence_of_a_retired_pod_falls_when_it_is_reported_gone(bench: Bench, retirement: RetirementApi):
    assert await retirement.retire([pod(1)], why="scale down") == {"uid-1"}
    await retirement.stopped(pod(1), bench.clock.now(), why="gone")
    assert await bench.ledger.fences.standing() == []


async def test_a_check_at_github_does_not_hold_up_the_report(bench: Bench):
    begun = asyncio.Event()

    async def slow(job_ids: Sequence[int], pod_uid: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    await bench.accounts(1)
    await bench.queue(job(7))
    await bench.running(1)
    retirement = LedgerRetirementApi(bench.ledger, bench.clock, recheck=slow)
    async with asyncio.timeout(3):
        await retirement.stopped(pod(1), bench.clock.now(), why="ended")
        await begun.wait()
        await retirement.close()


async def test_a_check_that_fails_does_not_lose_the_report(bench: Bench):
    async def refuse(job_ids: Sequence[int], pod_uid: str) -> None:
        raise RuntimeError("no room")

    await bench.accounts(1)
    await bench.queue(job(7))
    await bench.running(1)
    retirement = LedgerRetirementApi(bench.ledger, bench.clock, recheck=refuse)
    await retirement.stopped(pod(1), bench.clock.now(), why="ended")
    await asyncio.gather(*retirement._checks)
    session = await bench.ledger.sessions.of_pod("uid-1")
    assert session is not None
    assert session.ended_at is not None


async def test_the_load_of_a_pool_is_told_and_zeros_for_one_nobody_knows(
    bench: Bench, retirement: RetirementApi, office: Office
):
    await bench.accounts(1)
    await bench.queue(job(7), job(8), job(9))
    await bench.claimed(1)
    load = await retirement.signals("mac-m4")
    assert (load.pool, load.claimed, load.queued, load.withheld) == ("mac-m4", 1, 1, 1)
    assert load == await office.direct.signals("mac-m4")
    assert (await retirement.signals("nobody")).claimed == 0


def _given_up(bench: Bench, number: int) -> GivenUp:
    return GivenUp(
        key=f"uid-{number}",
        at=bench.clock.now(),
        path="force",
        pod_uid=f"uid-{number}",
        pod_name=f"runner-{number}",
        account="acme",
        machine="blue-1",
        why="machine default/blue-1 was deleted, and the annotation tuist.dev/force is set",
    )


async def test_jobs_that_the_operator_ended_are_written_down_once(bench: Bench, retirement: RetirementApi):
    ended = [_given_up(bench, number) for number in range(LARGEST_RETIREMENT + 3)]
    await retirement.killed(ended)
    await retirement.killed(ended[:2])
    rows = await bench.ledger.kills.newest(1000)
    assert {row.kill_key for row in rows} == {one.key for one in ended}
    row = next(row for row in rows if row.kill_key == "uid-1")
    assert (row.path, row.pod_name, row.account, row.machine, row.why, row.at) == (
        "force",
        "runner-1",
        "acme",
        "blue-1",
        ended[1].why,
        ended[1].at,
    )


async def test_only_the_operator_tells_of_jobs_that_it_ended_and_of_no_other_way(bench: Bench, office: Office):
    told = {"key": "uid-1", "at": "2026-06-01T12:00:00Z", "path": "force", "why": "because"}
    for token in (None, "somebody", "person", "pod-1"):
        assert (await office.post("/pods/killed", {"jobs": [told]}, token)).status_code in (401, 403)
    wrong = await office.post("/pods/killed", {"jobs": [{**told, "path": "reap"}]})
    assert wrong.status_code == 400, "healing is dispatch's own"
    assert await bench.ledger.kills.newest() == []
    assert (await office.post("/pods/killed", {"jobs": [told]})).status_code == 204
    assert [row.kill_key for row in await bench.ledger.kills.newest()] == ["uid-1"]


async def test_while_the_database_is_away_nothing_is_known(bench: Bench, retirement: RetirementApi, monkeypatch):
    from paddock.runners.ledger import LedgerUnavailableError

    async def away(*_: object, **__: object) -> None:
        raise LedgerUnavailableError("the database went away")

    for part, name in (
        (bench.ledger.signals, "of_pool"),
        (bench.ledger.fences, "raise_fence"),
        (bench.ledger.recovery, "pod_stopped"),
        (bench.ledger.kills, "record"),
    ):
        monkeypatch.setattr(part, name, away)
    for ask in (
        retirement.signals("mac-m4"),
        retirement.retire([pod(1)], why="scale down"),
        retirement.stopped(pod(1), bench.clock.now(), why="ended"),
        retirement.killed([_given_up(bench, 1)]),
    ):
        with pytest.raises(RetirementUnavailableError):
            await ask


# The interface itself


async def test_only_the_operator_may_say_what_becomes_of_pods(bench: Bench, office: Office):
    await bench.accounts(1)
    await bench.queue(job(7))
    await bench.running(1)
    report = {"pod_uid": "uid-1", "pod_name": "runner-1", "ended_at": "2026-06-01T12:00:00Z"}
    retire = {"pods": [{"uid": "uid-2", "name": "runner-2"}]}
    for token in ("somebody", "person", "pod-1", "half", "made up", None):
        assert (await office.post("/pods/stopped", report, token)).status_code == 401
        assert (await office.post("/pods/retire", retire, token)).status_code == 401
    session = await bench.ledger.sessions.of_pod("uid-1")
    assert session is not None
    assert session.ended_at is None
    assert await bench.ledger.fences.standing() == []
    assert (await office.post("/pods/stopped", report)).status_code == 204


async def test_any_service_account_may_ask_for_the_load_and_nobody_else(office: Office):
    for token, status in (("operator", 200), ("somebody", 200), ("person", 401), ("half", 401), ("pod-1", 401)):
        response = await office.client.get(
            "/desired_replicas", params={"fleet": "mac-m4"}, headers={"Authorization": f"Bearer {token}"}
        )
        assert response.status_code == status, token
    response = await office.client.get("/desired_replicas", headers={"Authorization": "Bearer operator"})
    assert (response.status_code, response.json()["field"]) == (400, "fleet")
    assert set(
        (await office.client.get("/desired_replicas?fleet=x", headers={"Authorization": "Bearer operator"})).json()
    ) >= {
        "fleet",
        "claimed",
        "occupied",
        "queued",
        "withheld",
        "p95_concurrent_last_hour",
    }


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/pods/stopped", {"pod_uid": "u", "pod_name": "n", "ended_at": "yesterday"}, "ended_at"),
        ("/pods/stopped", {"pod_uid": "u", "pod_name": "n", "ended_at": "2026-06-01T12:00:00"}, "ended_at"),
        ("/pods/stopped", {"pod_name": "n", "ended_at": "2026-06-01T12:00:00Z"}, "pod_uid"),
        ("/pods/stopped", {"pod_uid": "", "pod_name": "n", "ended_at": "2026-06-01T12:00:00Z"}, "pod_uid"),
        ("/pods/stopped", {"pod_uid": "u\x00", "pod_name": "n", "ended_at": "2026-06-01T12:00:00Z"}, "pod_uid"),
        ("/pods/retire", {"pods": [{"uid": 7, "name": "n"}]}, "pods[0].uid"),
        ("/pods/retire", {"pods": [{"uid": "u"}]}, "pods[0].name"),
        ("/pods/retire", {"pods": [{"uid": "u", "name": "n"}] * 65}, "pods"),
        ("/pods/retire", {}, "pods"),
    ],
)
async def test_a_bad_field_is_named(office: Office, path: str, body: object, field: str):
    response = await office.post(path, body)
    assert (response.status_code, response.json()["field"]) == (400, field)


async def test_a_pod_tells_its_own_progress_and_nobody_elses(office: Office):
    assert (await office.post("/pods/progress", {"mark": 41, "pod_uid": "uid-9"}, "pod-1")).status_code == 204
    assert (await office.post("/pods/progress", {"mark": "step 2"}, "pod-2")).status_code == 204
    assert office.marks == [("uid-1", "41"), ("uid-2", "step 2")]
    assert (await office.post("/pods/progress", {"mark": "x"}, "operator")).status_code == 401
    for bad in ({"mark": None}, {"mark": True}, {"mark": "x" * 201}, {"mark": "\x00"}, {}):
        response = await office.post("/pods/progress", bad, "pod-1")
        assert (response.status_code, response.json()["field"]) == (400, "mark"), bad
    assert len(office.marks) == 2


async def test_a_pod_gives_its_own_log_and_nobody_elses(bench: Bench, office: Office):
    async def post(token: str, content: bytes, **query: str) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return await office.client.post("/pods/log", params=query, content=content, headers=headers)

    assert (await post("pod-1", b"one\n")).json() == {"next": 4}
    assert (await post("pod-1", b"two\n", **{"from": "4", "end": "true"})).json() == {"next": 8}
    log = await bench.ledger.runner_logs.read("uid-1")
    assert log is not None
    assert (b"".join(piece.content for piece in log.pieces), log.ended) == (b"one\ntwo\n", True)
    assert await bench.ledger.runner_logs.read("uid-2") is None
    assert (await post("operator", b"x")).status_code == 401
    assert (await post("pod-1", b"x" * 65_537)).status_code == 413
    for bad in ("-1", "x", "9" * 19):
        refused = await post("pod-1", b"x", **{"from": bad})
        assert (refused.status_code, refused.json()["field"]) == (400, "from")


async def test_when_tokens_cannot_be_verified_everybody_is_asked_to_come_again(bench: Bench, office: Office):
    office.identity.away = True
    response = await office.post("/pods/retire", {"pods": []})
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    with pytest.raises(RetirementUnavailableError):
        await office.over_http().signals("mac-m4")


async def test_a_refused_operator_learns_nothing_and_its_token_is_in_no_error(bench: Bench, office: Office):
    with pytest.raises(RetirementUnavailableError) as caught:
        await office.over_http("a token that is wrong").retire([pod(1)], why="scale down")
    assert "a token that is wrong" not in repr(caught.value) + str(caught.value.__cause__)


async def test_more_pods_than_fit_in_one_request_are_retired_in_several(bench: Bench, office: Office):
    pods = [pod(n) for n in range(150)]
    assert len(await office.over_http().retire(pods, why="scale down")) == 150


async def test_whatever_dispatch_answers_no_pod_is_retired_that_was_not_asked_about():
    def lie(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"retired": ["uid-1", "uid-2"]})

    retirement = HttpRetirementApi("http://dispatch", FixedIdentity(), transport=httpx2.MockTransport(lie))
    assert await retirement.retire([pod(1)], why="scale down") == {"uid-1"}


@pytest.mark.parametrize("status", [200, 302, 401, 404, 500, 503])
async def test_every_answer_but_the_right_one_means_that_nothing_is_known(status: int):
    retirement = HttpRetirementApi(
        "http://dispatch",
        FixedIdentity(),
        transport=httpx2.MockTransport(lambda _: httpx2.Response(status, text="<html>")),
    )
    with pytest.raises(RetirementUnavailableError):
        await retirement.signals("mac-m4")
    with pytest.raises(RetirementUnavailableError):
        await retirement.retire([pod(1)], why="scale down")


async def test_a_dispatch_process_that_is_down_means_that_nothing_is_known():
    def down(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    retirement = HttpRetirementApi("http://dispatch", FixedIdentity(), transport=httpx2.MockTransport(down))
    with pytest.raises(RetirementUnavailableError):
        await retirement.signals("mac-m4")
