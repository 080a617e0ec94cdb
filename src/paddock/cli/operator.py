"""`paddock operator`: the controllers of both subsystems against a Kubernetes cluster, until it is told to stop."""

import os
import socket
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from paddock.cli.host_flags import fleet_config, host_flags, host_settings, missing_from_fleet
from paddock.cli.listeners import BindAddress, metrics_app, probes_app
from paddock.cli.long_running import kubeconfig_flag, log_level_flag, when_told_to_stop
from paddock.cli.output import say
from paddock.cli.start_errors import why_it_cannot_start

if TYPE_CHECKING:
    import random

    from paddock.base.clock import Clock
    from paddock.hosts.bootstrap import FleetConfig
    from paddock.hosts.settings import HostSettings
    from paddock.kube.client import Client
    from paddock.kube.leader import LeaderElector
    from paddock.kube.manager import Manager
    from paddock.kube.metrics import KubeMetrics
    from paddock.runners.pools.retirement import RetirementApi

__all__ = ["command"]


@click.command("operator")
@host_flags()
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Elect a leader among several operators; without it, only one may ever run.",
)
@click.option(
    "--manage-kubeconfig/--no-manage-kubeconfig",
    default=True,
    show_default=True,
    help="Make and renew the kubeconfig Secret of each Cluster API cluster; one that the operator did not make is never touched.",
)
@click.option(
    "--metrics-bind-address", type=BindAddress(), default=":8080", show_default=True, help="Where /metrics is."
)
@click.option(
    "--health-probe-bind-address",
    type=BindAddress(),
    default=":8081",
    show_default=True,
    help="Where /healthz and /readyz are.",
)
@click.option(
    "--api-server-url", default="", help="Where the Macs find the API server; without it, where this process finds it."
)
@click.option(
    "--dispatch-url", default="", help="Where `paddock dispatch` is; without it this operator keeps no runner pools."
)
@click.option(
    "--dispatch-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    default="/var/run/secrets/paddock/dispatch/token",
    show_default=True,
    help="The token that dispatch is shown: of this account, for the audience paddock-dispatch-operator; read again as it is renewed.",
)
@click.option(
    "--dispatch-ca-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The authority by which dispatch's certificate is checked, and no other; read again as it is renewed.",
)
@click.option(
    "--dispatch-certificate-secret",
    default="",
    help="The Secret in --namespace with dispatch's certificate, which the leader makes and renews; its authority is in NAME-ca.",
)
@click.option(
    "--runner-dispatch-url",
    default="",
    help="Where runner Pods find it, if that is another address than --dispatch-url.",
)
@click.option(
    "--runners-namespace", default="", help="Where pools, runner Pods and their accounts are; --namespace unless given."
)
@click.option(
    "--node-identity",
    type=click.Choice(["Certificate", "ServiceAccount"]),
    default="Certificate",
    show_default=True,
    help="What each Mac is given to speak with: a node's certificate (an account, if the cluster signs none), or an account.",
)
@click.option("--poller-image", default="", help="The image of this program, for the pollers of Linux runner Pods.")
@click.option(
    "--docker-image",
    default="docker:28-dind",
    show_default=True,
    help="The Docker daemon beside Linux runners of pools with `docker`; NAME@sha256:… to pin it.",
)
@click.option(
    "--vm-runtime-class",
    multiple=True,
    default=("kata", "kata-clh", "kata-fc", "kata-qemu"),
    show_default=True,
    help="A RuntimeClass whose Pods are VMs: only in those may that daemon be privileged.",
)
@kubeconfig_flag
@log_level_flag("info")
def command(
    leader_elect: bool,
    manage_kubeconfig: bool,
    metrics_bind_address: tuple[str, int] | None,
    health_probe_bind_address: tuple[str, int] | None,
    api_server_url: str,
    dispatch_url: str,
    dispatch_token_file: Path,
    dispatch_ca_file: Path | None,
    dispatch_certificate_secret: str,
    runner_dispatch_url: str,
    runners_namespace: str,
    poller_image: str,
    docker_image: str,
    vm_runtime_class: tuple[str, ...],
    node_identity: str,
    kubeconfig: Path | None,
    **flags: Any,
) -> None:
    """Run the controllers of hosts, fleets and runner pools against a cluster.

    The cloud's credentials are read from SCW_SECRET_KEY and SCW_DEFAULT_PROJECT_ID. Runner pools are kept where
    --dispatch-url says whom to ask before a Pod is retired.
    """
    # A process that leads without a lease has no successor whose acts its own could meet.
    fleet = fleet_config({**flags, "runner_dispatch_url": runner_dispatch_url, "dispatch_url": dispatch_url})
    for flag, problem in missing_from_fleet(flags).items():
        say(f"paddock: {flag}: {problem}", err=True)
    lease = {} if leader_elect else {"lease_duration": 0.0}
    settings = host_settings(
        flags,
        expect_nodes=fleet.agent is not None,
        manage_kubeconfig=manage_kubeconfig,
        node_identity=node_identity,
        **lease,
    )
    addresses = {
        "--metrics-bind-address": metrics_bind_address,
        "--health-probe-bind-address": health_probe_bind_address,
    }
    runners = _Runners(
        dispatch_url,
        dispatch_token_file,
        runner_dispatch_url or dispatch_url,
        runners_namespace or flags["namespace"],
        poller_image,
        dispatch_ca_file,
        dispatch_certificate_secret,
        docker_image,
        frozenset(vm_runtime_class),
    )
    if "runc" in vm_runtime_class:
        raise click.UsageError("--vm-runtime-class runc: that is a container on the Node's own kernel, and no VM")
    if dispatch_url and urlsplit(dispatch_url).scheme != "https":
        say(
            "paddock: --dispatch-url is without TLS: whoever listens on the way can retire Pods until the token ends; "
            "give dispatch --internal-bind-address and a certificate",
            err=True,
        )
    from paddock.base.event_loop import run_measured

    macs = _Macs(api_server_url, flags["ssh_port"])
    sys.exit(run_measured(_run(settings, fleet, macs, kubeconfig, leader_elect, addresses, runners)))


@dataclass(frozen=True, slots=True)
class _Macs:
    """How Macs reach the API server (an empty URL: as this process does), and how this process reaches them."""

    api_server_url: str
    ssh_port: int


@dataclass(frozen=True, slots=True)
class _Runners:
    """The flags of the runner subsystem; an empty `url` leaves it out."""

    url: str
    token: Path
    for_pods: str
    namespace: str
    poller_image: str
    authority: Path | None = None
    certificate_secret: str = ""
    docker_image: str = ""
    vm_runtime_classes: frozenset[str] = frozenset()


async def _run(
    settings: "HostSettings",
    fleet: "FleetConfig",
    macs: _Macs,
    kubeconfig: Path | None,
    elect: bool,
    addresses: dict[str, tuple[str, int] | None],
    runners: _Runners,
) -> int:
    from dataclasses import replace

    from paddock.base.clock import SystemClock
    from paddock.base.event_loop import report_turns
    from paddock.base.http_server import bind, listening
    from paddock.base.metrics import CollectorRegistry
    from paddock.base.rng import unseeded
    from paddock.clients.scaleway import ScalewayClient, ScalewaySettings
    from paddock.clients.ssh import AsyncSsh
    from paddock.hosts.bootstrap import Sequencing
    from paddock.hosts.bootstrap.fleet_bootstrapper import BootstrapContext, FleetBootstrapper
    from paddock.hosts.bootstrap.identity import ApiEndpoint
    from paddock.hosts.bootstrap.node_access import IdentityKind, NodeAccess, NodeAccessSettings
    from paddock.hosts.operator import HostOperator
    from paddock.hosts.roles import NODE_ROLE
    from paddock.kube import config as kube_config
    from paddock.kube.client import Client
    from paddock.kube.credentials import TokenFile
    from paddock.kube.manager import Manager
    from paddock.kube.metrics import KubeMetrics
    from paddock.runners.http.retirement_client import HttpRetirementApi
    from paddock.runners.tls.trust import TrustedAuthority
    from paddock.views.dispatch_word import DispatchWord

    clock, rng, metrics = SystemClock(), unseeded(), KubeMetrics(CollectorRegistry())
    report_turns(metrics.registry, "operator")
    try:
        async with AsyncExitStack() as stack:
            connection = kube_config.load(kubeconfig, clock=clock)
            at_scaleway = replace(ScalewaySettings.from_env(os.environ), request_timeout=settings.request_timeout)
            client = await stack.enter_async_context(
                Client(connection, timeout=settings.request_timeout, metrics=metrics)
            )
            cloud = await stack.enter_async_context(ScalewayClient(at_scaleway, clock, rng))
            elector = _elector(client, settings, clock, rng, metrics) if elect else None
            manager = Manager(clock=clock, rng=rng, metrics=metrics, elector=elector)
            trust = TrustedAuthority(runners.authority, clock) if runners.authority is not None else None
            retirement = (
                HttpRetirementApi(runners.url, TokenFile(runners.token, clock), trust=trust, clock=clock)
                if runners.url
                else None
            )
            if retirement is not None:
                stack.push_async_callback(retirement.close)
            identities = NodeAccessSettings(
                kind=IdentityKind(settings.node_identity),
                cluster_role=NODE_ROLE,
                pods_namespace=runners.namespace,
                own_namespace=settings.namespace,
            )
            endpoint = ApiEndpoint(macs.api_server_url or connection.server, connection.ca)
            access = NodeAccess(client, clock, rng, endpoint, identities)
            bootstrapper = FleetBootstrapper(
                BootstrapContext(client=client, cloud=cloud, ssh=AsyncSsh(), clock=clock, rng=rng, access=access),
                fleet,
                port=macs.ssh_port,
                sequencing=Sequencing(clock, rng, parallel=4 * settings.workers, spread=settings.bootstrap_spread),
            )
            HostOperator(
                manager,
                client,
                cloud,
                bootstrapper,
                settings,
                work=DispatchWord(retirement) if retirement is not None else None,
            )
            if retirement is not None:
                _add_runners(manager, client, retirement, runners)
                _add_certificate(manager, client, runners, settings.namespace, clock)
            apps = {
                "--metrics-bind-address": metrics_app(metrics.registry),
                "--health-probe-bind-address": probes_app(manager.healthz, manager.readyz),
            }
            for flag, address in addresses.items():
                if address is not None:
                    await stack.enter_async_context(listening(apps[flag], bind(address[1], flag, address[0])))
            # What is in hand is finished then, and the lease is given back for a successor.
            when_told_to_stop(manager.stop)
            await manager.run()
    except Exception as error:
        told = why_it_cannot_start(error)
        if told is None:
            raise
        say(f"paddock: {told}", err=True)
        return 1
    return 0


def _add_runners(
    manager: "Manager",
    client: "Client",
    retirement: "RetirementApi",
    runners: _Runners,
) -> None:
    """Pools and their autoscaler, with the dispatch process's books: no live Pod is deleted without its leave."""
    from paddock.clients.github import api_url_of, web_url
    from paddock.runners.pools.settings import PoolSettings
    from paddock.runners.processes.operator import RunnerOperator

    settings = PoolSettings(
        dispatch_url=runners.for_pods,
        github_url=web_url(api_url_of(os.environ)),
        namespace=runners.namespace,
        poller_image=runners.poller_image,
        docker_image=runners.docker_image,
        vm_runtime_classes=runners.vm_runtime_classes,
    )
    RunnerOperator(manager, client, retirement, settings)


def _add_certificate(manager: "Manager", client: "Client", runners: _Runners, namespace: str, clock: "Clock") -> None:
    """The leader keeps dispatch's certificate, if it is told in which Secret."""
    from paddock.runners.tls.keeper import EVERY, CertificateKeeper

    host = urlsplit(runners.url).hostname
    if runners.certificate_secret and host:
        # A Service has several names, and which of them a Pod's resolver completes is not ours to say.
        names = [host, f"{host}.cluster.local"] if host.endswith(".svc") else [host]
        keeper = CertificateKeeper(client, clock, namespace=namespace, name=runners.certificate_secret, hosts=names)
        manager.add_periodic("dispatch certificate", keeper.ensure, every=EVERY)


def _elector(
    client: "Client", settings: "HostSettings", clock: "Clock", rng: "random.Random", metrics: "KubeMetrics"
) -> "LeaderElector":
    from paddock.base.rng import new_uuid
    from paddock.kube.leader import OPERATOR_LEASE, LeaderElectionConfig, LeaderElector

    config = LeaderElectionConfig(
        name=OPERATOR_LEASE,
        namespace=settings.namespace,
        # Unique to this process: a restarted container keeps its host name, and must not take its own old lease for held.
        identity=f"{socket.gethostname()}_{new_uuid(rng)}",
        lease_duration=settings.lease_duration,
        renew_deadline=settings.renew_deadline,
    )
    return LeaderElector(client, config, clock=clock, rng=rng, metrics=metrics)
