"""The runner half in `paddock up`: ledger, GitHub (real or simulated), dispatch, pools, and simulated Pods."""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass

import httpx2
from starlette.applications import Starlette

from paddock.base.chance import seeded
from paddock.base.logs import get_logger
from paddock.base.secrets import Secret
from paddock.clients.github import Forge, GitHubClient, GitHubSettings
from paddock.embedded.house import House, in_background
from paddock.embedded.listening import bind, listening
from paddock.kube.manager import Manager
from paddock.runners.ledger import SCHEMA, Ledger, Listener
from paddock.runners.operator import RunnerOperator
from paddock.runners.pods.settings import PoolSettings
from paddock.runners.service import RunnerService
from paddock.simulator.github import SimulatedGitHub, Workload
from paddock.simulator.outside import first_limits, first_pool, keep_saved, open_github
from paddock.simulator.pods import PodTwins, RunnerPace

__all__ = ["RunnerHalf", "SimulatedRunners", "runner_half"]

log = get_logger("up")


@dataclass(frozen=True, slots=True)
class SimulatedRunners:
    """The twins of the runner half, for whoever wants to break them."""

    github: SimulatedGitHub
    pods: PodTwins


@dataclass(frozen=True, slots=True)
class RunnerHalf:
    service: RunnerService
    operator: RunnerOperator
    twins: SimulatedRunners | None = None


async def runner_half(house: House, manager: Manager) -> RunnerHalf | None:
    """The runner half, its controllers added to the manager; None where no GitHub App is configured."""
    if house.options.simulate:
        github = open_github(house.folder.root / "github.json", house.options.speed, house.clock, _drawn(house))
        settings, transport = github.settings(), github.transport()
    elif os.environ.get("PADDOCK_GITHUB_APP_ID"):
        github, settings, transport = None, GitHubSettings.from_env(os.environ), None
    else:
        log.info("no GitHub App is configured, so no jobs are served: set PADDOCK_GITHUB_APP_ID and its key")
        return None
    forge = await house.stack.enter_async_context(GitHubClient(settings, house.clock, house.chance, transport))
    service = await _service(house, forge, settings.webhook_secrets)
    await _open_door(house, service)
    pools = PoolSettings(
        dispatch_url=house.options.runner_url or house.page,
        namespace=house.options.dispatch.namespace,
        poller_image="paddock",
    )
    operator = RunnerOperator(
        manager, house.client, service.books, pools, clock=house.clock, chance=house.chance, metrics=house.metrics
    )
    twins = await _twins(house, github, service.ledger) if github is not None else None
    return RunnerHalf(service, operator, twins)


async def _service(house: House, forge: Forge, secrets: Sequence[Secret]) -> RunnerService:
    clock, chance = house.clock, house.chance
    ledger = await house.stack.enter_async_context(Ledger.open(house.dsn, clock=clock, chance=chance))
    listener = Listener(house.dsn, schema=SCHEMA, clock=clock, chance=chance, patience=house.options.dispatch.backstop)
    service = RunnerService(
        ledger,
        listener,
        forge,
        house.client,
        secrets=lambda: secrets,
        settings=house.options.dispatch,
        clock=clock,
        chance=chance,
        registry=house.registry,
        kube_metrics=house.metrics,
        name="up",
    )
    await in_background(house, "runners", service.run)
    house.stack.push_async_callback(service.stop)
    return service


async def _open_door(house: House, service: RunnerService) -> None:
    """A way in from outside for GitHub and the Macs, to the routes that prove by themselves who is asking, and no others."""
    if house.options.runner_door is not None:
        host, port = house.options.runner_door
        door = bind(port, "--runner-bind-address", host)
        await house.stack.enter_async_context(listening(Starlette(routes=service.routes), door))


async def _twins(house: House, github: SimulatedGitHub, ledger: Ledger) -> SimulatedRunners:
    options, clock = house.options, house.clock
    await first_limits(ledger, github, options.hosts)
    github.deliver_to(f"{house.page}/webhooks/github")
    house.stack.push_async_callback(github.aclose)
    await first_pool(house.client, options.dispatch.namespace, options.hosts)
    pods = PodTwins(
        house.client,
        httpx2.AsyncClient,
        house.page,
        github.connect,
        clock=clock,
        chance=house.chance,
        pace=RunnerPace(speed=options.speed),
    )
    await in_background(house, "simulated GitHub", github.run)
    await in_background(house, "simulated Pods", pods.run)
    await in_background(
        house, "simulated GitHub save", lambda: keep_saved(house.folder.root / "github.json", github.to_json, clock)
    )
    if options.jobs:
        workload = Workload(
            github,
            _drawn(house),
            clock,
            repos=("acme/app", "acme/kit", "bolt/wallet", "crux/reader"),
            labels=("tuist-macos",),
            rate=max(0.2, options.jobs * options.hosts / 6.0),
        )
        await in_background(house, "simulated workload", workload.run)
    return SimulatedRunners(github, pods)


def _drawn(house: House) -> random.Random:
    return seeded(house.options.seed) if house.options.seed is not None else house.chance
