"""`paddock dispatch`: webhook, dispatch and healing against a cluster and a Postgres, until it is told to stop."""

import asyncio
import os
import socket
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli.limit_flag import account_flag, limit_flag
from paddock.cli.listeners import BindAddress, metrics_route, probe_routes
from paddock.cli.long_running import kubeconfig_flag, log_level_flag, when_told_to_stop
from paddock.cli.output import say
from paddock.cli.retention_flags import retention_flags
from paddock.cli.start_errors import why_it_cannot_start

if TYPE_CHECKING:
    from paddock.base.clock import Clock
    from paddock.kube.manager import HealthProbes
    from paddock.runners.api.settings import ConfiguredLimit, DispatchSettings, Retention
    from paddock.runners.http.concern import Concern
    from paddock.runners.processes.dispatch import RunnerService

__all__ = ["command"]


@click.command("dispatch")
@click.option("--dsn", required=True, envvar="PADDOCK_DSN", help="The Postgres that keeps jobs, claims and sessions.")
@click.option(
    "--runners-namespace", default="default", show_default=True, help="Where pools, runner Pods and their accounts are."
)
@click.option(
    "--controller",
    default="system:serviceaccount:default:paddock-operator",
    show_default=True,
    help="The operator's account: who may retire Pods and report stopped ones.",
)
@click.option(
    "--bind-address",
    type=BindAddress(),
    default=":8080",
    show_default=True,
    help="Where GitHub, the Pods and the operator come in.",
)
@click.option(
    "--metrics-bind-address",
    type=BindAddress(),
    default=":8081",
    show_default=True,
    help="For operators only: the page, /metrics, /healthz, /readyz and what `paddock status` reads.",
)
@click.option(
    "--internal-bind-address",
    type=BindAddress(),
    default="0",
    show_default=True,
    help="Where the operator comes in, with TLS; then nowhere else. 0: at --bind-address, without.",
)
@click.option(
    "--tls-cert-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The certificate for --internal-bind-address; waited for while it is missing, shown anew when it is renewed.",
)
@click.option("--tls-key-file", type=click.Path(dir_okay=False, path_type=Path), help="Its key.")
@click.option("--page-host", multiple=True, help="A host name under which operators open the page, besides localhost.")
@click.option(
    "--hold", default=75.0, show_default=True, type=click.FloatRange(1, 300), help="Longest wait of a Pod's request."
)
@click.option("--report-only", multiple=True, help="A kind of disagreement that is reported and not healed; * for all.")
@click.option(
    "--accounts-principal",
    default="system:serviceaccount:default:paddock-dispatch",
    show_default=True,
    help="Whose token a change of the allow list has to show; `paddock accounts allow NAME` asks the cluster for one.",
)
@account_flag
@limit_flag
@retention_flags
@kubeconfig_flag
@log_level_flag("info")
def command(
    dsn: str,
    runners_namespace: str,
    controller: str,
    bind_address: tuple[str, int] | None,
    metrics_bind_address: tuple[str, int] | None,
    internal_bind_address: tuple[str, int] | None,
    tls_cert_file: Path | None,
    tls_key_file: Path | None,
    page_host: tuple[str, ...],
    hold: float,
    report_only: tuple[str, ...],
    accounts_principal: str,
    allow_accounts: tuple[str, ...],
    limits: "tuple[ConfiguredLimit, ...]",
    retention: "Retention",
    kubeconfig: Path | None,
) -> None:
    """Take webhooks, hand jobs to waiting Pods, and heal what disagrees.

    The GitHub App is read from PADDOCK_GITHUB_APP_ID, PADDOCK_GITHUB_PRIVATE_KEY (or _FILE) and
    PADDOCK_GITHUB_WEBHOOK_SECRET (or _FILE). Any number of these processes may share one database.
    """
    from paddock.base.event_loop import run_measured
    from paddock.runners.api.settings import DispatchSettings, HealingSettings
    from paddock.runners.healing.kinds import KINDS

    if unknown := sorted(set(report_only) - {"*"} - KINDS):
        raise click.UsageError(f"--report-only {unknown[0]}: no such kind; use one of {', '.join(sorted(KINDS))}, or *")
    if bind_address is None:
        raise click.UsageError("--bind-address cannot be 0: Pods and GitHub have to come in somewhere")
    try:
        settings = DispatchSettings(
            namespace=runners_namespace,
            controller=controller,
            hold=hold,
            healing=HealingSettings(report_only=frozenset(report_only)),
            allow_accounts=allow_accounts,
            accounts_principal=accounts_principal,
            limits=limits,
            retention=retention,
        )
    except ValueError as error:
        raise click.UsageError(f"--accounts-principal {accounts_principal}: {error}") from error
    if internal_bind_address is not None and (tls_cert_file is None or tls_key_file is None):
        raise click.UsageError("--internal-bind-address needs --tls-cert-file and --tls-key-file")
    certificate = (tls_cert_file, tls_key_file) if tls_cert_file is not None and tls_key_file is not None else None
    listeners = _Listeners(bind_address, metrics_bind_address, internal_bind_address, certificate)
    sys.exit(run_measured(_run(dsn, settings, kubeconfig, listeners, page_host)))


@dataclass(frozen=True, slots=True)
class _Listeners:
    strangers: tuple[str, int]
    metrics: tuple[str, int] | None
    internal: tuple[str, int] | None
    certificate: tuple[Path, Path] | None
    """Of the internal listener, with its key."""


async def _run(
    dsn: str,
    settings: "DispatchSettings",
    kubeconfig: Path | None,
    listeners: _Listeners,
    page_hosts: tuple[str, ...],
) -> int:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from paddock.base.clock import SystemClock
    from paddock.base.event_loop import report_turns
    from paddock.base.garbage import collect_rarely, collected_by_the_clock
    from paddock.base.http_server import Tls, bind, listening, serving_when_there
    from paddock.base.logs import get_logger
    from paddock.base.metrics import CollectorRegistry
    from paddock.base.rng import unseeded
    from paddock.clients.github import GitHubClient, GitHubSettings
    from paddock.kube import config as kube_config
    from paddock.kube.client import Client
    from paddock.kube.metrics import KubeMetrics
    from paddock.runners.ledger import SCHEMA, Ledger, Listener
    from paddock.runners.processes.dispatch import RunnerContext, RunnerService
    from paddock.web.guard import LOOPBACK, guarded_routes
    from paddock.web.reading import ReadingPage

    clock, rng, registry = SystemClock(), unseeded(), CollectorRegistry()
    metrics = KubeMetrics(registry)
    report_turns(registry, "dispatch")
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(collected_by_the_clock())
            stack.push_async_callback(_ended, asyncio.create_task(collect_rarely(clock), name="garbage"))
            app_settings = GitHubSettings.from_env(os.environ)
            client = await stack.enter_async_context(Client(kube_config.load(kubeconfig, clock=clock), metrics=metrics))
            github = await stack.enter_async_context(GitHubClient(app_settings, clock, rng))
            ledger = await stack.enter_async_context(Ledger.open(dsn, clock=clock, rng=rng, size=16))
            context = RunnerContext(
                ledger=ledger,
                listener=Listener(dsn, schema=SCHEMA, clock=clock, rng=rng, timeout=settings.backstop),
                github=github,
                client=client,
                secrets=lambda: app_settings.webhook_secrets,
                clock=clock,
                rng=rng,
                registry=registry,
                kube_metrics=metrics,
                name=socket.gethostname(),
                concerns=lambda: _concerns(dsn, listeners, clock),
                scale_sets=github.scale_sets,
            )
            for concern in _concerns(dsn, listeners, clock):
                if concern.fix:
                    get_logger("dispatch").warning(concern.found, remedy=concern.fix)
            service = RunnerService(context, settings)
            stop = asyncio.Event()
            when_told_to_stop(stop.set)
            running = asyncio.create_task(service.run(), name="runners")
            stack.push_async_callback(_ended, running)
            if (metrics_address := listeners.metrics) is not None:
                # What shows names of accounts and repositories is here, where no runner Pod and no stranger comes.
                page = ReadingPage(
                    service,
                    context,
                    environment=client.config.server,
                    names=page_hosts,
                    healthy=lambda: None if (health := _ready(service, stop)).ok else health.text,
                )
                stack.push_async_callback(_ended, asyncio.create_task(page.run(), name="page"))
                routes = [
                    metrics_route(registry),
                    *probe_routes(lambda: _alive(running, service), lambda: _ready(service, stop)),
                    *guarded_routes(service.readable, {*LOOPBACK, *page_hosts}),
                    Mount("/", page.app),
                ]
                socket_ = bind(metrics_address[1], "--metrics-bind-address", metrics_address[0])
                await stack.enter_async_context(listening(Starlette(routes=routes), socket_))
                stack.callback(page.end)
            routes = service.routes
            if listeners.internal is not None and listeners.certificate is not None:
                routes = service.strangers
                tls = Tls(*listeners.certificate)
                door = bind(listeners.internal[1], "--internal-bind-address", listeners.internal[0])
                internal = serving_when_there(Starlette(routes=service.operators), door, tls, clock)
                stack.push_async_callback(_ended, asyncio.create_task(internal, name="internal"))
            address = listeners.strangers
            door = bind(address[1], "--bind-address", address[0])
            await stack.enter_async_context(listening(Starlette(routes=routes), door, strangers=service.door))
            await stop.wait()
            # While the server still answers: what is being served gets out, everybody else is told to ask again.
            await service.stop()
    except Exception as error:
        told = why_it_cannot_start(error)
        if told is None:
            raise
        say(f"paddock: {told}", err=True)
        return 1
    return 0


def _concerns(dsn: str, listeners: _Listeners, clock: "Clock") -> "list[Concern]":
    from paddock.runners.http.concerns import certificate_concern, database_concern

    certificate = listeners.certificate[0] if listeners.internal and listeners.certificate else None
    return [database_concern(dsn), certificate_concern(certificate, clock.now())]


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _alive(running: "asyncio.Task[None]", service: "RunnerService") -> "HealthProbes":
    """What stops claims is said, and is no reason to start the process again: that would not mend it."""
    from paddock.kube.manager import HealthProbes

    if running.done():
        return HealthProbes(False, "the service has ended")
    return HealthProbes(True, "\n".join(one.found for one in service.concerns() if one.weight == "stops") or "ok")


def _ready(service: "RunnerService", stop: asyncio.Event) -> "HealthProbes":
    """Ready once pools, Pods and accounts are known; not any more once it is told to stop, so that Pods ask elsewhere."""
    from paddock.kube.manager import HealthProbes

    if stop.is_set():
        return HealthProbes(False, "stopping")
    waiting = service.waiting_for()
    return HealthProbes(not waiting, "\n".join(waiting) or "ok")
