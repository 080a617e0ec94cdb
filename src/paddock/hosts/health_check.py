"""What a MachineHealthCheck asks of us, and how Cluster API is told that nothing helped. Pure; see docs/design/disruption.md.

The invariant: a `ScalewayAppleSiliconRemediation` is one more trouble of a Mac with its evidence, never a way around the
gate; and a Machine is given to its owner to be replaced only while that owner would do it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from paddock.base.clock import rfc3339
from paddock.hosts.api import ScalewayAppleSiliconMachine, ScalewayAppleSiliconRemediation
from paddock.hosts.cluster_api import PAUSED, PAUSES, machine_owner
from paddock.hosts.remediation import GIVE_BACK, STRATEGIES, Asked, RemediationStep, WaitForHost
from paddock.kube.conditions import get_condition
from paddock.kube.objects import Condition

__all__ = [
    "OWNER_REMEDIATED",
    "NotWanted",
    "Standing",
    "asked_by",
    "concerns",
    "condition_of",
    "handed_over",
    "leaving",
    "refusal",
    "replaceable",
    "standing",
    "was_given_up",
    "with_owner_remediated",
]

OWNER_REMEDIATED: Final = "OwnerRemediated"
_HEALTH_CHECK: Final = "HealthCheckSucceeded"
_REASON: Final = "WaitingForRemediation"

Machine = ScalewayAppleSiliconMachine
RemediationObject = ScalewayAppleSiliconRemediation


@dataclass(frozen=True, slots=True)
class NotWanted:
    """Nothing is done for this object; why, and what a person can do."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a remediation stands: what its status says."""

    phase: str
    reason: str
    message: str
    progressing: bool = True


def concerns(remediation: RemediationObject, machine: Machine) -> bool:
    """Whether the core Machine that owns the one also owns the other: their names may differ."""
    asks, owner = machine_owner(remediation), machine_owner(machine)
    same_place = remediation.metadata.namespace == machine.metadata.namespace
    return same_place and asks is not None and owner is not None and asks.uid == owner.uid


def asked_by(remediation: RemediationObject, core: dict[str, Any] | None, now: datetime) -> Asked | None:
    """What the object asks for; None where it asks for nothing (any more). `core` is the Machine that owns it, read fresh.

    A Machine that is being deleted has no tiers left, and one of which core says that its health check succeeds is well:
    the object is deleted with the one and by the other.
    """
    meta = remediation.metadata
    if meta.deletion_timestamp is not None or PAUSED in meta.annotations or core is None:
        return None
    if core.get("metadata", {}).get("deletionTimestamp"):
        return None
    check = _condition(core, _HEALTH_CHECK)
    if check is not None and check.get("status") == "True":
        return None
    said = (check or {}).get("message") or (check or {}).get("reason") or ""
    since = meta.creation_timestamp or now
    return Asked(since, " ".join(said.split())[:200], STRATEGIES[remediation.spec.strategy])


def refusal(remediation: RemediationObject, core: dict[str, Any] | None, machine: Machine | None) -> NotWanted | None:
    """Why nothing can be done for this object; None where it concerns a machine of ours."""
    ref = machine_owner(remediation)
    if ref is None:
        return NotWanted(
            "NoMachine",
            "no Cluster API Machine owns this object, so that nobody says which Mac it is for: nothing is done; let a "
            "MachineHealthCheck make it (Macs of a MacFleet need none: the operator looks after them by itself), and delete it",
        )
    if machine is not None:
        return None
    if core is None:
        return NotWanted(
            "NoMachine",
            f"the Machine {ref.name} that owns this object does not exist: nothing is done; delete the object",
        )
    infra = (core.get("spec") or {}).get("infrastructureRef") or {}
    what = f"{infra.get('kind') or 'no kind'} {infra.get('name') or ''}".strip()
    if infra.get("kind") == Machine.RESOURCE.kind:
        return NotWanted(
            "NoMachine",
            f"{what} of Machine {ref.name} does not exist, or is not its own yet: nothing is done; looked at again in a minute",
        )
    return NotWanted(
        "NotOurs",
        f"the infrastructure of Machine {ref.name} is {what}, which is not ours: nothing is done; name a remediation template "
        "of its own provider in the MachineHealthCheck",
    )


def standing(
    remediation: RemediationObject, machine: Machine, core: dict[str, Any], step: RemediationStep | None
) -> Standing:
    """Where a remediation of one of our machines stands, in the words of whoever is at work on it. `step` is the next tier."""
    ready = get_condition(machine.status.conditions, "Ready")
    said = ready.message or ready.reason if ready is not None else "no controller has looked at it yet"
    name = machine.metadata.name
    if PAUSED in remediation.metadata.annotations:
        return Standing(
            "Paused", "Paused", f"the annotation {PAUSED} is set: nothing is done until it is removed", False
        )
    if machine.metadata.deletion_timestamp is not None or core.get("metadata", {}).get("deletionTimestamp"):
        return Standing("Replacing", "Deleting", f"its Machine is being deleted, which ends all tiers: {said}")
    if handed_over(core):
        return Standing(
            "Replacing",
            "OwnerRemediates",
            f"no tier helped: the owner of Machine {name} was asked to replace it ({OWNER_REMEDIATED}=False), and deletes it next",
        )
    paused = get_condition(machine.status.conditions, "Paused")
    if paused is not None and paused.status == "True" and paused.reason in PAUSES:
        return Standing("Paused", paused.reason, paused.message, False)
    if not machine.status.server_id:
        return Standing("Waiting", "NoHost", f"machine {name} has no Mac that could be looked after: {said}")
    if machine.status.reinstall is not None:
        return Standing("Remediating", "Reinstalling", said)
    drained = get_condition(machine.status.conditions, "Drained")
    if drained is not None and drained.status == "False":
        return Standing("Waiting", "Draining", drained.message)
    if step is None:
        return Standing(
            "Waiting", "BeingSetUp", f"no tier is tried while its Mac is being set up, or it is well: {said}"
        )
    if isinstance(step, WaitForHost):
        reason = "Exhausted" if step.exhausted else "TierNotDue"
        return Standing("Exhausted" if step.exhausted else "Waiting", reason, step.message, not step.exhausted)
    return Standing("Remediating", "Remediating", step.message)


def replaceable(core: dict[str, Any]) -> bool:
    """Whether the owner of core's Machine would replace it: it has one, and core itself calls the Machine unhealthy.

    Without either, the condition would be set and nobody would come: then the host is given back as without Cluster API.
    """
    owners = core.get("metadata", {}).get("ownerReferences") or ()
    check = _condition(core, _HEALTH_CHECK)
    return any(each.get("controller") for each in owners) and check is not None and check.get("status") == "False"


def handed_over(core: dict[str, Any]) -> bool:
    """Whether its owner has been asked to replace the Machine."""
    found = _condition(core, OWNER_REMEDIATED)
    return found is not None and found.get("status") == "False"


def leaving(core: dict[str, Any] | None) -> bool:
    """Whether core's Machine is on its way out: being deleted, or given to its owner to be replaced.

    Core drains its Node before it deletes what is below it. Until then no tier is tried, and nothing is opened again.
    """
    return core is not None and (bool(core.get("metadata", {}).get("deletionTimestamp")) or handed_over(core))


def with_owner_remediated(core: dict[str, Any], version: str, message: str, now: datetime) -> list[dict[str, Any]]:
    """The conditions of core's Machine with the one that asks its owner to replace it, in that version's form."""
    asked = {
        "type": OWNER_REMEDIATED,
        "status": "False",
        "reason": _REASON,
        "message": message[:1000],
        "lastTransitionTime": rfc3339(now.replace(microsecond=0)),
    }
    if version == "v1beta1":
        asked["severity"] = "Warning"
    others: Sequence[dict[str, Any]] = (core.get("status") or {}).get("conditions") or ()
    return [*(each for each in others if each.get("type") != OWNER_REMEDIATED), asked]


def condition_of(found: Standing | NotWanted) -> Condition:
    """What the condition `Progressing` says."""
    good = isinstance(found, Standing) and found.progressing
    return Condition(type="Progressing", status="True" if good else "False", reason=found.reason, message=found.message)


def was_given_up(machine: Machine) -> bool:
    """Whether the last tier was tried for the host of a machine, so that its deletion is the end of a failed life."""
    return machine.status.remediation is not None and machine.status.remediation.tier == GIVE_BACK


def _condition(core: dict[str, Any], kind: str) -> dict[str, Any] | None:
    found = (core.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each.get("type") == kind), None)
