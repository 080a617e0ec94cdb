"""What a pool says about itself: counts, and the sentences of its conditions. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from paddock.base.explanation import utc
from paddock.kube.builtin import Pod
from paddock.kube.conditions import get_condition
from paddock.kube.objects import Condition
from paddock.runners.api import RunnerPool
from paddock.runners.api.dispatch_label import another_keeps
from paddock.runners.pools.admission import Admission
from paddock.runners.pools.pod_predicates import scheduled_at, unschedulable

__all__ = ["PLACEABLE", "READY", "Counts", "PoolMessages", "placeable", "ready", "troubled"]

READY = "Ready"
PLACEABLE = "Placeable"
"""Whether the scheduler finds Nodes for the pool's Pods. Kept on the pool, because its Pods are replaced meanwhile, and a
shortage that is measured on them never grows old."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The pool's Pods. `idle` are warm, `starting` not yet, `busy` look taken or are held by the ledger."""

    wanted: int = 0
    living: int = 0
    idle: int = 0
    busy: int = 0
    starting: int = 0
    stale: int = 0
    leaving: int = 0
    finishing: int = 0
    """Busy where no job begins any more: others may be made in their place already."""

    @property
    def sentence(self) -> str:
        parts = [f"{self.idle} of {self.wanted} Pods wait for a job"]
        if self.busy:
            parts.append(f"{self.busy} run one" + (f" ({self.finishing} on Macs that drain)" if self.finishing else ""))
        if self.starting:
            parts.append(f"{self.starting} start")
        if self.leaving:
            parts.append(f"{self.leaving} are leaving")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMessages:
    """What there is to say besides the counts."""

    problem: str | None = None
    label_keeper: RunnerPool | None = None
    refused: Admission | None = None
    create: int = 0
    rolling: int = 0
    notes: Sequence[str] = ()
    unplaceable: Condition | None = None


def ready(pool: RunnerPool, counts: Counts, saying: PoolMessages) -> Condition:
    """The pool in one sentence: what, why, and what happens next. Since when is the condition's own transition time."""
    status, reason, message = _verdict(pool, counts, saying)
    message = ". ".join((message, *(note for note in saying.notes if note not in message)))
    return Condition(type=READY, status=status, reason=reason, message=message)


def _verdict(pool: RunnerPool, counts: Counts, saying: PoolMessages) -> tuple[str, str, str]:
    if pool.metadata.deletion_timestamp is not None:
        idle = counts.idle + counts.starting
        parts = [f"{counts.busy} that run a job are waited for"] if counts.busy else []
        parts += [f"{idle} idle ones go now"] if idle else []
        left = f"of its Pods {' and '.join(parts)}" if parts else "its last Pods are leaving"
        return "False", "Draining", f"the pool is being deleted: {left}"
    if saying.problem is not None:
        return "False", "InvalidConfiguration", f"no Pod is created: {saying.problem}"
    said = counts.sentence
    if saying.label_keeper is not None:
        return "False", "AmbiguousDispatchLabel", f"{another_keeps(pool, saying.label_keeper)}; {said}"
    if saying.unplaceable is not None and saying.unplaceable.status == "False":
        return "False", "Unschedulable", f"{said}; {saying.unplaceable.message}"
    missing = counts.wanted - counts.living
    if missing > saying.create and saying.refused is not None and saying.refused.reason:
        return "False", saying.refused.reason, f"{said}; {missing - saying.create} are missing: {saying.refused.why}"
    if missing > 0:
        return "False", "Starting", f"{said}; {saying.create} more are being made"
    if (surplus := counts.living - counts.finishing - counts.wanted) > 0:
        return "True", "ScalingDown", f"{said}; {surplus} too many, idle ones go first"
    if counts.stale and (saying.rolling or counts.stale > counts.busy):
        return (
            "True",
            "Rolling",
            f"{said}; {counts.stale} are of an older image or shape and are replaced a few at a time",
        )
    if counts.starting:
        return "False", "Starting", said
    return "True", "AllReady", said


def troubled(condition: Condition, reason: str, message: str) -> Condition:
    """The condition after an effect did not work out."""
    return Condition(
        type=condition.type, status="False", reason=reason, message=f"{message}. Otherwise: {condition.message}"
    )


def placeable(pool: RunnerPool, living: Sequence[Pod], counts: Counts, now: datetime) -> Condition | None:
    """Whether the scheduler finds room for the pool's Pods; None while there was never a doubt.

    Once in doubt, only a Pod that got its Node later, or having all Pods, settles it: that the waiting Pods were taken
    away for waiting too long does not.
    """
    before = get_condition(pool.status.conditions, PLACEABLE)
    unconfirmed = [said for pod in living if (said := unschedulable(pod)) is not None]
    if unconfirmed:
        since = before.last_transition_time if before is not None and before.status == "False" else None
        began = min((said.last_transition_time for said in unconfirmed if said.last_transition_time), default=now)
        text = f"no Node has room for {len(unconfirmed)} Pods since {utc(since or began)}"
        told = f"{text} ({unconfirmed[0].message})" if unconfirmed[0].message else text
        return Condition(
            type=PLACEABLE,
            status="False",
            reason="Unschedulable",
            message=f"{told}; {_room_for(pool)}; one Pod keeps asking, and Pods that end are replaced",
            last_transition_time=began,
        )
    if before is None or before.status == "True":
        return before
    since = before.last_transition_time
    placed = [at for pod in living if (at := scheduled_at(pod)) is not None]
    if counts.living >= counts.wanted and len(placed) == len(living):
        return _found_room()
    if since is not None and any(at > since for at in placed):
        return _found_room()
    return before


def _room_for(pool: RunnerPool) -> str:
    size = f"{pool.spec.pod_cpu_milli / 1000:g} CPUs and {pool.spec.pod_memory_mb} MB"
    return f"each asks for {size}: make room, add a {'Mac' if pool.spec.os == 'darwin' else 'Node'}, or ask for less"


def _found_room() -> Condition:
    return Condition(type=PLACEABLE, status="True", reason="Placed", message="the scheduler finds room for its Pods")
