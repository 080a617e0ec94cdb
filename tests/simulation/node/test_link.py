"""A Mac's link: whoever is at its end answers when something changes, writes what is reported, and holds to what was said."""

from datetime import UTC, datetime
from typing import Any

import pytest
from simulation.node.node_world import IMAGE, NODE, NodeWorld

from paddock.base.rng import seeded
from paddock.clients.gateway.messages import Answer, MacFacts, Report
from paddock.node.link import MacLink
from paddock.node.metrics import AgentMetrics
from paddock.simulator.faults import Fail
from paddock.simulator.process import World, simulate

BOOTED = datetime(2026, 1, 1, tzinfo=UTC)
SMALL: dict[str, Any] = {"containers": [{"name": "runner", "image": IMAGE, "resources": {"limits": {"cpu": "1"}}}]}


def _report(sequence: int) -> Report:
    mac = MacFacts(
        machine_id=f"machine-of-{NODE}",
        boot_id="boot",
        booted_at=BOOTED,
        cpus=8,
        memory_bytes=1 << 34,
        disk_bytes=1 << 40,
        seats=2,
        clock=BOOTED,
    )
    return Report(folder="f", life=1, word="w", sequence=sequence, agent="0.2.0", mac=mac)


async def _linked(world: World, mac: NodeWorld) -> MacLink:
    """A link without an agent, which lives as long as the world."""
    await mac.ready.wait()
    if mac.gateway is not None:
        await mac.gateway.introduced.wait()
    link = mac.make_link(seeded("link"), AgentMetrics())
    world.process("link", link.run)
    return link


async def _settled(mac: NodeWorld, link: MacLink) -> Answer:
    """The first complete answer, with nothing left to say."""
    sequence = 0
    while not (answer := await link.report(_report(sequence), 1.0)).complete:
        assert sequence < 60, answer
        sequence += 1
    began = mac.clock.monotonic()
    await link.report(_report(sequence + 1), 5.0)
    assert mac.clock.monotonic() - began >= 5.0, "nothing has changed"
    return answer


def test_a_held_report_is_answered_as_soon_as_a_pod_is_bound_and_else_at_its_end() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world, start=False)
        link = await _linked(world, mac)
        assert (await _settled(mac, link)).pods == ()
        answers: list[Answer] = []

        async def ask() -> None:
            answers.append(await link.report(_report(200), 20.0))

        world.process("asks", ask)
        await world.clock.sleep(1.0)
        bound = mac.clock.monotonic()
        uid = await mac.pod("p1")
        await mac.eventually("it is answered", lambda: bool(answers), within=5.0, step=0.05)
        assert mac.clock.monotonic() - bound <= 1.0
        assert [pod.uid for pod in answers[0].pods] == [uid]

    simulate(scenario, seed=1)


def test_no_lease_is_renewed_without_a_report() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world, start=False)
        link = await _linked(world, mac)
        await _settled(mac, link)
        await world.clock.sleep(15.0)
        before = await mac.lease()
        assert before is not None
        await world.clock.sleep(120.0)
        after = await mac.lease()
        assert after is not None
        assert after.spec.renew_time == before.spec.renew_time
        await link.report(_report(300), 0.0)
        await world.clock.sleep(1.0)
        renewed = await mac.lease()
        assert renewed is not None
        assert renewed.spec.renew_time != before.spec.renew_time

    simulate(scenario, seed=1)


@pytest.mark.parametrize("vms", [0, 2])
def test_a_mac_at_rest_writes_its_lease_and_little_else(vms: int) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        for number in range(vms):
            await mac.pod(f"p{number}", **SMALL)
            await mac.is_ready(f"p{number}")
        await world.clock.sleep(60.0)
        # The tokens of Pods are asked for every ten minutes; all else is Node and Lease.
        writes: list[str] = []
        world.faults.inject(
            Fail(),
            process=mac.writer,
            where=lambda call: bool(
                call.method in ("POST", "PUT", "PATCH", "DELETE")
                and call.path.startswith(("/api/v1", "/apis"))
                and not call.path.endswith("/token")
                and writes.append(call.name)
            ),
        )
        await world.clock.sleep(600.0)
        leases = [name for name in writes if "leases" in name]
        assert 58 <= len(leases) <= 61
        assert len(writes) - len(leases) <= 4, writes

    simulate(scenario, seed=1)


def test_what_was_refused_once_stays_refused_though_there_is_room_by_now() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        for name in ("p1", "p2"):
            await mac.pod(name, **SMALL)
            await mac.is_ready(name)
        world.faults.inject(Fail(), process=mac.writer, where=lambda call: call.path.endswith("/pods/p3/status"))
        uid = await mac.pod("p3", **SMALL)
        await world.clock.sleep(5.0)
        await mac.delete("p1")
        await mac.phase_is("p1", "gone")
        await world.clock.sleep(60.0)
        assert await mac.phase("p3") == "Pending", "nobody could write it yet"
        world.faults.clear()
        pod = await mac.phase_is("p3", "Failed")
        assert pod is not None
        assert pod.status.reason == "OutOftuist.dev/vm"
        assert mac.vm(uid) not in mac.tart.ledger.runs

    simulate(scenario, seed=1)


def test_an_end_is_written_once_its_pod_can_be_written_and_only_then_its_clone_goes() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        world.faults.inject(Fail(), process=mac.writer, where=lambda call: call.path.endswith("/pods/p1/status"))
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job has run", lambda: mac.finished == ["job-1"])
        await world.clock.sleep(60.0)
        assert mac.vm(uid) in mac.tart.vms, "its end is not recorded"
        assert mac.vm(uid) not in mac.tart.running()
        world.processes["agent"].crash()
        await world.clock.sleep(60.0)
        assert mac.vm(uid) in mac.tart.vms, "the next agent knows no more"
        world.faults.clear()
        await mac.phase_is("p1", "Succeeded")
        await mac.eventually("the clone goes", lambda: mac.vm(uid) not in mac.tart.vms)

    simulate(scenario, seed=1)
