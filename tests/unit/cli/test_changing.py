"""The verbs that change something: each prints its plan, asks, and does nothing when it is not confirmed."""

from typing import Any

import pytest
from unit.cli.scene import FREE_ID, Scene
from unit.hosts.made import OTHER_ID, SERVER_ID

from paddock.hosts.api import FINALIZER, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.delete import RELEASE_POLICY
from paddock.hosts.disruption import CORDON_REASON, CORDONED_AT, FORCE
from paddock.kube.builtin import Node, Pod
from paddock.kube.errors import NotFoundError
from paddock.runners.api import OWNER_LABEL


def one(scene: Scene, kind: Any, name: str) -> Any:
    async def get(client: Any) -> Any:
        try:
            return await client.get(kind, name, "default" if kind.RESOURCE.namespaced else None)
        except NotFoundError:
            return None

    return scene.cluster.ask(get)


@pytest.mark.parametrize(
    "words",
    [
        ("release", "blue-2"),
        ("terminate", "blue-2"),
        ("quarantine", FREE_ID, "--reason", "broken fan"),
        ("retire", FREE_ID, "--reason", "broken fan"),
        ("drain", "blue-1"),
        ("drain", "runner-2"),
        ("detach", "blue-2"),
    ],
)
def test_what_is_not_confirmed_is_not_done_and_exits_with_four(scene: Scene, words: tuple[str, ...]):
    outcome = scene.type(*words, answer="n\n")
    assert outcome.exit_code == 4, outcome.output
    assert "  1. " in outcome.output
    assert outcome.output.endswith("Nothing was changed.\n")
    assert one(scene, ScalewayAppleSiliconMachine, "blue-2") is not None
    assert not one(scene, Node, "blue-1").spec.unschedulable


def test_where_nobody_answers_nothing_is_done(scene: Scene):
    outcome = scene.type("release", "blue-2")
    assert outcome.exit_code == 4
    assert outcome.output.endswith("Nothing was changed.\n")
    assert one(scene, ScalewayAppleSiliconMachine, "blue-2") is not None


def test_a_busy_mac_is_not_released_unless_its_job_is_given_up_by_name(scene: Scene):
    refused = scene.type("release", "blue-1", "--yes")
    assert refused.exit_code == 1
    assert "Pod runner-1 works for acme" in refused.output
    assert "--force-kill-job" in refused.output
    assert one(scene, ScalewayAppleSiliconMachine, "blue-1") is not None
    assert scene.type("release", "blue-1", "--yes", "--force-kill-job").exit_code == 0
    assert one(scene, ScalewayAppleSiliconMachine, "blue-1") is None


def test_only_a_job_that_was_shown_and_given_up_is_not_waited_for(scene: Scene):
    def held(name: str) -> None:
        """As the operator holds it, so that it can be looked at after its deletion."""
        hold = {"metadata": {"finalizers": [FINALIZER]}}
        scene.cluster.ask(
            lambda client: client.merge_patch(ScalewayAppleSiliconMachine, name, hold, namespace="default")
        )

    for name in ("blue-1", "blue-2"):
        held(name)
        assert scene.type("release", name, "--yes", "--force-kill-job").exit_code == 0
    shown = one(scene, Pod, "runner-1").metadata.uid
    assert one(scene, ScalewayAppleSiliconMachine, "blue-1").metadata.annotations == {FORCE: shown}
    assert one(scene, ScalewayAppleSiliconMachine, "blue-2").metadata.annotations == {}


def test_a_job_that_came_while_the_question_stood_is_not_ended(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    def answered_late(*_: Any, **__: Any) -> bool:
        """Somebody thinks about it, and meanwhile the other runner of this Mac gets a job."""
        change = {"metadata": {"labels": {OWNER_LABEL: "globex"}}}
        scene.cluster.ask(lambda client: client.merge_patch(Pod, "runner-2", change, namespace="default"))
        return True

    monkeypatch.setattr("paddock.cli.release.confirmed", answered_late)
    outcome = scene.type("release", "blue-1", "--force-kill-job")
    assert outcome.exit_code == 1
    assert "Pod runner-2 works for globex" in outcome.output
    assert "nothing was changed" in outcome.output
    left = one(scene, ScalewayAppleSiliconMachine, "blue-1")
    assert left.metadata.annotations == {}
    assert left.metadata.deletion_timestamp is None


def test_nothing_is_forced_where_the_job_that_was_given_up_has_ended(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    def answered_late(*_: Any, **__: Any) -> bool:
        hold, ended = {"metadata": {"finalizers": [FINALIZER]}}, {"status": {"phase": "Succeeded"}}
        scene.cluster.ask(
            lambda client: client.merge_patch(ScalewayAppleSiliconMachine, "blue-1", hold, namespace="default")
        )
        scene.cluster.ask(
            lambda client: client.merge_patch(Pod, "runner-1", ended, namespace="default", subresource="status")
        )
        return True

    monkeypatch.setattr("paddock.cli.release.confirmed", answered_late)
    assert scene.type("release", "blue-1", "--force-kill-job").exit_code == 0
    assert one(scene, ScalewayAppleSiliconMachine, "blue-1").metadata.annotations == {}


def test_a_terminated_machine_is_marked_before_it_is_deleted(scene: Scene):
    plan = scene.type("terminate", "blue-1", "--force-kill-job", answer="n\n").output
    marked, deleted = plan.index("mark it to be given back for good"), plan.index("delete machine blue-1")
    assert marked < deleted


def test_a_release_says_that_a_machine_of_such_a_policy_or_source_is_terminated(scene: Scene):
    for change in ({"metadata": {"annotations": {RELEASE_POLICY: "terminate"}}}, {"spec": {"source": "Order"}}):
        scene.cluster.ask(
            lambda client, change=change: client.merge_patch(
                ScalewayAppleSiliconMachine, "blue-1", change, namespace="default"
            )
        )
        plan = scene.type("release", "blue-1", "--force-kill-job", answer="n\n").output
        assert "is deleted at the cloud" in plan
        assert "goes back to the pool" not in plan
        without = {"metadata": {"annotations": None}}
        scene.cluster.ask(
            lambda client, change=without: client.merge_patch(
                ScalewayAppleSiliconMachine, "blue-1", change, namespace="default"
            )
        )


def test_waiting_for_the_release_of_an_ordered_mac_ends_when_its_deletion_is_scheduled(scene: Scene):
    scene.cluster.ask(
        lambda client: client.merge_patch(
            ScalewayAppleSiliconMachine, "blue-1", {"spec": {"source": "Order"}}, namespace="default"
        )
    )
    scheduled = {"status": {"deletionScheduled": True}}
    scene.cluster.ask(
        lambda client: client.merge_patch(
            ScalewayAppleSiliconHost, SERVER_ID, scheduled, namespace="default", subresource="status"
        )
    )
    outcome = scene.type("release", "blue-1", "--yes", "--force-kill-job", "--wait", "--timeout", "1s")
    assert outcome.exit_code == 0, outcome.output
    assert "the cloud deletes it later" in outcome.output


def test_a_quarantine_says_who_keeps_the_host_and_is_lifted_again(scene: Scene):
    outcome = scene.type("quarantine", "blue-1", "--reason", "broken fan", "--yes")
    assert "machine blue-1 keeps it" in outcome.output
    assert one(scene, ScalewayAppleSiliconHost, SERVER_ID).spec.quarantine == "broken fan"
    assert scene.type("unquarantine", SERVER_ID, "--yes").exit_code == 0
    assert one(scene, ScalewayAppleSiliconHost, SERVER_ID).spec.quarantine == ""


def test_a_host_is_to_be_retired_with_a_reason_and_kept_after_all(scene: Scene):
    shown = scene.type("retire", "blue-1", "--reason", "broken fan", "--dry-run")
    assert (shown.exit_code, one(scene, ScalewayAppleSiliconHost, SERVER_ID).spec.retire) == (0, "")
    assert "machine blue-1 keeps it, and its jobs, until it gives it back" in shown.output
    assert scene.type("retire", "blue-1", "--reason", "broken fan", "--yes").exit_code == 0
    assert one(scene, ScalewayAppleSiliconHost, SERVER_ID).spec.retire == "broken fan"
    assert scene.type("retire", SERVER_ID, "--undo", "--yes").exit_code == 0
    assert one(scene, ScalewayAppleSiliconHost, SERVER_ID).spec.retire == ""
    assert scene.type("retire", SERVER_ID).exit_code == 2


def test_a_host_of_nobody_is_quarantined_without_speaking_of_a_machine(scene: Scene):
    assert "keeps it" not in scene.type("quarantine", OTHER_ID, "--reason", "x", "--yes").output


def test_a_drained_mac_is_cordoned_and_comes_back(scene: Scene):
    outcome = scene.type("drain", SERVER_ID, "--yes")
    assert "let Pod runner-1 finish its job" in outcome.output
    assert one(scene, Node, "blue-1").spec.unschedulable
    assert scene.type("undrain", "blue-1", "--yes").exit_code == 0
    assert not one(scene, Node, "blue-1").spec.unschedulable


def cordoned_by_the_operator(scene: Scene) -> None:
    marks = {CORDON_REASON: "bootstrap of machine blue-1", CORDONED_AT: "2026-11-01T00:00:00Z"}
    change = {"metadata": {"annotations": marks}, "spec": {"unschedulable": True}}
    scene.cluster.ask(lambda client: client.merge_patch(Node, "blue-1", change))


def test_a_drain_of_a_node_that_the_operator_closed_is_not_undone_by_the_operator(scene: Scene):
    cordoned_by_the_operator(scene)
    assert scene.type("drain", "blue-1", "--yes").exit_code == 0
    left = one(scene, Node, "blue-1")
    assert left.spec.unschedulable
    assert CORDON_REASON not in left.metadata.annotations
    assert CORDONED_AT in left.metadata.annotations


def test_an_undrain_leaves_no_mark_of_the_operators_and_says_what_comes(scene: Scene):
    cordoned_by_the_operator(scene)
    outcome = scene.type("undrain", "blue-1", "--yes")
    assert "the operator closed it for the bootstrap of machine blue-1" in outcome.output
    left = one(scene, Node, "blue-1")
    assert not left.spec.unschedulable
    assert left.metadata.annotations == {}


def test_a_drained_pod_is_marked(scene: Scene):
    assert scene.type("drain", "runner-2", "--yes").exit_code == 0
    assert one(scene, Pod, "runner-2").metadata.labels["tuist.dev/runner-operator-drain"] == "true"


def test_a_name_that_nobody_has_is_answered_with_how_to_list(scene: Scene):
    outcome = scene.type("release", "red-1", "--yes")
    assert outcome.exit_code == 1
    assert "`paddock get machines`" in outcome.output
