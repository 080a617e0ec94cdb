"""`paddock dispatch`: webhook, dispatch and healing against a cluster and a Postgres, until it is told to stop."""

import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli.limit_flag import account_flag, limit_flag
from paddock.cli.listeners import BindAddress
from paddock.cli.long_running import kubeconfig_flag, log_level_flag, when_told_to_stop
from paddock.cli.output import say
from paddock.cli.retention_flags import retention_flags
from paddock.cli.start_errors import why_it_cannot_start

if TYPE_CHECKING:
    from paddock.cli.dispatch_process import Doors
    from paddock.runners.api.settings import ConfiguredLimit, DispatchSettings, Retention

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
    from paddock.cli.dispatch_process import Doors
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
    doors = Doors(bind_address, metrics_bind_address, internal_bind_address, certificate)
    sys.exit(run_measured(_run(dsn, settings, kubeconfig, doors, page_host)))


async def _run(
    dsn: str,
    settings: "DispatchSettings",
    kubeconfig: Path | None,
    doors: "Doors",
    page_hosts: tuple[str, ...],
) -> int:
    from paddock.base.clock import SystemClock
    from paddock.base.dsn import problem_of_dsn
    from paddock.base.event_loop import report_turns
    from paddock.base.logs import get_logger
    from paddock.base.metrics import CollectorRegistry
    from paddock.base.rng import unseeded
    from paddock.cli.dispatch_process import DispatchProcess, ProcessContext
    from paddock.clients.github import GitHubClient, GitHubSettings
    from paddock.kube import config as kube_config
    from paddock.kube.client import Client
    from paddock.kube.metrics import KubeMetrics

    clock, rng, registry = SystemClock(), unseeded(), CollectorRegistry()
    metrics = KubeMetrics(registry)
    report_turns(registry, "dispatch")
    try:
        async with AsyncExitStack() as stack:
            app_settings = GitHubSettings.from_env(os.environ)
            if (problem := problem_of_dsn(dsn)) is not None:
                say(f"paddock: {problem}", err=True)
                return 1
            client = await stack.enter_async_context(Client(kube_config.load(kubeconfig, clock=clock), metrics=metrics))
            github = await stack.enter_async_context(GitHubClient(app_settings, clock, rng))
            context = ProcessContext(
                dsn=dsn,
                client=client,
                github=github,
                scale_sets=github.scale_sets,
                secrets=lambda: app_settings.webhook_secrets,
                clock=clock,
                rng=rng,
                registry=registry,
                kube_metrics=metrics,
                page_hosts=page_hosts,
            )
            process = DispatchProcess(context, settings, doors)
            for concern in process.standing_concerns():
                if concern.fix:
                    get_logger("dispatch").warning(concern.found, remedy=concern.fix)
            when_told_to_stop(process.stop.set)
            await process.run()
    except Exception as error:
        told = why_it_cannot_start(error)
        if told is None:
            raise
        say(f"paddock: {told}", err=True)
        return 1
    return 0
