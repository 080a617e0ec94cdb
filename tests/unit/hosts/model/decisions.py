"""The real decisions, asked about abstract states and answered abstractly. Each question is asked once and kept."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from unit.hosts.model.world import (
    FLEET,
    NOBODY,
    NOW,
    POOL,
    SETTLE,
    H,
    M,
    S,
    abstract_name,
    real_claim,
    real_host,
    real_machine,
    real_server,
    server_id,
)

from paddock.clients.scaleway import Gone, Server, Unknown
from paddock.hosts import claim, cluster_api, delete, disruption, orphans, reinstall, release, sweep, verify
from paddock.hosts.api import MachineStatus, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.names import Rename
from paddock.kube.builtin import Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodStatus
from paddock.kube.objects import Condition, ObjectMeta

Answer = tuple[object, ...]
"""The name of the decision's type, then what of it matters to the model."""
ReleaseDecision = Callable[[ScalewayAppleSiliconHost, Server | Gone | Unknown, datetime], release.ReleaseStep | None]
_NUMBER = {server_id(number): number for number in range(4)}


@dataclass(frozen=True)
class Rules:
    """The protocol under test. The defaults are the product's; every other value is a variant that must be caught."""

    waits: bool = True
    """Whether the waiting times are kept."""
    release_step: ReleaseDecision = release.release_step
    frees_before_wiping: bool = False
    """The seed's order: the host is free in the ledger before the wipe is asked for."""
    sweep_lists_machines_last: bool = True
    """Whether the last look before a reclaim reads the Host before the machines."""
    acquire_looks_again: bool = True
    """Whether a lost race makes a claim look whether its machine has a host already, or is being deleted."""
    restored_claim_is_proven_again: bool = True
    """Whether a machine whose missing claim is restored has to have the name read again before it goes on."""
    keep_reads_machine_again: bool = True
    """Whether a proven machine is read again after its Host, before anything is done to the host."""
    reinstalls: bool = False
    """Whether hosts are reinstalled in place; part of the product, and left out where it only costs states."""
    install_settles: bool = True
    """Whether a new disk is used only when no request for another one can arrive any more."""
    opening_writes_host: bool = True
    """Whether the Host is written before a Mac is opened to work again, so that no older read of it records a release."""
    gates: bool = True
    """Whether anybody asks who works there before a host is taken."""
    fences: bool = True
    """Whether an idle Mac is fenced, and looked at again, before it is taken."""
    waits_for_report: bool = True
    """Whether a Mac that came with a move is unknown until its agent has reported."""


@cache
def choices(slot: int, machine: M, hosts: tuple[H, ...], settled: tuple[bool, ...]) -> tuple[int, ...]:
    """The hosts that the machine may reach for: what `choose` picks from every one alone, as with a stale cache."""
    mine = claim.already_claimed(
        real_machine(slot, machine), [real_host(number, host) for number, host in enumerate(hosts)]
    )
    if mine is not None:
        return (_NUMBER[mine.host.spec.server_id],)
    picked = []
    for number, host in enumerate(hosts):
        alone = [real_host(number, host, settled[number])]
        if isinstance(claim.choose(real_machine(slot, machine).spec, POOL, alone, frozenset(), NOW), claim.Candidate):
            picked.append(number)
    return tuple(picked)


@cache
def claim_step(slot: int, machine: M, number: int, host: H, server: S | None, settled: bool) -> Answer:
    seen = real_server(number, server) if server is not None else None
    match claim.claim_step(real_machine(slot, machine), real_host(number, host, settled), seen, POOL, NOW):
        case None:
            return ("Look",)
        case claim.WriteClaim(epoch):
            return ("WriteClaim", epoch)
        case Rename(to, _):
            return ("Rename", abstract_name(number, to))
        case other:
            return (type(other).__name__,)


@cache
def ownership(slot: int, machine: M, number: int, host: H, rivals: tuple[tuple[int, M], ...]) -> Answer:
    others = [real_machine(other, rival) for other, rival in rivals]
    match verify.ownership(real_machine(slot, machine), real_host(number, host), others):
        case verify.WriteMissingClaim(epoch):
            return ("WriteMissingClaim", epoch)
        case other:
            return (type(other).__name__,)


@cache
def verification(
    slot: int, machine: M, number: int, held: tuple[int, int, int], server: S | None, settled: bool
) -> Answer:
    seen = real_server(number, server) if server is not None else None
    match verify.verification(real_machine(slot, machine, settled), real_claim(*held), seen, NOW, SETTLE):
        case None:
            return ("Look",)
        case Rename(to, _):
            return ("RenameAgain", abstract_name(number, to))
        case other:
            return (type(other).__name__,)


@cache
def ending(slot: int, machine: M, number: int, host: H) -> Answer:
    known = real_host(number, host) if number != NOBODY else None
    return (type(delete.ending(real_machine(slot, machine), known, POOL)).__name__,)


@cache
def may_end_jobs(slot: int, machine: M, number: int, host: H) -> bool:
    known = real_host(number, host) if number != NOBODY else None
    return delete.may_end_jobs(delete.ending(real_machine(slot, machine), known, POOL))


@cache
def gate(server: S, forced: bool, rules: Rules) -> str:
    """What the gate says of a Mac: Clear, Cordon or Wait. Its Node is there once its agent has reported."""
    if not rules.gates:
        return "Clear"
    node = _node(server) if server.heard else None
    pods = [_JOB] if server.job == "here" else []
    seen = disruption.occupancy(node, pods, NOW)
    if isinstance(seen, disruption.Idle) and rules.waits_for_report and verify.unheard(_MOVED, node):
        seen = disruption.Unknown("its agent has not reported", silent=True)
    if isinstance(seen, disruption.Idle) and not rules.fences:
        return "Clear"
    step = disruption.drain_step(seen, node, since=NOW, now=NOW, force=disruption.Force(everything=forced))
    return type(step).__name__


def _node(server: S) -> Node:
    at = NOW - disruption.FENCE_SETTLES if server.fence == "fenced" else NOW
    marks = {disruption.CORDONED_AT: at.isoformat()} if server.fence else {}
    said = [NodeCondition("Ready", "True", last_heartbeat_time=NOW)]
    if server.job == "another":
        said.append(NodeCondition("OtherClusterVMs", "True", reason="OneJob"))
    return Node(
        metadata=ObjectMeta(name="m", annotations=marks),
        spec=NodeSpec(unschedulable=bool(server.fence)),
        status=NodeStatus(conditions=tuple(said)),
    )


_JOB = Pod(
    metadata=ObjectMeta(name="job", labels={"tuist.dev/runner": "true", "tuist.dev/runner-account": "7"}),
    status=PodStatus(phase="Running"),
)
_MOVED = ScalewayAppleSiliconMachine(
    metadata=ObjectMeta(name="m", creation_timestamp=NOW),
    status=MachineStatus(conditions=(Condition(type="Bootstrapped", status="True", reason=verify.RESTORED),)),
)


@cache
def reinstall_step(slot: int, machine: M, number: int, server: S, settled: bool) -> str:
    settle = timedelta(0) if settled else timedelta(days=2)  # the last request was a day ago
    step = reinstall.reinstall_step(real_machine(slot, machine), real_server(number, server), NOW, settle)
    return type(step).__name__


@cache
def movable(slot: int, machine: M) -> bool:
    """Whether clusterctl goes on with a move: it waits while anything is under way that the move would lose.

    The spec has the server as soon as the machine has; the model does not tell these two writes apart.
    """
    real = real_machine(slot, machine._replace(provider=machine.server))
    return not cluster_api.lost_in_a_move(real)


@cache
def release_step(decide: ReleaseDecision, number: int, host: H, server: S) -> Answer:
    match decide(real_host(number, host), real_server(number, server), NOW):
        case Rename(to, _):
            return ("Rename", abstract_name(number, to))
        case other:
            return (type(other).__name__,)


@cache
def verdict(number: int, host: H, server: S, machines: tuple[M | None, ...]) -> orphans.Verdict:
    owners = orphans.Owners.of(
        [real_machine(slot, machine) for slot, machine in enumerate(machines) if machine is not None]
    )
    return orphans.verdict(
        real_server(number, server), real_host(number, host), owners, pool_prefix=POOL, claim_name_prefix=FLEET
    )


@cache
def judged(number: int, host: H, server: S, machines: tuple[M | None, ...]) -> tuple[str, str, str]:
    """What the sweep may do on its second sighting: the action, and the state and reason that it is done for."""
    found = verdict(number, host, server, machines)
    action = sweep.judge(
        real_server(number, server).name,
        found,
        sweep.OBSERVATIONS_NEEDED,
        FLEET,
        given=sweep.ours(real_host(number, host), real_server(number, server).name),
    )
    return type(action).__name__, found.state.value, found.reason
