"""What is wrong with a Mac is a condition of its Node, and a Pod whose journal entry is broken is accounted for."""

from datetime import datetime, timedelta

import pytest
import structlog
from doubles.clocks import ShiftedClock
from prometheus_client import generate_latest
from simulation.node.node_world import DATA, NodeWorld, over_gateway, over_kubernetes

from paddock.node.kube_link import KubernetesLink
from paddock.simulator.process import World, simulate


async def _says(mac: NodeWorld, kind: str) -> tuple[str, str]:
    node = await mac.node()
    found = [each for each in node.status.conditions if each.type == kind] if node is not None else []
    return (found[0].status, found[0].message) if found else ("", "")


@over_kubernetes  # the Date of an API server's answer
def test_a_clock_that_is_wrong_is_measured_by_the_servers_date_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = structlog.testing.CapturingLogger()  # a simulated run is silent
    monkeypatch.setattr("paddock.node.agent.log", lines)

    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        ahead = timedelta(seconds=90)

        def said() -> datetime | None:
            return (world.clock.now() - ahead).replace(microsecond=0)

        await world.clock.sleep(15.0)
        assert mac.running is not None
        assert isinstance(mac.link, KubernetesLink)
        agent_client = mac.link.client
        assert await _says(mac, "ClockSkewed") == ("False", "the Mac's clock agrees with the API server's")
        renew = agent_client.update

        async def dated(obj):
            answer = await renew(obj)
            agent_client.connection.server_date = said()
            return answer

        agent_client.update = dated  # pyright: ignore[reportAttributeAccessIssue]

        async def skewed() -> bool:
            return (await _says(mac, "ClockSkewed"))[0] == "True"

        await mac.eventually("the Node says so", skewed)
        await world.clock.sleep(60.0)
        (line,) = [line for line in lines.calls if line.args == ("the clock is off",)]
        assert 89 <= line.kwargs["seconds"] <= 92
        assert "sntp" in line.kwargs["remedy"], "said once, with the remedy"
        assert "sntp" in (await _says(mac, "ClockSkewed"))[1]
        text = generate_latest(mac.running.metrics.registry).decode()
        value = next(line for line in text.splitlines() if line.startswith("paddock_node_clock_skew_seconds "))
        assert 89.0 <= float(value.split()[1]) <= 92.0
        ahead = timedelta(seconds=25)
        await world.clock.sleep(30.0)
        assert await skewed(), "between the two thresholds nothing flaps"
        ahead = timedelta(seconds=1)

        async def right() -> bool:
            return not await skewed()

        await mac.eventually("it is taken back", right)

    simulate(scenario, seed=1)


@over_gateway  # whose clock measures the Mac's
@pytest.mark.parametrize("ahead", [90, -90])
def test_a_clock_that_is_off_is_said_by_the_gateway_and_taken_back_when_it_is_right(ahead: int) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        assert mac.gateway is not None
        clock = mac.gateway.clock = ShiftedClock(world.clock)
        await mac.pod("p1")
        await mac.is_ready("p1")
        assert await _says(mac, "ClockSkewed") == ("False", "the Mac's clock agrees with the gateway's")

        async def skewed() -> bool:
            return (await _says(mac, "ClockSkewed"))[0] == "True"

        async def right() -> bool:
            return not await skewed()

        clock.ahead = timedelta(seconds=ahead)
        await mac.eventually("the Node says so", skewed)
        assert "sntp" in (await _says(mac, "ClockSkewed"))[1]
        clock.ahead = timedelta(seconds=25)
        await world.clock.sleep(60.0)
        assert await skewed(), "between the two thresholds nothing flaps"
        clock.ahead = timedelta(seconds=1)
        await mac.eventually("it is taken back", right)
        clock.ahead = timedelta(seconds=25)
        await world.clock.sleep(60.0)
        assert await right(), "between the two thresholds nothing flaps"
        assert not mac.tart.ledger.stopped

    simulate(scenario, seed=1)


def test_a_pod_whose_entry_cannot_be_read_is_kept_with_a_condition_and_its_vm_is_left_alone() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 60.0
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        mac.disk.put(DATA / "vms" / uid / "pod.json", b'{"stage": "of a version to come"}')
        world.processes["agent"].crash()

        async def said() -> bool:
            pod = await mac.see("p1")
            return pod is not None and any(each.reason == "JournalUnreadable" for each in pod.status.conditions)

        await mac.eventually("the Pod says so", said)
        pod = await mac.see("p1")
        assert pod is not None
        assert pod.status.phase == "Running"
        assert pod.status.container_statuses, "what was known of it is still there"
        condition = next(each for each in pod.status.conditions if each.reason == "JournalUnreadable")
        assert (condition.type, condition.status) == ("Ready", "False")
        assert "stop the VM with tart" in condition.message

        async def of_node() -> bool:
            status, message = await _says(mac, "JournalUnreadable")
            return status == "True" and uid in message

        await mac.eventually("the Node names its folder", of_node)
        await mac.delete("p1")
        await world.clock.sleep(120.0)
        assert mac.tart.running() == [mac.vm(uid)], "what nobody understands is not ended"
        assert await mac.see("p1") is not None
        await mac.pod("p2")
        await mac.is_ready("p2")
        await mac.pod("p3")
        await world.clock.sleep(60.0)
        assert len(mac.tart.running()) == 2, "its VM keeps its seat"

    simulate(scenario, seed=1)


def test_files_of_the_agent_that_hold_nonsense_keep_no_other_pod_from_its_vm() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        # Not even text: a disk that lost what it held gives back any bytes.
        mac.disk.put(DATA / "vms" / uid / "pod.json", b'{"uid": "\xff\xfe"}')
        mac.disk.put(DATA / "goldens.json", b'{"\xff\xfe": {}}')
        world.processes["agent"].crash()
        await mac.pod("p2", image="images.test/macos:2")
        await mac.is_ready("p2")
        assert (await _says(mac, "JournalUnreadable"))[0] == "True"
        assert mac.vm(uid) in mac.tart.running()

    simulate(scenario, seed=1)
