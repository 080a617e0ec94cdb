"""What a Mac says of Pods: which it runs, why it refuses one, and the same words and times however often it is asked."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.kube.builtin import Container, EnvVar, Pod, PodSpec
from paddock.kube.objects import ObjectMeta
from paddock.node.journal import End, Stage
from paddock.node.names import golden_label, golden_name, is_golden, uid_of, vm_name
from paddock.node.node_object import label_changes, node_labels
from paddock.node.pods import Offer, Refusal, accepted, admission, report, token_source, unsupported, variables
from paddock.node.settings import AgentSettings
from paddock.node.shares import Guest

NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
UID = "0b46d1f5-6794-49bf-82c7-d1f841357727"
OFFER = Offer(8000, 14 * 1024**3, 2)


def pod(container: dict[str, Any] | None = None, **spec: Any) -> Pod:
    given: dict[str, Any] = {"name": "runner", "image": "image", "resources": {"limits": {"cpu": "4", "memory": "6Gi"}}}
    parts: dict[str, Any] = {"containers": (Container(**(given | (container or {}))),), "node_name": "mac"}
    meta = ObjectMeta(name="p", namespace="n", uid=UID, labels={"tuist.dev/runner-pool": "pool"})
    return Pod(metadata=meta, spec=PodSpec(**(parts | spec)))


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
    problem = unsupported(pod(**changed))
    assert problem is not None
    assert named in problem


def test_secrets_are_never_read_for_a_pod() -> None:
    secret = EnvVar(name="KEY", value_from={"secretKeyRef": {"name": "s", "key": "k"}})
    problem = unsupported(pod({"env": (secret,)}))
    assert problem is not None
    assert "env[KEY]" in problem


def test_the_guest_learns_its_environment_but_not_whom_to_ask_for_jobs() -> None:
    env = (
        EnvVar(name="TUIST_RUNNER_DISPATCH_URL", value="http://dispatch"),
        EnvVar(name="UID", value_from={"fieldRef": {"fieldPath": "metadata.uid"}}),
        EnvVar(name="A", value="b"),
    )
    assert variables(pod({"env": env})) == {"UID": UID, "A": "b"}


def test_the_token_is_the_one_that_the_pods_volume_asks_for() -> None:
    volume = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "x", "path": "token"}}]}}
    found = token_source(pod(volumes=(volume,), service_account_name="sa"))
    assert (found.service_account, found.audience) == ("sa", "x")


def test_room_is_counted_and_a_seat_that_is_ending_is_waited_for() -> None:
    one = accepted(pod(), NOW)
    other = replace(one, uid="other", name="q")
    assert admission(pod(), OFFER, [one], ending=0, pressure="") is None
    for others, ending, reason in (
        ([one, other], 0, "OutOftuist.dev/vm"),
        ([replace(one, cpu=6)], 0, "OutOfcpu"),
        ([replace(one, memory_mb=12000)], 0, "OutOfmemory"),
    ):
        refusal = admission(pod(), OFFER, others, ending=ending, pressure="")
        assert refusal is not None
        assert refusal.reason == reason
    assert admission(pod(), OFFER, [one, other], ending=1, pressure="") is None
    pressed = admission(pod(), OFFER, [], ending=0, pressure="its disk has 2% free")
    assert pressed is not None
    assert pressed.reason == "NodeUnderPressure"


def test_the_same_entry_gives_the_same_report() -> None:
    entry = replace(accepted(pod(), NOW), stage=Stage.RUNNING, running_at=NOW, started_at=NOW)
    ended = replace(
        entry,
        stage=Stage.ENDED,
        end=End(succeeded=False, code=3, reason="Error", finished_at=NOW + timedelta(minutes=1), message="log"),
    )
    assert report(ended, Guest(), None, "") == report(ended, Guest(state="job"), Refusal("x", "y"), "")
    state = report(ended, Guest(), None, "")["containerStatuses"][0]["state"]["terminated"]
    assert state == {
        "exitCode": 3,
        "reason": "Error",
        "message": "log",
        "startedAt": "2026-01-01T12:00:00Z",
        "finishedAt": "2026-01-01T12:01:00Z",
    }
    waits = replace(entry, ready_at=NOW, asking_at=NOW)
    assert report(waits, Guest(state="ready"), None, "")["containerStatuses"][0]["ready"] is True
    assert report(entry, Guest(state="booted"), None, "")["containerStatuses"][0]["ready"] is False


@pytest.mark.parametrize(("softnet", "said"), [(True, "true"), (False, "false")])
def test_the_node_says_whether_its_vms_are_behind_softnet(softnet: bool, said: str) -> None:
    settings = AgentSettings(node_name="mac", data=Path("/node"), dispatch_url="http://d", guest_script=b"")
    assert node_labels(settings, (), softnet=softnet)["tuist.dev/softnet"] == said
    before = {"tuist.dev/softnet": "true" if not softnet else "false"}
    assert label_changes(before, settings, None, softnet=softnet)["tuist.dev/softnet"] == said


def test_a_pod_that_asks_for_the_whole_mac_has_no_neighbour() -> None:
    def asking(seats: str) -> Pod:
        return pod({"resources": {"requests": {"tuist.dev/vm": seats}}})

    alone, beside = accepted(asking("2"), NOW), accepted(asking("1"), NOW)
    assert (alone.seats, beside.seats) == (2, 1)
    for wanted, present in ((asking("1"), alone), (asking("2"), beside)):
        refusal = admission(wanted, OFFER, [replace(present, uid="other")], ending=0, pressure="")
        assert refusal is not None
        assert refusal.reason == "OutOftuist.dev/vm"
    assert admission(asking("2"), OFFER, [], ending=0, pressure="") is None
    assert admission(asking("2"), Offer(8000, 14 * 1024**3, 1), [], ending=0, pressure="") is None
