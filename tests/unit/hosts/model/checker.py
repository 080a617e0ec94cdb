"""An explicit-state checker: every reachable state once, breadth first, so that the first trace found is a shortest one."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from unit.hosts.model import effects, passes, work
from unit.hosts.model.decisions import Rules
from unit.hosts.model.world import NOBODY, M, Parked, State, initial

_READS = frozenset({"machine", "acquire"})


@dataclass(frozen=True)
class Bounds:
    """How much of the infinite world is looked at. Within these bounds the search is exhaustive."""

    hosts: int = 1
    makes: tuple[int, ...] = (2, 1)
    """How often a Machine of each name is made; a second one has the name of the first and another uid."""
    claims: int = 2
    """How often a host is claimed."""
    parked: int = 1
    """How many passes are half-way at once, beside the one that runs."""
    parkings: int = 1
    """How often, in all, a pass is parked: every crash, late call, lost answer and stale read begins with one."""
    lagging: bool = False
    """Whether the inventory may fall behind; that, too, is paid for like a parking."""
    forced: bool = True
    """Whether Machines are deleted past their finalizer."""
    jobs: bool = False
    """Whether jobs run on Macs that are in use."""
    force: bool = False
    """Whether a person gives up the jobs of a Machine that is deleted."""
    moves: int = 0
    """How often a Machine is moved to another cluster."""
    restores: int = 0
    """How often a cluster is lost and restored: one Machine from a backup, and no ledger."""


@dataclass(frozen=True)
class Trace:
    """How a violation is reached."""

    broken: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.broken}:", *(f"  {at}. {step}" for at, step in enumerate(self.steps, 1))])


@dataclass
class Explored:
    """The reachable states, and how each was reached first."""

    bounds: Bounds
    rules: Rules
    states: list[State] = field(default_factory=list)
    came: list[tuple[int, str]] = field(default_factory=list)
    calm: list[list[int]] = field(default_factory=list)
    """For every state, those from which one step without a fault or a deletion leads to it."""
    deletions: list[tuple[int, int]] = field(default_factory=list)
    violation: Trace | None = None

    def trace(self, at: int, broken: str, last: str = "") -> Trace:
        steps = [last] if last else []
        while at:
            at, said = self.came[at]
            steps.append(said)
        return Trace(broken, tuple(reversed(steps)))

    def stuck(self, good: Callable[[State], bool], *, deleting: bool) -> Trace | None:
        """A shortest way to a state from which no good state can be reached without further faults; None if none is."""
        back = [list(row) for row in self.calm] if deleting else self.calm
        if deleting:
            for source, target in self.deletions:
                back[target].append(source)
        seen = bytearray(len(self.states))
        todo = [at for at, state in enumerate(self.states) if good(state)]
        for at in todo:
            seen[at] = 1
        while todo:
            for source in back[todo.pop()]:
                if not seen[source]:
                    seen[source] = 1
                    todo.append(source)
        lost = seen.find(0)
        return None if lost < 0 else self.trace(lost, f"stuck in {self.states[lost]}")


def explore(bounds: Bounds, rules: Rules, broken: Callable[[State, Rules], str], *, limit: int = 2_000_000) -> Explored:
    """Every state within the bounds, or the first violation. `broken` names what is wrong with a state, if anything is."""
    found = Explored(bounds, rules)
    start = initial(bounds.hosts, bounds.parkings, bounds.moves, bounds.restores)
    number: dict[State, int] = {start: 0}
    found.states.append(start)
    found.came.append((0, ""))
    found.calm.append([])
    queue = deque([0])
    while queue:
        at = queue.popleft()
        for kind, said, state, wrong in _successors(found.states[at], bounds, rules):
            if wrong:
                found.violation = found.trace(at, wrong, said)
                return found
            if state.parked:
                state = effects.without_the_refused(state, rules)
            known = number.get(state)
            if known is None:
                known = number[state] = len(found.states)
                found.states.append(state)
                found.came.append((at, said))
                found.calm.append([])
                queue.append(known)
                if wrong := broken(state, rules):
                    found.violation = found.trace(known, wrong)
                    return found
                assert known < limit, f"more than {limit} states: tighten the bounds"
            if known != at:
                if kind == "calm":
                    found.calm[known].append(at)
                elif kind == "delete":
                    found.deletions.append((at, known))
    return found


_Step = tuple[str, str, State, str]
"""Kind (calm, delete or fault), what happens, the state after it, what it violates."""


def _successors(state: State, bounds: Bounds, rules: Rules) -> Iterator[_Step]:
    yield from _people(state, bounds)
    yield from work.jobs(state) if bounds.jobs else ()
    yield from work.moves(state)
    yield from work.restores(state)
    for number, server in enumerate(state.servers):
        if server.wiping:
            clean = server._replace(wiping=False, tenant=None)
            servers = effects.swap(state.servers, number, clean)
            yield "calm", f"cloud: host {number} is wiped", state._replace(servers=servers), ""
    for number, host in enumerate(state.hosts):
        if host.shown is not None:
            host = host._replace(shown=None)
            yield "calm", f"inventory sees host {number}", effects.write_host(state, number, host), ""
        elif bounds.lagging and state.budget:
            late = effects.swap(state.hosts, number, effects.mirrored(state, number))
            yield "fault", f"inventory loses host {number}", state._replace(hosts=late, budget=state.budget - 1), ""
    for who, first in _beginnings(state, bounds, rules):
        yield from _run(state, first, f"{who}: ", bounds, rules)
    for at, item in enumerate(state.parked):
        rest = state._replace(parked=state.parked[:at] + state.parked[at + 1 :])
        yield "calm", f"parked {_show(item)} is dropped", rest, ""
        for outcome in passes.advance(rest, item, at, rules):
            after = _within(outcome, bounds)
            if item.foreign:
                outcome = outcome._replace(next=work.still_sent(outcome.next))
            if after is not None:
                place = len(rest.parked) if item.stage in _READS else at
                kept = _park(after, outcome.next, place) if outcome.next is not None else after
                said = f"parked {_show(item)} goes on: {outcome.said}"
                yield "calm", said, kept, outcome.broken


def _people(state: State, bounds: Bounds) -> Iterator[_Step]:
    for slot, machine in enumerate(state.machines):
        if machine is None:
            # Machines differ in nothing but their names: the first one made has the first name.
            if state.made[slot] < bounds.makes[slot] and (slot == 0 or state.made[0]):
                made = effects.swap(state.made, slot, state.made[slot] + 1)
                after = effects.write_machine(state, slot, M(state.made[slot]))._replace(made=made)
                yield "fault", f"machine {slot} is made", after, ""
            continue
        if bounds.force and machine.deleting and not machine.forced:
            after = effects.write_machine(state, slot, machine._replace(forced=True))
            yield "fault", f"the jobs of machine {slot} are given up", after, ""
        if not machine.deleting:
            after = effects.write_machine(state, slot, machine._replace(deleting=True))
            yield "delete", f"machine {slot} is deleted", after, ""
        if bounds.forced:
            yield "fault", f"machine {slot} is removed by force", effects.write_machine(state, slot, None), ""


def _beginnings(state: State, bounds: Bounds, rules: Rules) -> Iterator[tuple[str, Parked]]:
    for slot, machine in enumerate(state.machines):
        if machine is not None:
            yield f"machine {slot}", passes.machine_pass(state, slot)
    for number, host in enumerate(state.hosts):
        if host.release is not None:
            yield f"host {number}", Parked("release/look", NOBODY, number, False, True, (host,))
        found = passes.sweep_pass(state, number, rules)
        if found is not None:
            yield f"sweep {number}", found


def _run(state: State, item: Parked, said: str, bounds: Bounds, rules: Rules) -> Iterator[_Step]:
    """A pass from here: parked now (a fault), or going on to its end or to the next step of its loop."""
    if state.budget and len(state.parked) < bounds.parked and item.stage != "intend":
        after = _park(state._replace(budget=state.budget - 1), item, len(state.parked))
        yield "fault", f"{said}parked before {_show(item)}", after, ""
    for outcome in passes.advance(state, item, len(state.parked), rules):
        after = _within(outcome, bounds)
        if after is None:
            continue
        told = f"{said}{outcome.said}; "
        if outcome.next is None or outcome.broken:
            yield "calm", told, after, outcome.broken
        elif outcome.next.stage == "acquire":
            yield "calm", told, after, ""
            if after.budget and len(after.parked) < bounds.parked:
                yield (
                    "fault",
                    f"{told}parked before {_show(outcome.next)}",
                    _park(after._replace(budget=after.budget - 1), outcome.next, len(after.parked)),
                    "",
                )
        else:
            yield from _run(after, outcome.next, told, bounds, rules)


def _within(outcome: effects.Outcome, bounds: Bounds) -> State | None:
    if any(host.epoch > bounds.claims for host in outcome.state.hosts):
        return None
    if outcome.next is not None and outcome.next.stage == "intend":
        host = outcome.state.hosts[outcome.next.host]
        if host.epoch >= bounds.claims and host.claim is None:
            return None
    return outcome.state


def _park(state: State, item: Parked, place: int) -> State:
    if item.stage not in effects.RESTING and item.waits:
        item = item._replace(waits=0)
    return state._replace(parked=(*state.parked[:place], item, *state.parked[place:]))


def _show(item: Parked) -> str:
    about = "" if item.slot == NOBODY else f" of machine {item.slot}"
    what = f" {item.what}" if item.stage == "send" else ""
    return f"<{item.stage}{what}{about}>"
