"""The matrix of tokens: who is let in, who is told to exit, and that no refusal costs a claim."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import jwt
import pytest
import structlog
from doubles.clocks import ShiftedClock, SteppedClock
from integration.runners.dispatch.rig import ACCOUNTS, ADMIN, KEY, NAMESPACE, SETTINGS, Cluster, Rig, RunnerPod, until
from integration.runners.ledger.rig import ACME, job
from prometheus_client import CollectorRegistry

from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.kube.builtin import Pod, ServiceAccount
from paddock.kube.resource import Resource
from paddock.runners.api import AUDIENCE, OPERATOR_AUDIENCE, POOL_LABEL
from paddock.runners.dispatch import NotAllowed, Unauthenticated
from paddock.runners.dispatch.cluster import KeysUnavailableError
from paddock.runners.dispatch.identity import Unreachable
from paddock.runners.dispatch.review_limits import ReviewLimits


class NoKeys:
    """A cluster that does not publish its keys."""

    async def of(self, key_id: str):
        raise KeysUnavailableError


def forged(
    pod: RunnerPod, key: str | None = None, *, header: dict | None = None, said: dict | None = None, **changed: Any
) -> str:
    """The Pod's token with other words in it, signed again: with the cluster's own key, or with another."""
    said = {**jwt.decode(pod.token, options={"verify_signature": False}), **(said or {})}
    head = {"kid": jwt.get_unverified_header(pod.token)["kid"], **(header or {})}
    return jwt.encode({**said, **changed}, key or KEY.reveal(), "ES256", headers=head)


def facts(of: RunnerPod, **changed) -> dict:
    return {**jwt.decode(of.token, options={"verify_signature": False})["kubernetes.io"], **changed}


async def refused(rig: Rig, token: str, status: int, **how) -> str:
    """Refused so, with the keys and without them; and nothing was claimed."""
    dispatcher = how.pop("dispatcher", None) or await rig.dispatcher(**how)
    answer = await dispatcher.ask(token, wait=0)
    assert answer.status_code == status, answer.text
    dispatcher.service.tokens._keys = NoKeys()
    without_keys = await dispatcher.ask(token, wait=0)
    assert without_keys.status_code == status, without_keys.text
    assert token not in answer.text or not token
    assert await rig.ledger.claims.all() == []
    return answer.json()["reason"]


@pytest.fixture
async def job_waits(rig: Rig):
    await rig.accounts(ACME)
    await rig.bench.queue(job(1))


async def test_no_token_is_401(rig: Rig, job_waits):
    assert "Bearer" in await refused(rig, "", 401)


@pytest.mark.parametrize("token", ["nonsense", "a.b.c", "x" * 20_000, "e30.e30.e30", "ünïcode"])
async def test_what_is_no_token_is_401(rig: Rig, job_waits, token: str):
    dispatcher = await rig.dispatcher()
    headers = [(b"Authorization", b"Bearer " + token.encode())]
    answer = await dispatcher.http.post("/api/internal/runners/dispatch", headers=headers)
    assert answer.status_code == 401


async def test_a_token_without_the_audience_is_401(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1, audience="")
    with structlog.testing.capture_logs() as lines:
        assert "not meant for us" in await refused(rig, pod.token, 401)
    said = [line["why"] for line in lines if line["event"] == "refused"]
    assert said, "in the log, too"
    assert all(f"ask for one with the audience {AUDIENCE}" in why for why in said[:1])


async def test_a_token_for_another_audience_is_401(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1, audience="somebody-else")
    await refused(rig, pod.token, 401)


async def test_an_expired_token_is_401(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1)
    past = int((datetime.now(UTC) - timedelta(seconds=1)).timestamp())
    assert "expired" in await refused(rig, forged(pod, exp=past), 401)


async def test_a_token_that_ends_while_its_pod_waits_wins_nothing(rig: Rig):
    await rig.accounts(ACME)
    clock = ShiftedClock(ahead=-timedelta(hours=2))
    dispatcher, pod = await rig.dispatcher(clock=clock), await rig.cluster.pod(1)
    ends = int((datetime.now(UTC) - timedelta(minutes=1)).timestamp())
    asking = dispatcher.asking(forged(pod, exp=ends, nbf=0), wait=3)
    await dispatcher.waits(1)
    await rig.bench.queue(job(1))
    assert (await asking).status_code == 401
    assert await rig.bench.status(1) == "queued"


async def test_a_token_signed_by_somebody_else_is_401(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1)
    await refused(rig, forged(pod, generate_key().reveal()), 401)
    await refused(rig, forged(pod, generate_key().reveal(), header={"kid": "another"}), 401)


async def test_a_token_that_is_not_signed_at_all_is_401(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1)
    said = jwt.decode(pod.token, options={"verify_signature": False})
    unsigned = jwt.encode(said, "", "none", headers={"kid": jwt.get_unverified_header(pod.token)["kid"]})
    await refused(rig, unsigned, 401)
    head, body, _ = pod.token.split(".")
    await refused(rig, f"{head}.{body}.", 401)


async def test_the_public_key_does_not_serve_as_a_shared_secret(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1)
    public = rig.cluster.plane.access.issuer.jwks()["keys"][0]["x"]
    said = jwt.decode(pod.token, options={"verify_signature": False})
    kid = jwt.get_unverified_header(pod.token)["kid"]
    await refused(rig, jwt.encode(said, public, "HS256", headers={"kid": kid}), 401)


async def test_an_administrators_token_is_401(rig: Rig, job_waits):
    await refused(rig, ADMIN.reveal(), 401)


async def test_a_nodes_token_is_401(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1)
    node = {"sub": "system:node:mac-1", "kubernetes.io": {"namespace": NAMESPACE}}
    await refused(rig, forged(pod, said=node), 401)


async def test_a_token_of_another_namespace_is_403(rig: Rig, job_waits):
    namespaces = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
    await rig.cluster.client.create({"metadata": {"name": "elsewhere"}}, namespaces)
    pod = await rig.cluster.pod(1, namespace="elsewhere")
    assert "namespace" in await refused(rig, pod.token, 403)


async def test_a_token_that_is_bound_to_no_pod_is_403(rig: Rig, job_waits):
    await rig.cluster.pod(1)
    token, _ = await rig.cluster.client.create_token("runner-1", NAMESPACE, audiences=[AUDIENCE])
    assert "no Pod" in await refused(rig, token.reveal(), 403)


async def test_a_pod_under_an_account_that_is_not_its_own_is_403(rig: Rig, job_waits):
    marks = {"name": "shared", "namespace": NAMESPACE, "labels": {POOL_LABEL: "mac-m4"}}
    await rig.cluster.client.create({"metadata": marks}, ACCOUNTS)
    pod = await rig.cluster.pod(1, account="shared")
    assert "ServiceAccount" in await refused(rig, pod.token, 403)


async def test_a_pod_without_a_pool_is_403(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1, pool=None)
    assert POOL_LABEL in await refused(rig, pod.token, 403)


async def test_the_pools_name_on_the_pod_counts_for_nothing(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1, pool=None, labels={POOL_LABEL: "mac-m4"})
    await refused(rig, pod.token, 403)


async def test_the_token_of_a_deleted_pod_is_refused(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1)
    dispatcher = await rig.dispatcher()
    await rig.cluster.client.delete(Pod, pod.name, NAMESPACE, grace_period=0)
    await until(lambda: dispatcher.service.pods.reader.get(pod.name, NAMESPACE) is None)
    answer = await dispatcher.ask(pod, wait=0)
    assert answer.status_code == 403
    dispatcher.service.tokens._keys = NoKeys()
    dispatcher.service.tokens._known.clear()
    assert (await dispatcher.ask(pod, wait=0)).status_code == 401, "the cluster itself does not know it any more"


async def test_the_token_of_an_earlier_pod_of_the_name_is_refused(rig: Rig, job_waits):
    older = await rig.cluster.pod(1)
    dispatcher = await rig.dispatcher()
    await rig.cluster.client.delete(Pod, older.name, NAMESPACE, grace_period=0)
    await rig.cluster.client.delete(ServiceAccount, older.name, NAMESPACE)
    newer = await rig.cluster.pod(1)
    assert older.uid != newer.uid
    assert (await dispatcher.ask(older, wait=0)).status_code == 403


async def test_a_token_that_names_another_pods_uid_is_refused(rig: Rig, job_waits):
    pod, other = await rig.cluster.pod(1), await rig.cluster.pod(2)
    swapped = facts(pod, pod={"name": pod.name, "uid": other.uid})
    assert (await (await rig.dispatcher()).ask(forged(pod, said={"kubernetes.io": swapped}), wait=0)).status_code == 403
    borrowed = facts(pod, pod={"name": other.name, "uid": other.uid})
    await refused(rig, forged(pod, said={"kubernetes.io": borrowed}), 403)


async def test_a_pod_that_is_being_deleted_waits_for_nothing(rig: Rig, job_waits):
    pod = await rig.cluster.pod(1)
    await rig.cluster.client.merge_patch(Pod, pod.name, {"metadata": {"finalizers": ["example.com/stay"]}}, NAMESPACE)
    await rig.cluster.client.delete(Pod, pod.name, NAMESPACE)
    assert "gone" in await refused(rig, pod.token, 403)


async def test_a_pod_whose_creation_did_not_reach_us_yet_is_looked_up(rig: Rig):
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    hidden = dispatcher.service.pods.reader._store
    hidden.remove((NAMESPACE, pod.name))
    identity = await dispatcher.service.tokens.waiting(Secret(pod.token))
    assert identity.uid == pod.uid


async def test_waiting_costs_the_cluster_nothing(rig: Rig):
    dispatcher = await rig.dispatcher()
    pods = [await rig.cluster.pod(number) for number in range(3)]
    await until(lambda: len(dispatcher.service.pods.reader) == 3 and len(dispatcher.service.accounts.reader) >= 3)
    await dispatcher.service.tokens.waiting(Secret(pods[0].token))
    rig.cluster.transport._app = forbidden  # from here on every call would fail
    for pod in pods:
        assert (await dispatcher.service.tokens.waiting(Secret(pod.token))).name == pod.name


async def test_nobody_is_held_for_longer_than_its_token_lasts(rig: Rig):
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    soon = datetime.now(UTC) + timedelta(seconds=2)
    answer = await dispatcher.ask(forged(pod, exp=int(soon.timestamp())), wait=5)
    assert answer.status_code == 204, "and not 401 in the moment of a claim"
    assert datetime.now(UTC) < soon + timedelta(seconds=2)


async def forbidden(scope, receive, send) -> None:
    raise AssertionError(f"{scope['method']} {scope['path']}")


async def test_without_keys_a_review_is_remembered_and_asked_for_once(rig: Rig):
    counting = Counting(rig.cluster)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(counting)), await rig.cluster.pod(1)
    tokens = dispatcher.service.tokens
    tokens._keys = NoKeys()
    found = await asyncio.gather(*[tokens.waiting(Secret(pod.token)) for _ in range(20)])
    assert {identity.uid for identity in found} == {pod.uid}
    assert counting.reviews == 1
    await tokens.waiting(Secret(pod.token))
    assert counting.reviews == 1
    with pytest.raises(Unauthenticated):
        await tokens.waiting(Secret(forged(pod, generate_key().reveal())))
    with pytest.raises(Unauthenticated):
        await tokens.waiting(Secret(forged(pod, generate_key().reveal())))
    assert counting.reviews == 3, "a refusal is never remembered"


class WithdrawnKeys:
    """A cluster that publishes other keys by now."""

    async def of(self, key_id: str):
        del key_id


async def test_a_good_signature_is_remembered_until_its_key_is_withdrawn_and_no_longer_than_the_token_lasts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
):
    counting = Counting(rig.cluster)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(counting)), await rig.cluster.pod(1)
    tokens = dispatcher.service.tokens
    checked: list[str] = []
    check = tokens._check_signature
    monkeypatch.setattr(tokens, "_check_signature", lambda text, key: (checked.append(text), check(text, key)))
    await tokens.waiting(Secret(pod.token))
    await tokens.waiting(Secret(pod.token))
    assert (len(checked), counting.reviews) == (1, 0)
    ((_, until, _),) = tokens._known.values()
    ends = jwt.decode(pod.token, options={"verify_signature": False})["exp"] - tokens._clock.now().timestamp()
    assert until - tokens._clock.monotonic() == pytest.approx(ends, abs=2)
    monkeypatch.setattr(tokens, "_keys", WithdrawnKeys())
    await tokens.waiting(Secret(pod.token))
    assert (len(checked), counting.reviews) == (1, 1), "whose key is unknown is asked for, not remembered"


async def test_tokens_that_nobody_shows_any_more_make_room_for_those_in_use(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """An agent renews a token every ten minutes, and each is good for two hours: most that are known are not used any more."""
    monkeypatch.setattr("paddock.runners.dispatch.identity._MOST_REMEMBERED", 3)
    dispatcher = await rig.dispatcher()
    tokens, checked = dispatcher.service.tokens, []
    check = tokens._check_signature
    monkeypatch.setattr(tokens, "_check_signature", lambda text, key: (checked.append(text), check(text, key)))
    pod, other = await rig.cluster.pod(1), await rig.cluster.pod(2)
    renewed = [forged(pod, said={"jti": str(number)}) for number in range(5)]
    for token in renewed:
        for shown in (token, token, other.token):
            await tokens.waiting(Secret(shown))
    assert checked == [renewed[0], other.token, *renewed[1:]], "each once"


async def test_a_claim_asks_the_cluster_whatever_is_remembered(rig: Rig):
    counting = Counting(rig.cluster)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(counting)), await rig.cluster.pod(1)
    identity = await dispatcher.service.tokens.waiting(Secret(pod.token))
    await dispatcher.service.tokens.confirm(identity, Secret(pod.token))
    await dispatcher.service.tokens.confirm(identity, Secret(pod.token))
    assert counting.reviews == 2
    other = await rig.cluster.pod(2)
    with pytest.raises(NotAllowed):
        await dispatcher.service.tokens.confirm(identity, Secret(other.token))


async def test_an_operators_token_is_named_if_it_is_for_dispatch_alone(rig: Rig):
    dispatcher = await rig.dispatcher()
    await rig.cluster.client.create({"metadata": {"name": "paddock-operator", "namespace": "default"}}, ACCOUNTS)
    token, _ = await rig.cluster.client.create_token("paddock-operator", "default", audiences=[OPERATOR_AUDIENCE])
    principal = await dispatcher.service.tokens.principal(token, OPERATOR_AUDIENCE)
    assert principal.username == "system:serviceaccount:default:paddock-operator"
    with pytest.raises(Unauthenticated):
        await dispatcher.service.tokens.principal(token, AUDIENCE)
    for_the_api_server, _ = await rig.cluster.client.create_token("paddock-operator", "default")
    pod = await rig.cluster.pod(1)
    for another in (for_the_api_server, Secret(pod.token)):
        with pytest.raises(Unauthenticated):
            await dispatcher.service.tokens.principal(another, OPERATOR_AUDIENCE)


@pytest.mark.parametrize("junk", ["x", "a.b.c", "x" * 20_000, "é", "e30.e30.e30"])
async def test_a_junk_token_costs_no_question_to_the_cluster(rig: Rig, junk: str):
    counting = Counting(rig.cluster)
    dispatcher = await rig.dispatcher(client=rig.cluster.connect(counting))
    before = counting.reviews
    for audience in (AUDIENCE, OPERATOR_AUDIENCE):
        with pytest.raises(Unauthenticated):
            await dispatcher.service.tokens.principal(Secret(junk), audience)
    assert counting.reviews == before


async def test_a_forged_token_costs_no_question_to_the_cluster(rig: Rig):
    counting = Counting(rig.cluster)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(counting)), await rig.cluster.pod(1)
    await dispatcher.service.tokens.waiting(Secret(pod.token))
    before = counting.reviews
    with pytest.raises(Unauthenticated):
        await dispatcher.service.tokens.principal(Secret(forged(pod, generate_key().reveal())), AUDIENCE)
    assert counting.reviews == before


async def test_strangers_together_cause_few_questions_a_second_and_good_pods_are_served(rig: Rig):
    counting, limits = Counting(rig.cluster), ReviewLimits(SteppedClock(), registry := CollectorRegistry())
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(counting)), await rig.cluster.pod(1)
    tokens = dispatcher.service.tokens
    await tokens.waiting(Secret(pod.token))
    tokens._limits = limits  # on a clock that stands still
    before = counting.reviews

    async def shown(token: str) -> str:
        try:
            await tokens.principal(Secret(token), AUDIENCE)
        except (Unauthenticated, Unreachable) as error:
            return type(error).__name__
        return "accepted"

    made_up = forged(pod, generate_key().reveal(), header={"kid": "made up"})
    flood = [await shown(made_up) for _ in range(300)]
    assert {outcome: flood.count(outcome) for outcome in set(flood)} == {"Unauthenticated": 100, "Unreachable": 200}
    assert counting.reviews - before == 100
    # The flood takes nothing from whoever the cluster vouches for.
    assert await shown(pod.token) == "accepted"
    outcomes = {"asked": 1, "asked_for_stranger": 100, "limited_stranger": 200, "limited_holder": 0}
    for outcome, times in outcomes.items():
        assert registry.get_sample_value("paddock_dispatch_token_reviews_total", {"outcome": outcome}) == times


async def test_one_pod_cannot_make_dispatch_flood_the_cluster(rig: Rig):
    counting = Counting(rig.cluster)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(counting)), await rig.cluster.pod(1)
    other, tokens = await rig.cluster.pod(2), dispatcher.service.tokens
    await tokens.waiting(Secret(pod.token))
    tokens._limits = ReviewLimits(SteppedClock())
    for _ in range(200):
        await tokens.principal(Secret(pod.token), AUDIENCE)
    with pytest.raises(Unreachable, match="ask again"):
        await tokens.principal(Secret(pod.token), AUDIENCE)
    await tokens.principal(Secret(other.token), AUDIENCE)
    # A claim is asked about once for each job that there is, and so is not kept waiting.
    await tokens.confirm(await tokens.waiting(Secret(pod.token)), Secret(pod.token))


async def test_a_cluster_that_cannot_be_asked_is_503(rig: Rig):
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    dispatcher.service.tokens._keys = NoKeys()
    rig.cluster.transport._app = forbidden
    answer = await dispatcher.ask(pod, wait=0)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1


class Counting(httpx2.AsyncBaseTransport):
    """Counts reviews on their way to the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._inner = cluster.transport
        self.reviews = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.reviews += request.url.path.endswith("/tokenreviews")
        return await self._inner.handle_async_request(request)


async def test_the_default_audience_is_the_one_pods_ask_for():
    assert SETTINGS.audience == AUDIENCE == "tuist-runners-dispatch"
