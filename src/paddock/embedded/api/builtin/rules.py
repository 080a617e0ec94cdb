"""Defaults and rules of the smaller built-in kinds: namespaces, secrets, config maps, nodes, services, leases, events, rights.

Every `default_*` changes the object in place and is idempotent; every `*_causes` only looks.
"""

import base64
import json
import re
from typing import Any

from paddock.embedded.api.status import Cause, bad_request
from paddock.embedded.api.validation.causes import config_key, duplicate, forbidden, invalid, missing, unsupported
from paddock.kube.quantity import QuantityError, parse_quantity

__all__ = [
    "binding_causes",
    "binding_change_causes",
    "data_change_causes",
    "default_binding",
    "default_lease",
    "default_namespace",
    "default_node",
    "default_secret",
    "default_service",
    "event_causes",
    "lease_causes",
    "map_causes",
    "node_causes",
    "node_change_causes",
    "read_binary",
    "role_causes",
    "secret_causes",
]

_Json = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"
_LARGEST_DATA = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


def _meta(obj: _Json) -> _Json:
    return obj.get("metadata") or {}


# Namespaces


def default_namespace(namespace: _Json) -> None:
    meta = namespace["metadata"] = dict(_meta(namespace))
    if meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}


# Secrets and config maps


def read_binary(kind: str, values: _Json) -> _Json:
    """Base64 values as they are stored; 400 with the position where one cannot be read."""
    found = {key: (value or "").replace("\n", "").replace("\r", "") for key, value in values.items()}
    for value in found.values():
        at = _unreadable(value)
        if at is not None:
            raise bad_request(
                f'{kind} in version "v1" cannot be handled as a {kind}: illegal base64 data at input byte {at}'
            )
    return found


def _unreadable(text: str) -> int | None:
    valid = re.match(r"[A-Za-z0-9+/]*", text)
    length = valid.end() if valid else 0
    padding = text[length:]
    if padding.strip("="):
        return length
    if len(text) % 4 or len(padding) > 2:
        return length - length % 4 if len(padding) <= 2 else length
    return None


def default_secret(secret: _Json) -> None:
    secret["type"] = secret.get("type") or "Opaque"
    data = read_binary("Secret", secret.get("data") or {})
    for key, text in (secret.pop("stringData", None) or {}).items():
        data[key] = base64.b64encode((text or "").encode()).decode()
    if data:
        secret["data"] = data
    else:
        secret.pop("data", None)


_NEEDED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def secret_causes(secret: _Json) -> list[Cause]:
    data, kind = secret.get("data") or {}, secret.get("type")
    causes = [cause for key in sorted(data) for cause in config_key("data", key)]
    causes += _size_causes("data", sum(len(value) * 3 // 4 for value in data.values()))
    causes += [missing(f"data[{key}]") for key in _NEEDED_KEYS.get(kind or "", ()) if key not in data]
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        causes += [missing("data[username]"), missing("data[password]")]
    if kind == "kubernetes.io/service-account-token":
        name = "kubernetes.io/service-account.name"
        if not (_meta(secret).get("annotations") or {}).get(name):
            causes.append(missing(f"metadata.annotations[{name}]"))
    for key in (".dockercfg", ".dockerconfigjson"):
        if key in _NEEDED_KEYS.get(kind or "", ()) and key in data and not _is_json_object(data[key]):
            causes.append(invalid(f"data[{key}]", "<secret contents redacted>", "must be a JSON object"))
    return causes


def _is_json_object(encoded: str) -> bool:
    try:
        return isinstance(json.loads(base64.b64decode(encoded)), dict)
    except ValueError:
        return False


def map_causes(config: _Json) -> list[Cause]:
    """What is wrong with a ConfigMap."""
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    causes: list[Cause] = []
    for key in sorted(data):
        causes += config_key("data", key)
        if key in binary:
            causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    causes += [cause for key in sorted(binary) for cause in config_key("binaryData", key)]
    size = sum(len(value or "") for value in data.values()) + sum(len(value) * 3 // 4 for value in binary.values())
    return causes + _size_causes("[]", size)


def _size_causes(field: str, size: int) -> list[Cause]:
    if size <= _LARGEST_DATA:
        return []
    return [Cause("FieldValueTooLong", f"Too long: may not be more than {_LARGEST_DATA} bytes", field)]


def data_change_causes(old: _Json, new: _Json) -> list[Cause]:
    """A Secret keeps its type; a Secret or ConfigMap that is immutable keeps its values and stays immutable."""
    causes = []
    if old.get("type") != new.get("type"):
        causes.append(invalid("type", new.get("type"), "field is immutable"))
    if not old.get("immutable"):
        return causes
    if not new.get("immutable"):
        causes.append(forbidden("immutable", _IMMUTABLE))
    causes += [
        forbidden(field, _IMMUTABLE)
        for field in ("data", "binaryData")
        if (old.get(field) or {}) != (new.get(field) or {})
    ]
    return causes


# Nodes

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def default_node(node: _Json) -> None:
    node["spec"] = node.get("spec") or {}
    status = node["status"] = dict(node.get("status") or {})
    if status.get("capacity") is not None and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])
    for amount in (*(status.get("capacity") or {}).values(), *(status.get("allocatable") or {}).values()):
        try:
            parse_quantity(amount)
        except QuantityError as error:
            raise bad_request(f'Node in version "v1" cannot be handled as a Node: {error}') from None
    status["daemonEndpoints"] = status.get("daemonEndpoints") or {"kubeletEndpoint": {"Port": 0}}
    status["nodeInfo"] = {**dict.fromkeys(_NODE_INFO, ""), **(status.get("nodeInfo") or {})}


def node_causes(node: _Json) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        where = f"metadata.taints[{index}]"  # the real server names metadata here, and clients may compare
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        if not key:
            causes.append(invalid(f"{where}.key", key, "name part must be non-empty"))
        if not effect:
            causes.append(missing(f"{where}.effect"))
        elif effect not in _EFFECTS:
            causes.append(unsupported(f"{where}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value") or "", "Effect": effect, "TimeAdded": None}
            causes.append(duplicate(where, shown, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return causes


def node_change_causes(old: _Json, new: _Json) -> list[Cause]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    causes = []
    if before.get("providerID") and before["providerID"] != after.get("providerID"):
        why = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden("spec.providerID", why))
    if before.get("podCIDRs") and before["podCIDRs"] != after.get("podCIDRs"):
        causes.append(forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'))
    return causes


# Services


def default_service(service: _Json) -> None:
    """The defaults that need no allocator: no address is handed out here, for nothing would answer on it."""
    spec = service["spec"] = service.get("spec") or {}
    defaults = {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}
    for field, value in defaults.items():
        spec[field] = spec.get(field) or value
    if spec["type"] == "ExternalName":
        spec.pop("internalTrafficPolicy")
    else:
        spec["ipFamilies"] = spec.get("ipFamilies") or ["IPv4"]
        spec["ipFamilyPolicy"] = spec.get("ipFamilyPolicy") or "SingleStack"
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    for port in spec.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port.get("port")
    service["status"] = service.get("status") or {"loadBalancer": {}}


# Leases and events

_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?P<rest>.*)")


def default_lease(lease: _Json) -> None:
    """Leases have a spec, and times in microseconds; 400 for a time without them, as on the real server."""
    spec = lease["spec"] = lease.get("spec") or {}
    for field in ("acquireTime", "renewTime"):
        time = spec.get(field)
        if time is None:
            continue
        parsed = _MICRO_TIME.fullmatch(time)
        rest = parsed["rest"] if parsed else time
        if re.fullmatch(r"\.\d{6}(Z|[+-]\d\d:\d\d)", rest) is None:
            raise bad_request(
                f'Lease in version "v1" cannot be handled as a Lease: parsing time "{time}" as '
                f'"2006-01-02T15:04:05.000000Z07:00": cannot parse "{rest}" as ".000000"'
            )


def lease_causes(lease: _Json) -> list[Cause]:
    spec = lease.get("spec") or {}
    causes = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        causes.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return causes


def event_causes(event: _Json) -> list[Cause]:
    """An event lives where its object lives; one about a cluster-wide object lives in `default`."""
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    if _meta(event).get("namespace") == (about or "default"):
        return []
    return [invalid("involvedObject.namespace", about, "does not match event.namespace")]


# Rights


def role_causes(role: _Json, *, namespaced: bool) -> list[Cause]:
    causes: list[Cause] = []
    for index, rule in enumerate(role.get("rules") or ()):
        where = f"rules[{index}]"
        paths = rule.get("nonResourceURLs") or []
        if not rule.get("verbs"):
            causes.append(missing(f"{where}.verbs", "verbs must contain at least one value"))
        if paths and namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            causes.append(invalid(f"{where}.nonResourceURLs", paths, why))
        elif paths and any(rule.get(part) for part in ("apiGroups", "resources", "resourceNames")):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            causes.append(invalid(f"{where}.nonResourceURLs", paths, why))
        elif not paths:
            if not rule.get("apiGroups"):
                causes.append(missing(f"{where}.apiGroups", "resource rules must supply at least one api group"))
            if not rule.get("resources"):
                causes.append(missing(f"{where}.resources", "resource rules must supply at least one resource"))
    return causes


def default_binding(binding: _Json) -> None:
    role = binding["roleRef"] = dict(binding.get("roleRef") or {})
    role["apiGroup"] = role.get("apiGroup") or _RBAC
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or _RBAC


def binding_causes(binding: _Json, *, namespaced: bool) -> list[Cause]:
    role = binding.get("roleRef") or {}
    roles = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    causes = []
    if role.get("apiGroup") != _RBAC:
        causes.append(unsupported("roleRef.apiGroup", role.get("apiGroup"), (_RBAC,)))
    if role.get("kind") not in roles:
        causes.append(unsupported("roleRef.kind", role.get("kind") or "", roles))
    if not role.get("name"):
        causes.append(missing("roleRef.name"))
    for index, subject in enumerate(binding.get("subjects") or ()):
        where = f"subjects[{index}]"
        if not subject.get("name"):
            causes.append(missing(f"{where}.name"))
        if subject.get("kind") not in ("ServiceAccount", "User", "Group"):
            causes.append(unsupported(f"{where}.kind", subject.get("kind") or "", ("ServiceAccount", "User", "Group")))
        elif subject["kind"] == "ServiceAccount" and not namespaced and not subject.get("namespace"):
            causes.append(missing(f"{where}.namespace"))
    return causes


def binding_change_causes(old: _Json, new: _Json) -> list[Cause]:
    """The role of a binding is fixed: whoever may edit the binding may not thereby grant another role."""
    if old.get("roleRef") == new.get("roleRef"):
        return []
    role = new.get("roleRef") or {}
    shown = {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": role.get("name", "")}
    return [invalid("roleRef", shown, "cannot change roleRef")]
