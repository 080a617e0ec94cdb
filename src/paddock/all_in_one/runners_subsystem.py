"""The runner subsystem in `paddock up`: ledger, GitHub (real or simulated), dispatch and pools."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from starlette.applications import Starlette

from paddock.all_in_one.application import Application, in_background
from paddock.base.http_server import bind, listening
from paddock.base.logs import get_logger
from paddock.base.secrets import Secret
from paddock.clients.github import GitHubClient, GitHubSettings, web_url
from paddock.kube.builtin import ServiceAccount
from paddock.kube.errors import AlreadyExistsError
from paddock.kube.manager import Manager
from paddock.kube.objects import ObjectMeta
from paddock.runners.dispatch.caches import RunnerCaches
from paddock.runners.ledger import SCHEMA, Ledger, Listener
from paddock.runners.pools.settings import PoolSettings
from paddock.runners.processes.dispatch import RunnerContext, RunnerService
from paddock.runners.processes.operator import RunnerOperator
from paddock.simulator.first_objects import first_limits, first_pool

__all__ = ["RunnersSubsystem", "runners_subsystem"]

log = get_logger("up")


@dataclass(frozen=True, slots=True)
class RunnersSubsystem:
    service: RunnerService
    operator: RunnerOperator


async def runners_subsystem(application: Application, manager: Manager) -> RunnersSubsystem | None:
    """The runner subsystem, its controllers added to the manager; None where no GitHub App is configured."""
    view = await application.world.ready() if application.world is not None else None
    if application.world is not None and view is not None:
        settings = GitHubSettings(
            app_id=view.app_id,
            private_key=Secret(view.app_key),
            webhook_secrets=(Secret(view.webhook_secret),),
            api_url="http://127.0.0.1",
        )
        transport = application.world.client.github()
    elif os.environ.get("PADDOCK_GITHUB_APP_ID"):
        settings, transport = GitHubSettings.from_env(os.environ), None
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
        github_url=web_url(settings.api_url),
        namespace=application.options.dispatch.namespace,
        poller_image="paddock",
    )
    operator = RunnerOperator(manager, application.client, service.retirement, pools)
    await _accounts_principal(application)
    if view is not None:
        await first_limits(service.ledger, view.accounts, application.options.hosts)
        options = application.options
        await first_pool(application.client, options.dispatch.namespace, options.hosts, options.job_source)
    return RunnersSubsystem(service, operator)


async def _service(application: Application, github: GitHubClient, secrets: Sequence[Secret]) -> RunnerService:
    clock, rng = application.clock, application.rng
    ledger = await application.stack.enter_async_context(Ledger.open(application.dsn, clock=clock, rng=rng))
    listener = Listener(
        application.dsn, schema=SCHEMA, clock=clock, rng=rng, timeout=application.options.dispatch.backstop
    )
    caches = RunnerCaches(
        application.client, application.options.dispatch.namespace, clock=clock, rng=rng, metrics=application.metrics
    )
    service = RunnerService(
        RunnerContext(
            ledger=ledger,
            listener=listener,
            github=github,
            client=application.client,
            caches=caches,
            secrets=lambda: secrets,
            clock=clock,
            rng=rng,
            registry=application.registry,
            kube_metrics=application.metrics,
            name="up",
            concerns=application.concerns,
            scale_sets=github.scale_sets,
        ),
        application.options.dispatch,
    )
    await in_background(application, "runner caches", caches.run)
    await in_background(application, "runners", service.run)
    application.stack.push_async_callback(service.stop)
    return service


async def _accounts_principal(application: Application) -> None:
    """The ServiceAccount of which `paddock accounts` asks for a token."""
    _, _, namespace, name = application.options.dispatch.accounts_principal.split(":")
    with suppress(AlreadyExistsError):
        await application.client.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace=namespace)))


async def _open_door(application: Application, service: RunnerService) -> None:
    """A way in from outside for GitHub and the Macs, to the routes that prove by themselves who is asking, and no others."""
    app = Starlette(routes=service.routes)
    if application.options.runner_door is not None:
        host, port = application.options.runner_door
        door = bind(port, "--runner-bind-address", host)
        await application.stack.enter_async_context(listening(app, door))
    if application.options.macs_door is not None:
        host, port = application.options.macs_door
        door = bind(port, "--dispatch-port", host)
        await application.stack.enter_async_context(listening(app, door, application.tls))
