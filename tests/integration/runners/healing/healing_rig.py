"""What the tests of healing are written with: a real ledger, a real API in process, a stub of GitHub.

A Pod is put into any state that an incident left one in, by the same steps that led there: queued, claimed, assigned, minted,
handed out, and then whatever broke.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import httpx2
from doubles.github import StubGitHub
from integration.runners.ledger.rig import ACME, POOL, Bench, attempt, job

from paddock.base.metrics import CollectorRegistry
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.github import GitHubJob, GitHubRunner
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store.memory import MemoryStore
from paddock.kube.builtin import Container, Pod, PodSpec, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import ACCOUNT_LABEL, OWNER_LABEL, POLLER, POOL_LABEL, RUNNER, RUNNER_LABEL
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.healer import Healer
from paddock.runners.healing.hung_listeners import HungListeners
from paddock.runners.healing.immortal_pods import ImmortalPods
from paddock.runners.healing.leaked_pods import LeakedPods
from paddock.runners.healing.metrics import HealingMetrics
from paddock.runners.healing.missing_pods import MissingPods
from paddock.runners.healing.reaping import ReapContext
from paddock.runners.healing.service_accounts import OrphanServiceAccounts
from paddock.runners.healing.worker import Report
from paddock.runners.ledger import Claim, Outcome
from paddock.runners.ledger import Pod as LedgerPod
from paddock.simulator.transport import InProcessTransport

NAMESPACE = "default"
ADMIN = Secret("ward-admin")
MINUTE = 60.0
ORGANISATION = f"orgs/org{ACME}"


class Crash(BaseException):
    """The process dies here. No `except Exception` survives a death."""


class Interruptions:
    """Counts effects, and dies before or after the one that it was told."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.at: int | None = None
        self.after = False

    def arm(self, at: int | None, *, after: bool = False) -> None:
        self.effects, self.at, self.after = [], at, after

    async def do(self, name: str, effect: Callable[[], Awaitable[Any]]) -> Any:
        number = len(self.effects)
        self.effects.append(name)
        if self.at == number and not self.after:
            raise Crash(f"before {name}")
        result = await effect()
        if self.at == number and self.after:
            raise Crash(f"after {name}")
        return result

    def around(self, owner: object, *names: str) -> None:
        for name in names:
            method = getattr(owner, name)

            async def guarded(*args: Any, _method: Any = method, _name: str = name, **kwargs: Any) -> Any:
                return await self.do(_name, lambda: _method(*args, **kwargs))

            setattr(owner, name, guarded)


class Wire(httpx2.AsyncBaseTransport):
    """The way to the API: requests are written down, may be refused, and those that change something may be interrupted."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, interruptions: Interruptions) -> None:
        self._inner = inner
        self._interruptions = interruptions
        self.requests: list[tuple[str, str]] = []
        self.refuse: Callable[[httpx2.Request], httpx2.Response | None] = lambda _: None
        self.before: Callable[[httpx2.Request], Awaitable[None]] | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append((request.method, request.url.path))
        if (refused := self.refuse(request)) is not None:
            return refused
        if self.before is not None:
            await self.before(request)
        if request.method == "GET":
            return await self._inner.handle_async_request(request)
        name = f"{request.method} {request.url.path.split('/')[-2]}"
        return await self._interruptions.do(name, lambda: self._inner.handle_async_request(request))

    async def aclose(self) -> None:
        await self._inner.aclose()


class HealingRig:
    """One cluster, one ledger, one GitHub, and the workers on the Pods' side."""

    def __init__(self, bench: Bench, plane: ControlPlane) -> None:
        self.bench = bench
        self.ledger = bench.ledger
        self.clock = bench.clock
        self.github = StubGitHub(unknown_places=True, mints=False)
        self.interruptions = Interruptions()
        self.wire = Wire(InProcessTransport(plane.app, clock=self.clock), self.interruptions)
        self.client = self._client(self.wire)
        self.hands = self._client(InProcessTransport(plane.app, clock=self.clock))
        """The test's own client: not counted, not interrupted."""
        self.asked: list[tuple[list[int], str]] = []
        self._numbers = iter(range(1, 1_000_000))
        self.settings = HealingSettings()
        self.start()

    @staticmethod
    def _client(transport: httpx2.AsyncBaseTransport) -> Client:
        return Client(Config("https://api", credentials=FixedIdentity(Identity(token=ADMIN))), transport, timeout=10.0)

    def start(self, **settings: Any) -> None:
        """A new process: nothing is remembered but what the ledgers hold."""
        self.settings = replace(self.settings, **settings)
        self.registry = CollectorRegistry()
        self.metrics = HealingMetrics(self.registry)
        common: dict[str, Any] = {"namespace": NAMESPACE, "metrics": self.metrics}
        github: Any = self.github
        reaping = ReapContext(
            ledger=self.ledger, client=self.client, github=github, clock=self.clock, ask=self._ask, **common
        )
        self.pods = LeakedPods(reaping, self.settings)
        self.listeners = HungListeners(reaping, self.settings)
        self.heartbeat = MissingPods(
            self.ledger, self.client, self.github, self.settings, self.clock, ask=self._ask, **common
        )
        self.accounts = OrphanServiceAccounts(self.client, self.settings, self.clock, **common)
        self.immortal = ImmortalPods(self.client, self.settings, self.clock, **common)
        self.healer = Healer(
            [self.pods, self.listeners, self.heartbeat, self.accounts, self.immortal],
            self.ledger,
            self.clock,
            seeded(3),
            metrics=self.metrics,
        )

    async def _ask(self, jobs: Collection[int], pod_uid: str) -> Report:
        self.asked.append((list(jobs), pod_uid))
        return Report()

    async def heal(self) -> Report:
        """One pass over Pods, which must not fail."""
        report = await self.healer.once(self.pods)
        assert report is not None, self.healer.last_reports
        return report

    # Pods in every condition

    async def idle(self, *, linux: bool = False, pool: str = POOL, account: bool = True) -> Pod:
        """A Pod that waits for a job."""
        name = f"runner-{next(self._numbers)}"
        labels = {RUNNER_LABEL: "true", POOL_LABEL: pool}
        if account:
            await self.hands.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels=labels)))
        made = await self.hands.create(
            Pod(
                metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels=labels),
                spec=PodSpec(
                    containers=(Container(name=RUNNER, image="img"),),
                    init_containers=(Container(name=POLLER, image="img"),) if linux else (),
                    node_selector={"kubernetes.io/os": "linux" if linux else "darwin"},
                    service_account_name=name if account else "default",
                    restart_policy="Never",
                ),
            )
        )
        if linux:
            return await self.containers(made, runner="waiting", poller="running")
        return await self.containers(made, runner="running")

    async def containers(self, pod: Pod, *, runner: str = "", poller: str = "", phase: str = "Running") -> Pod:
        status: dict[str, Any] = {"phase": phase}
        if runner:
            status["containerStatuses"] = [_container(RUNNER, runner)]
        if poller:
            status["initContainerStatuses"] = [_container(POLLER, poller)]
        return await self.hands.merge_patch(Pod, pod.metadata.name, {"status": status}, NAMESPACE, subresource="status")

    async def label(self, pod: Pod, **labels: str | None) -> Pod:
        keys = {"owner": OWNER_LABEL, "account": ACCOUNT_LABEL, "pool": POOL_LABEL}
        patch = {"metadata": {"labels": {keys[key]: value for key, value in labels.items()}}}
        return await self.hands.merge_patch(Pod, pod.metadata.name, patch, NAMESPACE)

    async def claimed(self, *, linux: bool = False, pool: str = POOL) -> tuple[Pod, Claim]:
        """A Pod that is being served: claim and assignment label."""
        pod = await self.idle(linux=linux, pool=pool)
        number = next(self._numbers)
        await self.ledger.jobs.enqueue(job(number, ACME, pool=pool, platform="linux" if linux else "macos"))
        claim = await attempt(self.ledger, number, as_ledger(pod))
        assert claim.outcome is Outcome.CLAIMED, claim
        return await self.label(pod, owner="org1"), claim

    async def leaked(self, *, linux: bool = False, pool: str = POOL, age: float = 10 * MINUTE) -> Pod:
        """The leak of the seed: its dispatcher died after the assignment, and the claim was taken back since."""
        pod, claim = await self.claimed(linux=linux, pool=pool)
        await self.ledger.claims.release(claim, by="claims", why="stale")
        self.clock.advance(age)
        return pod

    async def busy(
        self, *, linux: bool = False, pool: str = POOL, heard: bool = True, place: str | None = None
    ) -> tuple[Pod, int]:
        """A Pod at a job, as everybody sees it."""
        pod, claim = await self.claimed(linux=linux, pool=pool)
        runner = runner_of(pod)
        await self.ledger.claims.commit(claim, runner, place=place)
        pod = await self.label(pod, account=str(ACME))
        if linux:
            pod = await self.containers(pod, runner="running", poller="terminated")
        if heard:
            platform = "linux" if linux else "macos"
            one = job(claim.job_id, ACME, pool=pool, platform=platform)
            await self.ledger.jobs.started(one, runner_name=runner, started_at=self.clock.now())
        self.at_github(claim.job_id, "in_progress", runner)
        self.row(pod, online=True, busy=True, place=place or ORGANISATION)
        return pod, claim.job_id

    async def finished(self, *, linux: bool = False, heard: bool = True, place: str | None = None) -> tuple[Pod, int]:
        """A Pod whose job is over, and that does not end."""
        pod, job_id = await self.busy(linux=linux, place=place)
        self.at_github(job_id, "completed", runner_of(pod))
        self.github.hide(place or ORGANISATION, runner_of(pod))
        self.github.show(place or ORGANISATION, GitHubRunner(runner_id=1, name="another", online=True, busy=False))
        if heard:
            await self.ledger.jobs.completed(
                job_id,
                account_id=ACME,
                conclusion="failure",
                completed_at=self.clock.now(),
                runner_name=runner_of(pod),
            )
        return pod, job_id

    def listed(self, pod: Pod) -> bool:
        """Whether GitHub still has the Pod's runner."""
        rows = self.github.places.get(ORGANISATION, [])
        return isinstance(rows, list) and any(row.name == runner_of(pod) for row in rows)

    def at_github(self, job_id: int, status: Any, runner: str = "") -> None:
        over = self.clock.now() if status == "completed" else None
        self.github.jobs[job_id] = GitHubJob(
            job_id=job_id,
            status=status,
            runner_name=runner,
            completed_at=over,
            conclusion="failure" if over else None,
        )

    def row(self, pod: Pod, *, online: bool, busy: bool = False, place: str = ORGANISATION) -> None:
        name = runner_of(pod)
        self.github.show(place, GitHubRunner(runner_id=7, name=name, online=online, busy=busy))

    async def reports(self, pod: Pod, mark: str = "1", *, still_for: float = 0.0) -> None:
        """The runner reports; `still_for` seconds later it reports the same again."""
        await self.ledger.progress.note(pod.metadata.uid, mark)
        if still_for:
            self.clock.advance(still_for)
            await self.ledger.progress.note(pod.metadata.uid, mark)

    # What is left

    async def there(self, pod: Pod) -> bool:
        try:
            found = await self.hands.get(Pod, pod.metadata.name, NAMESPACE)
        except NotFoundError:
            return False
        return found.metadata.uid == pod.metadata.uid and found.metadata.deletion_timestamp is None

    async def account_there(self, pod: Pod) -> bool:
        try:
            await self.hands.get(ServiceAccount, pod.metadata.name, NAMESPACE)
        except NotFoundError:
            return False
        return True

    async def vanish(self, pod: Pod) -> None:
        """The Pod is gone without a word: the Node was lost, or somebody deleted it by hand."""
        await self.hands.delete(Pod, pod.metadata.name, NAMESPACE, grace_period=0)

    async def kinds(self) -> dict[str, int]:
        return await self.ledger.heals.count_by_kind(datetime.min.replace(tzinfo=self.clock.now().tzinfo))

    def counted(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def deletes(self) -> list[str]:
        return [path for method, path in self.wire.requests if method == "DELETE"]

    def watch_ledger(self) -> None:
        """Count the ledger's effects of a reap, too."""
        ledger = self.ledger
        self.interruptions.around(ledger.fences, "raise_fence", "lift")
        self.interruptions.around(ledger.heals, "intend", "record", "withdraw")
        self.interruptions.around(ledger.recovery, "pod_stopped")
        self.interruptions.around(ledger.claims, "release")


def _container(name: str, state: str) -> dict[str, Any]:
    states: dict[str, dict[str, Any]] = {
        "waiting": {"waiting": {"reason": "PodInitializing"}},
        "running": {"running": {}},
        "terminated": {"terminated": {"exitCode": 0, "reason": "Completed"}},
        "failed": {"terminated": {"exitCode": 137, "reason": "Error", "message": "no space left on device"}},
    }
    base = {"name": name, "image": "img", "imageID": "", "ready": False, "restartCount": 0}
    return {**base, "started": state == "running", "state": states[state]}


def as_ledger(pod: Pod) -> LedgerPod:
    return LedgerPod(pod.metadata.uid, pod.metadata.name)


def runner_of(pod: Pod) -> str:
    return f"{pod.metadata.name}-mint"


@asynccontextmanager
async def healing_of(bench: Bench) -> AsyncIterator[HealingRig]:
    await bench.accounts(ACME, vcpus=6000, memory_mb=14_336_000)
    plane = ControlPlane(MemoryStore(), bench.clock, random.Random(5), admin_token=ADMIN, signing_key=generate_key())
    async with plane.running():
        yield HealingRig(bench, plane)
