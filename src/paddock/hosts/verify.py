"""Whether a machine's host is still its own, and whether that is proven by the host's name. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.clients.scaleway import Server
from paddock.clients.scaleway.model import REINSTALLING
from paddock.hosts.api import BOOTSTRAPPED, HostClaim, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.claim import claim_marker
from paddock.hosts.names import Rename
from paddock.hosts.waits import settling_left
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition

__all__ = [
    "INTRODUCED",
    "RESTORED",
    "KeepBinding",
    "LetGo",
    "NotVerifiedYet",
    "Ownership",
    "Verified",
    "WaitForInventory",
    "WriteMissingClaim",
    "bootstrapped_before",
    "ownership",
    "provider_id",
    "server_in",
    "server_zone",
    "unheard",
    "verification",
]

RESTORED = "Restored"
"""The reason of `Bootstrapped` on a machine that was moved or restored: its Mac is a node of another cluster, or of none."""
INTRODUCED = "Introduced"
"""The same, once its agent was told of this cluster; until it is heard of."""
_PROVIDER = "scw-applesilicon://"
_WHILE_IT_IS_INSTALLED = 15.0


@dataclass(frozen=True, slots=True)
class KeepBinding:
    """The host is ours, by its claim."""


@dataclass(frozen=True, slots=True)
class WaitForInventory:
    """The Host object is not there yet: the next look at the cloud makes it."""

    message: str


@dataclass(frozen=True, slots=True)
class WriteMissingClaim:
    """The machine names this server and the server has its name, but the Host holds no claim: write it down."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LetGo:
    """The host is not this machine's (any more): forget it without touching it."""

    reason: str
    message: str


Ownership = KeepBinding | WaitForInventory | WriteMissingClaim | LetGo


def provider_id(zone: str, server_id: str) -> str:
    """How a server is named in `spec.providerID` of a machine and of its Node."""
    return f"{_PROVIDER}{zone}/{server_id}"


def server_in(provider: str) -> str:
    """The server that a provider id names; empty where it names none."""
    return provider.rpartition("/")[2] if provider.startswith(_PROVIDER) else ""


def server_zone(machine: ScalewayAppleSiliconMachine) -> str:
    """Where the machine's server is. Its spec may say something else since it was bound, which moves nothing."""
    named = machine.spec.provider_id
    if machine.status.server_id and server_in(named) == machine.status.server_id:
        return named.removeprefix(_PROVIDER).partition("/")[0]
    return machine.spec.zone


def bootstrapped_before(machine: ScalewayAppleSiliconMachine, server_id: str) -> str | None:
    """The configuration that this very host was bootstrapped with, where the machine's status does not say anything of it.

    Moves and restores bring a machine without its status; then its annotation counts, which was written after a success and
    is removed with the host. A status that says no (a bootstrap that runs, or failed) counts more.
    """
    if get_condition(machine.status.conditions, "Bootstrapped") is not None:
        return None
    server, _, config = machine.metadata.annotations.get(BOOTSTRAPPED, "").partition("/")
    return config if server and server == server_id else None


def unheard(machine: ScalewayAppleSiliconMachine, node: Node | None) -> bool:
    """Whether the machine's Mac was at work before the machine came to this cluster, and has not reported here since.

    Until then nobody here knows who works there: Pods do not move with machines, and what runs for the other cluster is in
    the agent's first report (`OtherClusterVMs`). A Node that a restore brought along is no report.
    """
    said = get_condition(machine.status.conditions, "Bootstrapped")
    server = machine.status.server_id or server_in(machine.spec.provider_id)
    came = said is not None and said.reason in (RESTORED, INTRODUCED)
    if not came and bootstrapped_before(machine, server) is None:
        return False
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None) if node is not None else None
    heard = ready.last_heartbeat_time if ready is not None else None
    return heard is None or heard < (machine.metadata.creation_timestamp or heard)


def _moved(machine: ScalewayAppleSiliconMachine, claim: HostClaim) -> bool:
    """Whether the claim is this machine's under an earlier uid: clusterctl move and restores make new uids.

    Two objects cannot have one name in one namespace, so the earlier one is gone; and only the machine that was bound to
    the server carries its provider id.
    """
    same = (claim.machine_namespace, claim.machine_name) == (machine.metadata.namespace, machine.metadata.name)
    return same and server_in(machine.spec.provider_id) == machine.status.server_id


def ownership(
    machine: ScalewayAppleSiliconMachine,
    host: ScalewayAppleSiliconHost | None,
    rivals: Sequence[ScalewayAppleSiliconMachine],
) -> Ownership:
    """Whose the server is that this machine names. `rivals` are other machines that name the same server.

    Two machines that name one server cannot come from us, but from people and backups they can: the one whose name the
    cloud shows keeps it, the other lets go.
    """
    server = machine.status.server_id
    if host is None:
        return WaitForInventory(f"the inventory has not seen server {server} yet")
    if host.status.state == "gone":
        return LetGo("HostGone", f"server {server} does not exist any more: another host is claimed")
    claim = host.spec.claim
    if host.spec.release is not None:
        return LetGo(
            "HostReleased", f"the host is being given back: {host.spec.release.message or host.spec.release.reason}"
        )
    if claim is not None and claim.machine_uid == machine.metadata.uid:
        return KeepBinding()
    if claim is not None and _moved(machine, claim):
        return WriteMissingClaim(host.spec.epoch + 1)
    if claim is not None:
        return LetGo(
            "DuplicateClaim",
            f"server {server} belongs to {claim.machine_namespace}/{claim.machine_name}: another host is claimed",
        )
    if not host.status.cloud_name:
        # The inventory makes a Host first and writes what it saw after it: a name that is not there yet is nobody else's.
        return WaitForInventory(f"the inventory has not said yet under which name the cloud shows server {server}")
    named = {rival.metadata.name for rival in rivals}
    if host.status.cloud_name != machine.metadata.name:
        if host.status.cloud_name in named:
            return LetGo(
                "DuplicateClaim",
                f"the cloud shows server {server} under the name {host.status.cloud_name}, which is another machine that names it too: another host is claimed",
            )
        return LetGo(
            "HostRenamed",
            f"the cloud shows server {server} under the name {host.status.cloud_name}, which is not ours: another host is claimed",
        )
    return WriteMissingClaim(host.spec.epoch + 1)


# Is the claim proven?


@dataclass(frozen=True, slots=True)
class Verified:
    """The name is still ours, and nothing that was sent before can change it any more."""


@dataclass(frozen=True, slots=True)
class NotVerifiedYet:
    """Too early to tell: a rival's late rename can still arrive."""

    seconds: float


def verification(
    machine: ScalewayAppleSiliconMachine, claim: HostClaim, server: Server | None, now: datetime, settle: timedelta
) -> Verified | NotVerifiedYet | Rename | LetGo | None:
    """Whether the claim is proven by the name, read no sooner than `settle` after the last rename.

    None means: it is time, read the server and ask again.
    """
    if left := settling_left(machine.status.bound_at or now, settle, now):
        return NotVerifiedYet(left.total_seconds())
    if server is None:
        return None
    if server.name == machine.metadata.name and server.status == REINSTALLING:
        # Asked for by whoever had it before a move or a restore: its disk is nobody's before that has ended.
        return NotVerifiedYet(_WHILE_IT_IS_INSTALLED)
    if server.name == machine.metadata.name:
        return Verified()
    if server.name == claim_marker(claim):
        # A late rename of our own brought the marker back.
        return Rename(machine.metadata.name, server.name)
    return LetGo(
        "RivalTookHost",
        f"the cloud shows the name {server.name}: another user of the cloud project took the host, it is not touched",
    )
