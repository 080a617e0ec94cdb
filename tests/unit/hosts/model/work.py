"""What happens to Macs that are at work: jobs, fences, and what moves and restores make of a cluster.

**Moves.** clusterctl takes the objects along, without their status and under another uid; it waits while the product asks it to
(`lost_in_a_move`). What the old cluster's operator decided and did not send may still arrive; whatever it would write there is lost
with that cluster. **Restores.** Every Machine is gone but one, which comes from a backup that may be of any age; so does no Host:
the inventory makes them anew, without claim or release. In both the agent reports to the new cluster at some later moment, and a
job that ran goes on.
"""

from collections.abc import Iterator

from unit.hosts.model import decisions
from unit.hosts.model.effects import swap, user_of
from unit.hosts.model.world import NOBODY, SLOTS, H, M, Parked, S, State

Step = tuple[str, str, State, str]
_IN_FLIGHT = frozenset({"claim/look", "verify/look", "release/look", "install/look", "send"})


def jobs(state: State) -> Iterator[Step]:
    """Jobs begin on Macs that are in use and open, or were a moment ago; they end; fences settle."""
    for number, server in enumerate(state.servers):
        user, machine = user_of(state, number), None
        if user is not None:
            machine = state.machines[user[0]]
        idle = machine is not None and not server.job and not server.wiping and server.tenant == user
        if idle and machine is not None and not machine.install and server.heard and server.fence != "fenced":
            yield "fault", f"a job begins on host {number}", _with(state, number, server._replace(job="here")), ""
        if server.job:
            yield "calm", f"the job on host {number} ends", _with(state, number, server._replace(job="")), ""
        if server.fence == "settling":
            yield (
                "calm",
                f"the fence of host {number} settles",
                _with(state, number, server._replace(fence="fenced")),
                "",
            )


def moves(state: State) -> Iterator[Step]:
    for number, server in enumerate(state.servers):
        if not server.heard:
            yield "calm", f"the agent of host {number} reports", _with(state, number, server._replace(heard=True)), ""
    if not state.moves:
        return
    for slot, machine in enumerate(state.machines):
        if machine is None or machine.deleting or not decisions.movable(slot, machine):
            continue
        moved = M(machine.generation + 1, provider=machine.server if machine.server != NOBODY else machine.provider)
        after = _elsewhere(state)._replace(
            machines=swap(state.machines, slot, moved),
            servers=_taken_along(state, slot, moved),
            made=swap(state.made, slot, state.made[slot] + 1),
            moves=state.moves - 1,
        )
        yield "fault", f"machine {slot} is moved", after, ""


def restores(state: State) -> Iterator[Step]:
    if not state.restores:
        return
    for slot in range(SLOTS):
        for number in range(len(state.hosts)):
            if not state.made[slot]:
                continue
            back = M(state.made[slot], provider=number)
            after = _elsewhere(state)._replace(
                machines=tuple(back if at == slot else None for at in range(SLOTS)),
                hosts=tuple(H(None, None, 0, lost=True) for _ in state.hosts),
                servers=_taken_along(state, slot, back),
                made=swap(state.made, slot, state.made[slot] + 1),
                restores=state.restores - 1,
            )
            yield "fault", f"the cluster is restored, with machine {slot} on host {number}", after, ""


def _with(state: State, number: int, server: S) -> State:
    return state._replace(servers=swap(state.servers, number, server))


def _taken_along(state: State, slot: int, machine: M) -> tuple[S, ...]:
    """Macs as the new cluster finds them: unheard of, open, and with jobs that are another's. The traces of the machine of
    that name are its own.
    """
    return tuple(
        server._replace(
            job="another" if server.job else "",
            fence="",
            heard=server.tenant is None or server.wiping,
            tenant=(slot, machine.generation)
            if server.tenant is not None and server.tenant[0] == slot
            else server.tenant,
        )
        for server in state.servers
    )


def _elsewhere(state: State) -> State:
    """Only what is on its way to the cloud is left of the old cluster's passes."""
    left = tuple(_alone(item) for item in state.parked if item.stage in _IN_FLIGHT)
    return state._replace(parked=left)


def _alone(item: Parked) -> Parked:
    return item._replace(fresh_machine=False, fresh_host=False, then=None, foreign=True)


def still_sent(item: Parked | None) -> Parked | None:
    """What is left of the rest of a pass whose cluster is gone: a call to the cloud, and nothing behind it."""
    return _alone(item) if item is not None and item.stage == "send" else None
