"""The order in which a claim is served, what is written down when a step fails, and that nothing of it is from memory."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import jwt
import pytest
from doubles.clocks import ShiftedClock
from integration.runners.dispatch.effects import (
    Disturbance,
    DisturbedLedger,
    DisturbedTransport,
    Effects,
    disturbed_github,
)
from integration.runners.dispatch.rig import NAMESPACE, Cluster, Dispatcher, Rig, until
from integration.runners.dispatch.test_failing_to_serve import Broken, clean
from integration.runners.ledger.rig import ACME, job
from structlog.testing import capture_logs

from paddock.base.secrets import Secret
from paddock.clients.github import errors as github
from paddock.kube.builtin import ServiceAccount
from paddock.runners.api import ACCOUNT_LABEL, OWNER_LABEL
from paddock.runners.dispatch import Unauthenticated


async def watched(rig: Rig) -> tuple[Dispatcher, Effects]:
    """A process whose effects are written down, and nothing else is done to them."""
    effects = Effects("none of them", Disturbance.FAIL)
    dispatcher = await rig.dispatcher(
        ledger=DisturbedLedger(rig.ledger, effects),  # pyright: ignore[reportArgumentType] - the same, watched
        github=disturbed_github(rig.github, effects),
        client=rig.cluster.connect(DisturbedTransport(rig.cluster.transport, effects)),
    )
    return dispatcher, effects


def served(effects: Effects) -> list[str]:
    """What was done for a claim, from the last attempt to claim on."""
    claims = [place for place, name in enumerate(effects.seen) if name == "claim"]
    return [name for name in effects.seen[claims[-1] :] if name not in ("read", "beat", "of_pod", "register")]


async def test_the_claim_is_committed_before_the_stamp_the_stamp_before_the_mint_and_the_commit_before_the_label(
    rig: Rig,
):
    await rig.accounts(ACME)
    dispatcher, effects = await watched(rig)
    pod = await rig.cluster.pod(1)
    labels: dict[str, dict[str, str]] = {}
    claimed: list[str] = []

    async def looks() -> None:
        labels["at the mint"] = (await rig.cluster.seen(pod)).metadata.labels
        claimed.extend(held.state for held in await rig.ledger.claims.all())

    rig.github.before_mint = looks
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    await until(lambda: effects.seen[-1] == "label" or "label" in effects.seen)
    steps = served(effects)
    assert sorted(steps) == sorted(["claim", "review", "stamp", "mint", "commit", "label"])
    assert steps[0] == "claim"
    assert max(steps.index("stamp"), steps.index("review")) < steps.index("mint") < steps.index("commit")
    assert steps[-1] == "label"
    assert claimed == ["claimed"], "the claim was in the ledger before GitHub was asked for a runner"
    assert labels["at the mint"][OWNER_LABEL] == "org1"
    assert ACCOUNT_LABEL not in labels["at the mint"], "the account is named only after the commit"


async def test_a_mint_that_fails_is_undone_in_the_opposite_order(rig: Rig):
    """The label comes off while the claim still keeps every other claim from the Pod."""
    await rig.accounts(ACME)
    dispatcher, effects = await watched(rig)
    pod = await rig.cluster.pod(1)
    rig.github.mint_failures = [github.Invalid("labels")]
    held: list[int] = []
    inner = rig.cluster.transport.handle_async_request

    async def looks(request: httpx2.Request) -> httpx2.Response:
        if request.method == "PATCH" and "json-patch" in request.headers["content-type"]:
            held.append(len(await rig.ledger.claims.all()))
        return await inner(request)

    rig.cluster.transport.handle_async_request = looks  # pyright: ignore[reportAttributeAccessIssue]
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=1)).status_code == 204
    await until(lambda: clean(rig, pod))
    assert held == [1], "the claim still held the Pod when its label came off"
    done = [name for name in effects.seen if name in ("mint", "unstamp", "mint_failed", "commit", "label")]
    assert done == ["mint", "unstamp", "mint_failed"]


async def test_a_stamp_that_fails_is_warned_of_each_time_with_the_pods_name(rig: Rig):
    await rig.accounts(ACME)
    broken = Broken(rig.cluster, "PATCH", 3)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(broken)), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    with capture_logs() as written:
        assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    warned = [line for line in written if line["event"] == "a Pod could not be assigned"]
    assert [(line["log_level"], line["pod"], line["attempt"]) for line in warned] == [
        ("warning", pod.name, attempt) for attempt in (1, 2, 3)
    ]
    assert await rig.bench.status(1) == "running"


@pytest.mark.parametrize("login", ["x" * 64, "-acme-", "acme_corp_", "Ümlaut"])
async def test_an_owner_whose_name_is_no_label_is_stamped_by_number(rig: Rig, login: str):
    """Labels hold sixty-three characters of few kinds; a label that the server refuses would be no label at all."""
    await rig.accounts(ACME)
    await rig.ledger.accounts.enrol(ACME, login, installation_id=1001)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    answer = await dispatcher.ask(pod, wait=5)
    assert answer.status_code == 200
    assert answer.json()["owner"] == login
    assert (await rig.cluster.seen(pod)).metadata.labels[OWNER_LABEL] == f"account-{ACME}"


async def test_an_installation_that_is_removed_counts_from_the_very_next_job(rig: Rig):
    """Whether an account may run is never remembered by a dispatcher."""
    await rig.accounts(ACME, vcpus=60)
    dispatcher = await rig.dispatcher()
    pods = [await rig.cluster.pod(number) for number in range(3)]
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pods[0], wait=5)).status_code == 200
    await rig.ledger.accounts.enrol(ACME, "org1", installation_id=None)
    await rig.bench.queue(job(2))
    assert (await dispatcher.ask(pods[1], wait=1)).status_code == 204
    assert await rig.ledger.claims.of_pod(pods[1].uid) is None
    assert OWNER_LABEL not in (await rig.cluster.seen(pods[1])).metadata.labels
    assert len(rig.github.minted) == 1
    row = await rig.ledger.jobs.get(2)
    assert row is not None
    remedy = "install it there, or lift its suspension"
    assert (row.status, row.changed_why) == ("queued", f"the GitHub App is not installed for org1: {remedy}")
    await rig.ledger.accounts.enrol(ACME, "org1", installation_id=1001)
    rig.bench.clock.advance(3600)  # its rest is over
    assert (await dispatcher.ask(pods[2], wait=5)).status_code == 200


async def test_a_pod_whose_service_account_is_deleted_while_it_waits_wins_nothing(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    asking = dispatcher.asking(pod, wait=5)
    await dispatcher.waits(1)
    await rig.cluster.client.delete(ServiceAccount, pod.name, NAMESPACE)
    await rig.bench.queue(job(1))
    assert (await asking).status_code in (401, 403)
    assert await rig.bench.status(1) == "queued"
    assert rig.github.minted == []
    assert (await dispatcher.ask(pod, wait=0)).status_code in (401, 403), "and may not wait any more"


# What the API server says about a token


class Reviewing(httpx2.AsyncBaseTransport):
    """An API server whose reviews say what the test wants, whatever the token."""

    def __init__(self, cluster: Cluster, status: dict[str, Any] | int) -> None:
        self._inner = cluster.transport
        self._status = status

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if not request.url.path.endswith("/tokenreviews"):
            return await self._inner.handle_async_request(request)
        if isinstance(self._status, int):
            return httpx2.Response(self._status, json={"kind": "Status", "code": self._status, "message": "no"})
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": ""}}
        return httpx2.Response(201, json={**review, "metadata": {}, "status": self._status})


def review(pod: Any, **changed: Any) -> dict[str, Any]:
    """What a server says of the Pod's own token."""
    extra = {
        "authentication.kubernetes.io/pod-name": [pod.name],
        "authentication.kubernetes.io/pod-uid": [pod.uid],
    }
    user = {"username": f"system:serviceaccount:{NAMESPACE}:{pod.name}", "uid": "u", "extra": extra}
    return {"authenticated": True, "user": user, "audiences": ["tuist-runners-dispatch"], **changed}


@pytest.mark.parametrize(
    "changed",
    [
        {"authenticated": False},
        {"error": "token expired"},  # also beside a yes: an error is an error
        {"authenticated": False, "error": "bad"},
        {"audiences": []},
        {"audiences": ["https://kubernetes.default.svc"]},
        {"user": {"username": ""}},
        {"user": {"username": "system:node:mac-1"}},
        {"user": {"username": "alice"}},
    ],
    ids=["no", "error", "no and error", "no audience", "another audience", "nobody", "a node", "a person"],
)
async def test_every_review_but_a_clear_yes_for_us_gives_the_claim_back(rig: Rig, changed: dict[str, Any]):
    await rig.accounts(ACME)
    pod = await rig.cluster.pod(1)
    dispatcher = await rig.dispatcher(client=rig.cluster.connect(Reviewing(rig.cluster, review(pod, **changed))))
    await rig.bench.queue(job(1))
    answer = await dispatcher.ask(pod, wait=5)
    assert answer.status_code == 401, answer.text
    assert await clean(rig, pod)
    assert (await rig.bench.status(1), rig.github.minted) == ("queued", [])


@pytest.mark.parametrize("status", [400, 403, 422, 500])
async def test_a_review_that_the_server_refuses_to_make_is_not_the_pods_fault(rig: Rig, status: int):
    await rig.accounts(ACME)
    pod = await rig.cluster.pod(1)
    dispatcher = await rig.dispatcher(client=rig.cluster.connect(Reviewing(rig.cluster, status)))
    await rig.bench.queue(job(1))
    answer = await dispatcher.ask(pod, wait=5)
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    assert await clean(rig, pod)


async def test_a_clear_yes_serves_the_pod(rig: Rig):
    """So that the refusals above are refusals of what they say."""
    await rig.accounts(ACME)
    pod = await rig.cluster.pod(1)
    dispatcher = await rig.dispatcher(client=rig.cluster.connect(Reviewing(rig.cluster, review(pod))))
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200


async def test_what_was_verified_is_never_remembered_past_the_tokens_end(rig: Rig):
    clock = ShiftedClock(both=True)
    dispatcher, pod = await rig.dispatcher(clock=clock), await rig.cluster.pod(1)
    tokens = dispatcher.service.tokens
    ends = datetime.fromtimestamp(jwt.decode(pod.token, options={"verify_signature": False})["exp"], UTC)
    clock.ahead = ends - datetime.now(UTC) - timedelta(seconds=5)
    began = clock.monotonic()
    await tokens.waiting(Secret(pod.token))
    ((_, until_when, _),) = tokens._known.values()
    assert until_when - began <= 5.1, "its last seconds"
    clock.ahead += timedelta(seconds=6)
    with pytest.raises(Unauthenticated, match="expired"):
        await tokens.waiting(Secret(pod.token))
