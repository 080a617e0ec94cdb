"""What a Mac says of Pods: which it runs, why it refuses one, and the same words and times however often it is asked."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.clients.gateway.messages import End, MacFacts, PodReport, PodState, Reason, WantedPod
from paddock.kube.builtin import Container, EnvVar, Pod, PodSpec, PodStatus
from paddock.kube.objects import ObjectMeta, OwnerReference
from paddock.node.journal import Entry, Stage
from paddock.node.names import golden_label, golden_name, is_golden, uid_of, vm_name
from paddock.node.node_object import NodeTemplate, label_changes, node_labels
from paddock.node.pod_object import pod_object
from paddock.node.pod_shape import pod_shape
from paddock.node.pods import Offer, accepted, admission
from paddock.node.report import Observed, entry_report
from paddock.node.tokens import token_source

NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
UID = "0b46d1f5-6794-49bf-82c7-d1f841357727"
OFFER = Offer(8000, 14 * 1024**3, 2)


def pod(container: dict[str, Any] | None = None, **spec: Any) -> Pod:
    given: dict[str, Any] = {"name": "runner", "image": "image", "resources": {"limits": {"cpu": "4", "memory": "6Gi"}}}
    parts: dict[str, Any] = {"containers": (Container(**(given | (container or {}))),), "node_name": "mac"}
    meta = ObjectMeta(name="p", namespace="n", uid=UID, labels={"tuist.dev/runner-pool": "pool"})
    return Pod(metadata=meta, spec=PodSpec(**(parts | spec)))


def wanted(container: dict[str, Any] | None = None) -> WantedPod:
    return pod_shape(pod(container))


def test_names_are_short_carry_the_uid_and_are_told_from_others() -> None:
    name = vm_name("A_very.long-pool-name-that-goes-on", UID)
    assert name == f"pdk-a-very-long-pool-nam-{UID}"
    assert uid_of(name) == UID
    for other in ("builder", "pdk-", "pdk-mine", f"vm-pool-{UID}", f"pdk-pool-{UID}x"):
        assert uid_of(other) is None, other
    assert is_golden(golden_name("image"))
    assert not is_golden("tuist-golden-handmade")
    assert golden_label("image").removeprefix("tuist.dev/golden-") == golden_name("image").rpartition("-")[2]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"containers": ()}, "spec.containers"),
        ({"init_containers": (Container(name="x"),)}, "spec.initContainers"),
        ({"restart_policy": "Always"}, "spec.restartPolicy"),
        ({"volumes": ({"name": "cache", "emptyDir": {}},)}, "spec.volumes[cache]"),
    ],
)
def test_what_a_vm_cannot_be_is_named_with_its_field(changed, named) -> None:
    refusal = pod_shape(pod(**changed)).refusal
    assert refusal is not None
    assert named in refusal.message


def test_secrets_are_never_read_for_a_pod() -> None:
    secret = EnvVar(name="KEY", value_from={"secretKeyRef": {"name": "s", "key": "k"}})
    refusal = wanted({"env": (secret,)}).refusal
    assert refusal is not None
    assert "env[KEY]" in refusal.message


def test_the_guest_learns_its_environment_but_not_whom_to_ask_for_jobs() -> None:
    env = (
        EnvVar(name="TUIST_RUNNER_DISPATCH_URL", value="http://dispatch"),
        EnvVar(name="UID", value_from={"fieldRef": {"fieldPath": "metadata.uid"}}),
        EnvVar(name="A", value="b"),
    )
    assert wanted({"env": env}).env == {"UID": UID, "A": "b"}


def test_the_token_is_the_one_that_the_pods_volume_asks_for() -> None:
    volume = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "x", "path": "token"}}]}}
    found = token_source(pod(volumes=(volume,), service_account_name="sa"))
    assert (found.service_account, found.audience) == ("sa", "x")


def test_room_is_counted_and_a_seat_that_is_ending_is_waited_for() -> None:
    one = accepted(wanted(), NOW)
    other = replace(one, uid="other", name="q")
    assert admission(wanted(), OFFER, [one], ending=0, pressure="") is None
    for others, ending, reason in (
        ([one, other], 0, "OutOftuist.dev/vm"),
        ([replace(one, cpu=6)], 0, "OutOfcpu"),
        ([replace(one, memory_mb=12000)], 0, "OutOfmemory"),
    ):
        refusal = admission(wanted(), OFFER, others, ending=ending, pressure="")
        assert refusal is not None
        assert refusal.reason == reason
    assert admission(wanted(), OFFER, [one, other], ending=1, pressure="") is None
    pressed = admission(wanted(), OFFER, [], ending=0, pressure="its disk has 2% free")
    assert pressed is not None
    assert pressed.reason == "NodeUnderPressure"


def test_the_same_entry_gives_the_same_status() -> None:
    entry = replace(accepted(wanted(), NOW), stage=Stage.RUNNING, running_at=NOW, started_at=NOW)
    ended = replace(
        entry,
        stage=Stage.ENDED,
        end=End(succeeded=False, code=3, reason="Error", finished_at=NOW + timedelta(minutes=1), message="log"),
    )

    def status(entry: Entry, observed: Observed | None = None) -> dict[str, Any]:
        change = pod_object(entry_report(entry, None, observed or Observed()), pod(), "192.0.2.1")
        assert change is not None
        return change.status

    assert status(ended) == status(ended, Observed(Reason("x", "y"), "7 running"))
    assert status(ended)["containerStatuses"][0]["state"]["terminated"] == {
        "exitCode": 3,
        "reason": "Error",
        "message": "log",
        "startedAt": "2026-01-01T12:00:00Z",
        "finishedAt": "2026-01-01T12:01:00Z",
    }
    waits = replace(entry, ready_at=NOW, asking_at=NOW)
    assert status(waits)["containerStatuses"][0]["ready"] is True
    assert status(waits)["hostIP"] == "192.0.2.1"
    assert status(waits, Observed(unsaid=True))["containerStatuses"][0]["ready"] is False
    assert status(entry)["containerStatuses"][0]["ready"] is False
    pulls = replace(accepted(wanted(), NOW))
    state = status(pulls, Observed(Reason("ImagePulling", "3 of 60 GB")))["containerStatuses"][0]["state"]
    assert state == {"waiting": {"reason": "ImagePulling", "message": "3 of 60 GB"}}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("stage", Stage)
def test_an_end_that_is_recorded_is_never_written_over(phase: str, stage: Stage) -> None:
    end = End(succeeded=True, code=0, reason="Completed", finished_at=NOW)
    entry = replace(accepted(wanted(), NOW), stage=stage, running_at=NOW, end=end)
    assert pod_object(entry_report(entry, None, Observed()), replace(pod(), status=PodStatus(phase=phase))) is None


def test_a_refused_pod_fails_unless_its_controller_would_make_another_one() -> None:
    refused = PodReport(
        state=PodState.REFUSED, namespace="n", name="p", accepted_at=NOW, waits=Reason("UnsupportedPod", "no")
    )
    change = pod_object(refused, pod())
    assert change is not None
    assert change.status == {
        "phase": "Failed",
        "reason": "UnsupportedPod",
        "message": "no",
        "startTime": "2026-01-01T12:00:00Z",
    }
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="d", uid="u")
    daemon = replace(pod(), metadata=replace(pod().metadata, owner_references=(owner,)))
    assert pod_shape(daemon).kept
    assert pod_object(refused, daemon) is None


@pytest.mark.parametrize(("softnet", "said"), [(True, "true"), (False, "false")])
def test_the_node_says_whether_its_vms_are_behind_softnet(softnet: bool, said: str) -> None:
    mac = MacFacts(
        machine_id="m",
        boot_id="b",
        booted_at=NOW,
        cpus=8,
        memory_bytes=1,
        disk_bytes=1,
        seats=2,
        clock=NOW,
        softnet=softnet,
    )
    node = NodeTemplate("mac")
    assert node_labels(node, mac)["tuist.dev/softnet"] == said
    before = {"tuist.dev/softnet": "true" if not softnet else "false", "tuist.dev/golden-1": "true"}
    assert label_changes(before, node, mac) == {"tuist.dev/softnet": said} | {
        key: value for key, value in node_labels(node, mac).items() if key not in before
    }, "goldens that are not known stay"
    assert label_changes(before, node, replace(mac, goldens=("2",)))["tuist.dev/golden-1"] is None


def test_a_pod_that_asks_for_the_whole_mac_has_no_neighbour() -> None:
    def asking(seats: str) -> WantedPod:
        return wanted({"resources": {"requests": {"tuist.dev/vm": seats}}})

    alone, beside = accepted(asking("2"), NOW), accepted(asking("1"), NOW)
    assert (alone.seats, beside.seats) == (2, 1)
    for newcomer, present in ((asking("1"), alone), (asking("2"), beside)):
        refusal = admission(newcomer, OFFER, [replace(present, uid="other")], ending=0, pressure="")
        assert refusal is not None
        assert refusal.reason == "OutOftuist.dev/vm"
    assert admission(asking("2"), OFFER, [], ending=0, pressure="") is None
    assert admission(asking("2"), Offer(8000, 14 * 1024**3, 1), [], ending=0, pressure="") is None
