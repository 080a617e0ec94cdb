"""The runner subsystem in `paddock up`: ledger, GitHub (real or simulated), dispatch, pools, and simulated Pods."""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass

import httpx2
from starlette.applications import Starlette

from paddock.all_in_one.application import Application, in_background
from paddock.base.http_server import bind, listening
from paddock.base.logs import get_logger
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.github import GitHub, GitHubClient, GitHubSettings
from paddock.kube.manager import Manager
from paddock.runners.ledger import SCHEMA, Ledger, Listener
from paddock.runners.pools.settings import PoolSettings
from paddock.runners.processes.dispatch import RunnerContext, RunnerService
from paddock.runners.processes.operator import RunnerOperator
from paddock.simulator.agents import AgentWorld, dispatch_clients
from paddock.simulator.github import SimulatedGitHub, Workload
from paddock.simulator.outside import first_limits, first_pool, keep_saved, open_github
from paddock.simulator.pods import RunnerPace, SimulatedPods

__all__ = ["RunnersSubsystem", "SimulatedRunners", "runners_subsystem"]

log = get_logger("up")


@dataclass(frozen=True, slots=True)
class SimulatedRunners:
    """The simulators of the runner subsystem, for the fault panel."""

    github: SimulatedGitHub
    pods: SimulatedPods
    agents: AgentWorld
    """What the Macs' agents and VMs share; what runners do wrong next is the same list as that of Linux Pods."""


@dataclass(frozen=True, slots=True)
class RunnersSubsystem:
    service: RunnerService
    operator: RunnerOperator
    simulators: SimulatedRunners | None = None


async def runners_subsystem(application: Application, manager: Manager) -> RunnersSubsystem | None:
    """The runner subsystem, its controllers added to the manager; None where no GitHub App is configured."""
    if application.options.simulate:
        simulated = open_github(
            application.folder.root / "github.json", application.options.speed, application.clock, _drawn(application)
        )
        settings, transport = simulated.settings(), simulated.transport()
    elif os.environ.get("PADDOCK_GITHUB_APP_ID"):
        simulated, settings, transport = None, GitHubSettings.from_env(os.environ), None
    else:
        log.info("no GitHub App is configured, so no jobs are served: set PADDOCK_GITHUB_APP_ID and its key")
        return None
    github = await application.stack.enter_async_context(
        GitHubClient(settings, application.clock, application.rng, transport)
    )
    service = await _service(application, github, settings.webhook_secrets)
    await _open_door(application, service)
    pools = PoolSettings(
        dispatch_url=application.options.runner_url or application.page,
        namespace=application.options.dispatch.namespace,
        poller_image="paddock",
    )
    operator = RunnerOperator(
        manager,
        application.client,
        service.retirement,
        pools,
        clock=application.clock,
        rng=application.rng,
        metrics=application.metrics,
    )
    simulators = await _simulators(application, simulated, service.ledger) if simulated is not None else None
    return RunnersSubsystem(service, operator, simulators)


async def _service(application: Application, github: GitHub, secrets: Sequence[Secret]) -> RunnerService:
    clock, rng = application.clock, application.rng
    ledger = await application.stack.enter_async_context(Ledger.open(application.dsn, clock=clock, rng=rng))
    listener = Listener(
        application.dsn, schema=SCHEMA, clock=clock, rng=rng, timeout=application.options.dispatch.backstop
    )
    service = RunnerService(
        RunnerContext(
            ledger=ledger,
            listener=listener,
            github=github,
            client=application.client,
            secrets=lambda: secrets,
            clock=clock,
            rng=rng,
            registry=application.registry,
            kube_metrics=application.metrics,
            name="up",
        ),
        application.options.dispatch,
    )
    await in_background(application, "runners", service.run)
    application.stack.push_async_callback(service.stop)
    return service


async def _open_door(application: Application, service: RunnerService) -> None:
    """A way in from outside for GitHub and the Macs, to the routes that prove by themselves who is asking, and no others."""
    if application.options.runner_door is not None:
        host, port = application.options.runner_door
        door = bind(port, "--runner-bind-address", host)
        await application.stack.enter_async_context(listening(Starlette(routes=service.routes), door))
    if application.options.macs_door is not None:
        host, port = application.options.macs_door
        door = bind(port, "--dispatch-port", host)
        await application.stack.enter_async_context(listening(Starlette(routes=service.routes), door, application.tls))


async def _simulators(application: Application, github: SimulatedGitHub, ledger: Ledger) -> SimulatedRunners:
    options, clock = application.options, application.clock
    await first_limits(ledger, github, options.hosts)
    github.deliver_to(f"{application.page}/webhooks/github")
    application.stack.push_async_callback(github.aclose)
    await first_pool(application.client, options.dispatch.namespace, options.hosts)
    pods = SimulatedPods(
        application.client,
        lambda: httpx2.AsyncClient(trust_env=False),
        application.page,
        github.connect,
        clock=clock,
        rng=application.rng,
        pace=RunnerPace(speed=options.speed),
        macos=False,
    )
    await in_background(application, "simulated GitHub", github.run)
    await in_background(application, "simulated Pods", pods.run)
    await in_background(
        application,
        "simulated GitHub save",
        lambda: keep_saved(application.folder.root / "github.json", github.to_json, clock),
    )
    if options.jobs:
        workload = Workload(
            github,
            _drawn(application),
            clock,
            repos=("acme/app", "acme/kit", "bolt/wallet", "crux/reader"),
            labels=("tuist-macos",),
            rate=max(0.2, options.jobs * options.hosts / 6.0),
        )
        await in_background(application, "simulated workload", workload.run)
    agents = AgentWorld(
        application.client.config.server,
        application.page,
        dispatch_clients(pods.runner_faults),
        github.connect,
        pods.runner_faults,
        clock,
        application.rng,
        RunnerPace(speed=options.speed),
    )
    return SimulatedRunners(github, pods, agents)


def _drawn(application: Application) -> random.Random:
    return seeded(application.options.seed) if application.options.seed is not None else application.rng
