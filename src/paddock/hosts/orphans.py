"""The verdict on every host that the cloud shows: exactly one each, with its reason and its evidence. Pure.

Absence is evidence only on a complete read: the caller passes complete sets or does not call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from paddock.clients.scaleway import Server
from paddock.hosts import names
from paddock.hosts.api import HostClaim, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.names import NameKind

__all__ = ["HostState", "Owners", "Verdict", "VerdictReason", "home_of", "verdict"]


class HostState(StrEnum):
    """Whose a host is."""

    POOLED = "pooled"
    CLAIMING = "claiming"
    RELEASING = "releasing"
    OWNED = "owned"
    FOREIGN = "foreign"
    ORPHANED = "stranded"


class VerdictReason(StrEnum):
    """Why a host counts as that; the condition of its Host shows the value (docs/runbooks/conditions.md)."""

    RELEASE_RECORDED = "ReleaseRecorded"
    CLAIMED = "Claimed"
    NAMED_BY_SERVER_ID = "NamedByServerID"
    NAMED_BY_NAME = "NamedByName"
    OLDER_TENANT = "OlderTenant"
    OWNER_HAS_ANOTHER = "OwnerHasAnother"
    DEAD_CLAIM = "DeadClaim"
    CLAIM_ABANDONED = "ClaimAbandoned"
    CLAIM_PENDING = "ClaimPending"
    ORDERED_TWICE = "OrderedTwice"
    RELEASE_PENDING = "ReleasePending"
    FREE = "Free"
    NOT_USABLE_YET = "NotUsableYet"
    CANNOT_BE_WIPED = "CannotBeWiped"
    NOT_OUR_NAME = "NotOurName"
    NO_OWNER = "NoOwner"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a host is, why we think so, and by which machine it is owned, if by any."""

    state: HostState
    reason: VerdictReason
    message: str
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Owners:
    """Every live machine, those being deleted included, by what ties it to a host."""

    by_name: Mapping[str, ScalewayAppleSiliconMachine]
    by_server: Mapping[str, ScalewayAppleSiliconMachine]
    by_uid: Mapping[str, ScalewayAppleSiliconMachine]
    by_order: Mapping[str, ScalewayAppleSiliconMachine] = field(default_factory=dict)
    """Machines that rent a host of their own, by the name under which they order it."""
    pool_prefixes: frozenset[str] = frozenset()
    """The pools that machines name themselves, beside the operator's default: their hosts are pooled, too."""

    @classmethod
    def of(cls, machines: "list[ScalewayAppleSiliconMachine]") -> "Owners":
        hostless_last = sorted(machines, key=lambda machine: not machine.status.server_id)
        return cls(
            # Of two machines with one name (in two namespaces), the one that may yet own a host by its name counts.
            {machine.metadata.name: machine for machine in hostless_last},
            {machine.status.server_id: machine for machine in machines if machine.status.server_id},
            {machine.metadata.uid: machine for machine in machines},
            {names.marker_of(m.metadata.uid, 1): m for m in machines if m.spec.source == "Order"},
            frozenset(
                prefix
                for machine in machines
                if (prefix := machine.spec.adopt_pool_prefix) and names.problem_with_prefix(prefix) is None
            ),
        )

    def pool_of(self, name: str, default: str, host: ScalewayAppleSiliconHost | None) -> str | None:
        """The prefix by which a name is a pool's: the operator's, a machine's, or that of the pool in which the host was seen
        when a machine still named it. None where it is none.
        """
        known = (default, *sorted(self.pool_prefixes), host.spec.pool_prefix if host is not None else "")
        return next((prefix for prefix in known if names.kind_of(name, prefix) is NameKind.POOLED), None)

    def kind_of(self, name: str, default: str, host: ScalewayAppleSiliconHost | None) -> NameKind:
        """What a name says, by every pool that is known."""
        return names.kind_of(name, self.pool_of(name, default, host) or "")


def verdict(
    server: Server,
    host: ScalewayAppleSiliconHost | None,
    owners: Owners,
    *,
    pool_prefix: str,
    claim_name_prefix: str = "",
) -> Verdict:
    """Exactly one verdict: the ledger's own record first, then ties to live machines, then what the name says."""
    claim = host.spec.claim if host is not None else None
    if host is not None and host.spec.release is not None:
        return Verdict(
            HostState.RELEASING,
            VerdictReason.RELEASE_RECORDED,
            f"being given back: {host.spec.release.reason or 'its machine is gone'}",
        )
    claimant = owners.by_uid.get(claim.machine_uid) if claim is not None else None
    if claim is not None and claimant is not None and not _has_another(claimant, server):
        owner = f"{claim.machine_namespace}/{claim.machine_name}"
        state = HostState.OWNED if server.name == claim.machine_name else HostState.CLAIMING
        return Verdict(state, VerdictReason.CLAIMED, f"claimed by machine {owner}", claim.machine_name)
    if server.id in owners.by_server:
        name = owners.by_server[server.id].metadata.name
        return Verdict(
            HostState.OWNED, VerdictReason.NAMED_BY_SERVER_ID, f"machine {name} names this server in its status", name
        )
    named = owners.by_name.get(server.name)
    if named is not None and not named.status.server_id and _of_an_older_tenant(claim, named):
        return Verdict(
            HostState.ORPHANED,
            VerdictReason.OLDER_TENANT,
            f"the machine {server.name} of today is not the one that used this host: the disk is an older tenant's",
        )
    if named is not None and not named.status.server_id:
        return Verdict(
            HostState.OWNED,
            VerdictReason.NAMED_BY_NAME,
            f"machine {server.name} has the name of this server",
            server.name,
        )
    if named is not None:
        # Not claimed by it, not named in its status: an earlier host of that name, which it will never look at again.
        return Verdict(
            HostState.ORPHANED,
            VerdictReason.OWNER_HAS_ANOTHER,
            f"machine {server.name} has the name of this server but runs on server {named.status.server_id}: this one bills, and does nothing",
        )
    match owners.kind_of(server.name, pool_prefix, host):
        case NameKind.POOLED if claim is not None:
            return Verdict(
                HostState.POOLED,
                VerdictReason.DEAD_CLAIM,
                f"claimed by machine {claim.machine_name}, which {_lost(claimant)}: the claim is taken back",
            )
        case NameKind.POOLED:
            return _pooled(server)
        case NameKind.CLAIM_PENDING if claim is not None:
            return Verdict(
                HostState.ORPHANED,
                VerdictReason.CLAIM_ABANDONED,
                f"machine {claim.machine_name} began to claim this host and {_lost(claimant)}",
            )
        case NameKind.CLAIM_PENDING if (buyer := owners.by_order.get(server.name)) and _has_another(buyer, server):
            return Verdict(
                HostState.ORPHANED,
                VerdictReason.ORDERED_TWICE,
                f"machine {buyer.metadata.name} ordered it, and {_lost(buyer)}, which it ordered too: this one bills, and does nothing",
            )
        case NameKind.CLAIM_PENDING:
            return Verdict(
                HostState.CLAIMING,
                VerdictReason.CLAIM_PENDING,
                "carries the marker of a claim that this cluster did not make",
            )
        case NameKind.RELEASE_PENDING:
            return Verdict(
                HostState.RELEASING,
                VerdictReason.RELEASE_PENDING,
                "carries the marker of a release that this cluster has not recorded",
            )
        case NameKind.OTHER:
            return _unowned(server, claim_name_prefix)


def home_of(host: ScalewayAppleSiliconHost, default: str) -> str:
    """The prefix of the pool that a host without a machine goes back to; empty where there is none."""
    return host.spec.pool_prefix or default


def _has_another(claimant: ScalewayAppleSiliconMachine, server: Server) -> bool:
    """Whether a machine runs on another host than the one that it claims.

    Two leaders that do not know of each other can leave such a claim behind: one writes it for a machine that the other
    has made forget its intent. The machine never looks at it again, so only the sweep can end it. A machine without a
    host is another matter: it takes its claim up again by itself.
    """
    return bool(claimant.status.server_id) and claimant.status.server_id != server.id


def _of_an_older_tenant(claim: HostClaim | None, named: ScalewayAppleSiliconMachine) -> bool:
    """Whether the claim is of an earlier machine of that name. One that names the server in its spec was moved or
    restored under a new uid, and takes its host up again by itself.
    """
    return claim is not None and claim.machine_uid != named.metadata.uid and not named.spec.provider_id


def _lost(claimant: ScalewayAppleSiliconMachine | None) -> str:
    return "is gone" if claimant is None else f"runs on server {claimant.status.server_id}"


def _pooled(server: Server) -> Verdict:
    if server.unwipeable:
        return Verdict(HostState.POOLED, VerdictReason.CANNOT_BE_WIPED, f"no machine claims it: {server.unwipeable}")
    if server.usable:
        return Verdict(HostState.POOLED, VerdictReason.FREE, "free, and ready to be claimed")
    return Verdict(
        HostState.POOLED, VerdictReason.NOT_USABLE_YET, f"free, but the cloud says {server.status}: it waits for ready"
    )


def _unowned(server: Server, claim_name_prefix: str) -> Verdict:
    if claim_name_prefix and not server.name.startswith(claim_name_prefix):
        return Verdict(
            HostState.FOREIGN,
            VerdictReason.NOT_OUR_NAME,
            f"the name {server.name} is neither of the pool nor starts with {claim_name_prefix}: left alone",
        )
    return Verdict(
        HostState.ORPHANED,
        VerdictReason.NO_OWNER,
        f"no machine has the name {server.name} or names this server, and it is not in the pool: it bills, and does nothing",
    )
