"""Pods, as a Mac sees them: which it can run, what it refuses and why, and what it says of them. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from paddock.base.clock import rfc3339
from paddock.base.explanation import utc
from paddock.kube.builtin import Pod
from paddock.kube.quantity import parse_quantity
from paddock.node.journal import Entry, Stage
from paddock.node.machines import Resources
from paddock.node.names import vm_name
from paddock.node.shares import Guest

__all__ = [
    "VM_RESOURCE",
    "Offer",
    "Refusal",
    "TokenSource",
    "accepted",
    "admission",
    "belongs_to_daemon_set",
    "refused",
    "report",
    "resources_of",
    "token_source",
    "unsupported",
    "variables",
]

VM_RESOURCE: Final = "tuist.dev/vm"
_POOL_LABEL: Final = "tuist.dev/runner-pool"
_KEPT_OUT: Final = frozenset({"TUIST_RUNNER_DISPATCH_URL"})
"""The agent asks for the job, so that nothing inside the VM needs to know whom to ask."""
Json = dict[str, Any]


class Refusal(msgspec.Struct, frozen=True):
    """Why a Pod is not run: a CamelCase word for programs, a sentence for people."""

    reason: str
    message: str


class Offer(msgspec.Struct, frozen=True):
    """What the Node offers to Pods in all. `fewer` says why it has fewer seats for VMs than a Mac has."""

    cpu_milli: int
    memory_bytes: int
    vms: int
    fewer: str = ""


class TokenSource(msgspec.Struct, frozen=True):
    """The token that a Pod's projected volume asks for."""

    service_account: str
    audience: str


def belongs_to_daemon_set(pod: Pod) -> bool:
    return any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)


def unsupported(pod: Pod) -> str | None:
    """What in a Pod a VM cannot be, and the remedy; None where the Pod can be run."""
    spec = pod.spec
    if len(spec.containers) != 1:
        return f"spec.containers: a VM is one container, and this Pod has {len(spec.containers)}: make it one"
    if spec.init_containers:
        return "spec.initContainers: nothing can run before the VM: take them off"
    container = spec.containers[0]
    if not container.image:
        return "spec.containers[0].image: is empty: name the VM image"
    if spec.restart_policy not in ("", "Never"):
        return f"spec.restartPolicy: is {spec.restart_policy}, but a VM never runs twice: set Never"
    for variable in container.env:
        if variable.value_from is not None and _field(variable.value_from) is None:
            return (
                f"spec.containers[0].env[{variable.name}].valueFrom: the agent reads no Secrets and no ConfigMaps: "
                "give a value, or a fieldRef to metadata.name, .namespace or .uid, or spec.nodeName"
            )
    for volume in spec.volumes:
        if not ("projected" in volume and _token_of(volume)) and not str(volume.get("name", "")).startswith(
            "kube-api-access-"
        ):
            return f"spec.volumes[{volume.get('name', '?')}]: only a projected serviceAccountToken is supported: take it off"
    return None


def admission(pod: Pod, offer: Offer, others: Iterable[Entry], *, ending: int, pressure: str) -> Refusal | None:
    """Whether the Node has room for this Pod beside `others`, the entries that are not over.

    `ending` counts the seats of those of them whose VM is on its way out: the scheduler has forgotten them already, so the
    Pod waits for their seats and is not refused.
    """
    if (problem := unsupported(pod)) is not None:
        return Refusal("UnsupportedPod", problem)
    if pressure:
        return Refusal("NodeUnderPressure", f"the Mac takes no new Pods: {pressure}")
    present = list(others)
    if sum(each.seats for each in present) - ending + max(1, min(seats_of(pod), offer.vms)) > offer.vms:
        names = ", ".join(sorted(f"{each.namespace}/{each.name}" for each in present)) or "none"
        most = offer.fewer or f"a Mac runs {offer.vms} VMs at most"
        return Refusal(f"OutOf{VM_RESOURCE}", f"{most}; the Pods that have a seat: {names}")
    wanted = resources_of(pod)
    used_cpu = sum((each.cpu or 0) for each in present) * 1000
    used_memory = sum((each.memory_mb or 0) for each in present) * 1024**2
    if ending == 0 and (wanted.cpu or 0) * 1000 + used_cpu > offer.cpu_milli:
        return Refusal(
            "OutOfcpu", f"the Pod asks for {wanted.cpu} CPUs, {used_cpu // 1000} of {offer.cpu_milli // 1000} are taken"
        )
    if ending == 0 and (wanted.memory_mb or 0) * 1024**2 + used_memory > offer.memory_bytes:
        return Refusal(
            "OutOfmemory",
            f"the Pod asks for {wanted.memory_mb} MiB, {used_memory // 1024**2} of {offer.memory_bytes // 1024**2} are taken",
        )
    return None


def accepted(pod: Pod, now: datetime) -> Entry:
    """The first entry of a Pod that the agent runs."""
    container, amounts = pod.spec.containers[0], resources_of(pod)
    return Entry(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        container=container.name,
        image=container.image,
        vm=vm_name(pod.metadata.labels.get(_POOL_LABEL, ""), pod.metadata.uid),
        stage=Stage.ACCEPTED,
        # Kubernetes keeps whole seconds, and the same time must come out of every later report.
        accepted_at=(pod.status.start_time or now).replace(microsecond=0),
        cpu=amounts.cpu,
        memory_mb=amounts.memory_mb,
        seats=seats_of(pod),
    )


def seats_of(pod: Pod) -> int:
    """How many of a Mac's seats it asks for: one that asks for none has a VM all the same."""
    asked = (pod.spec.containers[0].resources.get("requests") or {}) if pod.spec.containers else {}
    try:
        return max(1, int(parse_quantity(asked[VM_RESOURCE]))) if VM_RESOURCE in asked else 1
    except ValueError:
        return 1


def resources_of(pod: Pod) -> Resources:
    """What the VM gets: the limits, else the requests; None leaves the image's own."""
    given: Mapping[str, Any] = pod.spec.containers[0].resources if pod.spec.containers else {}
    amounts = {**(given.get("requests") or {}), **(given.get("limits") or {})}
    try:
        cpu = parse_quantity(amounts["cpu"]) if "cpu" in amounts else None
        memory = parse_quantity(amounts["memory"]) if "memory" in amounts else None
    except ValueError:
        return Resources()
    return Resources(
        cpu=max(1, int(cpu)) if cpu is not None else None,
        memory_mb=int(memory) // 1024**2 if memory is not None else None,
    )


def variables(pod: Pod) -> dict[str, str]:
    """The guest's environment."""
    found: dict[str, str] = {}
    for each in pod.spec.containers[0].env:
        if each.name in _KEPT_OUT:
            continue
        field = _field(each.value_from) if each.value_from is not None else None
        found[each.name] = _field_value(pod, field) if field is not None else each.value
    return found


def token_source(pod: Pod) -> TokenSource:
    """The token that the Pod asks for; with no such volume, its account's for the API's own audience."""
    account = pod.spec.service_account_name or "default"
    for volume in pod.spec.volumes:
        if (source := _token_of(volume)) is not None and source.get("audience"):
            return TokenSource(account, str(source["audience"]))
    return TokenSource(account, "")


def _token_of(volume: Mapping[str, Any]) -> Json | None:
    for source in (volume.get("projected") or {}).get("sources") or ():
        if isinstance(token := source.get("serviceAccountToken"), dict):
            return token
    return None


_FIELDS: Final = ("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName")


def _field(source: Mapping[str, Any]) -> str | None:
    path = (source.get("fieldRef") or {}).get("fieldPath")
    return path if path in _FIELDS else None


def _field_value(pod: Pod, path: str) -> str:
    meta = pod.metadata
    values = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": pod.spec.node_name,
    }
    return values[path]


# What is reported


def report(entry: Entry, guest: Guest, waiting: Refusal | None, host_ip: str) -> Json:
    """The status of a Pod, from the journal and the guest's own words. The same entry gives the same times, always."""
    if entry.end is not None:
        return _ended(entry)
    if entry.stage is Stage.RUNNING and entry.running_at is not None:
        state: Json = {"running": {"startedAt": rfc3339(entry.running_at)}}
        heard = guest.ready if guest.readable else entry.ready_at is not None
        ready = heard and entry.asks
        return _status(entry, "Running", state, ready=ready, why=_not_ready(entry, heard=heard), host_ip=host_ip)
    reason, message = (waiting.reason, waiting.message) if waiting is not None else ("VMBooting", "the VM starts")
    state = {"waiting": {"reason": reason, "message": message}}
    return _status(entry, "Pending", state, ready=False, why=(reason, message), host_ip=host_ip)


def _not_ready(entry: Entry, *, heard: bool) -> tuple[str, str]:
    if not heard:
        return "VMBooting", "the guest does not wait for a job yet"
    remedy = "check the agent's --dispatch-url and the Mac's way out"
    if entry.cut_off_at is not None:
        said = f"dispatch has not answered since {utc(entry.cut_off_at)}, so the VM can get no job: {remedy}"
        return "DispatchUnreachable", said
    return "NotAsking", f"the guest is ready, and dispatch has not answered yet: if this lasts, {remedy}"


def refused(refusal: Refusal, now: datetime) -> Json:
    """The status of a Pod that is refused before anything was done for it."""
    return {
        "phase": "Failed",
        "reason": refusal.reason,
        "message": refusal.message,
        "startTime": rfc3339(now),
    }


def _ended(entry: Entry) -> Json:
    end = entry.end
    assert end is not None
    began = entry.running_at or entry.started_at or entry.accepted_at
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
    status = _status(entry, phase, state, ready=False, why=("PodCompleted" if end.succeeded else end.reason, ""))
    if end.reason not in ("Completed", "Error"):
        status["reason"] = end.reason
        status["message"] = end.message[:1024]
    return status


def _status(entry: Entry, phase: str, state: Json, *, ready: bool, why: tuple[str, str], host_ip: str = "") -> Json:
    running = "running" in state
    lost = entry.end.finished_at if entry.end else entry.cut_off_at or entry.accepted_at
    since = (entry.asking_at or entry.ready_at) if ready else lost
    moment = rfc3339(since or entry.accepted_at)
    truth: Json = {"status": "True" if ready else "False", "lastTransitionTime": moment}
    if not ready:
        truth |= {"reason": why[0]} | ({"message": why[1]} if why[1] else {})
    status: Json = {
        "phase": phase,
        "startTime": rfc3339(entry.accepted_at),
        "conditions": [
            {"type": "Initialized", "status": "True", "lastTransitionTime": rfc3339(entry.accepted_at)},
            {"type": "ContainersReady", **truth},
            {"type": "Ready", **truth},
        ],
        "containerStatuses": [
            {
                "name": entry.container,
                "image": entry.image,
                "imageID": "",
                "ready": ready,
                "started": running,
                "restartCount": 0,
                "state": state,
            }
        ],
    }
    if host_ip:
        status |= {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
    return status
