"""Columns and cells of the built-in kinds, as `kubectl get` is used to show them.

Each entry of `BUILTIN_TABLES` is a pair: the column definitions, and a function from object and moment to cells in the
same order. Cells are what a person reads first about an object, so a missing value has a word (`<none>`, `<unknown>`).
"""

from datetime import datetime
from typing import Any

from paddock.embedded.api.documents.ages import age
from paddock.embedded.api.documents.cells import (
    AGE,
    NAME,
    Cells,
    Columns,
    Object,
    age_of,
    column,
    condition,
    name_of,
    part,
)
from paddock.embedded.api.documents.pod_columns import POD_COLUMNS, pod_cells

__all__ = ["BUILTIN_TABLES", "CREATED_AT"]

_ROLE_PREFIX = "node-role.kubernetes.io/"


def _roles(node: Object) -> str:
    labels = part(node, "metadata").get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or "<none>"


def _address(node: Object, kind: str) -> str:
    addresses = part(node, "status").get("addresses") or ()
    return next((a.get("address", "") for a in addresses if a.get("type") == kind), "<none>")


def _node(node: Object, now: datetime) -> list[Any]:
    status = part(node, "status")
    info = status.get("nodeInfo") or {}
    ready = condition(status, "Ready").get("status")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if part(node, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel = f"{kernel} ({info['architecture']})"
    return [
        name_of(node),
        ",".join(words),
        _roles(node),
        age_of(node, now),
        info.get("kubeletVersion", ""),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


_NODE_COLUMNS: Columns = (
    NAME,
    column("Status", "Whether the node is ready and takes new pods."),
    column("Roles", "The roles the node's labels give it."),
    AGE,
    column("Version", "The version of the node's agent."),
    column("Internal-IP", "The address inside the cluster.", 1),
    column("External-IP", "The address seen from outside.", 1),
    column("OS-Image", "The operating system.", 1),
    column("Kernel-Version", "The kernel.", 1),
    column("Container-Runtime", "What runs the containers.", 1),
)


def _event(event: Object, now: datetime) -> list[Any]:
    first = age(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = age(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    if series := event.get("series"):
        last = age(series.get("lastObservedTime"), now)
        count = series.get("count") or 0
    about = part(event, "involvedObject")
    source = part(event, "source")
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    target = (about.get("kind") or "").lower()
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        f"{target}/{about['name']}" if about.get("name") else target,
        about.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        (event.get("message") or "").strip(),
        first,
        count,
        name_of(event),
    ]


_EVENT_COLUMNS: Columns = (
    column("Last Seen", "When it last happened."),
    column("Type", "Normal or Warning."),
    column("Reason", "The machine-readable reason."),
    column("Object", "The object the event is about."),
    column("Subobject", "The part of that object.", 1),
    column("Source", "Who reported it.", 1),
    column("Message", "What happened."),
    column("First Seen", "When it first happened.", 1),
    column("Count", "How often it happened.", 1),
    {**NAME, "priority": 1},
)


def _balanced(service: Object) -> list[str]:
    ingress = (part(service, "status").get("loadBalancer") or {}).get("ingress") or ()
    return sorted({i.get("ip") or i.get("hostname") or "" for i in ingress} - {""})


def _external(service: Object) -> str:
    spec = part(service, "spec")
    given = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or "<none>"
        case "LoadBalancer":
            return ",".join([*_balanced(service), *given]) or "<pending>"
        case "ExternalName":
            return spec.get("externalName", "")
        case _:
            return "<unknown>"


def _port(port: dict[str, Any]) -> str:
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{outside}/{port.get('protocol', '')}"


def _service(service: Object, now: datetime) -> list[Any]:
    spec = part(service, "spec")
    addresses = spec.get("clusterIPs") or ()
    selector = spec.get("selector") or {}
    return [
        name_of(service),
        spec.get("type", ""),
        addresses[0] if addresses else "<none>",
        _external(service),
        ",".join(_port(port) for port in spec.get("ports") or ()) or "<none>",
        age_of(service, now),
        ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or "<none>",
    ]


_SERVICE_COLUMNS: Columns = (
    NAME,
    column("Type", "How the service is exposed."),
    column("Cluster-IP", "The address inside the cluster."),
    column("External-IP", "The addresses outside the cluster."),
    column("Port(s)", "The ports it answers on."),
    AGE,
    column("Selector", "The labels of the pods behind it.", 1),
)


def _binding(binding: Object, now: datetime) -> list[Any]:
    role = part(binding, "roleRef")
    subjects = binding.get("subjects") or ()

    def named(kind: str) -> str:
        return ", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind)

    accounts = [f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects if s.get("kind") == "ServiceAccount"]
    return [
        name_of(binding),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age_of(binding, now),
        named("User"),
        named("Group"),
        ", ".join(accounts),
    ]


_BINDING_COLUMNS: Columns = (
    NAME,
    column("Role", "The role that is granted."),
    AGE,
    column("Users", "Users the role is granted to.", 1),
    column("Groups", "Groups the role is granted to.", 1),
    column("ServiceAccounts", "Service accounts the role is granted to.", 1),
)

CREATED_AT: tuple[Columns, Cells] = (
    (NAME, column("Created At", "When the object was created.", kind="date")),
    lambda obj, _: [name_of(obj), part(obj, "metadata").get("creationTimestamp")],
)
"""What kinds without columns of their own show: roles, and custom resource definitions."""

BUILTIN_TABLES: dict[str, tuple[Columns, Cells]] = {
    "pods": (POD_COLUMNS, pod_cells),
    "nodes": (_NODE_COLUMNS, _node),
    "events": (_EVENT_COLUMNS, _event),
    "services": (_SERVICE_COLUMNS, _service),
    "secrets": (
        (NAME, column("Type", "What the secret is for."), column("Data", "The number of entries."), AGE),
        lambda obj, now: [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), age_of(obj, now)],
    ),
    "configmaps": (
        (NAME, column("Data", "The number of entries."), AGE),
        lambda obj, now: [
            name_of(obj),
            len(obj.get("data") or ()) + len(obj.get("binaryData") or ()),
            age_of(obj, now),
        ],
    ),
    "serviceaccounts": ((NAME, AGE), lambda obj, now: [name_of(obj), age_of(obj, now)]),
    "namespaces": (
        (NAME, column("Status", "Whether the namespace is in use or going away."), AGE),
        lambda obj, now: [name_of(obj), part(obj, "status").get("phase", ""), age_of(obj, now)],
    ),
    "leases.coordination.k8s.io": (
        (NAME, column("Holder", "Who holds the lease."), AGE),
        lambda obj, now: [name_of(obj), part(obj, "spec").get("holderIdentity") or "", age_of(obj, now)],
    ),
    "rolebindings.rbac.authorization.k8s.io": (_BINDING_COLUMNS, _binding),
    "clusterrolebindings.rbac.authorization.k8s.io": (_BINDING_COLUMNS, _binding),
}
