"""The executors, in steps: what each reads, decides and writes, in the order of `paddock.hosts.controllers`.

A pass is a chain of stages; between any two of them it can be parked, and then anything else may happen. One stage makes
one read or one effect. Writes to Kubernetes are guarded by the version that was read (`fresh_machine`, `fresh_host`):
a guard that does not hold any more makes the write nothing. A `send` is a call to the cloud: parked, it is decided but
not sent, or sent but not arrived; taken and then dropped, it arrived and its answer was lost.
"""

from collections.abc import Iterator
from typing import NamedTuple, cast

from unit.hosts.model import decisions
from unit.hosts.model.decisions import Rules
from unit.hosts.model.world import (
    NOBODY,
    H,
    M,
    Name,
    Parked,
    R,
    State,
    Uid,
    pooled,
    waiting_host,
    waiting_machine,
)

_GUARDED_BY_MACHINE = frozenset({"intend", "forget", "bind", "verified", "hostless", "bound-again", "unproven"})
_GUARDED_BY_HOST = frozenset(
    {"record", "write-claim", "restore-claim", "take-back", "freed", "request-wipe", "mark-started"}
)
_RESTING = frozenset({"claim/look", "verify/look", "release/look", "request-wipe", "send"})
"""Stages whose next cloud call rests on reads made before: these hold up the waiting times."""


class Outcome(NamedTuple):
    """What one stage came to. `next` is the rest of the pass; `broken` names a violated invariant."""

    state: State
    next: Parked | None
    said: str
    broken: str = ""


def settled_host(state: State, host: int, rules: Rules) -> bool:
    return not rules.waits or not any(item.waits & waiting_host(host) for item in state.parked)


def _settled_machine(state: State, slot: int, rules: Rules) -> bool:
    return not rules.waits or not any(item.waits & waiting_machine(slot) for item in state.parked)


def mirrored(state: State, number: int) -> H:
    """The Host with its status: what the cloud shows now, or what it showed when the inventory fell behind."""
    host, server = state.hosts[number], state.servers[number]
    if host.shown is not None:
        return host
    judged = decisions.verdict(number, host, server, state.machines)
    return host._replace(shown=(server.name, not server.wiping, judged.state.value))


# Writes


def _swap(row: tuple, at: int, value: object) -> tuple:
    return (*row[:at], value, *row[at + 1 :])


def write_machine(state: State, slot: int, machine: M | None) -> State:
    """Any write makes older reads of the machine stale; a machine without a host waits for nothing."""
    keep = -1 if machine is not None and machine.server != NOBODY else ~waiting_machine(slot)
    parked = tuple(
        item._replace(fresh_machine=item.fresh_machine and item.slot != slot, waits=item.waits & keep)
        if item.slot == slot or item.waits & ~keep
        else item
        for item in state.parked
    )
    return state._replace(machines=_swap(state.machines, slot, machine), parked=parked)


def write_host(state: State, number: int, host: H) -> State:
    keep = -1 if host.claim is None else ~waiting_host(number)
    parked = tuple(
        item._replace(fresh_host=item.fresh_host and item.host != number, waits=item.waits & keep)
        if item.host == number or item.waits & ~keep
        else item
        for item in state.parked
    )
    return state._replace(hosts=_swap(state.hosts, number, host), parked=parked)


def _wait(state: State, mark: int, older: int) -> State:
    """A waiting time begins that counts from a decision; `older` parked passes rest on reads made before it."""
    parked = tuple(
        item._replace(waits=item.waits | mark if at < older and item.stage in _RESTING else item.waits & ~mark)
        for at, item in enumerate(state.parked)
    )
    return state._replace(parked=parked)


def _free(state: State, number: int, older: int, **also: object) -> State:
    host = state.hosts[number]._replace(claim=None, **also)
    return _wait(write_host(state, number, host), waiting_host(number), older)


# Stages. `older` is how many of state.parked are older than the reads of this pass; the pass itself is not among them.


def machine_pass(state: State, slot: int) -> Parked:
    """The first read of a pass over a machine."""
    return Parked("machine", slot, NOBODY, True, False, (state.machines[slot],))


def advance(state: State, item: Parked, older: int, rules: Rules) -> Iterator[Outcome]:
    """Every way in which the next stage of a pass can go."""
    match item.stage:
        case "machine":
            yield from _machine(state, item, rules)
        case "acquire":
            yield from _acquire(state, item, rules)
        case "claim/look" | "verify/look" | "release/look" | "sweep/look":
            yield from _look(state, item, rules)
        case "send":
            yield _arrive(state, item)
        case "finalizer":
            slot, generation = item.slot, item.what[0]
            machine = state.machines[slot]
            if machine is not None and machine.generation == generation and machine.deleting:
                state = write_machine(state, slot, None)
            yield Outcome(state, None, "finalizer goes")
        case "intend" | "forget" | "bind" | "verified" | "hostless" | "bound-again" | "unproven":
            yield from _write_machine(state, item, older, rules)
        case _:
            yield from _write_host(state, item, older, rules)


def _machine(state: State, item: Parked, rules: Rules) -> Iterator[Outcome]:
    """The machine is read; now its host is."""
    machine = cast("M", item.what[0])
    slot = item.slot
    number = machine.server if machine.server != NOBODY else machine.claiming
    host = mirrored(state, number) if number != NOBODY else None
    if machine.deleting:
        end = Parked("finalizer", slot, NOBODY, False, False, (machine.generation,))
        if host is not None and decisions.ending(slot, machine, number, host) == ("RecordRelease",):
            by: Uid = (slot, machine.generation)
            end = Parked("record", slot, number, False, True, (_shown_name(host), by), end)
        yield Outcome(state, end, "decides the ending")
        return
    if machine.server == NOBODY:
        yield from _acquire(state, item, rules)
        return
    assert host is not None
    rivals = tuple(
        (other, rival)
        for other, rival in enumerate(state.machines)
        if rival is not None and other != slot and rival.server == number
    )
    match decisions.ownership(slot, machine, number, host, rivals):
        case ("LetGo",):
            yield Outcome(state, item._replace(stage="hostless", host=number), "lets go of the host")
        case ("WriteMissingClaim", int(epoch)):
            claim = item._replace(stage="restore-claim", host=number, fresh_host=True, what=(machine, epoch))
            if rules.restored_claim_is_proven_again and machine.verified:
                claim = item._replace(stage="unproven", host=number, fresh_host=True, what=(machine,), then=claim)
            yield Outcome(state, claim, "restores its claim")
        case ("Keep",) if machine.verified:
            if rules.keep_reads_machine_again and state.machines[slot] != machine:
                return
            own: Uid = (slot, machine.generation)
            server = state.servers[number]
            used = state._replace(servers=_swap(state.servers, number, server._replace(tenant=own)))
            yield Outcome(used, None, "works on the host", _misuse(state, slot, machine))
            hostless = item._replace(stage="hostless", host=number)
            yield Outcome(
                state,
                Parked("record", slot, number, item.fresh_machine, True, (_shown_name(host), own), hostless),
                "gives up on the host",
            )
        case ("Keep",):
            settled = _settled_machine(state, slot, rules)
            if decisions.verification(slot, machine, number, _held(host), None, settled) == ("Look",):
                look = item._replace(
                    stage="verify/look", host=number, fresh_host=True, what=(machine, state.hosts[number])
                )
                yield Outcome(state, look, "the claim is to be verified")


def _shown_name(host: H) -> Name:
    assert host.shown is not None
    return host.shown[0]


def _held(host: H) -> tuple[int, int, int]:
    assert host.claim is not None
    return host.claim


def _acquire(state: State, item: Parked, rules: Rules) -> Iterator[Outcome]:
    """One step of getting a host; the machine may have been read long ago."""
    machine = cast("M", item.what[0])
    slot, number = item.slot, machine.claiming
    if number == NOBODY:
        settled = tuple(settled_host(state, at, rules) for at in range(len(state.hosts)))
        hosts = tuple(mirrored(state, at) for at in range(len(state.hosts)))
        for choice in decisions.choices(slot, machine, hosts, settled):
            yield Outcome(state, item._replace(stage="intend", host=choice), f"chooses host {choice}")
        return
    host = mirrored(state, number)
    item = item._replace(host=number, fresh_host=True)
    match decisions.claim_step(slot, machine, number, host, None, settled_host(state, number, rules)):
        case ("Look",):
            yield Outcome(state, item._replace(stage="claim/look", what=(machine, state.hosts[number])), "the claim is its own")
        case ("WriteClaim", int(epoch)):
            yield Outcome(state, item._replace(stage="write-claim", what=(machine, epoch)), "decides to claim")
        case _:
            yield Outcome(state, item._replace(stage="forget"), "decides to forget its intent")


def _look(state: State, item: Parked, rules: Rules) -> Iterator[Outcome]:
    """The server is read, and what it shows is decided on."""
    number, slot = item.host, item.slot
    server = state.servers[number]
    if item.stage == "sweep/look":
        yield from _sweep_looks(state, item, rules)
        return
    if item.stage == "release/look":
        host = cast("H", item.what[0])
        match decisions.release_step(rules.release_step, number, host, server):
            case ("Rename", tuple(to)):
                yield Outcome(state, item._replace(stage="send", what=("rename", to)), f"release: decides {to}")
            case ("Reinstall",):
                yield Outcome(state, item._replace(stage="request-wipe"), "release: decides to wipe")
            case ("MarkStarted",):
                yield Outcome(state, item._replace(stage="mark-started"), "release: sees the wipe")
            case ("Finish",) | ("Abandon",) as said:
                yield Outcome(state, item._replace(stage="freed"), f"release: decides {said[0]}")
            case _:
                pass
        return
    machine, host = cast("tuple[M, H]", item.what)
    again = item._replace(stage="acquire", host=NOBODY, fresh_host=False, what=(machine,), waits=0)
    if item.stage == "claim/look":
        match decisions.claim_step(slot, machine, number, host, server, True):
            case ("Rename", tuple(to)):
                send = item._replace(stage="send", what=("rename", to), then=again)
                yield Outcome(state, send, f"claim: decides {to}")
            case ("Bind",):
                yield Outcome(state, item._replace(stage="bind", what=(machine,)), "claim: decides to bind")
            case _:
                forget = again._replace(stage="forget")
                yield Outcome(state, item._replace(stage="take-back", then=forget), "claim: backs out")
        return
    match decisions.verification(slot, machine, number, _held(host), server, True):
        case ("Verified",):
            yield Outcome(state, item._replace(stage="verified", what=(machine,)), "verify: the name is ours")
        case ("RenameAgain", tuple(to)):
            bound = item._replace(stage="bound-again", what=(machine,))
            yield Outcome(state, item._replace(stage="send", what=("rename", to), then=bound), f"verify: {to} again")
        case _:
            hostless = item._replace(stage="hostless", what=(machine,))
            yield Outcome(state, item._replace(stage="take-back", then=hostless), "verify: a rival has it")


def sweep_pass(state: State, number: int, rules: Rules) -> Parked | None:
    """A finding on which the sweep acts, and the first read of its last look."""
    server, host = state.servers[number], state.hosts[number]
    action, _, reason = found = decisions.judged(number, host, server, state.machines)
    if action == "Leave" or server.wiping:
        return None
    if action == "Leave" or reason == "":
        return None
    first = host if rules.sweep_lists_machines_last else state.machines
    return Parked("sweep/look", NOBODY, number, False, rules.sweep_lists_machines_last, (found, server.name, first))


def _sweep_looks(state: State, item: Parked, rules: Rules) -> Iterator[Outcome]:
    """The last look: what was found must still be so, on reads of which the first is the oldest."""
    number = item.host
    found, name, first = item.what
    server, host, machines = state.servers[number], state.hosts[number], state.machines
    if rules.sweep_lists_machines_last:
        host = cast("H", first)
    else:
        machines = cast("tuple[M | None, ...]", first)
        item = item._replace(fresh_host=True)
    if server.name != name or decisions.judged(number, host, server, machines) != found or server.wiping:
        return
    if cast("tuple[str, str, str]", found)[0] == "HealLedger":
        yield Outcome(state, item._replace(stage="take-back", what=()), "sweep: decides to take a dead claim back")
    else:
        yield Outcome(state, item._replace(stage="record", what=(server.name, None)), "sweep: decides to reclaim")


# Effects


def _arrive(state: State, item: Parked) -> Outcome:
    """A call reaches the cloud. A wipe that reaches a host in use is what must never happen."""
    number = item.host
    server = state.servers[number]
    if item.what[0] == "rename":
        to = cast("Name", item.what[1])
        server = server._replace(name=to)
        return Outcome(state._replace(servers=_swap(state.servers, number, server)), item.then, f"cloud: named {to}")
    broken, user, wished = "", _user(state, number), state.hosts[number].release
    if user is not None and (wished is None or wished.by != user):
        broken = f"the host in use by machine {user[0]} is wiped"
    state = state._replace(servers=_swap(state.servers, number, server._replace(wiping=True)))
    return Outcome(state, item.then, "cloud: begins to wipe", broken)


def _write_machine(state: State, item: Parked, older: int, rules: Rules) -> Iterator[Outcome]:
    """A guarded write to the machine. A lost race ends the pass; in a claim it reads the machine again and goes on."""
    slot, number = item.slot, item.host
    read = cast("M", item.what[0])
    now = state.machines[slot]
    if not item.fresh_machine or now is None:
        lost = now is not None and now.generation == read.generation and item.stage in {"intend", "forget", "bind"}
        busy = now is not None and (now.deleting or now.server != NOBODY)
        if lost and not (rules.acquire_looks_again and busy):
            yield Outcome(state, Parked("acquire", slot, NOBODY, True, False, (now,)), "conflict: reads again")
        return
    said, broken = item.stage, ""
    match item.stage:
        case "intend":
            machine = now._replace(claiming=number)
        case "forget":
            machine = now._replace(claiming=NOBODY)
        case "bind":
            machine = now._replace(claiming=NOBODY, server=number, verified=False)
        case "verified":
            machine = now._replace(verified=True)
            broken = _misuse(state, slot, machine)
            server = state.servers[number]._replace(tenant=(slot, machine.generation))
            state = state._replace(servers=_swap(state.servers, number, server))
        case "hostless":
            machine = now._replace(server=NOBODY, claiming=NOBODY, verified=False)
        case _:
            machine = now._replace(verified=False)
    state = write_machine(state, slot, machine)
    if item.stage in {"bind", "bound-again", "unproven"}:
        state = _wait(state, waiting_machine(slot), older)
    if item.stage in {"intend", "forget"}:
        rest = Parked("acquire", slot, NOBODY, True, False, (machine,))
    elif item.then is not None:
        rest = item.then._replace(fresh_machine=True, fresh_host=item.fresh_host)
    else:
        rest = None
    yield Outcome(state, rest, said, broken)


def _user(state: State, number: int) -> Uid | None:
    """The live Machine that uses a host: its claim names it, and it has proven the claim."""
    claim = state.hosts[number].claim
    machine = state.machines[claim[0]] if claim is not None else None
    if claim is None or machine is None or machine.generation != claim[1] or machine.deleting:
        return None
    return claim[:2] if machine.verified and machine.server == number else None


def _misuse(state: State, slot: int, machine: M) -> str:
    """What is wrong with a machine that begins or goes on to work on its host."""
    server, own = state.servers[machine.server], (slot, machine.generation)
    if _user(state, machine.server) not in {None, own}:
        return f"machine {slot} works on the host that another machine uses"
    if server.tenant not in {None, own}:
        return f"machine {slot} works on a host with the traces of {server.tenant}"
    return f"machine {slot} works on a host that is being wiped" if server.wiping else ""


def _write_host(state: State, item: Parked, older: int, rules: Rules) -> Iterator[Outcome]:
    """A guarded write to the Host: nothing when anything about it changed since it was read."""
    number, slot = item.host, item.slot
    host = state.hosts[number]
    if not item.fresh_host:
        if item.stage in {"write-claim", "take-back"} and item.what and slot != NOBODY:
            # A lost race in a claim: the machine is read again.
            now, read = state.machines[slot], cast("M", item.what[0])
            if (
                now is not None
                and now.generation == read.generation
                and (item.then is None or item.then.stage == "forget")
            ):
                busy = now.deleting or now.server != NOBODY
                if not (rules.acquire_looks_again and busy):
                    yield Outcome(state, Parked("acquire", slot, NOBODY, True, False, (now,)), "conflict: reads again")
        return
    then = item.then
    match item.stage:
        case "record":
            name, by = cast("tuple[Name, Uid | None]", item.what)
            wipe = host.release.wipe if host.release else ""  # a merge patch keeps what it does not name
            state = write_host(state, number, host._replace(release=R(wipe, name, by)))
        case "write-claim" | "restore-claim":
            machine, epoch = cast("tuple[M, int]", item.what)
            claim = (slot, machine.generation, epoch)
            state = write_host(state, number, host._replace(claim=claim, epoch=epoch))
            if item.stage == "write-claim":
                then = item._replace(stage="acquire", host=NOBODY, fresh_host=False, what=(machine,))
        case "take-back":
            state = _free(state, number, older)
        case "freed":
            state = _free(state, number, older, release=None)
        case "request-wipe":
            assert host.release is not None
            state = write_host(state, number, host._replace(release=host.release._replace(wipe="requested")))
            if rules.frees_before_wiping:
                state = _free(state, number, older, release=None)
            then = item._replace(stage="send", what=("reinstall",))
        case "mark-started":
            assert host.release is not None
            state = write_host(state, number, host._replace(release=host.release._replace(wipe="started")))
    # The answer of the write carries the machine's guard on, as it was.
    if then is not None and item.stage in {"record", "take-back"}:
        then = then._replace(fresh_machine=item.fresh_machine)
    yield Outcome(state, then, item.stage)


def without_the_refused(state: State, rules: Rules) -> State:
    """Without the parked passes whose next write is sure to be refused: they can only be dropped.

    A claim that is refused reads its machine again and goes on, which is what a new pass does, too; but only if it looks
    whether there is still something to claim for.
    """
    kept = tuple(
        item
        for item in state.parked
        if ((item.fresh_machine or item.stage not in _GUARDED_BY_MACHINE)
        and (item.fresh_host or item.stage not in _GUARDED_BY_HOST))
        or (not rules.acquire_looks_again and item.stage in {"intend", "forget", "bind", "write-claim", "take-back"})
    )
    return state if len(kept) == len(state.parked) else state._replace(parked=kept)


def claimable(state: State, number: int, rules: Rules) -> bool:
    """Whether a machine could take this host now, by the two ledgers."""
    host, server = state.hosts[number], state.servers[number]
    free = host.claim is None and host.release is None and pooled(server.name) and not server.wiping
    return free and settled_host(state, number, rules)
