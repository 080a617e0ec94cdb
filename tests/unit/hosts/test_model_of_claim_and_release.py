"""An exhaustive model of claiming and releasing, made of the product's own decisions.

`unit.hosts.model` walks every state that can be reached within stated bounds. What is decided comes from the real
functions (`choose`, `already_claimed`, `claim_step`, `release_step`, `ownership`, `verification`, `ending`, `verdict`,
`judge`, `occupancy`, `drain_step`, `unheard`, `reinstall_step`, `lost_in_a_move`), asked about real objects; only the
executors are restated, stage by stage, in the order of their effects.

**Who acts.** Any number of workers and leaders that do not know of each other: a pass that nothing interrupts is one step
(which leader takes it makes no difference), and every pass may be *parked* between any two of its stages, while
everybody else goes on. A parked pass is a leader with a stale read, with a decision that is not sent, with a call that
is sent and has not arrived; dropped, it is a crash, or a call that was lost; dropped after its effect, a lost answer.
The bounds say how many are parked at once and in all. Machines are made, deleted, removed past their finalizer, and made
again under the same name with another uid.

**Guards.** Writes to Kubernetes are compare-and-swap: any other write to the object in between makes them nothing. Calls
to the cloud are last-write-wins.

**Time.** Nothing is counted. A wait of `settle` is over when no parked pass is left whose next cloud call rests on a Host
read before the wait began: that is what the lease, checked before every call, and the settle time promise. It begins at
the moment of the decision, not of the write. The two minutes before a wipe is asked for again are not relied on.

**Stricter than the product, so that more is covered.** Choosing sees no other machine's intent; the sweep's first sighting
is always granted; the mirror of the inventory keeps up without spoiling anybody's guard, or stands still (`lagging`).

**Who works.** With `jobs`, jobs begin on Macs that are open (or were a moment ago) and end when they like; with `force` a person
gives them up; Machines are moved and restored (`model.work`), and Macs reinstalled in place. The gate asks the real
`occupancy`, `drain_step` and `unheard`; a wipe that ends a job that nobody gave up is what must never happen.

**Left out.** Deleting instead of wiping, ordering, rivals that share the project but not the ledger, reboots, and the
operator of a cluster that was left by a move and runs on.
"""

import gc
from datetime import datetime

import pytest
from unit.hosts.model import decisions, effects
from unit.hosts.model.checker import Bounds, Explored, explore
from unit.hosts.model.decisions import Rules
from unit.hosts.model.world import NOBODY, State, pooled

from paddock.clients.scaleway import Gone, Server, Unknown
from paddock.hosts import names, release
from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.hosts.names import Rename

PRODUCT = Rules()
NOBODY_WORKS = Rules(gates=False)
"""The product where no job can be in the way: the gate changes nothing there, and costs states."""
REINSTALLS = Rules(reinstalls=True)
BOUNDS = {
    "two machines, one host": Bounds(makes=(1, 1)),
    "a name that comes back, and an inventory that stands still": Bounds(makes=(2, 0), lagging=True),
    "one machine, two hosts": Bounds(hosts=2, makes=(1, 0), claims=1, forced=False),
    "two passes half-way at once": Bounds(makes=(1, 0), claims=1, parked=2, parkings=2),
}


WORK = {
    "a drain": (PRODUCT, Bounds(makes=(1, 0), claims=1, jobs=True, force=True, forced=False)),
    "a drain, and a machine that is removed by force": (
        PRODUCT,
        Bounds(makes=(2, 0), claims=2, jobs=True, force=True),
    ),
    "a move": (PRODUCT, Bounds(makes=(1, 0), claims=2, jobs=True, moves=1, forced=False)),
    "a move, force, and a machine that is removed by force": (
        PRODUCT,
        Bounds(makes=(1, 0), claims=2, jobs=True, force=True, moves=1),
    ),
    "a restore": (PRODUCT, Bounds(makes=(1, 0), claims=2, jobs=True, restores=1, forced=False)),
    "a restore of one of two machines": (PRODUCT, Bounds(makes=(1, 1), claims=2, jobs=True, restores=1, forced=False)),
    "a reinstall in place": (REINSTALLS, Bounds(makes=(1, 0), claims=1, jobs=True, forced=False)),
    "a reinstall in place, and a move": (REINSTALLS, Bounds(makes=(1, 0), claims=2, jobs=True, moves=1, forced=False)),
}
QUICK = {"a drain", "a move", "a reinstall in place"}


def _broken(state: State, rules: Rules) -> str:
    """What must never be seen; what must never happen is checked where it would (`effects`)."""
    for slot, machine in enumerate(state.machines):
        if machine is not None and NOBODY not in {machine.server, machine.claiming}:
            return f"machine {slot} has host {machine.server} and reaches for host {machine.claiming}"
    for number, (host, server) in enumerate(zip(state.hosts, state.servers, strict=True)):
        if server.tenant is not None and effects.claimable(state, number, rules):
            return f"host {number} can be claimed, and has the traces of {server.tenant}"
        action, verdict, reason = decisions.judged(number, host, server, state.machines)
        if verdict == "foreign":
            return f"host {number} is taken for somebody else's"
        silent = action == "Leave" and reason not in {"Free", "NotUsableYet", "ReleaseRecorded"}
        if silent and not host.lost and not any(state.machines):
            return f"host {number} is nobody's, and nothing would ever be done about it ({reason})"
    return ""


def _free(state: State, number: int) -> bool:
    host, server = state.hosts[number], state.servers[number]
    clean = pooled(server.name) and not server.wiping and server.tenant is None
    return clean and host.claim is None and host.release is None


def _home(state: State) -> bool:
    return not any(state.machines) and all(_free(state, number) for number in range(len(state.hosts)))


def _settled(state: State, bounds: Bounds) -> bool:
    """Every host is free and clean, or used by a machine, or left alone on purpose."""
    return all(_free(state, at) or _used(state, at) or _left(state, at, bounds) for at in range(len(state.hosts)))


def _used(state: State, number: int) -> bool:
    return effects.user_of(state, number) is not None and state.hosts[number].release is None


def _left(state: State, number: int, bounds: Bounds) -> bool:
    """A machine without a host has its name, which the sweep respects; or a claim would lie beyond the bounds."""
    host, server = state.hosts[number], state.servers[number]
    if decisions.verdict(number, host, server, state.machines).reason == "NamedByName":
        return True
    named = any(machine is not None and machine.server == number for machine in state.machines)
    return named and host.claim is None and host.epoch >= bounds.claims


def _explore(bounds: Bounds, rules: Rules) -> Explored:
    gc.disable()  # nothing here is a cycle, and a million tuples take long to look through
    try:
        return explore(bounds, rules, _broken)
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(bounds, id=name, marks=() if name.startswith("a name that comes back") else pytest.mark.slow)
        for name, bounds in BOUNDS.items()
    ],
)
def test_nothing_live_is_wiped_nothing_used_twice_and_every_host_comes_home(bounds):
    found = _explore(bounds, NOBODY_WORKS)
    print(f"{len(found.states)} states within {bounds}")
    assert found.violation is None, str(found.violation)
    stuck = found.stuck(_home, deleting=True)
    assert stuck is None, f"cannot come home when every machine is deleted: {stuck}"
    stuck = found.stuck(lambda state: _settled(state, bounds), deleting=False)
    assert stuck is None, f"cannot settle while the machines stay: {stuck}"
    assert len(found.states) > 10_000


@pytest.mark.parametrize(
    ("rules", "bounds"),
    [pytest.param(*each, id=name, marks=() if name in QUICK else pytest.mark.slow) for name, each in WORK.items()],
)
def test_no_job_ends_unless_a_person_gave_it_up_through_drains_moves_restores_and_reinstalls(rules, bounds):
    found = _explore(bounds, rules)
    print(f"{len(found.states)} states within {bounds}")
    assert found.violation is None, str(found.violation)
    assert any(server.job for state in found.states for server in state.servers)
    if bounds.restores:
        return  # what a lost ledger had begun is for a person to end: it is shown, and stays
    stuck = found.stuck(_home, deleting=True)
    assert stuck is None, f"cannot come home when every machine is deleted: {stuck}"


def _seeds_order(
    host: ScalewayAppleSiliconHost, server: Server | Gone | Unknown, now: datetime
) -> release.ReleaseStep | None:
    """The order of the system that Paddock follows: the pool name first, then the wipe."""
    recorded = host.spec.release
    if recorded is None:
        return None
    assert isinstance(server, Server)
    if names.kind_of(server.name, recorded.pool_prefix) is not names.NameKind.POOLED:
        return Rename(release.fresh_pool_name(host, recorded), server.name)
    return release.Reinstall(recorded.os_family)


VARIANTS = {
    "without the waiting time": (Rules(gates=False, waits=False), Bounds(makes=(2, 0)), "is wiped"),
    "with the seed's order": (
        Rules(gates=False, release_step=_seeds_order, frees_before_wiping=True),
        Bounds(makes=(1, 0)),
        "can be claimed, and has the traces",
    ),
    "with the seed's order and no waiting time": (
        Rules(gates=False, waits=False, release_step=_seeds_order, frees_before_wiping=True),
        Bounds(makes=(2, 0)),
        "",
    ),
    "with machines listed before the Host in the sweep's last look": (
        Rules(gates=False, sweep_lists_machines_last=False),
        Bounds(makes=(2, 0)),
        "is wiped",
    ),
    "with a restored claim that counts as proven": (
        Rules(gates=False, restored_claim_is_proven_again=False),
        Bounds(makes=(1, 0), parkings=2, lagging=True),
        "can be claimed, and has the traces",
    ),
    "with a claim that goes on after a lost race without a look at its machine": (
        Rules(gates=False, acquire_looks_again=False),
        Bounds(makes=(1, 0)),
        "has host 0 and reaches for host 0",
    ),
    "with work that rests on a machine read before its Host": (
        Rules(gates=False, keep_reads_machine_again=False),
        Bounds(makes=(1, 0)),
        "can be claimed, and has the traces",
    ),
    "without a gate": (
        Rules(gates=False),
        Bounds(makes=(1, 0), claims=1, jobs=True, forced=False),
        "is ended by a wipe that nobody forced",
    ),
    "with a gate and no fence": (
        Rules(fences=False),
        Bounds(makes=(1, 0), claims=1, jobs=True, forced=False),
        "is ended by a wipe that nobody forced",
    ),
    "with a new disk that is used before a late request for another one has arrived": (
        Rules(reinstalls=True, install_settles=False),
        Bounds(makes=(1, 0), claims=1, jobs=True, forced=False),
        "is wiped",
    ),
    "with a Mac that is opened to work again without a word on its Host": (
        Rules(opening_writes_host=False),
        Bounds(makes=(1, 0), claims=1, jobs=True, forced=False),
        "is ended by a wipe that nobody forced",
    ),
    "with a moved Mac that counts as idle before its agent has reported": (
        Rules(waits_for_report=False),
        Bounds(makes=(1, 0), claims=2, jobs=True, moves=1, forced=False),
        "is ended by a wipe that nobody forced",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("rules", "bounds", "expected"), VARIANTS.values(), ids=VARIANTS.keys())
def test_the_checker_finds_what_goes_wrong(rules, bounds, expected):
    found = _explore(bounds, rules)
    print(f"{len(found.states)} states; {found.violation}")
    assert found.violation is not None
    assert expected in found.violation.broken
