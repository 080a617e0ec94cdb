"""A Mac that is given to another cluster lets the jobs of the old one finish: Pods do not move with their machines."""

import pytest
from simulation.branches import FROM_HERE, branches_of
from simulation.node.node_world import NodeWorld, over_gateway, over_kubernetes
from simulation.node.test_interrupted import an_effect

from paddock.kube.builtin import Namespace
from paddock.node.journal import Entry
from paddock.simulator.faults import Fail
from paddock.simulator.interruptions import Interruption
from paddock.simulator.process import World, simulate


async def _condition(mac: NodeWorld) -> tuple[str, str]:
    node = await mac.node()
    found = [each for each in node.status.conditions if each.type == "OtherClusterVMs"] if node is not None else []
    return (found[0].status, found[0].message) if found else ("", "")


def _entry(mac: NodeWorld, uid: str) -> Entry | None:
    assert mac.running is not None
    return mac.running.context.journal.get(uid)


async def job_outlives_a_move(world: World) -> None:
    """A job runs, the Mac is moved, the job finishes, and nothing is left of it."""
    mac = NodeWorld(world)
    mac.duration = 150.0
    uid = await mac.pod("p1")
    await mac.is_ready("p1")
    mac.dispatch.jobs.append("job-1")
    await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
    await world.clock.sleep(10.0)
    world.faults.announce(FROM_HERE)
    await mac.move()

    async def said() -> bool:
        return (await _condition(mac))[0] == "True"

    await mac.eventually("the Node of the new cluster says so", said, within=200.0)
    _, message = await _condition(mac)
    assert "default/p1" in message
    assert mac.vm(uid) in message
    await mac.eventually("the job has finished", lambda: mac.finished == ["job-1"], within=900.0)
    await mac.eventually("nothing is left", lambda: not mac.entries() and mac.vm(uid) not in mac.tart.vms)
    assert not mac.tart.ledger.stopped, "it halted by itself"

    async def over() -> bool:
        return (await _condition(mac))[0] == "False"

    await mac.eventually("and the Node says that it is over", over)


def test_a_job_of_the_old_cluster_is_let_finish_and_then_cleaned_up() -> None:
    simulate(job_outlives_a_move, seed=1)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.value, marks=() if kind is Interruption.CRASH_AFTER else pytest.mark.slow)
        for kind in Interruption
    ],
)
def test_the_job_outlives_the_move_whatever_happens_at_any_effect(kind: Interruption) -> None:
    begun = branches_of(job_outlives_a_move, [kind.fault], only=an_effect)
    assert {"tart delete", "disk write pod.json"} <= {call.name.split(" pdk")[0] for call, _ in begun}


def test_an_idle_vm_of_the_old_cluster_is_ended_because_nothing_can_give_it_a_job() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        await mac.move()
        await mac.eventually("nothing is left", lambda: not mac.entries() and mac.vm(uid) not in mac.tart.vms)

    simulate(scenario, seed=1)


@over_gateway  # who asks dispatch's ledger
def test_the_vm_of_a_pod_that_is_deleted_by_force_ends_once_the_ledger_knows_of_no_job_there() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        assert mac.gateway is not None
        mac.duration = 7200.0
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        await mac.delete("p1", grace=0)
        await world.clock.sleep(600.0)
        assert mac.tart.running(), "the ledger knows that its job runs"
        world.processes["dispatch"].crash()
        mac.gateway.over.add(uid)
        await world.clock.sleep(600.0)
        assert mac.tart.running(), "nobody can ask the ledger"
        assert "default/p1" in (await _condition(mac))[1]
        world.processes["dispatch"].start()
        await mac.eventually("its VM ends", lambda: not mac.tart.running())
        await mac.eventually("nothing is left", lambda: not mac.entries() and mac.vm(uid) not in mac.tart.vms)

    simulate(scenario, seed=1)


@over_kubernetes  # which asks nobody about jobs
def test_a_pod_that_is_deleted_by_force_in_its_own_cluster_still_ends_its_vm() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 3600.0
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        await world.clock.sleep(15.0)
        await mac.delete("p1", grace=0)
        deadline = mac.clock.monotonic() + 300.0
        while mac.tart.running() and mac.clock.monotonic() < deadline:
            await world.clock.sleep(1.0)
        assert not mac.tart.running(), "its own cluster said twice that the Pod is gone"
        assert mac.finished == []
        assert uid

    simulate(scenario, seed=1)


@over_kubernetes  # a gateway that does not know its cluster answers nobody
def test_without_knowing_the_cluster_a_job_is_not_ended_for_a_pod_that_is_missing() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 600.0
        world.faults.inject(Fail(), process="agent", where=lambda call: call.path.endswith("/namespaces/kube-system"))
        await mac.pod("p1")
        await mac.is_ready("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        await mac.move()
        await mac.eventually("the job has finished", lambda: mac.finished == ["job-1"], within=900.0)

    simulate(scenario, seed=1)


def test_an_entry_of_an_older_agent_learns_its_cluster_from_its_pod() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 600.0
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        path = next(path for path in mac.disk.files if path.name == "pod.json")
        system = await mac.api.get(Namespace, "kube-system")
        mac.disk.put(path, mac.disk.files[path].replace(f',"cluster":"{system.metadata.uid}"'.encode(), b""))
        assert b"cluster" not in mac.disk.files[path]
        world.processes["agent"].crash()

        def learnt() -> bool:
            entry = _entry(mac, uid)
            return entry is not None and entry.cluster == system.metadata.uid

        await mac.eventually("the entry has its cluster", learnt)

    simulate(scenario, seed=1)
