"""A fixture world: everything that a page can show, of any size, without anything behind it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from unit.hosts.made import NOW, claim, host, machine, release

from paddock.base.clock import Clock, SystemClock
from paddock.base.metrics import CollectorRegistry
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.github import BudgetView
from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetStatus
from paddock.kube.builtin import Event, Node, ObjectReference, Pod, PodSpec, PodStatus
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import Condition, ObjectMeta, OwnerReference
from paddock.runners.api import OWNER_LABEL, POOL_LABEL, RUNNER_LABEL, RunnerPool, RunnerPoolSpec, RunnerPoolStatus
from paddock.runners.ledger import Heal
from paddock.runners.ledger.views import AccountView, FinishedJob, QueueSummary, RunningJob, Stage, WaitingJob
from paddock.web.app import Pages
from paddock.web.front import front_parts
from paddock.web.live import Live
from paddock.web.page_data import LedgerData, PageData
from paddock.web.runbooks import Runbooks
from paddock.web.session_authentication import SessionAuthentication
from paddock.web.shell import Site
from paddock.web.watched import Sources, Watched

__all__ = ["TOKEN", "FixtureWatch", "fixture_pages", "page_data"]

TOKEN = Secret("a-token-for-tests")
_STATES = ("busy",) * 6 + ("ready",) * 2 + ("setup", "free", "wiping")
_ACCOUNTS = ("acme", "bolt", "crux")


def page_data(hosts: int = 24, pods: int = 0, now: datetime = NOW, *, turn: int = 0) -> PageData:
    """A fleet in the middle of its day, with one orphaned Mac. Every `turn` a few jobs end and a few begin."""
    macs, machines, nodes, runners, running = [], [], [], [], []
    fleet = MacFleet(
        metadata=ObjectMeta(name="mac-fleet", namespace="default", uid="fleet"),
        spec=MacFleetSpec(replicas=hosts),
        status=MacFleetStatus(replicas=hosts, ready_replicas=hosts - 1),
    )
    for number in range(hosts):
        zone = f"fr-par-{number % 3 + 1}"
        state = "stranded" if number == 3 else _STATES[number % len(_STATES)]
        if turn and number % 50 == turn % 50:
            state = {"busy": "ready", "ready": "busy"}.get(state, state)
        server, name = f"{number:08x}-0000-4000-8000-000000000000", f"mac-fleet-{number:05d}"
        owner = machine(
            name,
            uid=f"machine-{number}",
            host_name=server,
            server_id=server,
            ready=state in ("busy", "ready"),
            phase="Bootstrapping" if state == "setup" else "Ready",
            bootstrap_step="egress-firewall" if state == "setup" else "",
            conditions=(
                Condition("Ready", "False", "Bootstrapping", "step egress-firewall runs", now - timedelta(minutes=2))
                if state == "setup"
                else Condition("Ready", "True", "Ready", f"runs on host {server}", now - timedelta(minutes=number)),
            ),
        )
        owner = type(owner)(
            metadata=ObjectMeta(
                name=name,
                namespace="default",
                uid=f"machine-{number}",
                owner_references=(
                    OwnerReference(api_version="tuist.dev/v1alpha1", kind="MacFleet", name="mac-fleet", uid="fleet"),
                ),
            ),
            spec=owner.spec,
            status=owner.status,
        )
        spec: dict[str, object] = {"zone": zone}
        if state in ("busy", "ready", "setup"):
            spec["claim"] = claim(owner)
            machines.append(owner)
            nodes.append(Node(metadata=ObjectMeta(name=name, uid=f"node-{number}")))
        if state == "wiping":
            spec["release"] = release(wipe="started", requested_at=now - timedelta(minutes=5))
        macs.append(
            host(
                server,
                spec=spec,
                state={"stranded": "stranded", "free": "pooled", "wiping": "releasing"}.get(state, "owned"),
                price_per_hour="0.29",
                currency="EUR",
                deletable_at=now + timedelta(hours=number % 24) if number % 5 == 0 else None,
                conditions=(Condition("Ready", "False", "Stranded", "no machine owns it", now - timedelta(minutes=9)),)
                if state == "stranded"
                else (),
            )
        )
        if state == "busy":
            account = _ACCOUNTS[number % 3]
            runners.append(_pod(f"macos-runner-{number:05d}", name, now, {OWNER_LABEL: account}))
            running.append(_running(number, account, runners[-1], now))
    while len(runners) < pods:
        runners.append(_pod(f"linux-runner-{len(runners):05d}", f"linux-{len(runners) % 40}", now, {}))
    return PageData(
        now=now,
        hosts=macs,
        machines=machines,
        fleets=[fleet],
        pools=[_pool()],
        pods=runners,
        nodes=nodes,
        events=[
            _event(number, machines[number % len(machines)].metadata.name, now) for number in range(min(600, 3 * hosts))
        ]
        if machines
        else [],
        ledger=_ledger(running, now),
        runners=True,
        budgets=[BudgetView(1, 4200, 5000, now + timedelta(minutes=30), None)],
        heard_ago=0.4,
    )


def _pod(name: str, node: str, now: datetime, labels: dict[str, str]) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            labels={RUNNER_LABEL: "true", POOL_LABEL: "macos", **labels},
            creation_timestamp=now - timedelta(minutes=4),
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase="Running"),
    )


def _pool() -> RunnerPool:
    return RunnerPool(
        metadata=ObjectMeta(name="macos", namespace="default", uid="pool"),
        spec=RunnerPoolSpec(
            image="registry.example/macos:26.1",
            fleet_selector="mac-fleet",
            dispatch_label="tuist-macos",
            runner_labels=("macOS",),
        ),
        status=RunnerPoolStatus(
            replicas=10,
            idle=2,
            busy=8,
            conditions=(Condition("Ready", "True", "Ready", "2 of 10 Pods wait for a job"),),
        ),
    )


def _event(number: int, name: str, now: datetime) -> Event:
    return Event(
        metadata=ObjectMeta(name=f"e-{number}"),
        involved_object=ObjectReference(kind="ScalewayAppleSiliconMachine", name=name),
        reason=("Bootstrapped", "Adopted", "Released")[number % 3],
        message=f"host of {name} is as it should be",
        type="Normal",
        last_timestamp=now - timedelta(seconds=number * 7),
    )


def _running(number: int, account: str, pod: Pod, now: datetime) -> RunningJob:
    return RunningJob(
        job_id=40_000_000_000 + number,
        account_id=number % 3,
        login=account,
        repository=f"{account}/app",
        workflow_name="CI",
        job_name="ui-tests",
        pool="macos",
        platform="macos",
        enqueued_at=now - timedelta(minutes=15),
        claimed_at=now - timedelta(minutes=14, seconds=30),
        started_at=now - timedelta(minutes=14, seconds=20),
        executing_since=now - timedelta(minutes=14),
        pod_uid=pod.metadata.uid,
        pod_name=pod.metadata.name,
        runner_name=f"{pod.metadata.name}-1",
    )


def _ledger(running: list[RunningJob], now: datetime) -> LedgerData:
    waiting = [
        WaitingJob(
            job_id=41_000_000_000 + number,
            account_id=0,
            login="acme",
            repository="acme/kit",
            workflow_name="CI",
            job_name=f"build ({number})",
            pool="macos",
            platform="macos",
            label="tuist-macos",
            enqueued_at=now - timedelta(seconds=50),
            waiting_seconds=50.0,
            reason="limit_reached",
            why="The account acme is at its macos limit: 42 of 42 vCPU are held.",
        )
        for number in range(12)
    ]
    done = [
        FinishedJob(
            job_id=42_000_000_000 + number,
            account_id=1,
            login="bolt",
            repository="bolt/wallet",
            workflow_name="CI",
            job_name="lint",
            pool="macos",
            conclusion="success" if number % 4 else "failure",
            runner_name="r",
            enqueued_at=now - timedelta(minutes=9),
            started_at=now - timedelta(minutes=8),
            completed_at=now - timedelta(minutes=2, seconds=number),
        )
        for number in range(9)
    ]
    heal = Heal(
        id=7,
        at=now - timedelta(minutes=3),
        kind="pod_hung",
        subject="pod macos-runner-00099",
        pod_uid="uid-99",
        job_id=42_000_000_001,
        sentence="Pod macos-runner-00099 was reaped: GitHub says that its job is over, and nothing moved since",
        evidence={"GitHub": {"job": "completed", "runner": "offline"}, "cluster": "Running", "database": None},
        seconds=190.0,
        done_at=now - timedelta(minutes=3),
    )
    account = AccountView(
        account_id=0, login="acme", installation_id=1, platform="macos", limit_vcpus=42, limit_memory_mb=100_352,
        used_vcpus=42, used_memory_mb=100_352, claims=7, queued=12,
    )  # fmt: skip
    return LedgerData(
        at=now,
        summary=QueueSummary(0.0, 0, 12, 0, 1, len(running), len(running), 431),
        queue=waiting,
        running=running,
        recent=done,
        latency=[
            Stage("queued_to_claimed", 400, 0.04, 1.2, 9.0),
            Stage("claimed_to_running", 400, 0.4, 0.9, 1.9),
            Stage("running_to_started", 380, 2.1, 4.0, 6.5),
            Stage("total", 420, 2.9, 6.1, 15.0),
        ],
        accounts=[account],
        heals=[heal],
        healed_last_day={"pod_hung": 1},
    )


class FixtureWatch(Watched):
    """Sees the fixture."""

    def __init__(self, paint: Callable[[], PageData], clock: Clock | None = None) -> None:
        clock, rng = clock or SystemClock(), seeded(1)
        client = Client(Config(server="https://127.0.0.1:1"))
        super().__init__(Sources.of(client, clock, rng, KubeMetrics(CollectorRegistry())), clock)
        self._paint = paint

    def seen(self) -> PageData:
        return self._paint()

    async def look(self) -> PageData:
        return self._paint()


def fixture_pages(paint: Callable[[], PageData], **fields: object) -> Pages:
    clock = SystemClock()
    runbooks = Runbooks()
    return Pages(
        **{
            "watched": FixtureWatch(paint),
            "live": Live(lambda: partial(front_parts, paint(), runbooks.href), clock, "test"),
            "site": Site("fixture · fr-par-1", actions=True),
            "sessions_auth": SessionAuthentication(TOKEN, clock, seeded(2)),
            "runbooks": runbooks,
            **fields,
        }  # pyright: ignore[reportArgumentType]
    )
