"""The row of a Pod: the one word that says how it is doing, drawn from phase, conditions and container states."""

from datetime import datetime
from typing import Any

from paddock.embedded.api.documents.ages import age
from paddock.embedded.api.documents.cells import AGE, NAME, Columns, Object, age_of, column, condition, name_of, part

__all__ = ["POD_COLUMNS", "completion", "pod_cells"]


def completion(pod: Object) -> list[dict[str, str]]:
    """The row condition of a Pod that has ended, by which clients may hide it."""
    phase = part(pod, "status").get("phase")
    if phase not in {"Succeeded", "Failed"}:
        return []
    message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def _restartable(container: dict[str, Any] | None) -> bool:
    return container is not None and container.get("restartPolicy") == "Always"


def _ended_because(terminated: dict[str, Any]) -> str:
    if terminated.get("reason"):
        return terminated["reason"]
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


class _Restarts:
    """How often containers were started anew, and when the last one before that had ended."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def add(self, container: dict[str, Any]) -> None:
        self.count += container.get("restartCount") or 0
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last = max(self.last, ended)  # RFC 3339 in UTC sorts as text

    def text(self, now: datetime) -> str:
        return f"{self.count} ({age(self.last, now)} ago)" if self.count and self.last else str(self.count)


def _pod_state(pod: Object) -> tuple[int, int, str, _Restarts]:
    """Ready containers, all containers, the one word for the state, and the restarts that belong to that word."""
    spec, status = part(pod, "spec"), part(pod, "status")
    init_specs = {c.get("name"): c for c in spec.get("initContainers") or ()}
    total = len(spec.get("containers") or ()) + sum(_restartable(c) for c in init_specs.values())
    reason = status.get("reason") or status.get("phase") or ""
    if condition(status, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    ready = 0
    all_init, sidecars = _Restarts(), _Restarts()
    initializing = False
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        sidecar = _restartable(init_specs.get(container.get("name")))
        all_init.add(container)
        if sidecar:
            sidecars.add(container)
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            reason = f"Init:{_ended_because(terminated)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            reason = f"Init:{waiting['reason']}"
        else:
            reason = f"Init:{index}/{len(init_specs)}"
        initializing = True
        break
    restarts = all_init
    if not initializing or condition(status, "Initialized").get("status") == "True":
        restarts = sidecars
        running = False
        failure = ""
        for container in reversed(status.get("containerStatuses") or ()):
            state = container.get("state") or {}
            restarts.add(container)
            terminated = state.get("terminated")
            if (state.get("waiting") or {}).get("reason"):
                reason = state["waiting"]["reason"]
            elif terminated is not None:
                reason = _ended_because(terminated)
                failure = reason if terminated.get("exitCode") else failure
            elif container.get("ready") and state.get("running") is not None:
                running = True
                ready += 1
        if reason == "Completed":
            if running:
                reason = "Running" if condition(status, "Ready").get("status") == "True" else failure or "NotReady"
            else:
                reason = failure or reason
    if part(pod, "metadata").get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in {"Succeeded", "Failed"}:
            reason = "Terminating"
    return ready, total, reason, restarts


def pod_cells(pod: Object, now: datetime) -> list[Any]:
    spec, status = part(pod, "spec"), part(pod, "status")
    ready, total, reason, restarts = _pod_state(pod)
    addresses = status.get("podIPs") or ()
    gates = spec.get("readinessGates") or ()
    passed = sum(condition(status, gate.get("conditionType", "")).get("status") == "True" for gate in gates)
    return [
        name_of(pod),
        f"{ready}/{total}",
        reason,
        restarts.text(now),
        age_of(pod, now),
        (addresses[0].get("ip") if addresses else "") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"{passed}/{len(gates)}" if gates else "<none>",
    ]


POD_COLUMNS: Columns = (
    NAME,
    column("Ready", "How many of the containers are ready."),
    column("Status", "The state of the containers in one word."),
    column("Restarts", "How often containers were restarted, and when the last time was."),
    AGE,
    column("IP", "The address of the pod.", 1),
    column("Node", "The node the pod runs on.", 1),
    column("Nominated Node", "The node kept free for the pod.", 1),
    column("Readiness Gates", "How many of the extra readiness conditions hold.", 1),
)
