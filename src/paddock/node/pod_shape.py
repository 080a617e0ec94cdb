"""What a Pod is for its Mac: its image, its shape, its environment, and what in it a VM cannot be. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from paddock.base.names import POOL_LABEL, VM_RESOURCE
from paddock.clients.gateway.messages import PodState, Reason, Shape, WantedPod
from paddock.kube.builtin import Pod
from paddock.kube.quantity import parse_quantity

__all__ = ["pod_shape"]

_KEPT_OUT: Final = frozenset({"TUIST_RUNNER_DISPATCH_URL"})
"""The agent asks for the job, so that nothing inside the VM needs to know whom to ask."""
_DEFAULT_GRACE: Final = 30.0
_FIELDS: Final = ("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName")


def pod_shape(pod: Pod) -> WantedPod:
    """The Pod as its Mac gets it. One that a VM cannot be has a `refusal`, and what of its shape can be read."""
    meta, container = pod.metadata, pod.spec.containers[0] if pod.spec.containers else None
    problem = _unsupported(pod)
    ending = None
    if meta.deletion_timestamp is not None:
        grace = meta.deletion_grace_period_seconds
        ending = _DEFAULT_GRACE if grace is None else float(grace)
    return WantedPod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        image=container.image if container is not None else "",
        shape=_shape(container.resources if container is not None else {}),
        env=_variables(pod),
        pool=meta.labels.get(POOL_LABEL, ""),
        container=container.name if container is not None else "",
        started_at=pod.status.start_time,
        ending=ending,
        recorded=_recorded(pod),
        refusal=Reason("UnsupportedPod", problem) if problem is not None else None,
        kept=any(owner.kind == "DaemonSet" for owner in meta.owner_references),
    )


def _recorded(pod: Pod) -> PodState | None:
    """What the API server has. A Pod that is `Running` there has a VM, or had one."""
    match pod.status.phase:
        case "Succeeded" | "Failed":
            return PodState.ENDED
        case "Running":
            ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
            return PodState.READY if ready else PodState.STARTING
        case _:
            return PodState.ACCEPTED if pod.status.start_time is not None else None


def _unsupported(pod: Pod) -> str | None:
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
        if not _has_token(volume) and not str(volume.get("name", "")).startswith("kube-api-access-"):
            return f"spec.volumes[{volume.get('name', '?')}]: only a projected serviceAccountToken is supported: take it off"
    return None


def _has_token(volume: Mapping[str, Any]) -> bool:
    sources = (volume.get("projected") or {}).get("sources") or ()
    return any(each.get("serviceAccountToken") for each in sources)


def _shape(resources: Mapping[str, Any]) -> Shape:
    """The limits, else the requests; None leaves the image's own. A Pod that asks for no seat has a VM all the same."""
    requests = resources.get("requests") or {}
    amounts = {**requests, **(resources.get("limits") or {})}
    try:
        seats = max(1, int(parse_quantity(requests[VM_RESOURCE]))) if VM_RESOURCE in requests else 1
    except ValueError:
        seats = 1
    try:
        cpu = parse_quantity(amounts["cpu"]) if "cpu" in amounts else None
        memory = parse_quantity(amounts["memory"]) if "memory" in amounts else None
    except ValueError:
        return Shape(seats=seats)
    return Shape(
        cpu=max(1, int(cpu)) if cpu is not None else None,
        memory_mb=int(memory) // 1024**2 if memory is not None else None,
        seats=seats,
    )


def _variables(pod: Pod) -> dict[str, str]:
    """The guest's environment."""
    found: dict[str, str] = {}
    for each in pod.spec.containers[0].env if pod.spec.containers else ():
        if each.name in _KEPT_OUT:
            continue
        field = _field(each.value_from) if each.value_from is not None else None
        found[each.name] = _field_value(pod, field) if field is not None else each.value
    return found


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
