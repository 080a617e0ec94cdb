"""The built-in kinds: what is served, what the server adds to their objects and what it refuses.

Review kinds (`TokenReview` and its like) are questions that are asked by creating an object which is never stored: they
have the single verb `create`, and what answers them lives elsewhere.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from paddock.embedded.api.builtin import certificate_requests as csr_rules
from paddock.embedded.api.builtin import definitions as crd_rules
from paddock.embedded.api.builtin import pods as pod_rules
from paddock.embedded.api.builtin import rules
from paddock.embedded.api.builtin.schemas import mistyped
from paddock.embedded.api.kinds import ALL_VERBS, Kind
from paddock.embedded.api.status import Cause, bad_request, invalid

__all__ = [
    "FIELD_LABELS",
    "KINDS",
    "MADE_BY_PUT",
    "REVIEW_KINDS",
    "STATUS_AT_CREATION",
    "STORED_KINDS",
    "SUBRESOURCES",
    "UPDATES_NEED_VERSION",
    "Subresource",
    "prepare_create",
    "prepare_update",
    "validate_builtin",
]

_Json = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_RBAC = "rbac.authorization.k8s.io"
_EXTENSIONS = "apiextensions.k8s.io"
_COORDINATION = "coordination.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_CSRS = f"certificatesigningrequests.{csr_rules.CERTIFICATES}"
_STANDARD_FINALIZERS = frozenset({"foregroundDeletion", "kubernetes", "orphan"})


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource beyond `status` and `scale`, as discovery lists it: its name and the kind that travels through it."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


def _kind(
    group: str,
    kind: str,
    plural: str,
    *,
    namespaced: bool = True,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    status: bool = False,
    generation: bool = False,
) -> Kind:
    return Kind(
        group,
        "v1",
        kind,
        plural,
        kind.lower(),
        namespaced,
        short_names=short_names,
        categories=categories,
        verbs=verbs,
        status=status,
        generation=generation,
    )


STORED_KINDS: tuple[Kind, ...] = (
    _kind("", "ConfigMap", "configmaps", short_names=("cm",)),
    _kind("", "Event", "events", short_names=("ev",)),
    _kind(
        "",
        "Namespace",
        "namespaces",
        namespaced=False,
        short_names=("ns",),
        status=True,
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
    ),
    _kind("", "Node", "nodes", namespaced=False, short_names=("no",), status=True),
    _kind("", "Pod", "pods", short_names=("po",), categories=("all",), status=True, generation=True),
    _kind("", "Secret", "secrets"),
    _kind("", "ServiceAccount", "serviceaccounts", short_names=("sa",)),
    _kind("", "Service", "services", short_names=("svc",), categories=("all",), status=True),
    _kind(_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    _kind(_RBAC, "ClusterRole", "clusterroles", namespaced=False),
    _kind(_RBAC, "RoleBinding", "rolebindings"),
    _kind(_RBAC, "Role", "roles"),
    _kind(
        _EXTENSIONS,
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        status=True,
        generation=True,
    ),
    _kind(_COORDINATION, "Lease", "leases"),
    _kind(
        csr_rules.CERTIFICATES,
        "CertificateSigningRequest",
        "certificatesigningrequests",
        namespaced=False,
        short_names=("csr",),
        status=True,
    ),
)
"""The kinds whose objects are stored."""

REVIEW_KINDS: tuple[Kind, ...] = tuple(
    _kind(group, kind, f"{kind.lower()}s", namespaced=kind.startswith("Local"), verbs=("create",))
    for group, kind in (
        (_AUTHENTICATION, "SelfSubjectReview"),
        (_AUTHENTICATION, "TokenReview"),
        (_AUTHORIZATION, "LocalSubjectAccessReview"),
        (_AUTHORIZATION, "SelfSubjectAccessReview"),
        (_AUTHORIZATION, "SelfSubjectRulesReview"),
        (_AUTHORIZATION, "SubjectAccessReview"),
    )
)
"""The kinds that are answered and never stored."""

KINDS: tuple[Kind, ...] = (*STORED_KINDS, *REVIEW_KINDS)
"""Everything to put into the registry."""

SUBRESOURCES: dict[str, tuple[Subresource, ...]] = {
    "namespaces": (Subresource("finalize", "", "v1", "Namespace", ("update",)),),
    "pods": (
        Subresource("binding", "", "v1", "Binding", ("create",)),
        Subresource("eviction", "policy", "v1", "Eviction", ("create",)),
    ),
    _CSRS: (
        Subresource("approval", csr_rules.CERTIFICATES, "v1", "CertificateSigningRequest", ("get", "patch", "update")),
    ),
    "serviceaccounts": (Subresource("token", _AUTHENTICATION, "v1", "TokenRequest", ("create",)),),
}
"""By the store's name of the resource."""

FIELD_LABELS: dict[str, frozenset[str]] = {
    "pods": frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    "nodes": frozenset({"spec.unschedulable"}),
    "namespaces": frozenset({"status.phase"}),
    "secrets": frozenset({"type"}),
    _CSRS: frozenset({"spec.signerName"}),
    "services": frozenset({"spec.clusterIP", "spec.type"}),
    "events": frozenset(
        {
            f"involvedObject.{part}"
            for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        }
        | {"reason", "reportingComponent", "type"}
    ),
}
"""What field selectors may name beside metadata.name and metadata.namespace, by the store's name of the resource."""

UPDATES_NEED_VERSION = frozenset({f"leases.{_COORDINATION}", f"customresourcedefinitions.{_EXTENSIONS}"})
"""Built-ins whose PUT must name the resourceVersion that was read; the others are replaced without one."""

MADE_BY_PUT = frozenset(
    {
        "events",
        "services",
        f"leases.{_COORDINATION}",
        *(f"{plural}.{_RBAC}" for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")),
    }
)
"""Built-ins that a PUT creates where there is none."""

STATUS_AT_CREATION = frozenset({"nodes"})
"""Built-ins that keep the status of the body when they are created: a machine registers with what it has."""


def prepare_create(kind: Kind, obj: _Json, now: datetime) -> _Json:
    """The object as it is stored: defaulted, with what admission adds and its first status.

    Metadata is the caller's, except for the label that every Namespace has. Raises `ApiFailure` for what cannot even be
    read (400) or admitted (403); what is merely wrong is left to `validate_builtin`.
    """
    new = _readable(kind, obj)
    _default(kind, new)
    match kind.resource:
        case "pods":
            pod_rules.admit_new_pod(new)
        case "namespaces":
            finalizers = (new.get("spec") or {}).get("finalizers") or []
            new["spec"] = {"finalizers": [*finalizers, *(() if "kubernetes" in finalizers else ("kubernetes",))]}
            new["status"] = {"phase": "Active"}
        case "customresourcedefinitions.apiextensions.k8s.io":
            crd_rules.establish_crd(new, now)
        case _:
            pass
    return new


def prepare_update(kind: Kind, old: _Json, new: _Json, subresource: str = "") -> _Json:
    """The object as it replaces the old one; 422 for a change that the kind does not allow.

    `subresource` names the subresource through which the change came: a Pod's node is set through `binding` only, and a
    Namespace's finalizers are emptied through `finalize` only.
    """
    new = _readable(kind, new, old)
    _default(kind, new)
    if kind.resource == "namespaces" and subresource != "finalize":
        new["spec"] = copy.deepcopy(old.get("spec") or {})
    if kind.resource == "pods":
        pod_rules.keep_admitted(old, new)
    if kind.resource == _CSRS:
        csr_rules.keep_csr(old, new)
    if kind.resource == f"customresourcedefinitions.{_EXTENSIONS}" and subresource != "status":
        crd_rules.follow_crd(new)
    check = _CHANGES.get(kind.resource)
    causes = check(old, new) if check is not None and subresource not in ("status", "binding") else []
    if causes:
        raise invalid(kind, (new.get("metadata") or {}).get("name", ""), causes)
    return new


def validate_builtin(kind: Kind, obj: _Json) -> list[Cause]:
    """Everything that is wrong with a prepared object, its metadata apart."""
    check = _RULES.get(kind.resource)
    return [*_finalizer_causes(kind, obj), *(check(obj) if check is not None else ())]


def _finalizer_causes(kind: Kind, obj: _Json) -> list[Cause]:
    """Whoever holds back an object of these kinds must say whose it is; custom kinds and definitions are freer."""
    if kind.group == _EXTENSIONS:
        return []
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        Cause("FieldValueInvalid", f'Invalid value: "{name}": {why}', f"metadata.finalizers[{index}]")
        for index, name in enumerate((obj.get("metadata") or {}).get("finalizers") or ())
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _readable(kind: Kind, obj: _Json, stored: _Json | None = None) -> _Json:
    """A copy without nulls, which mean the same as nothing; 400 if a value is of a type that cannot be meant.

    What is written as it is `stored` was read before: it is copied without another look.
    """
    kept = _as_stored(obj, stored)
    kept_meta = _as_stored(obj.get("metadata"), (stored or {}).get("metadata"))
    said = {name: part for name, part in obj.items() if name not in kept}
    if "metadata" in said and kept_meta:
        said["metadata"] = {name: part for name, part in obj["metadata"].items() if name not in kept_meta}
    read = _read(kind, said)
    if "metadata" in said and kept_meta:
        read["metadata"] = _in_order(obj["metadata"], {**kept_meta, **read["metadata"]})
    return _in_order(obj, {**kept, **read})


def _as_stored(obj: Any, stored: Any) -> _Json:
    """Copies of the parts that are to the byte what is stored: there 1 is neither true nor 1.0."""
    if not isinstance(obj, dict) or not isinstance(stored, dict):
        return {}
    found: _Json = {}
    for name, part in obj.items():
        if name in stored and (text := _encode(part)) == _encode(stored[name]):
            found[name] = _decode(text)
    return found


def _in_order(written: _Json, parts: _Json) -> _Json:
    """The parts as they came in what was written, so that nothing seems to have moved."""
    return {name: parts[name] for name in written if name in parts}


def _read(kind: Kind, obj: _Json) -> _Json:
    wrong = mistyped(kind.group, kind.kind, obj)
    if wrong is not None:
        raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {wrong}')
    if kind.resource == f"customresourcedefinitions.{_EXTENSIONS}":
        return copy.deepcopy(obj)  # null can be meant in a schema's default
    if kind.resource in ("secrets", "configmaps") and obj.get("data"):
        obj = {**obj, "data": {key: value or "" for key, value in obj["data"].items()}}
    return _without_nulls(obj)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _default(kind: Kind, obj: _Json) -> None:
    fill = _DEFAULTS.get(kind.resource)
    if fill is not None:
        fill(obj)


def _default_config_map(config: _Json) -> None:
    if config.get("binaryData"):
        config["binaryData"] = rules.read_binary("ConfigMap", config["binaryData"])


_DEFAULTS: dict[str, Callable[[_Json], None]] = {
    "pods": pod_rules.default_pod,
    "namespaces": rules.default_namespace,
    "secrets": rules.default_secret,
    "configmaps": _default_config_map,
    "nodes": rules.default_node,
    "services": rules.default_service,
    f"leases.{_COORDINATION}": rules.default_lease,
    f"rolebindings.{_RBAC}": rules.default_binding,
    f"clusterrolebindings.{_RBAC}": rules.default_binding,
    f"customresourcedefinitions.{_EXTENSIONS}": crd_rules.default_crd,
    _CSRS: csr_rules.default_csr,
}

_RULES: dict[str, Callable[[_Json], list[Cause]]] = {
    "pods": pod_rules.pod_causes,
    "secrets": rules.secret_causes,
    "configmaps": rules.map_causes,
    "nodes": rules.node_causes,
    "events": rules.event_causes,
    f"leases.{_COORDINATION}": rules.lease_causes,
    f"roles.{_RBAC}": lambda role: rules.role_causes(role, namespaced=True),
    f"clusterroles.{_RBAC}": lambda role: rules.role_causes(role, namespaced=False),
    f"rolebindings.{_RBAC}": lambda binding: rules.binding_causes(binding, namespaced=True),
    f"clusterrolebindings.{_RBAC}": lambda binding: rules.binding_causes(binding, namespaced=False),
    f"customresourcedefinitions.{_EXTENSIONS}": crd_rules.crd_causes,
    _CSRS: csr_rules.csr_causes,
}

_CHANGES: dict[str, Callable[[_Json, _Json], list[Cause]]] = {
    "pods": pod_rules.pod_change_causes,
    "secrets": rules.data_change_causes,
    "configmaps": rules.data_change_causes,
    "nodes": rules.node_change_causes,
    f"rolebindings.{_RBAC}": rules.binding_change_causes,
    f"clusterrolebindings.{_RBAC}": rules.binding_change_causes,
    f"customresourcedefinitions.{_EXTENSIONS}": crd_rules.crd_change_causes,
}
