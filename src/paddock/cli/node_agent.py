"""`paddock node-agent`: what runs on each Mac. It makes the Mac a Node, and each of the Node's Pods a Tart VM."""

import asyncio
import os
import ssl
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli.exit_codes import FAILED, judged
from paddock.cli.listeners import BindAddress, metrics_app
from paddock.cli.long_running import when_told_to_stop
from paddock.cli.output import say
from paddock.kube.version import KUBERNETES

if TYPE_CHECKING:
    from paddock.node.settings import AgentSettings

__all__ = ["agent_flags", "agent_settings", "command"]

_PATH = click.Path(path_type=Path)


class _Labels(click.ParamType):
    """`key=value,key=value`, as the kubelet takes it."""

    name = "labels"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        pairs = [part.partition("=") for part in value.split(",") if part]
        for key, equals, _ in pairs:
            if not key or not equals:
                self.fail(f"{key!r} is no label: write key=value,key=value", param, ctx)
        return {key: text for key, _, text in pairs}


@click.group("node-agent", invoke_without_command=True)
@click.option("--node-name", help="The Node's name, which is the Machine's.")
@click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="The agent's own kubeconfig.")
@click.option("--namespace", help="Look at Pods of this namespace only: for a ServiceAccount that may see no other.")
@click.option("--dispatch-url", help="Where the dispatch service is; the agent asks there for its Pods.")
@click.option("--provider-id", default="", help="The Node's spec.providerID.")
@click.option("--node-labels", type=_Labels(), default="", help="Labels of the Node: key=value,key=value.")
@click.option(
    "--data", type=_PATH, default="/usr/local/var/paddock/node", show_default=True, help="The journal of the VMs."
)
@click.option("--shares", type=_PATH, help="Where guests write, if not under --data: a volume with a quota.")
@click.option("--tart", type=_PATH, default="tart", show_default=True, help="The tart binary inside its app bundle.")
@click.option("--tart-home", type=_PATH, help="TART_HOME; ~/.tart if not given.")
@click.option("--kubelet-version", default=f"{KUBERNETES}-paddock", show_default=True, help="What the Node reports.")
@click.option("--max-vms", default=2, show_default=True, type=click.IntRange(1, 2), help="VMs at once; macOS allows 2.")
@click.option(
    "--metrics-bind-address",
    type=BindAddress(),
    default="127.0.0.1:9095",
    show_default=True,
    help="Where metrics are served; 0 turns them off.",
)
@click.option("--node-ip", default="", help="The Node's InternalIP: where the API server would dial it.")
@click.option(
    "--logs-bind-address",
    type=BindAddress(),
    default="0",
    show_default=True,
    help="Where `kubectl logs` is served, such as :10250, for an API server that can dial this Mac; 0 turns it off.",
)
@click.option(
    "--client-ca-file",
    type=_PATH,
    help="The authority of the API server's client certificate; if not given, the cluster is asked for it.",
)
@click.option(
    "--tls-cert-file", type=_PATH, help="The certificate for --logs-bind-address; a self-signed one if not given."
)
@click.option("--tls-private-key-file", type=_PATH, help="Its key.")
@click.option(
    "--softnet", type=_PATH, help="Run VMs behind this Softnet, which must run as root; without it, they are not."
)
@click.option("--runner-archive", type=_PATH, help="A runner for the VMs instead of the one in their image.")
@click.option("--log-file", type=_PATH, help="Write the log here, and rotate it; without it, to standard error.")
@click.option(
    "--log-level",
    default="info",
    type=click.Choice(["debug", "info", "warning", "error"]),
    show_default=True,
    help="How much to log.",
)
@click.pass_context
def command(ctx: click.Context, **flags: Any) -> None:
    """Make this Mac a Node and each Pod of the Node a Tart VM, until told to stop. VMs go on when the agent ends."""
    ctx.obj = flags
    if ctx.invoked_subcommand is not None:
        return
    _require(flags, ctx)
    _set_up_log(flags)
    sys.exit(asyncio.run(_run(flags)))


@command.command("check")
@click.option("--image", default="", help="Also clone this image, boot it, pass a file through the shares, halt it.")
@click.pass_context
def check(ctx: click.Context, image: str) -> None:
    """Prove on a Mac what no other machine can: Tart's version, the session, and that a VM starts, shares and halts.

    Exits with 3 where something is wrong; each finding names its remedy.
    """
    sys.exit(asyncio.run(_check(ctx.obj, image)))


@command.command("take-key")
@click.option("--ask", is_flag=True, help="Take none: only say which keys this Mac holds.")
@click.pass_context
def take_key(ctx: click.Context, *, ask: bool) -> None:
    """Take the key for the gateway that comes as `NUMBER KEY` on standard input, unless one with a higher number was taken.

    Prints one line of JSON, without any key. It may run beside the agent, as the agent's user and with the agent's flags.
    """
    sys.exit(asyncio.run(_take_key(ctx.obj, ask=ask)))


def _require(flags: dict[str, Any], ctx: click.Context) -> None:
    for name in ("node_name", "kubeconfig", "dispatch_url"):
        if not flags[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} is missing.", ctx)
    if bool(flags["tls_cert_file"]) != bool(flags["tls_private_key_file"]):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file belong together: give both or none.", ctx)
    if flags["node_ip"]:
        try:
            ip_address(flags["node_ip"])
        except ValueError:
            raise click.UsageError(f"--node-ip {flags['node_ip']!r} is no IP address.", ctx) from None


def agent_flags(arguments: Sequence[str]) -> dict[str, Any]:
    """What `paddock node-agent ARGUMENTS` would run with; click.UsageError where it would refuse."""
    with command.make_context("node-agent", list(arguments)) as ctx:
        _require(ctx.params, ctx)
        return ctx.params


def _set_up_log(flags: dict[str, Any]) -> None:
    from paddock.base import logs
    from paddock.node.logs import RotatingLog

    stream: Any = RotatingLog(flags["log_file"]) if flags["log_file"] else None
    logs.set_up(level=flags["log_level"], json=True if stream is not None else None, stream=stream)


def _tart_home(flags: dict[str, Any]) -> Path:
    return flags["tart_home"] or Path(os.environ.get("TART_HOME") or Path.home() / ".tart")


def agent_settings(flags: dict[str, Any]) -> "AgentSettings":
    """The agent's settings as its flags say."""
    from paddock import __version__
    from paddock.node.guest import guest_script, start_arguments
    from paddock.node.settings import AgentSettings

    return AgentSettings(
        node_name=flags["node_name"],
        data=flags["data"],
        dispatch_url=flags["dispatch_url"],
        guest_script=guest_script().encode(),
        guest_command=tuple(start_arguments("VM")[2:]),
        shares=flags["shares"],
        namespace=flags["namespace"],
        provider_id=flags["provider_id"],
        labels=flags["node_labels"],
        kubelet_version=flags["kubelet_version"],
        max_vms=flags["max_vms"],
        runner_archive=flags["runner_archive"],
        use_softnet=flags["softnet"] is not None,
        version=__version__,
        logs_port=flags["logs_bind_address"][1] if flags["logs_bind_address"] else 0,
    )


async def _run(flags: dict[str, Any]) -> int:
    from dataclasses import replace

    import httpx2

    from paddock.base.clock import SystemClock
    from paddock.base.http_server import PortInUseError, bind, listening
    from paddock.base.metrics import CollectorRegistry
    from paddock.base.rng import unseeded
    from paddock.base.supervise import keep_running
    from paddock.base.tasks import TaskStack, end
    from paddock.kube import config as kube_config
    from paddock.kube.client import Client
    from paddock.kube.errors import ConfigError
    from paddock.kube.metrics import KubeMetrics
    from paddock.node.agent import Agent, World
    from paddock.node.certificate import CertificateRenewal, RotatingIdentity
    from paddock.node.files import DiskFiles
    from paddock.node.kube_link import KubernetesLink
    from paddock.node.link import NodeTakenError
    from paddock.node.lock import AlreadyRunningError, agent_lock
    from paddock.node.log_listener import LogListener
    from paddock.node.mac_host import MacHost
    from paddock.node.metrics import AgentMetrics
    from paddock.node.tart_process import TartProcess

    clock, rng, registry, files = SystemClock(), unseeded(), CollectorRegistry(), DiskFiles()
    metrics, kube_metrics = AgentMetrics(registry), KubeMetrics(registry)
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(agent_lock(flags["data"]))
            connection = kube_config.from_kubeconfig(flags["kubeconfig"], clock=clock)
            identity = await connection.credentials.current()
            rotating = RotatingIdentity(identity) if identity.certificate else None
            if rotating is not None:
                connection = replace(connection, credentials=rotating)
            client = await stack.enter_async_context(Client(connection, metrics=kube_metrics, pool=8))
            home = _tart_home(flags)
            # One for all conversations. The cluster's own authority is trusted as well: `paddock up` signs for dispatch, too.
            tls = ssl.create_default_context()
            if connection.ca:
                tls.load_verify_locations(cadata=connection.ca)
            settings = agent_settings(flags)
            link = KubernetesLink(
                client,
                lambda: httpx2.AsyncClient(verify=tls),
                settings,
                clock=clock,
                rng=rng,
                metrics=metrics,
                kube_metrics=kube_metrics,
            )
            world = World(
                link,
                TartProcess(flags["tart"], home, softnet=flags["softnet"]),
                MacHost(home if home.exists() else Path("/"), address=flags["node_ip"]),
                files,
                clock,
                rng,
            )
            agent = Agent(world, settings, metrics=metrics)
            address = flags["metrics_bind_address"]
            if address is not None:
                sock = bind(address[1], "--metrics-bind-address", address[0])
                await stack.enter_async_context(listening(metrics_app(registry), sock))
            tasks = await stack.enter_async_context(TaskStack())
            if rotating is not None:
                renewal = CertificateRenewal(
                    client,
                    rotating,
                    flags["kubeconfig"],
                    files,
                    node_name=flags["node_name"],
                    clock=clock,
                    rng=rng,
                    metrics=metrics,
                )
                tasks.start(keep_running("certificate", renewal.run, clock, rng))
            if flags["logs_bind_address"] is not None:
                listener = LogListener(
                    flags["node_name"],
                    flags["logs_bind_address"],
                    flags["data"] / "serving",
                    flags["node_ip"],
                    flags["client_ca_file"],
                    flags["tls_cert_file"],
                    flags["tls_private_key_file"],
                )
                tasks.start(keep_running("logs", lambda: listener.run(agent, client, files, clock), clock, rng))
            work = asyncio.create_task(agent.run())
            stopped = asyncio.Event()
            when_told_to_stop(stopped.set)
            waiting = asyncio.create_task(stopped.wait())
            try:
                await asyncio.wait([work, waiting], return_when=asyncio.FIRST_COMPLETED)
            finally:
                await end(waiting)
                # VMs go on: the next agent adopts them.
                await end(work)
            if not work.cancelled():
                work.result()
    except (AlreadyRunningError, ConfigError, NodeTakenError, OSError, PortInUseError) as error:
        say(f"paddock: {error}", err=True)
        return 1
    return 0


async def _check(flags: dict[str, Any], image: str) -> int:
    from paddock.base.clock import SystemClock
    from paddock.node.check import check_mac
    from paddock.node.files import DiskFiles
    from paddock.node.mac_host import MacHost
    from paddock.node.tart_process import TartProcess

    home, wrong = _tart_home(flags), 0
    tart, host = (
        TartProcess(flags["tart"], home, softnet=flags["softnet"]),
        MacHost(home if home.exists() else Path("/")),
    )
    async for finding in check_mac(tart, host, DiskFiles(), flags["data"] / "check", image, SystemClock()):
        say(f"{'wrong' if finding.problem else 'ok':6}{finding.what}: {finding.problem or finding.seen}")
        wrong += bool(finding.problem)
    return judged(needs_a_person=bool(wrong))


async def _take_key(flags: dict[str, Any], *, ask: bool) -> int:
    import msgspec

    from paddock.node.mac_host import MacHost
    from paddock.node.take_key import LONGEST, NoKeyError, held_keys, take_key

    mac, data = MacHost(Path("/")), flags["data"]
    try:
        if ask:
            answer = await held_keys(data, mac)
        else:
            answer = await take_key(data, sys.stdin.buffer.readline(LONGEST + 1), mac)
    except (NoKeyError, OSError) as error:
        say(f"paddock: {error}", err=True)
        return FAILED
    say(msgspec.json.encode(answer).decode())
    return 0
