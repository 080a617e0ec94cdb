"""A Node shows its Mac's newest report, is never somebody else's, and never goes back to an older one."""

from typing import Any

import pytest
from doubles.clocks import SteppedClock
from msgspec.structs import replace
from unit.gateway.macs import MAC, reported
from unit.kube.fake_api import Answer, Call, FakeApi, status
from unit.kube.things import client_of

from paddock.gateway.lease import OWNER_UID, MacLeases
from paddock.gateway.macs import Reported
from paddock.gateway.node_writer import NodeWriter, StaleError, SupersededError
from paddock.gateway.report_order import REPORT
from paddock.kube.builtin import Node
from paddock.kube.reader import CachedReader
from paddock.kube.store import Store

UIDS = frozenset[str]()


class Rig:
    def __init__(self) -> None:
        self.api, self.clock = FakeApi(), SteppedClock()
        client = client_of(self.api)
        self.leases = MacLeases(client, self.clock)
        self.writer = NodeWriter(client, CachedReader(Store[Node]()), self.leases, self.clock)

    async def report(self, sequence: int = 1) -> Reported:
        found = reported(sequence=sequence)
        assert await self.leases.note(MAC, found.order, proven=False) == "newer"
        return found

    def node(self) -> dict[str, Any]:
        return self.api.objects["nodes", "", "mac-1"]

    def writes(self) -> list[str]:
        return [call.verb for call in self.api.calls if call.verb in ("create", "patch") and "/nodes" in call.path]


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_node_is_made_with_its_owner_its_taint_and_its_status(rig: Rig):
    assert await rig.writer.write(await rig.report(), UIDS) is not None
    made = rig.node()
    assert made["metadata"]["annotations"][OWNER_UID] == "uid-1"
    assert [each["key"] for each in made["spec"]["taints"]] == ["tuist.dev/macos"]
    assert {"Ready", "OtherClusterVMs"} <= {each["type"] for each in made["status"]["conditions"]}


async def test_no_node_is_made_for_a_mac_without_its_machine(rig: Rig):
    found = await rig.report()
    assert await rig.writer.write(replace(found, mac=replace(MAC, rights="ends")), UIDS) is None
    assert await rig.writer.write(replace(found, machine=None), UIDS) is None
    assert rig.writes() == []


async def test_somebody_elses_node_is_not_written(rig: Rig):
    rig.api.put("nodes", {"metadata": {"name": "mac-1"}, "spec": {"providerID": "aws:///i-1"}})
    assert await rig.writer.write(await rig.report(), UIDS) is None
    assert rig.writes() == []


async def test_nothing_is_written_from_a_report_after_a_newer_one_was_noted(rig: Rig):
    older = await rig.report()
    await rig.report(2)
    with pytest.raises(SupersededError):
        await rig.writer.write(older, UIDS)
    assert rig.writes() == []


async def test_a_node_that_was_just_made_is_not_set_back_by_the_report_that_made_it(rig: Rig):
    older = await rig.report()

    def a_newer_one_is_noted(call: Call) -> Answer | None:
        if call.verb == "get" and call.path.endswith("/nodes/mac-1") and rig.writes():
            (lease,) = [each for (kind, _, _), each in rig.api.objects.items() if kind.startswith("leases")]
            lease["metadata"]["annotations"][REPORT] = str(reported(sequence=2).order)
        return None

    rig.api.faults.append(a_newer_one_is_noted)
    with pytest.raises(SupersededError):
        await rig.writer.write(older, UIDS)
    assert rig.writes() == ["create"]


async def test_who_meets_another_writer_decides_anew(rig: Rig):
    await rig.writer.write(await rig.report(), UIDS)
    rig.clock.step(600)
    rig.api.faults.append(lambda call: status(409, "Conflict") if call.verb == "patch" else None)
    with pytest.raises(StaleError):
        await rig.writer.write(await rig.report(2), UIDS)
