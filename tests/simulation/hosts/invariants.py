"""What must be true of a fleet, whatever happened to it. Pure: values in, sentences about what is wrong out.

`unsafe` must be empty at every moment. `unsettled` must become empty when the disturbances are over.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.simulator.cloud.state import Host as CloudHost
from paddock.simulator.fleet_world import POOL, FakeMacs, Touch, Wipe

__all__ = ["Picture", "unsafe", "unsettled"]

HONEST_WAITS = frozenset({"NoAvailableHost", "HostBeingWiped"})


@dataclass(frozen=True)
class Picture:
    """Everything that is known of a fleet at one moment.

    `elsewhere` are servers that belong to somebody else: nothing is expected of them. `leaving` are servers whose
    deletion is scheduled or whose release may still be under way when the fleet counts as settled.
    """

    servers: Sequence[CloudHost]
    hosts: Sequence[ScalewayAppleSiliconHost]
    machines: Sequence[ScalewayAppleSiliconMachine]
    wipes: Sequence[Wipe]
    macs: FakeMacs
    elsewhere: Collection[str] = field(default_factory=frozenset)
    leaving: Collection[str] = field(default_factory=frozenset)


def unsafe(picture: Picture) -> list[str]:
    """What must never be, not even for a moment."""
    return [
        *_wiped_under_a_live_machine(picture.wipes),
        *_used_by_two(picture.macs.touched),
        *_proven_by_two(picture.machines),
        *(f"an old password was tried on {server}" for server in picture.macs.wrong_passwords),
        *(f"an old host key was expected of {server}" for server in picture.macs.changed_keys),
    ]


def unsettled(picture: Picture) -> list[str]:
    """What must not stay."""
    machines = {machine.metadata.uid: machine for machine in picture.machines}
    hosts = {host.spec.server_id: host for host in picture.hosts}
    return [
        *(problem for machine in picture.machines for problem in _not_converged(machine, hosts)),
        *(
            problem
            for server in picture.servers
            if server.id not in picture.elsewhere
            for problem in _unaccounted(server, hosts.get(server.id), machines, picture)
        ),
        *_without_server(picture),
        *_claims_of_two_hosts(picture.hosts),
    ]


# Never


def _wiped_under_a_live_machine(wipes: Iterable[Wipe]) -> list[str]:
    return [f"{wipe.how} of {wipe.server_id} at {wipe.at:.1f} under {wipe.victim}" for wipe in wipes if wipe.victim]


def _used_by_two(touched: Iterable[Touch]) -> list[str]:
    """One install, one tenant: a second one would work on the first one's disk."""
    tenants: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for touch in touched:
        tenants[touch.server_id, touch.install].add(touch.machine_uid)
    return [
        f"install {install} of {server} was worked on by {len(uids)} machines"
        for (server, install), uids in tenants.items()
        if len(uids) > 1
    ]


def _proven_by_two(machines: Iterable[ScalewayAppleSiliconMachine]) -> list[str]:
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for machine in machines:
        if machine.status.server_id and machine.status.claim_verified:
            owners[machine.status.server_id].append(machine.metadata.name)
    return [f"{server} is proven to be of {' and '.join(names)}" for server, names in owners.items() if len(names) > 1]


# Not for long


def _not_converged(machine: ScalewayAppleSiliconMachine, hosts: dict[str, ScalewayAppleSiliconHost]) -> Iterable[str]:
    name, status = machine.metadata.name, machine.status
    said = next((each for each in status.conditions if each.type == "Ready"), None)
    if machine.metadata.deletion_timestamp is not None:
        yield f"machine {name} is still being deleted: {said.message if said else 'nothing is said'}"
    elif status.ready:
        host = hosts.get(status.server_id)
        claim = host.spec.claim if host is not None else None
        if claim is None or claim.machine_uid != machine.metadata.uid:
            yield f"machine {name} is ready on {status.server_id}, which it does not claim"
        if machine.spec.provider_id.rpartition("/")[2] != status.server_id:
            yield f"machine {name} is on {status.server_id}, its providerID says {machine.spec.provider_id!r}"
    elif said is None or not said.message:
        yield f"machine {name} waits and does not say why"
    elif said.reason not in HONEST_WAITS:
        yield f"machine {name} is not ready: {said.reason}: {said.message}"
    elif status.server_id or machine.spec.provider_id:
        yield f"machine {name} waits for a host and still names {status.server_id or machine.spec.provider_id}"


def _unaccounted(
    server: CloudHost,
    host: ScalewayAppleSiliconHost | None,
    machines: dict[str, ScalewayAppleSiliconMachine],
    picture: Picture,
) -> Iterable[str]:
    if host is None:
        yield f"server {server.id} ({server.name}) has no Host"
        return
    claim, release = host.spec.claim, host.spec.release
    if release is not None:
        if server.id not in picture.leaving:
            yield f"server {server.id} ({server.name}) is still being given back"
    elif claim is not None:
        owner = machines.get(claim.machine_uid)
        if owner is None:
            yield f"server {server.id} ({server.name}) is claimed by {claim.machine_name}, which is gone"
        elif owner.status.server_id != server.id:
            yield f"server {server.id} is claimed by {claim.machine_name}, which is on {owner.status.server_id!r}"
        elif server.name != claim.machine_name:
            yield f"server {server.id} is claimed by {claim.machine_name} and named {server.name}"
    elif not server.name.startswith(POOL):
        yield f"server {server.id} is nobody's and named {server.name}"
    elif server.status != "ready":
        yield f"server {server.id} is in the pool and {server.status}"
    elif host.status.state != "pooled" or host.status.cloud_name != server.name:
        yield f"server {server.id} is in the pool, its Host says {host.status.state} and {host.status.cloud_name}"
    elif any(touch.server_id == server.id and touch.install == server.install for touch in picture.macs.touched):
        yield f"server {server.id} is in the pool with a used disk"


def _without_server(picture: Picture) -> list[str]:
    known = {server.id for server in picture.servers}
    return [
        f"Host {each.metadata.name} stands for no server" for each in picture.hosts if each.spec.server_id not in known
    ]


def _claims_of_two_hosts(hosts: Iterable[ScalewayAppleSiliconHost]) -> list[str]:
    held: defaultdict[str, list[str]] = defaultdict(list)
    for host in hosts:
        if host.spec.claim is not None and host.spec.release is None:
            held[f"{host.spec.claim.machine_name}/{host.spec.claim.machine_uid}"].append(host.metadata.name)
    return [f"machine {owner} claims {' and '.join(names)}" for owner, names in held.items() if len(names) > 1]
