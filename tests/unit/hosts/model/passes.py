"""The executors, in steps: what each reads, decides and writes, in the order of `paddock.hosts.controllers`.

A pass is a chain of stages; between any two of them it can be parked, and then anything else may happen. One stage makes
one read or one effect. Writes to Kubernetes are guarded by the version that was read (`fresh_machine`, `fresh_host`):
a guard that does not hold any more makes the write nothing. A `send` is a call to the cloud: parked, it is decided but
not sent, or sent but not arrived; taken and then dropped, it arrived and its answer was lost.
"""

from collections.abc import Iterator
from typing import cast

from unit.hosts.model import decisions
from unit.hosts.model.decisions import Rules
from unit.hosts.model.effects import (
    GUARDED_BY_MACHINE,
    Outcome,
    arrive,
    guarded_host,
    guarded_machine,
    mirrored,
    misuse,
    settled_host,
    settled_machine,
    swap,
    write_host,
    write_machine,
)
from unit.hosts.model.world import NOBODY, H, M, Name, Parked, State, Uid


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
            yield arrive(state, item)
        case "finalizer":
            slot, generation = item.slot, item.what[0]
            machine = state.machines[slot]
            if machine is not None and machine.generation == generation and machine.deleting:
                state = write_machine(state, slot, None)
            yield Outcome(state, None, "finalizer goes")
        case "gate" | "ask-install/gate":
            yield from _gate(state, item, rules)
        case "cordon":
            server = state.servers[item.host]
            fenced = server if server.fence or not server.heard else server._replace(fence="settling")
            yield Outcome(state._replace(servers=swap(state.servers, item.host, fenced)), None, "cordons the Node")
        case "opened":
            # The Host is written: older reads of it are void. Then the Node, or the machine.
            if rules.opening_writes_host:
                state = write_host(state, item.host, state.hosts[item.host])
            assert item.then is not None
            yield Outcome(state, item.then._replace(fresh_machine=item.fresh_machine), "writes the Host")
        case "reopen":
            server = state.servers[item.host]._replace(fence="")
            yield Outcome(state._replace(servers=swap(state.servers, item.host, server)), None, "opens the Node")
        case "install/look":
            yield from _install_looks(state, item, rules)
        case stage if stage in GUARDED_BY_MACHINE:
            yield from guarded_machine(state, item, older, rules)
        case _:
            yield from guarded_host(state, item, older, rules)


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
            end = Parked("record", slot, number, False, True, (_shown_name(host), by, False), end)
        if rules.gates and host is not None and decisions.may_end_jobs(slot, machine, number, host):
            end = Parked("gate", slot, number, False, end.fresh_host, (machine.forced,), end)
        yield Outcome(state, end, "decides the ending")
        return
    if machine.server == NOBODY and machine.provider != NOBODY:
        yield Outcome(state, item._replace(stage="take-up", host=machine.provider), "takes up the host of its spec")
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
        case ("KeepBinding",) if machine.verified:
            if rules.keep_reads_machine_again and state.machines[slot] != machine:
                return
            own: Uid = (slot, machine.generation)
            server = state.servers[number]
            if machine.install:
                what = (machine, state.hosts[number])
                yield Outcome(
                    state, item._replace(stage="install/look", host=number, what=what), "is being reinstalled"
                )
                return
            used = state._replace(servers=swap(state.servers, number, server._replace(tenant=own)))
            yield Outcome(used, None, "works on the host", misuse(state, slot, machine))
            if server.fence:
                reopen = Parked("reopen", slot, number, False, False, ())
                yield Outcome(state, Parked("opened", slot, number, False, False, (), reopen), "is well again")
            hostless = item._replace(stage="hostless", host=number)
            record = Parked("record", slot, number, item.fresh_machine, True, (_shown_name(host), own, False), hostless)
            gate = Parked("gate", slot, number, item.fresh_machine, True, (False,), record)
            yield Outcome(state, gate if rules.gates else record, "gives up on the host")
            if rules.reinstalls:
                install = item._replace(stage="record-install", host=number)
                gate = Parked("gate", slot, number, item.fresh_machine, False, (False,), install)
                yield Outcome(state, gate, "is to be reinstalled in place")
        case ("KeepBinding",):
            settled = settled_machine(state, slot, rules)
            if decisions.verification(slot, machine, number, _held(host), None, settled) == ("Look",):
                look = item._replace(
                    stage="verify/look", host=number, fresh_host=True, what=(machine, state.hosts[number])
                )
                yield Outcome(state, look, "the claim is to be verified")


def _gate(state: State, item: Parked, rules: Rules) -> Iterator[Outcome]:
    """Who works there is read now; the writes behind the gate are guarded by what was read before it."""
    assert item.then is not None
    number, forced = item.host, bool(item.what[0])
    match decisions.gate(state.servers[number], forced, rules):
        case "Clear":
            then = item.then._replace(fresh_machine=item.fresh_machine)
            if then.stage == "record":
                name, by, _ = then.what
                kills = forced and bool(state.servers[number].job or not state.servers[number].heard)
                then = then._replace(fresh_host=item.fresh_host, what=(name, by, kills))
            yield Outcome(state, then, "nobody works there")
        case "Cordon":
            yield Outcome(state, Parked("cordon", NOBODY, number, False, False, ()), "decides to fence")
        case _:
            return


def _install_looks(state: State, item: Parked, rules: Rules) -> Iterator[Outcome]:
    """The server is read, and the next step of a reinstall in place is decided on."""
    number, slot = item.host, item.slot
    machine, _ = cast("tuple[M, H]", item.what)
    write = item._replace(what=(machine,))
    settled = settled_machine(state, slot, rules) or not rules.install_settles
    match decisions.reinstall_step(slot, machine, number, state.servers[number], settled):
        case "AskForReinstall":
            send = Parked("send", slot, number, False, False, ("reinstall",))
            ask = write._replace(stage="ask-install", then=send)
            yield Outcome(
                state, write._replace(stage="ask-install/gate", what=(False,), then=ask), "is to be asked for"
            )
        case "InstallBegan":
            yield Outcome(state, write._replace(stage="install-began"), "install: seen to begin")
        case "HostIsNew":
            ended = write._replace(stage="install-ended")
            yield Outcome(state, write._replace(stage="opened", then=ended), "install: seen to end")
        case "ProveAgain":
            yield Outcome(state, write._replace(stage="unproven"), "install: the name is not its own")
        case _:
            return


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
            yield Outcome(
                state, item._replace(stage="claim/look", what=(machine, state.hosts[number])), "the claim is its own"
            )
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
    found = decisions.judged(number, host, server, state.machines)
    if found[0] == "Leave" or server.wiping:
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
        record = item._replace(stage="record", what=(server.name, None, False))
        gate = item._replace(stage="gate", what=(False,), then=record)
        yield Outcome(state, gate if rules.gates else record, "sweep: decides to reclaim")
