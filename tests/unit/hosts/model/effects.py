"""The effects of passes, one at a time: guarded writes to Kubernetes, calls that reach the cloud, and what they violate.

Writes are guarded by the version that was read (`fresh_machine`, `fresh_host`): a guard that does not hold any more makes
the write nothing. A wait that a write begins counts from the decision, so `older` says how many of the parked passes rest
on reads that are older still; the pass itself is not among the parked ones.
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

GUARDED_BY_MACHINE = frozenset(
    {
        "intend",
        "forget",
        "bind",
        "verified",
        "hostless",
        "bound-again",
        "unproven",
        "take-up",
        "record-install",
        "ask-install",
        "install-began",
        "install-ended",
    }
)
_GUARDED_BY_HOST = frozenset(
    {"record", "write-claim", "restore-claim", "take-back", "freed", "request-wipe", "mark-started"}
)
RESTING = frozenset(
    {
        "claim/look",
        "verify/look",
        "release/look",
        "request-wipe",
        "send",
        "install/look",
        "ask-install",
        "ask-install/gate",
    }
)
"""Stages whose next cloud call rests on reads made before: these hold up the waiting times."""


class Outcome(NamedTuple):
    """What one stage came to. `next` is the rest of the pass; `broken` names a violated invariant."""

    state: State
    next: Parked | None
    said: str
    broken: str = ""


def settled_host(state: State, host: int, rules: Rules) -> bool:
    return not rules.waits or not any(item.waits & waiting_host(host) for item in state.parked)


def settled_machine(state: State, slot: int, rules: Rules) -> bool:
    return not rules.waits or not any(item.waits & waiting_machine(slot) for item in state.parked)


def mirrored(state: State, number: int) -> H:
    """The Host with its status: what the cloud shows now, or what it showed when the inventory fell behind."""
    host, server = state.hosts[number], state.servers[number]
    if host.shown is not None:
        return host
    judged = decisions.verdict(number, host, server, state.machines)
    return host._replace(shown=(server.name, not server.wiping, judged.state.value))


# Writes


def swap(row: tuple, at: int, value: object) -> tuple:
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
    return state._replace(machines=swap(state.machines, slot, machine), parked=parked)


def write_host(state: State, number: int, host: H) -> State:
    keep = -1 if host.claim is None else ~waiting_host(number)
    parked = tuple(
        item._replace(fresh_host=item.fresh_host and item.host != number, waits=item.waits & keep)
        if item.host == number or item.waits & ~keep
        else item
        for item in state.parked
    )
    return state._replace(hosts=swap(state.hosts, number, host), parked=parked)


def _wait(state: State, mark: int, older: int) -> State:
    """A waiting time begins that counts from a decision; `older` parked passes rest on reads made before it."""
    parked = tuple(
        item._replace(waits=item.waits | mark if at < older and item.stage in RESTING else item.waits & ~mark)
        for at, item in enumerate(state.parked)
    )
    return state._replace(parked=parked)


def _free(state: State, number: int, older: int, **also: object) -> State:
    claim = state.hosts[number].claim
    last = claim[0] if claim is not None else state.hosts[number].last
    host = state.hosts[number]._replace(claim=None, last=last, **also)
    return _wait(write_host(state, number, host), waiting_host(number), older)


def arrive(state: State, item: Parked) -> Outcome:
    """A call reaches the cloud. A wipe that reaches a host in use is what must never happen."""
    number = item.host
    server = state.servers[number]
    then = item.then._replace(fresh_machine=item.fresh_machine) if item.then is not None else None
    if item.what[0] == "rename":
        to = cast("Name", item.what[1])
        server = server._replace(name=to)
        return Outcome(state._replace(servers=swap(state.servers, number, server)), then, f"cloud: named {to}")
    broken, user, wished = "", user_of(state, number), state.hosts[number].release
    if user is not None and (wished is None or wished.by != user) and not _installs(state, user, number):
        broken = f"the host in use by machine {user[0]} is wiped"
    elif server.job and (wished is None or not wished.kills):
        broken = f"a job on host {number} is ended by a wipe that nobody forced"
    server = server._replace(wiping=True, job="", fence="", heard=True)
    state = state._replace(servers=swap(state.servers, number, server))
    return Outcome(state, then, "cloud: begins to wipe", broken)


def _installs(state: State, user: Uid, number: int) -> bool:
    """Whether a machine that uses a host has it reinstalled in place itself."""
    machine = state.machines[user[0]]
    return machine is not None and machine.server == number and machine.install in {"requested", "started"}


def guarded_machine(state: State, item: Parked, older: int, rules: Rules) -> Iterator[Outcome]:
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
            broken = misuse(state, slot, machine)
            server = state.servers[number]._replace(tenant=(slot, machine.generation))
            state = state._replace(servers=swap(state.servers, number, server))
        case "hostless":
            machine = now._replace(server=NOBODY, claiming=NOBODY, verified=False, provider=NOBODY, install="")
        case "take-up":
            machine = now._replace(server=now.provider, verified=False)
        case "record-install":
            machine = now._replace(install="recorded")
        case "ask-install":
            machine = now._replace(install="requested")
        case "install-began":
            machine = now._replace(install="started")
        case "install-ended":
            machine = now._replace(install="")
        case _:
            machine = now._replace(verified=False)
    state = write_machine(state, slot, machine)
    if item.stage in {"bind", "bound-again", "unproven", "take-up"}:
        state = _wait(state, waiting_machine(slot), older)
    if item.stage == "ask-install":
        # Whatever was decided before this, and this very request, arrives within `settle` of now, or never.
        state = _wait(state, waiting_machine(slot), len(state.parked))
        assert item.then is not None
        item = item._replace(then=item.then._replace(waits=waiting_machine(slot)))
    if item.stage in {"intend", "forget"}:
        rest = Parked("acquire", slot, NOBODY, True, False, (machine,))
    elif item.then is not None:
        rest = item.then._replace(fresh_machine=True, fresh_host=item.fresh_host)
    else:
        rest = None
    yield Outcome(state, rest, said, broken)


def user_of(state: State, number: int) -> Uid | None:
    """The live Machine that uses a host: its claim names it, and it has proven the claim."""
    claim = state.hosts[number].claim
    machine = state.machines[claim[0]] if claim is not None else None
    if claim is None or machine is None or machine.generation != claim[1] or machine.deleting:
        return None
    return claim[:2] if machine.verified and machine.server == number else None


def misuse(state: State, slot: int, machine: M) -> str:
    """What is wrong with a machine that begins or goes on to work on its host."""
    server, own = state.servers[machine.server], (slot, machine.generation)
    if user_of(state, machine.server) not in {None, own}:
        return f"machine {slot} works on the host that another machine uses"
    if server.tenant not in {None, own}:
        return f"machine {slot} works on a host with the traces of {server.tenant}"
    return f"machine {slot} works on a host that is being wiped" if server.wiping else ""


def guarded_host(state: State, item: Parked, older: int, rules: Rules) -> Iterator[Outcome]:
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
            name, by, kills = cast("tuple[Name, Uid | None, bool]", item.what)
            wipe = host.release.wipe if host.release else ""  # a merge patch keeps what it does not name
            state = write_host(state, number, host._replace(release=R(wipe, name, by, kills)))
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
        if (
            (item.fresh_machine or item.stage not in GUARDED_BY_MACHINE)
            and (item.fresh_host or item.stage not in _GUARDED_BY_HOST)
        )
        or (not rules.acquire_looks_again and item.stage in {"intend", "forget", "bind", "write-claim", "take-back"})
    )
    return state if len(kept) == len(state.parked) else state._replace(parked=kept)


def claimable(state: State, number: int, rules: Rules) -> bool:
    """Whether a machine could take this host now, by the two ledgers."""
    host, server = state.hosts[number], state.servers[number]
    free = host.claim is None and host.release is None and pooled(server.name) and not server.wiping
    return free and settled_host(state, number, rules)
