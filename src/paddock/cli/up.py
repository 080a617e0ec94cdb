"""`paddock up`: everything on one machine, in the foreground, until Ctrl-C."""

import asyncio
import os
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.base.tasks import end
from paddock.cli.host_flags import Duration, fleet_config, host_flags, host_settings, missing_from_fleet
from paddock.cli.limit_flag import account_flag, limit_flag
from paddock.cli.listeners import BindAddress
from paddock.cli.long_running import log_level_flag, when_told_to_stop
from paddock.cli.output import say
from paddock.cli.retention_flags import retention_flags
from paddock.cli.start_errors import why_it_cannot_start

if TYPE_CHECKING:
    from paddock.all_in_one.start import Options, Running
    from paddock.runners.api.settings import DispatchSettings

__all__ = ["command", "hint"]

_SIMULATED_REQUEST_TIMEOUT = 2.0
# What a newcomer wants to see without asking: a sweep that comes within seconds, and that reclaims orphaned Macs.
_SIMULATED = {"orphan_reclaim_interval": 15.0, "orphan_reclaim_claim_name_prefix": "mac-fleet-"}


@click.command("up")
@click.option("--simulate", is_flag=True, help="Use a simulated cloud: no account is needed, nothing is rented.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Port of the page.")
@click.option(
    "--kube-port", default=8443, show_default=True, type=click.IntRange(0, 65535), help="Port of the Kubernetes API."
)
@click.option(
    "--data",
    default=".paddock",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that keeps everything between runs.",
)
@click.option(
    "--advertise-address",
    default="",
    help="The name or address by which Macs reach this machine. The Kubernetes API and --dispatch-port then listen on "
    "every address, with TLS certificates for it.",
)
@click.option(
    "--dispatch-port",
    default=8444,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Where Macs ask for jobs, with --advertise-address.",
)
@click.option(
    "--api-server-url",
    default="",
    help="How the Macs reach the Kubernetes API, such as https://paddock.example.com:8443; it listens on every address then.",
)
@click.option(
    "--runner-bind-address",
    type=BindAddress(),
    default="0",
    show_default=True,
    help="Where GitHub's webhooks and the Macs come in, such as :8082; the page stays on loopback. 0: only there.",
)
@click.option(
    "--runner-dispatch-url", default="", help="How the Macs reach that address, such as https://paddock.example.com."
)
@click.option("--dsn", default="", envvar="PADDOCK_DSN", help="Use this Postgres instead of starting one.")
@click.option("--hosts", default=20, show_default=True, type=click.IntRange(0, 10_000), help="Simulated Macs at first.")
@click.option(
    "--speed",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0.1, 100_000),
    help="Simulated seconds per real second, for the delays of the simulated world.",
)
@click.option(
    "--jobs",
    default=0.6,
    show_default=True,
    type=click.FloatRange(0, 5),
    help="Simulated jobs, as a share of what the Macs could run; 0 for none, above 1 makes a queue.",
)
@account_flag
@limit_flag
@retention_flags
@click.option(
    "--job-source",
    default="ScaleSet",
    show_default=True,
    type=click.Choice(["ScaleSet", "Webhook"]),
    help="How the first simulated pool hears of its jobs: GitHub's queue is asked, or GitHub calls.",
)
@click.option("--seed", type=int, help="Make the same simulated world again.")
@click.option(
    "--world-linger",
    default="30m",
    show_default=True,
    type=Duration(),
    help="How long the simulated world goes on after Paddock was killed and did not come back.",
)
@log_level_flag("warning", "What is said on the terminal; the page and `paddock events` tell the rest.")
@host_flags("tuist-pool-")
def command(**flags: Any) -> None:
    """Run everything on this machine: database, Kubernetes-compatible API, controllers and the page."""
    from paddock.all_in_one.start import Options
    from paddock.base.event_loop import run_measured

    # One process leads by itself, so there is no lease to outlive; a simulated cloud answers at once.
    pace = (
        {"request_timeout": _SIMULATED_REQUEST_TIMEOUT, "inventory_interval": 5.0, "bootstrap_spread": 2.0}
        if flags["simulate"]
        else {}
    )
    if flags["simulate"]:
        context, unsaid = click.get_current_context(), click.core.ParameterSource.DEFAULT
        flags |= {name: value for name, value in _SIMULATED.items() if context.get_parameter_source(name) is unsaid}
    flags |= _addresses(flags)
    fleet = fleet_config(flags)
    if not flags["simulate"]:
        _check_credentials()
        for flag, problem in (missing_from_fleet(flags) | _unreachable(flags)).items():
            say(f"paddock: {flag}: {problem}", err=True)
    # Simulated Macs always have an agent; real ones have one if the fleet's file names it.
    expect_nodes = flags["simulate"] or fleet.agent is not None
    options = Options(
        data=flags["data"],
        port=flags["port"],
        kube_port=flags["kube_port"],
        dsn=flags["dsn"],
        simulate=flags["simulate"],
        hosts=flags["hosts"],
        speed=flags["speed"],
        jobs=flags["jobs"] if flags["simulate"] else 0.0,
        job_source=flags["job_source"],
        dispatch=replace(
            _dispatch_settings(simulate=flags["simulate"], namespace=flags["namespace"]),
            allow_accounts=flags["allow_accounts"],
            limits=flags["limits"],
            retention=flags["retention"],
        ),
        seed=flags["seed"],
        world_linger=flags["world_linger"],
        api_server_url=_checked_url(flags["api_server_url"]),
        macs_door=("0.0.0.0", flags["dispatch_port"]) if flags["own_dispatch"] else None,  # noqa: S104 - TLS
        runner_door=flags["runner_bind_address"],
        runner_url=flags["runner_dispatch_url"],
        fleet=fleet,
        ssh_port=flags["ssh_port"],
        settings=host_settings(flags, lease_duration=0.0, expect_nodes=expect_nodes, **pace),
    )
    sys.exit(run_measured(_run(options)))


def _addresses(flags: dict[str, Any]) -> dict[str, Any]:
    """What Macs are told, where one address is given for all of it. A URL that is given in its own flag holds."""
    address = flags["advertise_address"]
    if not address:
        return {"own_dispatch": False}
    if "/" in address or flags["simulate"]:
        why = "simulated Macs are on this machine" if flags["simulate"] else "give a name or an address, and no URL"
        raise click.UsageError(f"--advertise-address {address!r}: {why}")
    if not flags["kube_port"]:
        raise click.UsageError("--advertise-address needs a --kube-port that stays the same: Macs keep it")
    host = f"[{address}]" if ":" in address else address
    return {
        "api_server_url": flags["api_server_url"] or f"https://{host}:{flags['kube_port']}",
        "runner_dispatch_url": flags["runner_dispatch_url"] or f"https://{host}:{flags['dispatch_port']}",
        "own_dispatch": not flags["runner_dispatch_url"],
    }


def _unreachable(flags: dict[str, Any]) -> dict[str, str]:
    """What keeps Macs from reaching us, by flag, with its remedy."""
    if flags["api_server_url"] and flags["runner_dispatch_url"]:
        return {}
    listens = "the Kubernetes API listens on loopback" if not flags["api_server_url"] else "Macs are told no dispatch"
    return {
        "--advertise-address": f"{listens}, so no Mac can join: give the name or address by which Macs reach this machine"
    }


def _check_credentials() -> None:
    """Before anything starts: what is missing is one sentence then."""
    from paddock.clients import github, scaleway

    try:
        scaleway.ScalewaySettings.from_env(os.environ)
        if os.environ.get("PADDOCK_GITHUB_APP_ID"):
            github.GitHubSettings.from_env(os.environ)
    except (scaleway.SettingsError, github.SettingsError) as error:
        say(f"paddock: {error}; or give --simulate, which needs no account", err=True)
        sys.exit(1)


def _checked_url(url: str) -> str:
    from urllib.parse import urlsplit

    if url and (urlsplit(url).scheme != "https" or not urlsplit(url).hostname):
        raise click.UsageError(f"--api-server-url {url!r} is not an address such as https://paddock.example.com:8443")
    return url


def _dispatch_settings(*, simulate: bool, namespace: str) -> "DispatchSettings":
    """A demo heals in seconds instead of five minutes; against the real GitHub the defaults hold."""
    from datetime import timedelta

    from paddock.runners.api.settings import DispatchSettings, HealingSettings

    if not simulate:
        return DispatchSettings(namespace=namespace)
    soon, sooner = timedelta(seconds=30), timedelta(seconds=10)
    quick = HealingSettings(
        every=5.0,
        claim_grace=soon,
        silent_dispatcher=sooner,
        assignment_grace=soon,
        registration_deadline=soon,
        finished_grace=soon,
        progress_grace=soon,
        lost_communication=timedelta(minutes=1),
        missing_grace=sooner,
        missing_confirm=sooner,
        session_absence=soon,
        queued_verify=timedelta(minutes=1),
        redelivery_every=10.0,
    )
    return DispatchSettings(namespace=namespace, healing=quick)


async def _run(options: "Options") -> int:
    from paddock.all_in_one.start import all_in_one
    from paddock.all_in_one.world_process import end_world_now
    from paddock.simulator.world.folder import WorldFolder

    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            if options.simulate:
                end_world_now(WorldFolder(options.data))
            os._exit(130)  # asked twice: leave at once; Postgres notices and shuts down by itself
        stop.set()

    when_told_to_stop(on_signal)
    try:
        async with all_in_one(options) as running:
            _announce(running.page, running.kubeconfig, simulate=options.simulate)
            failure = await _until_stopped(stop, running)
            say("\nstopping…")
    except Exception as error:
        told = why_it_cannot_start(error, folder=options.data)
        if told is None:
            raise
        say(f"paddock: {told}", err=True)
        return 1
    if failure is not None:
        say(f"paddock: {failure}", err=True)
        return 1  # whoever keeps us running starts us again; a process that serves nothing would look as if it ran
    say(f"stopped; everything is kept in {options.data}")
    return 0


async def _until_stopped(stop: asyncio.Event, running: "Running") -> Exception | None:
    """Wait until we are told to stop (None), or until there is nothing left to run for: the reason."""
    told, failed = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(running.failed())
    try:
        await asyncio.wait({told, failed}, return_when=asyncio.FIRST_COMPLETED)
        return None if told.done() else failed.result()
    finally:
        await asyncio.gather(end(told), end(failed))


def _program() -> str:
    """How this program is called from where the user stands."""
    given = Path(sys.argv[0])
    try:
        return str(given.resolve().relative_to(Path.cwd()))
    except ValueError:
        return given.name


def hint(kubeconfig: Path) -> str:
    """What to type before a command: from elsewhere than the folder of `.paddock` it must be told where that is."""
    found_by_itself = kubeconfig.resolve() == (Path.cwd() / ".paddock" / "kubeconfig").resolve()
    return _program() if found_by_itself else f"KUBECONFIG={shlex.quote(str(kubeconfig))} {_program()}"


def _announce(page: str, kubeconfig: Path, *, simulate: bool) -> None:
    say(f"""
  Paddock is up{" with a simulated cloud" if simulate else ""}.

  page        {page}
  kubeconfig  {kubeconfig}
  try         kubectl --kubeconfig {kubeconfig} get samm,sash,rpool,pods
  or          {hint(kubeconfig)} status
""")
    if shutil.which("kubectl") is None:
        say("  (kubectl is not installed here; the page shows the same objects)\n")
    say("  Ctrl-C stops it.\n")
