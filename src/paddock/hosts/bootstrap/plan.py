"""What a host shall become: what the whole fleet shares, and what is this host's own.

Every value belongs to exactly one of the two. `FleetConfig` is what the configuration hash covers; `PerHost` is never in
it, so that a new password or token does not make a thousand hosts look outdated. A machine's own CPU or memory offer is
a `FleetConfig` too (`dataclasses.replace(fleet, host_cpu=…)`): it must reach the host by an update when it changes.
"""

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass, fields
from typing import Final, Literal
from urllib.parse import urlsplit

from paddock.base.secrets import Password, Secret
from paddock.hosts.bootstrap.errors import PlanError

__all__ = [
    "PLACEHOLDER_HOST",
    "CarveOut",
    "EgressFirewall",
    "FleetConfig",
    "IngressGuard",
    "LaunchdJob",
    "Payload",
    "PerHost",
    "VirtualMachines",
    "fill",
]

_NAME: Final = re.compile(r"^[a-z0-9][a-z0-9.-]{0,62}$")
_LABEL: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,120}$")
_SHA256: Final = re.compile(r"^[0-9a-f]{64}$")
_INTERFACE: Final = re.compile(r"^[a-z]{1,12}[0-9]{1,4}$")
_USER: Final = re.compile(r"^[a-z_][a-z0-9_-]{0,31}$")


def _network(field: str, text: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as error:
        raise PlanError(field, f"{text!r} is no IPv4 network ({error})") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchdJob:
    """A job that launchd keeps running. Arguments and values of the environment may name `{node_name}`, `{provider_id}`, `{kubeconfig}`,
    `{username}`, `{address}`, `{host_cpu}`, `{host_memory_mb}`, `{max_pods}` and `{node_labels}`.

    `run_as="login"` is the user of the console session, which virtual machines need. `folder` is made before the job
    starts, and is its user's.
    """

    label: str
    arguments: tuple[str, ...]
    run_as: Literal["root", "login"] = "login"
    log: str = ""
    folder: str = ""
    environment: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not _LABEL.match(self.label):
            raise PlanError("job.label", f"{self.label!r} is no launchd label: use letters, digits, dots and hyphens")
        if not self.arguments or not self.arguments[0].startswith("/"):
            raise PlanError("job.arguments", f"the first argument of {self.label} must be the program's absolute path")
        if self.folder and (not self.folder.startswith("/") or self.folder.count("/") < 3):
            raise PlanError("job.folder", f"{self.folder!r}: expected an absolute path below a folder of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A program that belongs on every host of the fleet: the virtualisation tool, the node agent, or another.

    `source` is a file beside the operator, or an https URL that the host fetches itself; `sha256` proves either.
    A `file` is installed as `install_to`; a `tarball` is unpacked into the folder `install_to`, and `command` becomes a
    small script that runs `program` inside it (a bundle keeps its entitlements only when run in place).

    Only a `swap_under_vms` payload is replaced on a live host. The virtualisation tool never is: the machines that it
    runs would die with it.
    """

    name: str
    source: str
    sha256: str
    install_to: str
    form: Literal["file", "tarball"] = "file"
    command: str = ""
    program: str = ""
    sign_ad_hoc: bool = False
    job: LaunchdJob | None = None
    health_check: tuple[str, ...] = ()
    swap_under_vms: bool = True
    agent: bool = False

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise PlanError("payload.name", f"{self.name!r}: use lower-case letters, digits, dots and hyphens")
        if not _SHA256.match(self.sha256):
            raise PlanError(f"payload {self.name}.sha256", "expected 64 lower-case hex digits (shasum -a 256 FILE)")
        if not self.install_to.startswith("/") or self.install_to.count("/") < 3:
            raise PlanError(f"payload {self.name}.install_to", "expected an absolute path below a folder of its own")
        if "://" in self.source and urlsplit(self.source).scheme != "https":
            raise PlanError(f"payload {self.name}.source", "expected a file or an https URL")
        if bool(self.command) != bool(self.program) or (self.program and self.form != "tarball"):
            raise PlanError(f"payload {self.name}.command", "command and program go together, for a tarball")
        if self.command and (not self.command.startswith("/") or self.command.count("/") < 3):
            raise PlanError(
                f"payload {self.name}.command",
                f"{self.command!r}: expected an absolute path below a folder of its own, such as /usr/local/bin/{self.name}",
            )
        if self.agent and (self.job is None or not self.swap_under_vms):
            raise PlanError(f"payload {self.name}.agent", "the node agent needs a job and must be swappable under VMs")

    @property
    def fetched_by_host(self) -> bool:
        return "://" in self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class CarveOut:
    """Something inside a blocked range that machines may reach all the same."""

    destination: str
    ports: str
    protocols: tuple[Literal["tcp", "udp"], ...] = ("tcp",)

    def __post_init__(self) -> None:
        _network("carve_out.destination", self.destination)
        if not re.match(r"^\d{1,5}(:\d{1,5})?$", self.ports):
            raise PlanError("carve_out.ports", f"{self.ports!r}: expected a port or a range such as 30000:32767")
        if not self.protocols:
            raise PlanError("carve_out.protocols", "name tcp, udp or both")


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressFirewall:
    """What virtual machines may not reach. A NetworkPolicy cannot see their traffic; the host's pf is all there is.

    `vm_interfaces` are the bridges of their network: there a packet still has the machine's own address.
    """

    vm_sources: tuple[str, ...] = ("192.168.64.0/22",)
    vm_interfaces: tuple[str, ...] = ("bridge100",)
    blocked: tuple[str, ...] = (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"),
        *("fc00::/7", "fe80::/10"),
    )
    carve_outs: tuple[CarveOut, ...] = ()

    def __post_init__(self) -> None:
        if not self.vm_sources or not self.blocked:
            raise PlanError(
                "egress_firewall", "vm_sources and blocked must each name a network (or leave it out whole)"
            )
        for network in self.vm_sources:
            _network("egress_firewall.vm_sources", network)
        for network in self.blocked:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise PlanError("egress_firewall.blocked", f"{network!r} is no network ({error})") from None
        if not self.vm_interfaces:
            raise PlanError("egress_firewall.vm_interfaces", "name the machines' bridge, such as bridge100")
        for interface in self.vm_interfaces:
            if not _INTERFACE.match(interface):
                raise PlanError("egress_firewall.vm_interfaces", f"{interface!r}: expected a name such as bridge100")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressGuard:
    """Who may reach a host's SSH port. Installed only where the host has an address inside `second_path` (a tailnet,
    a private network), so that a mistake in `allow` never leaves it without a way in.
    """

    allow: tuple[str, ...]
    second_path: str
    vm_sources: tuple[str, ...] = ("192.168.64.0/22",)

    def __post_init__(self) -> None:
        if not self.allow:
            raise PlanError("ingress_guard.allow", "name at least the operator's own egress address")
        _network("ingress_guard.second_path", self.second_path)
        for network in (*self.allow, *self.vm_sources):
            _network("ingress_guard", network)


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualMachines:
    """What hosts of the fleet provide for virtual machines. What is left out, or emptied, is undone on the hosts.

    `softnet` is the path of Softnet's program where machines shall run behind it; it then runs as root. The volume
    `shares_volume` is mounted below /Volumes, and holds what machines write to the host, all together no more than
    `shares_quota_mb`.
    """

    dhcp_lease_seconds: int = 600
    softnet: str = ""
    shares_volume: str = "paddock-shares"
    shares_quota_mb: int = 1024

    def __post_init__(self) -> None:
        if not 60 <= self.dhcp_lease_seconds <= 3600:
            raise PlanError(
                "virtual_machines.dhcp_lease_seconds", "between 60 and 3600: longer ones use up the addresses"
            )
        if self.softnet and not re.match(r"^(/[A-Za-z0-9._-]+){3,}$", self.softnet):
            raise PlanError("virtual_machines.softnet", "expected the absolute path of the program, without spaces")
        if self.shares_volume and not _NAME.match(self.shares_volume):
            raise PlanError("virtual_machines.shares_volume", "use lower-case letters, digits, dots and hyphens")
        if self.shares_quota_mb < 64:
            raise PlanError("virtual_machines.shares_quota_mb", "at least 64: two machines' logs must fit")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """Everything that all hosts of a fleet share. Its hash says whether a host is up to date."""

    payloads: tuple[Payload, ...] = ()
    egress_firewall: EgressFirewall | None = EgressFirewall()
    ingress_guard: IngressGuard | None = None
    virtual_machines: VirtualMachines | None = VirtualMachines()
    kubeconfig_path: str = "/etc/tart-kubelet/kubeconfig"
    host_cpu: int = 8
    host_memory_mb: int = 14336
    max_pods: int = 3
    node_labels: tuple[tuple[str, str], ...] = ()
    ssh_watchdog_seconds: int = 60

    def __post_init__(self) -> None:
        names = [payload.name for payload in self.payloads]
        if len(names) != len(set(names)):
            raise PlanError("payloads", f"names must differ: {', '.join(names)}")
        if sum(payload.agent for payload in self.payloads) > 1:
            raise PlanError("payloads", "at most one payload is the node agent")
        if not self.kubeconfig_path.startswith("/etc/") or self.kubeconfig_path.count("/") < 3:
            raise PlanError("kubeconfig_path", "expected a file in a folder of its own below /etc")
        if self.ssh_watchdog_seconds < 10:
            raise PlanError("ssh_watchdog_seconds", "at least 10: a probe takes up to three")
        for payload in self.payloads:
            if payload.job is not None:
                for argument in (*payload.job.arguments, *(value for _, value in payload.job.environment)):
                    fill(argument, PLACEHOLDER_HOST, self)

    @property
    def agent(self) -> Payload | None:
        return next((payload for payload in self.payloads if payload.agent), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerHost:
    """Everything that is one host's own. None of it is in the configuration hash.

    `password` is None while the cloud seals it; then nothing is ever asked of sudo with a password. `host_key` is the
    pinned fingerprint, None right after a (re)install. `fallback_address` is tried by updates alone, when the first
    address cannot be reached.
    """

    address: str
    key: Secret
    node_name: str
    username: str = "m1"
    port: int = 22
    fallback_address: str = ""
    password: Password | None = None
    provider_id: str = ""
    kubeconfig: Secret | None = None
    host_key: str | None = None

    def __post_init__(self) -> None:
        if not _USER.match(self.username):
            raise PlanError("username", f"{self.username!r} is no user name of macOS")
        if not _NAME.match(self.node_name):
            raise PlanError("node_name", f"{self.node_name!r}: expected a Kubernetes name of at most 63 characters")

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What must never be shown."""
        return tuple(value for f in fields(self) if isinstance(value := getattr(self, f.name), Secret))

    @property
    def credentials_version(self) -> str:
        """Changes when the password does, and tells nothing about it without the fleet's private key.

        Left on the host before a password is tried, so that one password is tried once, whoever leads and however often.
        """
        if self.password is None:
            return ""
        secret = self.password.reveal().encode()
        return hmac.new(self.key.reveal().encode(), secret, hashlib.sha256).hexdigest()[:16]


PLACEHOLDER_HOST: Final = PerHost(
    address="host.invalid",
    key=Secret("placeholder"),
    node_name="placeholder",
    provider_id="placeholder",
    password=Password("placeholder"),
    kubeconfig=Secret("placeholder"),
)
"""The host for which a configuration is rendered when it is hashed: so no field of a real one can be in the hash."""


def fill(template: str, host: PerHost, fleet: FleetConfig) -> str:
    """A job's argument with this host's values; PlanError for a name that means nothing."""
    values = {
        "node_name": host.node_name,
        "provider_id": host.provider_id,
        "username": host.username,
        "address": host.address,
        "kubeconfig": fleet.kubeconfig_path,
        "host_cpu": str(fleet.host_cpu),
        "host_memory_mb": str(fleet.host_memory_mb),
        "max_pods": str(fleet.max_pods),
        "node_labels": ",".join(f"{key}={value}" for key, value in sorted(fleet.node_labels)),
    }
    try:
        return template.format_map(values)
    except (KeyError, ValueError, IndexError) as error:
        known = ", ".join(f"{{{name}}}" for name in values)
        raise PlanError("job.arguments", f"{template!r} names something unknown ({error}); known are {known}") from None
