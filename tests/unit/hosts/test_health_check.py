"""What a MachineHealthCheck asks for is one more trouble; who is asked to replace a Machine, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, SERVER_ID, host, machine

from paddock.clients.scaleway import HealthDetails
from paddock.hosts.api import MacFleet, Reinstall, Remediation, RemediationSpec
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.api import ScalewayAppleSiliconRemediation as Asking
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.health_check import (
    asked_by,
    concerns,
    condition_of,
    handed_over,
    leaving,
    refusal,
    replaceable,
    standing,
    was_given_up,
    with_owner_remediated,
)
from paddock.hosts.remediation import (
    GIVE_BACK,
    REBOOT,
    RESTART,
    Asked,
    RebootHost,
    RestartAgent,
    WaitForHost,
    next_step,
    proven_dead,
    trouble_of,
)
from paddock.kube.builtin import Node, NodeCondition, NodeStatus
from paddock.kube.objects import Condition, ObjectMeta, OwnerReference

CORE_UID = "core-1"
OWNER = OwnerReference(api_version="cluster.x-k8s.io/v1beta2", kind="Machine", name="m-1", uid=CORE_UID)
FLEET = OwnerReference(api_version=MacFleet.RESOURCE.api_version, kind="MacFleet", name="minis", uid="fleet-1")
WELL = host(cloud_name="m-1", state="owned")
UNHEALTHY = {
    "type": "HealthCheckSucceeded",
    "status": "False",
    "reason": "UnhealthyNode",
    "message": "* Node.Ready\n is Unknown",
}


def asking(strategy: Any = "Replace", owner: OwnerReference | None = OWNER, **meta: Any) -> Asking:
    owners = (owner,) if owner is not None else ()
    made = ObjectMeta(name="m-1", namespace="default", creation_timestamp=NOW, owner_references=owners, **meta)
    return Asking(metadata=made, spec=RemediationSpec(strategy=strategy))


def owned(owner: OwnerReference | None = OWNER, **status: Any) -> Machine:
    made = machine(**{"server_id": SERVER_ID, **status})
    return replace(made, metadata=replace(made.metadata, owner_references=(owner,) if owner is not None else ()))


def core(*conditions: dict[str, Any], owners: bool = True, **meta: Any) -> dict[str, Any]:
    refs = [{"kind": "MachineSet", "name": "s", "controller": True}] if owners else []
    return {
        "metadata": {"name": "m-1", "uid": CORE_UID, "ownerReferences": refs, **meta},
        "spec": {"infrastructureRef": {"kind": "ScalewayAppleSiliconMachine", "name": "m-1"}},
        "status": {"conditions": list(conditions)},
    }


def node(status: str = "True", reason: str = "") -> Node:
    said = NodeCondition(type="Ready", status=status, reason=reason, last_transition_time=NOW)
    return Node(metadata=ObjectMeta(name="m-1"), status=NodeStatus(conditions=(said,)))


# One more trouble


def test_what_is_asked_for_says_since_when_why_and_how_far():
    asked = asked_by(asking("Reboot"), core(UNHEALTHY), NOW + timedelta(hours=1))
    assert asked == Asked(NOW, "* Node.Ready is Unknown", REBOOT)


@pytest.mark.parametrize(
    ("found", "owner"),
    [
        (asking(deletion_timestamp=NOW), core(UNHEALTHY)),
        (asking(annotations={PAUSED: ""}), core(UNHEALTHY)),
        (asking(), core(UNHEALTHY, deletionTimestamp="2026-06-01T12:00:00Z")),
        (asking(), core({"type": "HealthCheckSucceeded", "status": "True"})),
        (asking(), None),
    ],
    ids=["being deleted", "paused", "its Machine is being deleted", "its Machine is healthy", "its Machine is gone"],
)
def test_what_is_over_asks_for_nothing(found: Asking, owner: dict[str, Any] | None):
    assert asked_by(found, owner, NOW) is None


def test_a_machine_that_looks_well_is_in_trouble_by_the_request_alone_and_stays_ready():
    """Were it not ready for that, a check on its infrastructure would never find it well again (CAPH#1983)."""
    found = trouble_of(node(), WELL, None, NOW, asked=Asked(NOW, "UnhealthyNode"))
    assert found is not None
    assert found.what == "a MachineHealthCheck asks for remediation (UnhealthyNode)"
    assert not found.urgent
    assert (found.first, found.last) == (RESTART, GIVE_BACK)


def test_what_we_see_ourselves_comes_first_and_goes_no_further_than_the_strategy():
    found = trouble_of(node("Unknown"), WELL, None, NOW, asked=Asked(NOW + timedelta(minutes=5), "", REBOOT))
    assert found is not None
    assert found.what.startswith("its Node is not ready")
    assert (found.since, found.last, found.urgent) == (NOW, REBOOT, True)


def test_the_request_has_the_same_tiers_pauses_and_caps_as_any_trouble():
    found = trouble_of(node(), WELL, None, NOW, asked=Asked(NOW))
    assert found is not None
    one = owned()
    assert isinstance(next_step(found, one, [one], NOW + timedelta(minutes=4)), WaitForHost)
    assert isinstance(next_step(found, one, [one], NOW + timedelta(minutes=5)), RestartAgent)
    rebooted = replace(one, status=replace(one.status, remediation=Remediation(since=NOW, tier=2, at=NOW)))
    assert isinstance(next_step(found, rebooted, [rebooted], NOW + timedelta(minutes=9)), WaitForHost)
    assert isinstance(next_step(found, rebooted, [rebooted], NOW + timedelta(minutes=25)), RebootHost)


def test_a_strategy_that_is_used_up_leaves_the_rest_to_a_person():
    found = trouble_of(node(), WELL, None, NOW, asked=Asked(NOW, "", REBOOT))
    assert found is not None
    one = owned(remediation=Remediation(since=NOW, tier=REBOOT, at=NOW))
    step = next_step(found, one, [one], NOW + timedelta(days=1))
    assert isinstance(step, WaitForHost)
    assert step.exhausted
    assert "a person has to look" in step.message


def test_no_diagnosis_proves_a_mac_dead_whose_agent_reports():
    dead = HealthDetails(is_server_alive=False, is_agent_alive=False, is_ssh_port_up=False, is_vnc_port_up=False)
    late = NOW + timedelta(hours=2)
    asked = trouble_of(node(), WELL, None, NOW, asked=Asked(NOW))
    session = trouble_of(node("False", "NoSession"), WELL, None, NOW)
    silent = trouble_of(node("Unknown"), WELL, None, NOW, asked=Asked(NOW))
    assert asked is not None
    assert session is not None
    assert silent is not None
    assert not proven_dead(asked, dead, late)
    assert not proven_dead(session, dead, late)
    assert proven_dead(silent, dead, late)


# Whom it concerns


def test_it_concerns_the_machine_below_the_same_machine_of_core_whatever_their_names():
    other = OwnerReference(api_version="cluster.x-k8s.io/v1beta2", kind="Machine", name="m-1", uid="another life")
    assert concerns(asking(), owned())
    assert concerns(asking(), replace(owned(), metadata=replace(owned().metadata, name="other")))
    assert not concerns(asking(), owned(other)), "the same name in another life is another Machine"
    assert not concerns(asking(), replace(owned(), metadata=replace(owned().metadata, namespace="other")))
    assert not concerns(asking(owner=None), owned(None))


@pytest.mark.parametrize("owner", [None, FLEET], ids=["of nobody", "of a MacFleet"])
def test_one_that_no_machine_of_core_owns_is_refused_and_told_what_to_do(owner: OwnerReference | None):
    why = refusal(asking(owner=owner), None, None)
    assert why is not None
    assert why.reason == "NoMachine"
    assert "Macs of a MacFleet need none" in why.message
    assert not concerns(asking(owner=owner), owned(owner))


def test_one_for_a_machine_of_another_provider_is_refused_by_its_kind():
    foreign = core(UNHEALTHY)
    foreign["spec"]["infrastructureRef"] = {"kind": "Metal3Machine", "name": "x"}
    why = refusal(asking(), foreign, None)
    assert why is not None
    assert why.reason == "NotOurs"
    assert "Metal3Machine x, which is not ours: nothing is done" in why.message


def test_one_whose_machine_is_gone_or_not_there_yet_is_refused_and_one_of_ours_is_not():
    gone, early = refusal(asking(), None, None), refusal(asking(), core(), None)
    assert gone is not None
    assert "does not exist" in gone.message
    assert early is not None
    assert "looked at again in a minute" in early.message
    assert refusal(asking(), core(), owned()) is None


# Where it stands


def says(found: Machine, owner: dict[str, Any] | None = None, step: Any = None, what: Asking | None = None) -> Any:
    return standing(what or asking(), found, owner or core(UNHEALTHY), step)


def ready(reason: str, message: str, kind: str = "Ready", status: str = "False") -> tuple[Condition, ...]:
    return (Condition(type=kind, status=status, reason=reason, message=message),)


def test_the_status_is_the_sentence_of_whoever_is_at_work():
    drains = ready("Draining", "reboot waits for 1 job: job-1 (of acme)", kind="Drained")
    waits = WaitForHost("it is silent; next: it is rebooted after 12:25 UTC")
    last = WaitForHost("nothing more is tried by itself", exhausted=True)
    installs = owned(reinstall=Reinstall(), conditions=ready("Reinstalling", "is reinstalled in place"))
    for found, phase, reason, message in (
        (says(owned(), step=waits), "Waiting", "TierNotDue", waits.message),
        (says(owned(), step=RestartAgent("its agent is started anew")), "Remediating", "Remediating", "its agent"),
        (says(owned(conditions=drains), step=waits), "Waiting", "Draining", "waits for 1 job: job-1"),
        (says(installs), "Remediating", "Reinstalling", "is reinstalled in place"),
        (says(owned(server_id="")), "Waiting", "NoHost", "has no Mac"),
        (says(owned()), "Waiting", "BeingSetUp", "no tier is tried"),
        (says(owned(), step=last), "Exhausted", "Exhausted", "nothing more"),
    ):
        assert (found.phase, found.reason) == (phase, reason)
        assert message in found.message
        assert condition_of(found).status == ("False" if phase == "Exhausted" else "True")


def test_a_pause_is_told_and_a_machine_that_goes_ends_everything():
    paused = ready("ClusterPaused", "the Cluster is paused", kind="Paused", status="True")
    assert says(owned(), what=asking(annotations={PAUSED: ""})).phase == "Paused"
    assert says(owned(conditions=paused)).phase == "Paused"
    gone = replace(owned(), metadata=replace(owned().metadata, deletion_timestamp=NOW))
    assert (says(gone).phase, says(gone).reason) == ("Replacing", "Deleting")
    asked = core(UNHEALTHY, {"type": "OwnerRemediated", "status": "False"})
    assert (says(owned(), asked).phase, says(owned(), asked).reason) == ("Replacing", "OwnerRemediates")


# The end


def test_a_machine_is_given_to_its_owner_only_where_that_would_replace_it():
    assert replaceable(core(UNHEALTHY))
    assert not replaceable(core(UNHEALTHY, owners=False)), "nobody would make another"
    assert not replaceable(core()), "core does not call it unhealthy, and would not look"
    assert not replaceable(core({"type": "HealthCheckSucceeded", "status": "True"}))


@pytest.mark.parametrize(("version", "severity"), [("v1beta1", "Warning"), ("v1beta2", None)])
def test_the_condition_is_added_in_the_form_of_its_version_and_keeps_the_others(version: str, severity: str | None):
    before = core(UNHEALTHY, {"type": "OwnerRemediated", "status": "True"})
    after = with_owner_remediated(before, version, "no tier helped", NOW)
    assert after[0] == UNHEALTHY
    (made,) = [each for each in after if each["type"] == "OwnerRemediated"]
    assert (made["status"], made["reason"], made["message"]) == ("False", "WaitingForRemediation", "no tier helped")
    assert (made["lastTransitionTime"], made.get("severity")) == ("2026-06-01T12:00:00Z", severity)
    assert not handed_over(before)
    assert handed_over({"status": {"conditions": after}})


def test_a_machine_that_core_deletes_or_replaces_is_leaving():
    assert leaving(core(deletionTimestamp="2026-06-01T12:00:00Z"))
    assert leaving(core({"type": "OwnerRemediated", "status": "False"}))
    assert not leaving(core(UNHEALTHY))
    assert not leaving(None)


def test_a_machine_whose_last_tier_was_tried_ends_as_a_failed_life():
    assert was_given_up(owned(remediation=Remediation(since=NOW, tier=GIVE_BACK, at=NOW)))
    assert not was_given_up(owned(remediation=Remediation(since=NOW, tier=REBOOT, at=NOW)))
    assert not was_given_up(owned())
