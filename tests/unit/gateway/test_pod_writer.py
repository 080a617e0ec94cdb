"""A Pod's status moves forward only, each Pod is written for itself, and none is removed before its end is written."""

from typing import Any

import pytest
from doubles.clocks import NOON, SteppedClock
from msgspec.structs import replace
from unit.gateway.macs import MAC, POD, UID, pod, reported
from unit.kube.fake_api import Answer, Call, FakeApi, status
from unit.kube.things import client_of

from paddock.clients.gateway.messages import End, PodReport, PodState
from paddock.gateway.lease import MacLeases
from paddock.gateway.macs import Reported
from paddock.gateway.node_writer import StaleError, SupersededError
from paddock.gateway.pod_writer import PodWriter, forward
from paddock.kube.builtin import Pod
from paddock.kube.errors import KubeError
from paddock.node.pod_object import PodChange, pod_object

OTHER = "0c1d2e3f-0000-4000-8000-000000000002"
RUNNING = replace(POD, running_at=NOON, asks=True)
WAITING = replace(POD, state=PodState.ACCEPTED)
ENDED = replace(POD, state=PodState.ENDED, end=End(succeeded=True, code=0, reason="Completed", finished_at=NOON))


@pytest.mark.parametrize(
    ("shown", "phase", "leads_on"),
    [
        ("", "Pending", True),
        ("Pending", "Pending", True),
        ("Pending", "Running", True),
        ("Pending", "Failed", True),
        ("Running", "Running", True),
        ("Running", "Succeeded", True),
        ("Running", "Pending", False),
        ("Succeeded", "Running", False),
        ("Succeeded", "Failed", False),
        ("Failed", "Succeeded", False),
        ("Failed", "Failed", False),
    ],
)
def test_a_phase_moves_forward_only_and_an_end_is_written_once(shown: str, phase: str, leads_on: bool):
    assert forward(pod(phase=shown), PodChange({"phase": phase})) is leads_on


def test_one_condition_alone_is_written_beside_any_phase_but_never_over_an_end():
    change = PodChange({"conditions": []}, partial=True)
    assert forward(pod(phase="Running"), change)
    assert not forward(pod(phase="Failed"), change)


def test_a_vm_that_waits_for_its_seat_once_more_waits_as_a_container_does_in_its_phase():
    change = pod_object(WAITING, pod(phase="Running"))
    assert change is not None
    assert forward(pod(phase="Running"), change)
    assert change.status["phase"] == "Running"
    assert "waiting" in change.status["containerStatuses"][0]["state"]


class Rig:
    def __init__(self) -> None:
        self.api, self.clock = FakeApi(), SteppedClock()
        client = client_of(self.api)
        self.leases = MacLeases(client, self.clock)
        self.writer = PodWriter(client, self.leases, self.clock)

    async def report(self, pods: dict[str, PodReport], sequence: int = 1) -> Reported:
        """A report that is the newest."""
        found = reported(pods, sequence=sequence)
        assert await self.leases.note(MAC, found.order, proven=False) == "newer"
        return found

    def there(self, *pods: Pod) -> None:
        for each in pods:
            meta: dict[str, Any] = {
                "name": each.metadata.name,
                "namespace": each.metadata.namespace,
                "uid": each.metadata.uid,
            }
            if each.metadata.deletion_timestamp is not None:
                meta["deletionTimestamp"] = "2026-06-01T12:00:00Z"
            self.api.put("pods", {"metadata": meta, "spec": {"nodeName": each.spec.node_name}})

    def patched(self) -> list[str]:
        return [call.path.split("/")[-2] for call in self.api.calls if call.verb == "patch"]

    def refuse(self, name: str, answer: Answer) -> None:
        def fault(call: Call) -> Answer | None:
            return answer if call.verb == "patch" and f"/{name}/" in call.path else None

        self.api.faults.append(fault)


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_what_was_written_is_not_written_again_while_nothing_differs(rig: Rig):
    rig.there(pod())
    for sequence in (1, 2):
        assert await rig.writer.write(await rig.report({UID: RUNNING}, sequence), [pod()]) == {}
    assert rig.patched() == ["p1"]


async def test_nothing_is_written_from_a_report_after_a_newer_one_was_noted(rig: Rig):
    rig.there(pod())
    older = await rig.report({UID: RUNNING})
    await rig.report({UID: ENDED}, 2)
    with pytest.raises(SupersededError):
        await rig.writer.write(older, [pod()])
    assert rig.patched() == []


@pytest.mark.parametrize("answer", [status(403, "Forbidden"), status(409, "Conflict"), status(500, "InternalError")])
async def test_a_pod_that_cannot_be_written_keeps_no_other_from_being(rig: Rig, answer: Answer):
    pods = [pod(), pod("p2", OTHER)]
    rig.there(*pods)
    rig.refuse("p1", answer)
    failures = await rig.writer.write(await rig.report({UID: RUNNING, OTHER: RUNNING}), pods)
    assert rig.patched() == ["p1", "p2"]
    assert set(failures) == {UID}
    assert isinstance(failures[UID], KubeError | StaleError)


async def test_a_pod_that_is_gone_by_now_is_nothing_to_repeat(rig: Rig):
    assert await rig.writer.write(await rig.report({UID: RUNNING}), [pod()]) == {}


async def test_a_mac_without_its_machine_says_how_its_pods_ended_and_nothing_else(rig: Rig):
    pods = [pod(), pod("p2", OTHER)]
    rig.there(*pods)
    found = await rig.report({UID: RUNNING, OTHER: ENDED})
    await rig.writer.write(replace(found, mac=replace(MAC, rights="ends")), pods)
    assert rig.patched() == ["p2"]


def test_only_a_pod_that_is_being_deleted_and_of_which_the_mac_has_nothing_is_to_be_removed(rig: Rig):
    cleared = replace(POD, state=PodState.CLEARED)
    deleted = pod(deleted=True)
    for state in PodState:
        report = reported({UID: replace(POD, state=state)})
        assert rig.writer.to_remove(report, [deleted]) == (
            [deleted] if state in (PodState.CLEARED, PodState.REFUSED) else []
        )
    assert rig.writer.to_remove(reported({UID: cleared}), [pod()]) == []
    assert rig.writer.to_remove(reported({}), [deleted]) == [], "a report that does not name it says nothing"


@pytest.mark.parametrize(
    "there",
    [pod(), pod(uid="uid-of-a-namesake", deleted=True), pod(node="mac-2", deleted=True)],
    ids=["not being deleted", "a namesake", "of another Mac"],
)
async def test_a_pod_that_is_another_by_now_is_not_removed(rig: Rig, there: Pod):
    rig.there(there)
    await rig.writer.remove(pod(deleted=True), "mac-1")
    assert rig.api.count("delete") == 0


async def test_a_pod_is_removed_under_its_uid(rig: Rig):
    rig.there(pod(deleted=True))
    await rig.writer.remove(pod(deleted=True), "mac-1")
    (call,) = [call for call in rig.api.calls if call.verb == "delete"]
    assert call.body["preconditions"]["uid"] == UID
    assert call.body["gracePeriodSeconds"] == 0
