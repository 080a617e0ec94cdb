"""What a fleet without a fleet file puts on its Macs: our node agent from its bundle, Tart and Softnet from where the user says.

The bundle (`make bundle`, `hack/agent-bundle`) lies in the container image. It goes to each Mac over SSH: no Mac needs a way
to a registry for it. Tart and Softnet are their makers', under their licence: the user takes them (`pins`), and each Mac fetches them.
"""

import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock import __version__
from paddock.base.names import RUNTIME_LABEL, TART
from paddock.hosts.bootstrap.errors import PlanError
from paddock.hosts.bootstrap.pins import TART_LICENCE, Archive, known_version
from paddock.hosts.bootstrap.plan import FleetConfig, LaunchdJob, Payload, VirtualMachines

__all__ = [
    "AGENT",
    "BUNDLE_VARIABLE",
    "DEFAULT_BUNDLE",
    "SOFTNET",
    "SOFTNET_MISSING",
    "AgentBundle",
    "default_fleet",
    "missing_parts",
    "read_bundle",
    "softnet_payload",
]

DEFAULT_BUNDLE: Final = Path("/opt/paddock/share/paddock-node-agent-darwin-arm64.tar.gz")
"""Where the image has it."""
BUNDLE_VARIABLE: Final = "PADDOCK_BUNDLE"
AGENT: Final = "/usr/local/bin/paddock-node-agent"
_TART: Final = "/usr/local/bin/tart"
_SOFTNET_FOLDER: Final = "/usr/local/lib/paddock/softnet"
SOFTNET: Final = f"{_SOFTNET_FOLDER}/current/softnet"
"""Softnet's program where the payload puts it: the program itself, because a script in its place could not run as root."""
SOFTNET_MISSING: Final = (
    "without Softnet a Mac runs jobs of one account at a time, and its second seat stays empty where accounts mix: to use both, give "
    f"--softnet-version {known_version('softnet')} (in the chart macosFleet.softnet.version); one account needs none"
)
_DATA: Final = "/usr/local/var/paddock/node"
_TARGET: Final = "darwin-arm64"
_LONGEST_MANIFEST: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AgentBundle:
    """A bundle that was read: which version it is, and the checksum that every Mac will ask for."""

    path: Path
    sha256: str
    version: str
    target: str = _TARGET


def read_bundle(path: Path, target: str = _TARGET) -> AgentBundle:
    """The bundle at `path`; PlanError if it is no bundle or one for another machine, OSError if it cannot be read."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        with tarfile.open(path) as tar:
            first = tar.next()
            content = tar.extractfile(first) if first is not None and first.name == "manifest.json" else None
            if content is None:
                raise PlanError(str(path), "it is no bundle of the node agent (`make bundle` builds one)")
            manifest = json.loads(content.read(_LONGEST_MANIFEST))
        found = AgentBundle(path, sha256, str(manifest["version"]), str(manifest["target"]))
    except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
        raise PlanError(str(path), f"it cannot be read as a bundle ({type(error).__name__}): build it anew") from None
    if found.target != target:
        raise PlanError(str(path), f"it is for {found.target}, and the fleet's Macs need {target}")
    return found


def default_fleet(
    bundle: AgentBundle | None,
    tart: Archive | None,
    *,
    softnet: Archive | None = None,
    dispatch_url: str = "",
    logs_port: int = 0,
) -> FleetConfig:
    """The configuration without a fleet file. Without a bundle Macs are prepared, and no Node appears.

    With a `logs_port` the agents serve `kubectl logs` there; with `softnet` they run VMs behind it.
    """
    payloads: list[Payload] = []
    virtual_machines = VirtualMachines(softnet=SOFTNET if softnet is not None else "")
    if tart is not None:
        payloads.append(
            Payload(
                name="tart",
                source=tart.url,
                sha256=tart.sha256,
                form="tarball",
                install_to="/usr/local/lib/paddock/tart",
                command=_TART,
                program="tart.app/Contents/MacOS/tart",
                health_check=(_TART, "--version"),
                swap_under_vms=False,
            )
        )
    if softnet is not None:
        # Before the agent: what its command line names is there when it starts.
        payloads.append(softnet_payload(softnet.url, softnet.sha256))
    if bundle is not None:
        vms = virtual_machines
        payloads.append(_agent(bundle, dispatch_url, vms.shares_volume, vms.softnet, logs_port))
    labels = ((RUNTIME_LABEL, TART),) if bundle else ()
    return FleetConfig(payloads=tuple(payloads), virtual_machines=virtual_machines, node_labels=labels)


def softnet_payload(source: str, sha256: str) -> Payload:
    """Softnet on every Mac. VMs that run when it is replaced keep the process that they have."""
    return Payload(name="softnet", source=source, sha256=sha256, form="tarball", install_to=_SOFTNET_FOLDER)


def missing_parts(bundle: AgentBundle | None, tart: Archive | None, where: Path) -> dict[str, str]:
    """What keeps a fleet without a fleet file from running jobs: by flag, each with its remedy."""
    found = {}
    if bundle is None:
        found["--agent-bundle"] = (
            f"there is no bundle of the node agent at {where}, so no Node appears: take {DEFAULT_BUNDLE.name} from the files of "
            f"the release {__version__}, or build it in a checkout (`make bundle`), and name it; or give --fleet-config"
        )
    if tart is None:
        found["--tart-version"] = (
            f"Tart is missing, so Macs join and no VM starts: give --tart-version {known_version('tart')} and --accept-tart-licence "
            f"(in the chart macosFleet.tart.version and .acceptLicence; it is {TART_LICENCE}), or another release by --tart-url and "
            "--tart-sha256"
        )
    return found


def _agent(bundle: AgentBundle, dispatch_url: str, shares: str, softnet: str, logs_port: int) -> Payload:
    arguments = [
        AGENT,
        "--node-name={node_name}",
        "--kubeconfig={kubeconfig}",
        "--provider-id={provider_id}",
        "--node-labels={node_labels}",
        "--node-ip={address}",
        f"--tart={_TART}",
        f"--data={_DATA}",
        # launchd keeps the file below open for as long as the agent runs, whoever puts it aside: only what comes before
        # the agent's own log, and what ends it, goes there.
        f"--log-file={_DATA}/agent.log",
    ]
    if shares:
        # What guests write lies on the volume with a quota: a guest that writes and writes fills that one alone.
        arguments.append(f"--shares=/Volumes/{shares}")
    if logs_port:
        arguments.append(f"--logs-bind-address=:{logs_port}")
    if softnet:
        arguments.append(f"--softnet={softnet}")
    if dispatch_url:
        # Braces would be taken for one of the host's values.
        arguments.append(f"--dispatch-url={dispatch_url.replace('{', '{{').replace('}', '}}')}")
    return Payload(
        name="paddock-node-agent",
        source=str(bundle.path),
        sha256=bundle.sha256,
        form="tarball",
        install_to="/usr/local/lib/paddock/node-agent",
        command=AGENT,
        program="bin/paddock-node-agent",
        agent=True,
        job=LaunchdJob(
            label="dev.paddock.node-agent",
            arguments=tuple(arguments),
            # Virtual machines belong to the console's user. launchd gives a job neither a home nor Homebrew's folders.
            run_as="login",
            log="/var/log/paddock-node-agent.log",
            # Above a home, everything is root's: the user of the console could not make it.
            folder=_DATA,
            environment=(
                ("HOME", "/Users/{username}"),
                ("PATH", "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
            ),
        ),
    )
