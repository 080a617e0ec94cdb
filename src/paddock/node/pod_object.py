"""A Pod's status, from what its Mac reports of it. Pure: the same report gives the same status, whoever writes it."""

from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from paddock.base.clock import rfc3339
from paddock.base.explanation import utc
from paddock.clients.gateway.messages import End, PodReport, PodState, Reason
from paddock.kube.builtin import Pod

__all__ = ["PodChange", "but_texts", "contradicts", "pod_object"]

Json = dict[str, Any]
_STATES: Final = frozenset({PodState.ACCEPTED, PodState.PULLING, PodState.STARTING, PodState.READY, PodState.HANDED})
_OVER: Final = frozenset({PodState.ENDED, PodState.CLEARED})
_ENDED: Final = ("Succeeded", "Failed")
_BOOTING: Final = Reason("VMBooting", "the VM starts")


class PodChange(Struct, frozen=True):
    """A status to be applied. `partial`: one condition alone, by a writer of its own; all else was written by who could read."""

    status: Json
    partial: bool = False


def pod_object(report: PodReport, pod: Pod, host_ip: str = "") -> PodChange | None:
    """The status that the Pod should have; None where there is nothing to write, and always over an end that is written."""
    if pod.status.phase in _ENDED:
        return None
    began = report.accepted_at
    if report.state == PodState.UNREADABLE and report.waits is not None and began is not None:
        return PodChange({"conditions": [_condition("Ready", report.waits, began)]}, partial=True)
    if report.state == PodState.REFUSED:
        kept = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
        if kept or report.waits is None or began is None:
            return None  # failed, a DaemonSet's controller would make another one, for ever
        refused = {"phase": "Failed", "reason": report.waits.reason, "message": report.waits.message}
        return PodChange({**refused, "startTime": rfc3339(began)})
    if began is None or not pod.spec.containers:
        return None
    if report.end is not None and report.state in _OVER:
        return PodChange(_ended(report, report.end, pod, began))
    if report.state not in _STATES:
        return None
    return PodChange(_living(report, pod, began, host_ip))


def contradicts(pod: Pod, status: Json) -> bool:
    """Whether the Pod shows another Ready than was written: a control plane says of all Pods of a silent Node that they are
    not ready, and takes it back for none.
    """
    ready: Json | None = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)
    shown = next((each.status for each in pod.status.conditions if each.type == "Ready"), None)
    return ready is not None and shown != ready["status"]


def but_texts(status: Json | None) -> Any:
    """A status without its texts, some of which change all the time."""
    if status is None or "containerStatuses" not in status:
        return status
    state: Json = status["containerStatuses"][0]["state"]
    key = next(iter(state))
    ready: Json = status["conditions"][-1]
    return status["phase"], key, state[key].get("reason"), ready["status"], ready.get("reason")


def _living(report: PodReport, pod: Pod, began: datetime, host_ip: str) -> Json:
    if report.running_at is not None:
        ready = report.state in (PodState.READY, PodState.HANDED)
        why = _not_ready(report) if ready else Reason("VMBooting", "the guest does not wait for a job yet")
        running: Json = {"running": {"startedAt": rfc3339(report.running_at)}}
        return _status(report, pod, "Running", running, began, None if ready and report.asks else why, host_ip)
    waits = report.waits or _BOOTING
    waiting: Json = {"waiting": {"reason": waits.reason, "message": waits.message}}
    # A VM that died at once may wait for its seat a second time: as for any container that waits again, the phase stays.
    phase = "Running" if pod.status.phase == "Running" else "Pending"
    return _status(report, pod, phase, waiting, began, waits, host_ip)


def _not_ready(report: PodReport) -> Reason:
    remedy = "check the agent's --dispatch-url and the Mac's way out"
    if report.cut_off_at is not None:
        said = f"dispatch has not answered since {utc(report.cut_off_at)}, so the VM can get no job: {remedy}"
        return Reason("DispatchUnreachable", said)
    return Reason("NotAsking", f"the guest is ready, and dispatch has not answered yet: if this lasts, {remedy}")


def _ended(report: PodReport, end: End, pod: Pod, accepted: datetime) -> Json:
    began = report.running_at or report.started_at or accepted
    state: Json = {
        "terminated": {
            "exitCode": end.code,
            "reason": end.reason,
            "message": end.message,
            "startedAt": rfc3339(min(began, end.finished_at)),
            "finishedAt": rfc3339(end.finished_at),
        }
    }
    phase = "Succeeded" if end.succeeded else "Failed"
    why = Reason("PodCompleted" if end.succeeded else end.reason, "")
    status = _status(report, pod, phase, state, accepted, why)
    if end.reason not in ("Completed", "Error"):
        status["reason"] = end.reason
        status["message"] = end.message[:1024]
    return status


def _status(
    report: PodReport, pod: Pod, phase: str, state: Json, accepted: datetime, why: Reason | None, host_ip: str = ""
) -> Json:
    """`why` the Pod is not ready; None where it is."""
    container = pod.spec.containers[0]
    lost = report.end.finished_at if report.end else report.cut_off_at or accepted
    since = lost if why is not None else report.asking_at or report.ready_at or accepted
    initialized: Json = {"type": "Initialized", "status": "True", "lastTransitionTime": rfc3339(accepted)}
    status: Json = {
        "phase": phase,
        "startTime": rfc3339(accepted),
        "conditions": [initialized, _condition("ContainersReady", why, since), _condition("Ready", why, since)],
        "containerStatuses": [
            {
                "name": container.name,
                "image": container.image,
                "imageID": "",
                "ready": why is None,
                "started": "running" in state,
                "restartCount": 0,
                "state": state,
            }
        ],
    }
    if host_ip:
        status |= {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
    return status


def _condition(kind: str, why: Reason | None, since: datetime) -> Json:
    truth: Json = {"type": kind, "status": "False" if why else "True", "lastTransitionTime": rfc3339(since)}
    if why is not None:
        truth |= {"reason": why.reason} | ({"message": why.message} if why.message else {})
    return truth
