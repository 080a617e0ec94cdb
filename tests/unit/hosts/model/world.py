"""The abstract world of the model, and how it is shown to the real decisions.

A state holds what the two ledgers hold (Machines, Hosts), what the cloud holds (Servers), and the passes that are parked
half-way (`Parked`). Everything is a tuple, so states can be hashed; the real structs are built from them on demand and
kept (`functools.cache`), with one fixed moment as "now".

Time is not counted. A waiting time (`notBefore`, `boundAt + settle`) that begins now marks every parked pass that has
already read what its next cloud call rests on; it is over when none of those is parked any more. That is exactly what
the settle time promises: whatever rests on reads older than the start of the wait has arrived, or never will, at its end.
"""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from uuid import NAMESPACE_OID, uuid5

from paddock.clients.scaleway import OperatingSystem, Server
from paddock.hosts import names
from paddock.hosts.api import (
    HostClaim,
    HostRelease,
    HostSpec,
    HostStatus,
    MachineSpec,
    MachineStatus,
    Reinstall,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
)
from paddock.hosts.api import OperatingSystem as HostOS
from paddock.hosts.claim import claim_marker
from paddock.hosts.release import fresh_pool_name, release_marker
from paddock.hosts.verify import provider_id
from paddock.kube.objects import ObjectMeta

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTLE = timedelta(seconds=60)
POOL = "tuist-pool-"
FLEET = "fleet-"
SLOTS = 2
NOBODY = -1
_EPOCHS = 8
_GENERATIONS = 5

Name = tuple[str | int, ...]
"""("pool", epoch), ("release", epoch), ("claim", slot, generation, epoch), ("machine", slot), ("rival",)."""
Uid = tuple[int, int]
"""(slot, generation): a Machine that is made again under its old name has another generation."""

Shown = tuple[Name, bool, str]
"""What the inventory mirrors: the name, whether it is ready, and the state of the verdict."""


class M(NamedTuple):
    """A Machine object. `claiming`, `server` and `provider` are numbers of hosts; `provider` is what a spec brought along
    from another cluster, or from a backup. `install` is how far a reinstall in place is, `forced` that a person does not
    wait for jobs.
    """

    generation: int
    deleting: bool = False
    claiming: int = NOBODY
    server: int = NOBODY
    verified: bool = False
    provider: int = NOBODY
    install: str = ""
    forced: bool = False


class R(NamedTuple):
    """A recorded release; `by` is the Machine that wished it, None for the sweep; `kills`: a person gave its jobs up."""

    wipe: str
    cloud_name: Name
    by: Uid | None
    kills: bool = False


class H(NamedTuple):
    """A Host object. `shown` is what the inventory mirrored before it fell behind; None while it keeps up. `lost`: it was made
    anew after the ledger was lost. `last` is the slot whose claim ended last.
    """

    claim: tuple[int, int, int] | None
    release: R | None
    epoch: int
    shown: Shown | None = None
    lost: bool = False
    last: int = NOBODY


class S(NamedTuple):
    """A server. `tenant` is whose traces are on its disk; None when it is clean. The rest is who works there: `job` (of a Pod
    `here`, or of `another` cluster), whether its Node is fenced (`settling`, then `fenced`), and whether its agent has
    reported to this cluster.
    """

    name: Name
    wiping: bool
    tenant: Uid | None
    job: str = ""
    fence: str = ""
    heard: bool = True


class Parked(NamedTuple):
    """A pass that stopped half-way: `slot` and `host` are what it is about; `fresh_*` whether its guards still hold.

    `waits` are the waiting times that are not over while this is parked (see `waiting_host`, `waiting_machine`). `foreign` is a
    pass of a cluster that the machine has left: all it can still do is to reach the cloud.
    """

    stage: str
    slot: int
    host: int
    fresh_machine: bool
    fresh_host: bool
    what: tuple[object, ...]
    then: "Parked | None" = None
    waits: int = 0
    foreign: bool = False


class State(NamedTuple):
    """Everything. `parked` is ordered by the age of the reads: older first."""

    machines: tuple[M | None, ...]
    hosts: tuple[H, ...]
    servers: tuple[S, ...]
    parked: tuple[Parked, ...]
    made: tuple[int, ...]
    budget: int
    moves: int = 0
    restores: int = 0


def initial(hosts: int, budget: int, moves: int = 0, restores: int = 0) -> State:
    """Every host clean, pooled, and seen by the inventory; no Machine."""
    pooled: Name = ("pool", 0)
    return State(
        (None,) * SLOTS,
        (H(None, None, 0),) * hosts,
        (S(pooled, False, None),) * hosts,
        (),
        (0,) * SLOTS,
        budget,
        moves,
        restores,
    )


def waiting_host(host: int) -> int:
    """The mark of a host's `notBefore`."""
    return 1 << (SLOTS + host)


def waiting_machine(slot: int) -> int:
    """The mark of a machine's `boundAt + settle`."""
    return 1 << slot


# The real structs


@cache
def uid(slot: int, generation: int) -> str:
    return str(uuid5(NAMESPACE_OID, f"{slot}/{generation}"))


@cache
def machine_name(slot: int) -> str:
    return f"{FLEET}{'ab'[slot]}"


@cache
def server_id(host: int) -> str:
    return str(uuid5(NAMESPACE_OID, f"server {host}"))


@cache
def real_claim(slot: int, generation: int, epoch: int) -> HostClaim:
    return HostClaim(
        machine_namespace="default",
        machine_name=machine_name(slot),
        machine_uid=uid(slot, generation),
        epoch=epoch,
        since=NOW,
    )


@cache
def real_name(host: int, name: Name) -> str:
    """The name as the product itself would compute it."""
    match name:
        case ("pool", int(epoch)):
            return fresh_pool_name(_bare(host, epoch), HostRelease(pool_prefix=POOL))
        case ("release", int(epoch)):
            return release_marker(_bare(host, epoch))
        case ("claim", int(slot), int(generation), int(epoch)):
            return claim_marker(real_claim(slot, generation, epoch))
        case ("machine", int(slot)):
            return machine_name(slot)
        case _:
            return "rival-1"


def _bare(host: int, epoch: int) -> ScalewayAppleSiliconHost:
    return ScalewayAppleSiliconHost(spec=HostSpec(server_id=server_id(host), epoch=epoch))


@cache
def _known_names(host: int) -> dict[str, Name]:
    epochs = range(_EPOCHS)
    every: list[Name] = [("pool", epoch) for epoch in epochs] + [("release", epoch) for epoch in epochs]
    every += [("claim", s, g, epoch) for s in range(SLOTS) for g in range(_GENERATIONS) for epoch in epochs]
    every += [("machine", slot) for slot in range(SLOTS)]
    return {real_name(host, name): name for name in [*every, ("rival",)]}


def abstract_name(host: int, name: str) -> Name:
    """The other way round: what a decision answered, as the model keeps it."""
    return _known_names(host)[name]


@cache
def real_machine(slot: int, machine: M, settled: bool = True) -> ScalewayAppleSiliconMachine:
    bound = machine.server != NOBODY
    return ScalewayAppleSiliconMachine(
        metadata=ObjectMeta(
            name=machine_name(slot),
            namespace="default",
            uid=uid(slot, machine.generation),
            deletion_timestamp=NOW if machine.deleting else None,
        ),
        spec=MachineSpec(
            type="M2-L",
            zone="fr-par-1",
            os="Tahoe",
            provider_id=provider_id("fr-par-1", server_id(machine.provider)) if machine.provider != NOBODY else "",
        ),
        status=MachineStatus(
            claiming=server_id(machine.claiming) if machine.claiming != NOBODY else "",
            server_id=server_id(machine.server) if bound else "",
            host_name=server_id(machine.server) if bound else "",
            bound_at=(NOW - SETTLE if settled else NOW) if bound else None,
            claim_verified=machine.verified,
            reinstall=_reinstall(machine.install),
        ),
    )


def _reinstall(install: str) -> Reinstall | None:
    """Asked long ago: whether to ask again rests on the cloud alone, which allows more than the real wait does."""
    if not install:
        return None
    wipe = "" if install == "recorded" else install
    return Reinstall(since=NOW, wipe=wipe, asked=1, asked_at=NOW - timedelta(days=1))  # pyright: ignore[reportArgumentType]


@cache
def real_host(number: int, host: H, settled: bool = True) -> ScalewayAppleSiliconHost:
    release = None
    if host.release is not None:
        release = HostRelease(
            policy="pool",
            pool_prefix=POOL,
            os_family="Tahoe",
            cloud_name=real_name(number, host.release.cloud_name),
            wipe=host.release.wipe,  # pyright: ignore[reportArgumentType]
            # Long ago: whether to ask again rests on the cloud alone, which allows more than the real wait does.
            wipe_requested_at=NOW - timedelta(days=1) if host.release.wipe else None,
        )
    name, ready, state = host.shown or (("rival",), False, "")
    return ScalewayAppleSiliconHost(
        metadata=ObjectMeta(name=server_id(number), namespace="default"),
        spec=HostSpec(
            zone="fr-par-1",
            server_id=server_id(number),
            claim=real_claim(*host.claim) if host.claim else None,
            release=release,
            last_machine=machine_name(host.last) if host.last != NOBODY else "",
            epoch=host.epoch,
            not_before=NOW if settled else NOW + SETTLE,
        ),
        status=HostStatus(
            state=state,
            cloud_name=real_name(number, name),
            cloud_status="ready" if ready else "reinstalling",
            type="M2-L",
            os=HostOS(family="Tahoe", name="macos-tahoe-26.0"),
            delivered=True,
        ),
    )


@cache
def real_server(number: int, server: S) -> Server:
    return Server(
        id=server_id(number),
        name=real_name(number, server.name),
        type="M2-L",
        zone="fr-par-1",
        status="reinstalling" if server.wiping else "ready",
        delivered=True,
        os=OperatingSystem(id="tahoe", name="macos-tahoe-26.0", family="Tahoe"),
    )


def pooled(name: Name) -> bool:
    return name[0] == "pool"


assert names.kind_of(real_name(0, ("pool", 0)), POOL) is names.NameKind.POOLED
