"""What fails while a claim is served is undone at once, and whoever it speaks for rests."""

import asyncio

import httpx2
import pytest
import structlog
from integration.runners.dispatch.rig import NAMESPACE, Cluster, Rig, until
from integration.runners.ledger.rig import ACME, BOLT, POOL, job
from msgspec import to_builtins

from paddock.cli.doctor.waiting import job_checks
from paddock.clients.github import Installation
from paddock.clients.github import errors as github
from paddock.clients.github.refusals import refusal
from paddock.kube.builtin import Pod as KubePod
from paddock.runners.api import ACCOUNT_LABEL, OWNER_LABEL
from paddock.runners.api.settings import HealingSettings
from paddock.runners.dispatch.assignment import CLAIM_ANNOTATION
from paddock.runners.http.explain import why_job
from paddock.runners.http.readonly import job_page


async def clean(rig: Rig, pod) -> bool:
    """Nothing of the claim is left: neither in the ledger nor on the Pod."""
    meta = (await rig.cluster.seen(pod)).metadata
    marked = {OWNER_LABEL, ACCOUNT_LABEL} & set(meta.labels) or CLAIM_ANNOTATION in meta.annotations
    return not marked and await rig.ledger.claims.all() == [] and await rig.ledger.sessions.of_pod(pod.uid) is None


SCOPES = [
    (github.Forbidden("no permission"), {"account"}),
    (github.Unauthenticated("the key is not accepted"), {"account"}),
    (github.RateLimited("slow down", retry_after=77), {"account"}),
    (github.BudgetSpent("kept for others", retry_after=77), {"account"}),
    (github.NotFound("neither"), {"repository"}),
    (github.GroupRefused("the runner group 'macs' is closed"), {"repository"}),
    (github.Conflict("name taken"), {"job"}),
    (github.Invalid("labels"), {"job"}),
    (github.Unavailable("502", effect_unknown=True), {"job"}),
]


@pytest.mark.parametrize(("failure", "scope"), SCOPES, ids=lambda value: type(value).__name__)
async def test_a_failed_mint_rests_whom_it_speaks_for_and_gives_everything_back(rig: Rig, failure, scope):
    """One Pod; the failing job first, then one of the same repository, one of the account, and one of another account."""
    await rig.accounts(ACME, BOLT, vcpus=60)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    rig.github.mint_failures = [failure]
    await rig.bench.queue(
        job(1, repository="org1/app", age=90),
        job(2, repository="org1/app", age=80),
        job(3, repository="org1/lib", age=70),
        job(4, BOLT, age=60),
    )
    asking = dispatcher.asking(pod, wait=5)
    await until(lambda: not rig.github.mint_failures)
    if isinstance(failure, github.Unavailable):
        answer = await asking
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        await until(lambda: clean(rig, pod))
        asking = dispatcher.asking(pod, wait=5)
    answer = await asking
    expected = {"job": {2, 4}, "repository": {3, 4}, "account": {4}}
    assert answer.status_code == 200
    assert answer.json()["workflow_job_id"] in expected[next(iter(scope))]
    failed = await rig.ledger.jobs.get(1)
    assert failed is not None
    assert (failed.status, failed.mint_failures) == ("queued", 1)
    if isinstance(failure, github.RateLimited):
        assert failed.not_before is not None
        assert (failed.not_before - rig.bench.clock.now()).total_seconds() >= 77


async def test_a_pod_whose_mint_failed_is_clean_and_goes_on_waiting(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    rig.github.mint_failures = [github.Invalid("labels")]
    await rig.bench.queue(job(1))
    asking = dispatcher.asking(pod, wait=2)
    await until(lambda: not rig.github.mint_failures)
    await until(lambda: clean(rig, pod))
    assert (await asking).status_code == 204
    assert dispatcher.count("paddock_dispatch_undone_total", reason="mint") == 1


async def test_a_claim_is_given_back_whatever_bytes_a_proxy_answers_for_github(rig: Rig):
    """An error page in UTF-16, as some proxies send, is full of zero characters, which no text of Postgres may hold."""
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    page, now = "<html><body>Bad gateway</body></html>".encode("utf-16"), rig.bench.clock.now()
    rig.github.mint_failures = [refusal("POST /generate-jitconfig", 502, {}, page, now=now, mutation=True)]
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 503
    assert await clean(rig, pod)
    resting = await rig.ledger.jobs.get(1)
    assert resting is not None
    assert (resting.status, resting.mint_failures) == ("queued", 1)
    assert "Bad gateway" in resting.changed_why


async def test_an_account_without_an_installation_rests(rig: Rig):
    await rig.accounts(ACME)
    await rig.ledger.accounts.enrol(ACME, "org1", installation_id=None)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=1)).status_code == 204
    assert await clean(rig, pod)
    assert rig.github.minted == []


async def test_an_account_whose_removal_was_replayed_is_served_by_what_github_says(rig: Rig):
    await rig.accounts(ACME)
    await rig.ledger.accounts.enrol(ACME, "org1", installation_id=None)
    rig.github.install(Installation(1001, ACME, "org1"))
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    account = await rig.ledger.accounts.get(ACME)
    assert account is not None
    assert account.installation_id == 1001


async def test_a_suspended_installation_is_none(rig: Rig):
    await rig.accounts(ACME)
    await rig.ledger.accounts.enrol(ACME, "org1", installation_id=None)
    rig.github.install(Installation(1001, ACME, "org1", suspended=True))
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=1)).status_code == 204
    assert rig.github.minted == []


async def test_where_github_cannot_be_asked_nobody_is_told_to_install_the_app(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
):
    await rig.accounts(ACME)
    await rig.ledger.accounts.enrol(ACME, "org1", installation_id=None)

    async def away() -> list[Installation]:
        raise github.Unavailable("503")

    monkeypatch.setattr(rig.github, "installations", away)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=1)).status_code == 204
    assert await clean(rig, pod)
    waiting = await rig.ledger.overview.waiting(1)
    assert waiting is not None
    assert "GitHub cannot be asked whether the App is installed for org1: 503" in waiting.why
    assert "install it there" not in waiting.why


async def test_a_group_that_is_refused_is_one_sentence_with_its_remedy_and_no_loop(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    sentence = "acme has no runner group 'macs' (it has: Default): create it, or correct the pool's spec.runnerGroup"
    rig.github.mint_failures = [github.GroupRefused(sentence) for _ in range(5)]
    await rig.bench.queue(job(1))
    with structlog.testing.capture_logs() as lines:
        assert (await dispatcher.ask(pod, wait=3)).status_code == 204
    assert [line["why"] for line in lines if line["event"] == "a claim is given back"] == [sentence]
    (check,) = job_checks(to_builtins(await rig.ledger.overview.queue()))  # what `doctor` says of the same queue
    assert (check.state, check.about, check.fix) == ("problem", "runners of org1/app", "paddock why job 1")
    assert sentence in check.found
    page = await job_page(rig.ledger, 1)
    assert page is not None
    explained = why_job(1, page, None, None, HealingSettings(), rig.bench.clock.now())
    assert sentence in explained.sentence
    assert len(rig.github.mint_failures) == 4  # tried once, and not again before a minute has passed
    waiting = await rig.ledger.overview.waiting(1)
    assert waiting is not None
    assert sentence in waiting.why
    assert waiting.until is not None
    assert (waiting.until - rig.bench.clock.now()).total_seconds() >= 60
    assert dispatcher.count("paddock_dispatch_undone_total", reason="group_refused") == 1


@pytest.mark.parametrize(
    ("failure", "reason", "remedy"),
    [
        (
            github.Forbidden("Resource not accessible by integration", status=403),
            "forbidden",
            "give the App the permission Self-hosted runners: write (organisation) or Administration: write (repository)",
        ),
        (
            github.NotFound("org1/app", status=404),
            "not_found",
            "if it was transferred or renamed, install the App for its new owner and run the workflow again",
        ),
    ],
    ids=["an App without a permission", "a repository that was transferred"],
)
async def test_what_only_a_person_can_mend_is_one_sentence_with_its_remedy_and_no_loop(
    rig: Rig, failure: github.GitHubError, reason: str, remedy: str
):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    rig.github.mint_failures = [failure for _ in range(5)]
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=3)).status_code == 204
    assert len(rig.github.mint_failures) == 4, "tried once, and not again before a minute has passed"
    waiting = await rig.ledger.overview.waiting(1)
    assert waiting is not None
    assert remedy in waiting.why
    assert waiting.until is not None
    assert (waiting.until - rig.bench.clock.now()).total_seconds() >= 60
    assert dispatcher.count("paddock_dispatch_undone_total", reason=reason) == 1


async def test_runners_of_an_account_of_which_only_a_repository_is_allowed_are_that_repositorys(rig: Rig):
    # GitHub would give an organisation's runner the job of any other of its repositories.
    await rig.accounts(ACME, vcpus=60)
    await rig.ledger.allow_list.deny(ACME, "org1/secret", repository_id=9, by="test", why="not this one")
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await rig.bench.queue(job(1, repository_id=8))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    assert [(one["scope"], one["group"]) for one in rig.github.minted] == [("repository", "")]


async def test_a_pod_that_hangs_up_before_the_mint_costs_no_runner(rig: Rig):
    await rig.accounts(ACME)
    slow = Slow(rig.cluster, "/tokenreviews", 0.5)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(slow)), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    asking = dispatcher.asking(pod, wait=5)
    await until(lambda: dispatcher.service.waiting.in_hand == 1 and slow.begun)
    asking.cancel()
    await until(lambda: dispatcher.service.waiting.in_hand == 0)
    assert await clean(rig, pod)
    assert rig.github.minted == []
    assert await rig.bench.status(1) == "queued"


async def test_a_pod_that_hangs_up_before_the_commit_is_clean_and_its_runner_gone(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    minting, left = asyncio.Event(), asyncio.Event()

    async def before_mint() -> None:
        minting.set()
        await left.wait()

    rig.github.before_mint = before_mint
    await rig.bench.queue(job(1))
    asking = dispatcher.asking(pod, wait=5)
    await minting.wait()
    (waiter,) = dispatcher.service.waiting.everybody()
    asking.cancel()
    await until(lambda: waiter.gone)
    left.set()
    await until(lambda: dispatcher.service.waiting.in_hand == 0)
    await until(lambda: not rig.github.registered)
    assert await clean(rig, pod)
    assert await rig.bench.status(1) == "queued"
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200, "the Pod is as good as before"


async def test_a_job_that_ended_during_the_mint_is_not_run(rig: Rig):
    await rig.accounts(ACME, vcpus=60)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)

    async def completes() -> None:
        rig.github.before_mint = None
        await rig.bench.completed(job(1))

    rig.github.before_mint = completes
    await rig.bench.queue(job(1))
    asking = dispatcher.asking(pod, wait=3)
    await until(lambda: dispatcher.count("paddock_dispatch_undone_total", reason="job_gone") == 1)
    await until(lambda: not rig.github.registered)
    await rig.bench.queue(job(2))
    answer = await asking
    assert (answer.status_code, answer.json()["workflow_job_id"]) == (200, 2)
    assert len(rig.github.registered) == 1


async def test_a_claim_that_was_taken_away_during_the_mint_hands_nothing_out(rig: Rig):
    """Healing thought us dead. Its release stands; our late commit is refused, and our runner is dropped."""
    await rig.accounts(ACME, vcpus=60)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)

    async def freed() -> None:
        rig.github.before_mint = None
        (held,) = await rig.ledger.claims.all()
        await rig.ledger.claims.release(held, by="healing", why="its dispatcher is silent")

    rig.github.before_mint = freed
    await rig.bench.queue(job(1))
    answer = await dispatcher.ask(pod, wait=5)
    assert answer.status_code == 200
    assert dispatcher.count("paddock_dispatch_undone_total", reason="stale_claim") == 1
    assert len(rig.github.minted) == 2
    assert len(rig.github.registered) == 1


async def test_a_stamp_that_fails_three_times_does_not_keep_the_job_from_the_pod(rig: Rig):
    await rig.accounts(ACME)
    broken = Broken(rig.cluster, "PATCH", 3)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(broken)), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    assert broken.broke == 3
    assert OWNER_LABEL not in (await rig.cluster.seen(pod)).metadata.labels
    assert ACCOUNT_LABEL in (await rig.cluster.seen(pod)).metadata.labels


async def test_a_stamp_is_tried_again(rig: Rig):
    await rig.accounts(ACME)
    broken = Broken(rig.cluster, "PATCH", 2)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(broken)), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    assert (await rig.cluster.seen(pod)).metadata.labels[OWNER_LABEL] == "org1"


async def test_a_missing_account_label_is_nobodys_problem(rig: Rig):
    await rig.accounts(ACME)
    broken = Broken(rig.cluster, "PATCH", 1, after=1)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(broken)), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    assert ACCOUNT_LABEL not in (await rig.cluster.seen(pod)).metadata.labels
    assert (await dispatcher.ask(pod, wait=1)).status_code == 410


async def test_a_process_that_dies_while_account_labels_give_way_leaves_no_pod_to_a_second_tenant(rig: Rig):
    """The label waits for the other hand-over; the ledger alone knows by then that the Pod is spent, and that is enough."""
    await rig.accounts(ACME, vcpus=60)
    dispatcher = await rig.dispatcher()
    pods = [await rig.cluster.pod(1), await rig.cluster.pod(2)]
    both, never = asyncio.Event(), asyncio.Event()
    minting: list[int] = []

    async def second_hangs() -> None:
        minting.append(len(minting))
        if len(minting) == 2:
            both.set()
            await never.wait()
        await both.wait()

    rig.github.before_mint = second_hangs
    asking = {dispatcher.asking(pod, wait=20): pod for pod in pods}
    await dispatcher.waits(2)
    await rig.bench.queue(job(1), job(2))
    done, _ = await asyncio.wait(asking, timeout=30, return_when=asyncio.FIRST_COMPLETED)
    (served,) = done
    assert served.result().status_code == 200
    spent = asking[served]
    assert ACCOUNT_LABEL not in (await rig.cluster.seen(spent)).metadata.labels
    await dispatcher.kill()
    rig.github.before_mint = None
    another = await rig.dispatcher()
    await rig.cluster.label(spent, {OWNER_LABEL: None})  # not even that is needed
    assert (await another.ask(spent, wait=1)).status_code == 410


async def test_a_token_that_was_revoked_while_the_pod_waited_wins_nothing(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    asking = dispatcher.asking(pod, wait=5)
    await dispatcher.waits(1)
    # The Pod dies without our watch noticing: only the API server knows.
    dispatcher.service.pods._handlers.clear()
    seen = dispatcher.service.pods.reader.get(pod.name, NAMESPACE)
    await rig.cluster.client.delete(KubePod, pod.name, NAMESPACE, grace_period=0)
    await until(lambda: dispatcher.service.pods.reader.get(pod.name, NAMESPACE) is None)
    assert seen is not None
    await rig.bench.queue(job(1))
    assert (await asking).status_code in (401, 403)
    assert await rig.bench.status(1) == "queued"
    assert await rig.ledger.claims.all() == []
    assert rig.github.minted == []


async def test_a_review_that_cannot_be_had_gives_the_claim_back(rig: Rig):
    await rig.accounts(ACME)
    broken = Broken(rig.cluster, "/tokenreviews", 1)
    dispatcher, pod = await rig.dispatcher(client=rig.cluster.connect(broken)), await rig.cluster.pod(1)
    await rig.bench.queue(job(1))
    answer = await dispatcher.ask(pod, wait=5)
    assert answer.status_code == 503
    assert await clean(rig, pod)
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200


async def test_what_takes_longer_than_the_deadline_is_undone(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(serve_deadline=0.4), await rig.cluster.pod(1)
    rig.github.mint_delay = 2.0
    await rig.bench.queue(job(1))
    answer = await dispatcher.ask(pod, wait=5)
    assert (answer.status_code, answer.json()["error"]) == (503, "deadline")
    assert await clean(rig, pod)
    assert await rig.bench.status(1) == "queued"


async def test_a_stamp_of_a_later_claim_is_left_alone(rig: Rig):
    await rig.accounts(ACME, vcpus=60)
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    patch = {"metadata": {"labels": {OWNER_LABEL: "org1"}, "annotations": {CLAIM_ANNOTATION: "999999"}}}

    async def restamped() -> None:
        await rig.cluster.client.merge_patch(KubePod, pod.name, patch, NAMESPACE)

    rig.github.before_mint = restamped
    rig.github.mint_failures = [github.Invalid("labels")]
    await rig.bench.queue(job(1))
    assert (await dispatcher.ask(pod, wait=1)).status_code == 204
    assert (await rig.cluster.seen(pod)).metadata.annotations[CLAIM_ANNOTATION] == "999999"


async def test_a_stop_finishes_what_is_being_served_and_sends_the_others_on(rig: Rig):
    await rig.accounts(ACME)
    dispatcher = await rig.dispatcher()
    served, waiting, late = [await rig.cluster.pod(number) for number in range(3)]
    rig.github.mint_delay = 0.5
    await rig.bench.queue(job(1))
    first = dispatcher.asking(served, wait=5)
    await until(lambda: dispatcher.service.waiting.in_hand == 1)
    second = dispatcher.asking(waiting, wait=5)
    await dispatcher.waits(1)
    await dispatcher.service.stop()
    assert (await first).status_code == 200
    answer = await second
    assert (answer.status_code, answer.json()["error"]) == (503, "stopping")
    assert "retry-after" in answer.headers
    assert (await dispatcher.ask(late, wait=5)).status_code == 503
    assert dispatcher.count("paddock_dispatch_requests_total", pool=POOL, outcome="handed") == 1


async def test_a_stop_that_cannot_wait_longer_undoes_what_is_being_served(rig: Rig):
    await rig.accounts(ACME)
    dispatcher, pod = await rig.dispatcher(serve_deadline=0.5), await rig.cluster.pod(1)
    rig.github.mint_delay = 30.0
    dispatcher.service.dispatcher._handover._deadline = 30.0
    await rig.bench.queue(job(1))
    asking = dispatcher.asking(pod, wait=5)
    await until(lambda: dispatcher.service.waiting.in_hand == 1)
    await dispatcher.service.stop()
    assert (await asking).status_code == 503
    assert await clean(rig, pod)


class Slow(httpx2.AsyncBaseTransport):
    """Requests to a path take their time."""

    def __init__(self, cluster: Cluster, path: str, seconds: float) -> None:
        self._inner = cluster.transport
        self._path = path
        self._seconds = seconds
        self.begun = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith(self._path):
            self.begun += 1
            await asyncio.sleep(self._seconds)
        return await self._inner.handle_async_request(request)


class Broken(httpx2.AsyncBaseTransport):
    """The first requests of a method, or to a path, fail on their way."""

    def __init__(self, cluster: Cluster, what: str, times: int, after: int = 0) -> None:
        self._inner = cluster.transport
        self._what = what
        self._times = times
        self._after = after
        self.broke = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == self._what or request.url.path.endswith(self._what):
            if self._after:
                self._after -= 1
            elif self.broke < self._times:
                self.broke += 1
                raise httpx2.ConnectError("the line is cut", request=request)
        return await self._inner.handle_async_request(request)
