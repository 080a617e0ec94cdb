"""A life of jobs in which only the Macs, GitHub and the cloud are played: real Postgres, the real API, real HTTP, real time.

Everything that dispatches, heals and keeps pools runs as in `paddock up`; times are short, so that what takes minutes in
production takes seconds here. At the end every job must be accounted for in every ledger.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx2
from doubles.github_judge import counted_kills, judge, seen
from integration.roles.deployed import files
from integration.roles.recording import Requests, install
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from paddock.base.clock import SystemClock, rfc3339
from paddock.base.http_server import bind, listening
from paddock.base.metrics import CollectorRegistry, exposition
from paddock.base.secrets import Secret
from paddock.clients.github import GitHubClient
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import our_definitions
from paddock.embedded.store.memory import MemoryStore
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import OPERATOR_AUDIENCE, OWNER_LABEL, POOL_LABEL, RunnerPool, RunnerPoolSpec
from paddock.runners.api.settings import DispatchSettings, HealingSettings
from paddock.runners.dispatch.caches import RunnerCaches
from paddock.runners.http.concerns import concerns_route
from paddock.runners.http.retirement_client import HttpRetirementApi
from paddock.runners.ledger import FINISHED, Ledger, Listener
from paddock.runners.pools.settings import PoolSettings
from paddock.runners.processes.dispatch import RunnerContext, RunnerService
from paddock.runners.processes.operator import RunnerOperator
from paddock.simulator.github import SimulatedGitHub, SimulatedJob
from paddock.simulator.pods import RunnerPace, SimulatedPods
from paddock.simulator.transport import InProcessTransport
from paddock.web.reading import ReadingPage

ADMIN = Secret("jobs-admin")
LABEL, FLEET, POOL = "tuist-macos", "macs", "macos"
QUICK = HealingSettings(
    every=0.5,
    claim_grace=timedelta(seconds=3),
    silent_dispatcher=timedelta(seconds=2),
    assignment_grace=timedelta(seconds=2),
    registration_deadline=timedelta(seconds=2),
    finished_grace=timedelta(seconds=2),
    progress_grace=timedelta(seconds=2),
    listener_grace=timedelta(seconds=2),
    lost_communication=timedelta(seconds=4),
    missing_grace=timedelta(seconds=1),
    missing_confirm=timedelta(seconds=1),
    session_absence=timedelta(seconds=2),
    queued_verify=timedelta(seconds=2),
    redelivery_every=0.5,
)


class _QuickBudgets(SystemClock):
    """Healing passes here every second and not every minute: so a minute of GitHub's budgets is a second, too."""

    def monotonic(self) -> float:
        return super().monotonic() * 60


class World:
    """One cluster with a few Macs, one GitHub, one ledger; dispatch processes can be started and killed."""

    def __init__(self, dsn: str, schema: str, macs: int) -> None:
        self.dsn, self.schema, self.macs = dsn, schema, macs
        self.clock, self.rng = SystemClock(), random.Random(schema)
        self.github = SimulatedGitHub(self.clock, self.rng, speed=60.0, audit=False)
        self.account = self.github.add_organization("acme", "app")
        self.submitted: list[SimulatedJob] = []
        self.ended_by_others = 0
        self.ledger: Ledger
        self.client: Client
        self.service: RunnerService
        self.pods: SimulatedPods
        self.webhooks = ""
        """Where GitHub delivers to."""
        self._serving: asyncio.Task[None] | None = None
        self._app = Starlette()
        self.github_client: GitHubClient
        self._as_dispatch: Client
        self.asked_by_dispatch, self.asked_by_operator = Requests(), Requests()

    @asynccontextmanager
    async def living(self) -> AsyncIterator["World"]:
        async with AsyncExitStack() as stack:
            plane = ControlPlane(
                MemoryStore(), self.clock, self.rng, admin_token=ADMIN, signing_key=generate_key(),
                definitions=our_definitions(),
            )  # fmt: skip
            await stack.enter_async_context(plane.running())
            config = Config(server="http://cluster.test", credentials=FixedIdentity(Identity(token=ADMIN)))
            self.client = await stack.enter_async_context(self._client(config, plane))
            # Both processes act under the roles that are deployed, and nothing else.
            for name in ("operator", "dispatch"):
                await install(self.client, files()[f"{name}.yaml"])
            dispatch = self.asked_by_dispatch.attach(self._client(config, plane), "default:paddock-dispatch")
            operator = self.asked_by_operator.attach(self._client(config, plane), "default:paddock-operator")
            self._as_dispatch = await stack.enter_async_context(dispatch)
            as_operator = await stack.enter_async_context(operator)
            self.ledger = await stack.enter_async_context(
                Ledger.open(self.dsn, clock=self.clock, rng=self.rng, schema=self.schema)
            )
            await self.ledger.accounts.enrol(self.account.id, "acme", self.account.installation_id)
            await self.ledger.allow_list.allow(self.account.id, "acme", by="test", why="as the test needs it")
            await self.ledger.limits.set(
                self.account.id, "macos", vcpus=600, memory_mb=14_336_000, by="test", why="a large account"
            )
            github = await stack.enter_async_context(
                GitHubClient(self.github.settings(), _QuickBudgets(), self.rng, self.github.transport())
            )
            sock = bind(0, "a free port")
            url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            self.github_client = github

            async def whoever_lives(scope: Scope, receive: Receive, send: Send) -> None:
                await self._app(scope, receive, send)

            await stack.enter_async_context(listening(whoever_lives, sock))
            self.start_dispatch()
            stack.push_async_callback(self.kill_dispatch)
            metrics = KubeMetrics(CollectorRegistry())
            manager = Manager(clock=self.clock, rng=self.rng, metrics=metrics, grace=0.2)
            token, _ = await self.client.create_token("paddock-operator", "default", audiences=[OPERATOR_AUDIENCE])
            retirement = HttpRetirementApi(url, FixedIdentity(Identity(token=token)))
            stack.push_async_callback(retirement.close)
            RunnerOperator(
                manager, as_operator, retirement, PoolSettings(dispatch_url=url, recheck=2.0, blocked=0.5),
            )  # fmt: skip
            self.webhooks = f"{url}/webhooks/github"
            self.github.deliver_to(self.webhooks)
            stack.push_async_callback(self.github.aclose)
            self.pods = SimulatedPods(
                self.client, httpx2.AsyncClient, url, self.github.connect,
                clock=self.clock, rng=self.rng, pace=RunnerPace(boot=6.0, register=6.0, speed=60.0),
            )  # fmt: skip
            await self._nodes()
            await self._pool()
            for work in (manager.run(), self.github.run(), self.pods.run()):
                task = asyncio.create_task(work)
                stack.push_async_callback(_end, task)
            yield self

    def _client(self, config: Config, plane: ControlPlane) -> Client:
        return Client(config, InProcessTransport(plane.app, clock=self.clock))

    def start_dispatch(self) -> None:
        """A new dispatch process: nothing is shared with an earlier one but the database and the cluster."""
        metrics = KubeMetrics(CollectorRegistry())
        settings = DispatchSettings(hold=3.0, hold_unasked=1.0, serve_deadline=5.0, beat=0.5, healing=QUICK)
        caches = RunnerCaches(self._as_dispatch, settings.namespace, clock=self.clock, rng=self.rng, metrics=metrics)
        self._context = RunnerContext(
            ledger=self.ledger,
            listener=Listener(self.dsn, schema=self.schema, clock=self.clock, rng=self.rng, timeout=0.5),
            github=self.github_client,
            client=self._as_dispatch,
            caches=caches,
            secrets=lambda: (self.github.webhook_secret,),
            clock=self.clock,
            rng=self.rng,
            registry=metrics.registry,
            kube_metrics=metrics,
            scale_sets=self.github_client.scale_sets,
        )
        self.service = RunnerService(self._context, settings)
        concerns = concerns_route(self.service.concerns)
        self._app = Starlette(routes=[*self.service.routes, *self.service.readable, concerns])
        self._serving = asyncio.create_task(_with_caches(self.service, caches), name="dispatch")

    def read_page(self) -> "asyncio.Task[None]":
        """The page that `paddock dispatch` serves, with its caches; cancel it when it was looked at."""
        metrics = KubeMetrics(CollectorRegistry())  # its own: a page may be opened more than once
        context = replace(self._context, registry=metrics.registry, kube_metrics=metrics)
        page = ReadingPage(self.service, context, environment="test", healthy=lambda: None)
        return asyncio.create_task(page.run())

    async def kill_dispatch(self) -> None:
        """The process dies; whoever asks meanwhile gets nothing from it."""
        self._app = Starlette()
        if self._serving is not None:
            await _end(self._serving)
            self._serving = None

    async def _nodes(self) -> None:
        for number in range(self.macs):
            name = f"mac-{number}"
            await self.client.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {
                        "name": name,
                        "labels": {
                            "kubernetes.io/os": "darwin",
                            "kubernetes.io/arch": "arm64",
                            "kubernetes.io/hostname": name,
                            "tuist.dev/runtime": "tart",
                            "tuist.dev/softnet": "true",
                            "tuist.dev/fleet": FLEET,
                        },
                    },
                },
                Node.RESOURCE,
                force=True,
            )
            beat = rfc3339(self.clock.now())
            conditions = [
                {"type": kind, "status": "True" if kind == "Ready" else "False", "lastTransitionTime": beat}
                for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
            ]
            offer = {"cpu": "8", "memory": "14336Mi", "pods": "3", "tuist.dev/vm": "2"}
            status = {"conditions": conditions, "capacity": offer, "allocatable": offer}
            await self.client.merge_patch(Node, name, {"status": status}, subresource="status")

    async def _pool(self) -> None:
        await self.client.create(
            RunnerPool(
                metadata=ObjectMeta(name=POOL, namespace="default"),
                spec=RunnerPoolSpec(
                    image="runner:1",
                    fleet_selector=FLEET,
                    dispatch_label=LABEL,
                    job_source="Webhook",
                    runner_labels=("self-hosted", "macOS"),
                    replicas=self.macs,
                ),
            )
        )

    def submit(self, count: int, *, seconds: float = 30.0) -> list[SimulatedJob]:
        """Jobs that take half a second each, as this world's minutes go."""
        jobs = [
            self.github.submit("acme/app", labels=(LABEL,), duration=seconds, name=f"job {n}") for n in range(count)
        ]
        self.submitted += jobs
        return jobs

    async def until(self, what: str, true: Callable[[], Any], *, within: float = 40.0) -> None:
        """Wait until something is so; fails with what it was waiting for and what the ledgers say."""
        deadline = self.clock.monotonic() + within
        while True:
            found = true()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            if self.clock.monotonic() > deadline:
                raise AssertionError(f"not within {within:.0f} s: {what}\n{await self.said()}")
            await self.clock.sleep(0.1)

    async def all_done(self) -> bool:
        """Every submitted job is over at GitHub and in the ledger, which holds no claim and no open session any more."""
        for job in self.submitted:
            row = await self.ledger.jobs.get(job.id)
            if row is None or row.status not in FINISHED or self.github.job(job.id).status != "completed":
                return False
        return not await self.ledger.claims.all() and not await self.ledger.sessions.open()

    async def said(self) -> str:
        lines = [f"strip {await self.ledger.overview.summary()}"]
        for job in self.submitted:
            row = await self.ledger.jobs.get(job.id)
            if row is None or row.status not in FINISHED:
                lines.append(
                    f"job {job.id}: {self.github.job(job.id).status} at GitHub, {row.status if row else None} here"
                )
                lines += [
                    f"    {t.subject} {t.was} → {t.became} ({t.why})"
                    for t in await self.ledger.transitions.of_job(job.id)
                ]
        for pod in (await self.client.list(Pod)).items:
            lines.append(f"pod {pod.metadata.name}: {pod.status.phase} {pod.metadata.labels}")
        lines += [f"heal {heal.kind}: {heal.sentence}" for heal in await self.ledger.heals.newest(20)]
        lines += [
            f"{name}: {report.refused} {report.failed}"
            for name, report in self.service.healing.healer.last_reports.items()
        ]
        return "\n".join(lines)

    async def kinds_healed(self) -> set[str]:
        return {heal.kind for heal in await self.ledger.heals.newest(100)}

    async def nothing_is_left(self) -> None:
        """After everything has settled: one Pod a Mac, one account a Pod, no assignment label without its claim or session."""

        async def settled() -> bool:
            pods = (await self.client.list(Pod)).items
            accounts = (await self.client.list(ServiceAccount, "default", label_selector=POOL_LABEL)).items
            names = {pod.metadata.name for pod in pods}
            idle = all(OWNER_LABEL not in pod.metadata.labels for pod in pods)
            return len(pods) == self.macs and {a.metadata.name for a in accounts} == names and idle

        await self.until("a full, idle pool with one account a Pod", settled)
        rows = [await self.ledger.jobs.get(job.id) for job in self.submitted]
        judge(
            seen(self.github.job(job.id) for job in self.submitted),
            counted=counted_kills(exposition(self._context.registry).decode()),
            others=self.ended_by_others,
            ledger={row.job_id: row.conclusion for row in rows if row is not None},
        )
        assert self.asked_by_dispatch.forbidden == set()
        assert self.asked_by_operator.forbidden == set()


async def _with_caches(service: RunnerService, caches: RunnerCaches) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(caches.run())
        group.create_task(service.run())


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
