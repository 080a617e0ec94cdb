"""Request bodies in protobuf, as kubectl from 1.32 on sends them for `create ns`, `create token`, `auth can-i` and others.

Only what those verbs send is decoded, into the JSON form of the same object; answers are always JSON. A message that is
not in the list is refused with 415 and the remedy, never half understood.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from paddock.base.clock import rfc3339, rfc3339_micro
from paddock.embedded.api.status import ApiFailure, bad_request

__all__ = ["decode"]

_MAGIC = b"k8s\0"

_Scalar = Literal["string", "bytes", "int", "bool", "time", "microtime"]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message: its JSON name, and what it holds. `kept` fields appear even when they are empty."""

    name: str
    holds: "_Scalar | _Message" = "string"
    repeated: bool = False
    map: bool = False
    kept: bool = False


_Message = dict[int, _Field]

_OWNER: _Message = {
    1: _Field("kind"),
    3: _Field("name"),
    4: _Field("uid"),
    5: _Field("apiVersion"),
    6: _Field("controller", "bool"),
    7: _Field("blockOwnerDeletion", "bool"),
}
_META: _Message = {
    1: _Field("name"),
    2: _Field("generateName"),
    3: _Field("namespace"),
    5: _Field("uid"),
    6: _Field("resourceVersion"),
    7: _Field("generation", "int"),
    8: _Field("creationTimestamp", "time"),
    11: _Field("labels", map=True),
    12: _Field("annotations", map=True),
    13: _Field("ownerReferences", _OWNER, repeated=True),
    14: _Field("finalizers", repeated=True),
}
_REFERENCE: _Message = {
    1: _Field("kind"),
    2: _Field("namespace"),
    3: _Field("name"),
    4: _Field("uid"),
    5: _Field("apiVersion"),
    6: _Field("resourceVersion"),
    7: _Field("fieldPath"),
}
_LOCAL_REFERENCE: _Message = {1: _Field("name")}
_BOUND: _Message = {1: _Field("kind"), 2: _Field("apiVersion"), 3: _Field("name"), 4: _Field("uid")}
_RESOURCE_ATTRIBUTES: _Message = {
    number: _Field(name)
    for number, name in enumerate(("namespace", "verb", "group", "version", "resource", "subresource", "name"), start=1)
}
_PATH_ATTRIBUTES: _Message = {1: _Field("path"), 2: _Field("verb")}
_ASKED: _Message = {
    1: _Field("resourceAttributes", _RESOURCE_ATTRIBUTES),
    2: _Field("nonResourceAttributes", _PATH_ATTRIBUTES),
}
_RULE: _Message = {
    number: _Field(name, repeated=True)
    for number, name in enumerate(("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"), start=1)
}
_SUBJECT: _Message = {1: _Field("kind"), 2: _Field("apiGroup"), 3: _Field("name"), 4: _Field("namespace")}
_ROLE: _Message = {2: _Field("rules", _RULE, repeated=True, kept=True)}
_BINDING: _Message = {
    2: _Field("subjects", _SUBJECT, repeated=True),
    3: _Field("roleRef", {1: _Field("apiGroup"), 2: _Field("kind"), 3: _Field("name")}),
}
_LEASE: _Message = {
    1: _Field("holderIdentity"),
    2: _Field("leaseDurationSeconds", "int"),
    3: _Field("acquireTime", "microtime"),
    4: _Field("renewTime", "microtime"),
    5: _Field("leaseTransitions", "int"),
}
_EVENT: _Message = {
    2: _Field("involvedObject", _REFERENCE),
    3: _Field("reason"),
    4: _Field("message"),
    5: _Field("source", {1: _Field("component"), 2: _Field("host")}),
    6: _Field("firstTimestamp", "time"),
    7: _Field("lastTimestamp", "time"),
    8: _Field("count", "int"),
    9: _Field("type"),
    10: _Field("eventTime", "microtime"),
    11: _Field("series", {1: _Field("count", "int"), 2: _Field("lastObservedTime", "microtime")}),
    12: _Field("action"),
    13: _Field("related", _REFERENCE),
    14: _Field("reportingComponent"),
    15: _Field("reportingInstance"),
}
_DELETE_OPTIONS: _Message = {
    1: _Field("gracePeriodSeconds", "int", kept=True),
    2: _Field("preconditions", {1: _Field("uid"), 2: _Field("resourceVersion")}),
    3: _Field("orphanDependents", "bool"),
    4: _Field("propagationPolicy"),
    5: _Field("dryRun", repeated=True),
}

_AUTHENTICATION = "authentication.k8s.io/v1"
_AUTHORIZATION = "authorization.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io/v1"

_KINDS: dict[tuple[str, str], _Message] = {
    ("v1", "Namespace"): {2: _Field("spec", {1: _Field("finalizers", repeated=True)})},
    ("v1", "ConfigMap"): {
        2: _Field("data", map=True),
        3: _Field("binaryData", "bytes", map=True),
        4: _Field("immutable", "bool", kept=True),
    },
    ("v1", "Secret"): {
        2: _Field("data", "bytes", map=True),
        3: _Field("type"),
        4: _Field("stringData", map=True),
        5: _Field("immutable", "bool", kept=True),
    },
    ("v1", "ServiceAccount"): {
        2: _Field("secrets", _REFERENCE, repeated=True),
        3: _Field("imagePullSecrets", _LOCAL_REFERENCE, repeated=True),
        4: _Field("automountServiceAccountToken", "bool", kept=True),
    },
    ("v1", "Binding"): {2: _Field("target", _REFERENCE)},
    ("v1", "Event"): _EVENT,
    ("policy/v1", "Eviction"): {2: _Field("deleteOptions", _DELETE_OPTIONS)},
    ("coordination.k8s.io/v1", "Lease"): {2: _Field("spec", _LEASE)},
    (_AUTHENTICATION, "TokenRequest"): {
        2: _Field(
            "spec",
            {
                1: _Field("audiences", repeated=True),
                3: _Field("boundObjectRef", _BOUND),
                4: _Field("expirationSeconds", "int"),
            },
        )
    },
    (_AUTHENTICATION, "TokenReview"): {2: _Field("spec", {1: _Field("token"), 2: _Field("audiences", repeated=True)})},
    (_AUTHENTICATION, "SelfSubjectReview"): {},
    (_AUTHORIZATION, "SelfSubjectAccessReview"): {2: _Field("spec", _ASKED)},
    (_AUTHORIZATION, "SubjectAccessReview"): {
        2: _Field("spec", {**_ASKED, 3: _Field("user"), 4: _Field("groups", repeated=True), 6: _Field("uid")})
    },
    (_AUTHORIZATION, "SelfSubjectRulesReview"): {2: _Field("spec", {1: _Field("namespace")})},
    (_RBAC, "Role"): _ROLE,
    (_RBAC, "ClusterRole"): _ROLE,
    (_RBAC, "RoleBinding"): _BINDING,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
}
# DeleteOptions come with the group of whatever is deleted, or none at all, so their kind alone names them.
_DELETE_KIND = "DeleteOptions"


def decode(body: bytes) -> dict[str, Any]:
    """The JSON form of a request body. 415 for a kind that is not decoded, 400 for bytes that are damaged."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body does not start like a Kubernetes protobuf message (k8s\\0)")
    try:
        api_version, kind, raw = _envelope(body[len(_MAGIC) :])
        if kind == _DELETE_KIND:
            return {"kind": kind, "apiVersion": api_version, **_read(raw, _DELETE_OPTIONS)}
        message = _KINDS.get((api_version, kind))
        if message is None:
            raise ApiFailure(
                415,
                "UnsupportedMediaType",
                f"{kind or 'an unnamed kind'} in version {api_version or 'unknown'} is not read from protobuf here: "
                "send it as application/json, for example with `kubectl create -f`",
            )
        return {
            "kind": kind,
            "apiVersion": api_version,
            "metadata": {},
            **_read(raw, {1: _Field("metadata", _META, kept=True), **message}),
        }
    except (IndexError, UnicodeDecodeError, OverflowError) as error:
        raise bad_request("the protobuf body is damaged: it ends early or has a field of the wrong type") from error


def _envelope(data: bytes) -> tuple[str, str, bytes]:
    api_version = kind = ""
    raw = b""
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            for part, text in _fields(value):
                if isinstance(text, bytes):
                    api_version = text.decode() if part == 1 else api_version
                    kind = text.decode() if part == 2 else kind
        elif number == 2 and isinstance(value, bytes):
            raw = value
    return api_version, kind, raw


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values; varints as int, everything of a length as bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 2:
                length, at = _varint(data, at)
                if at + length > len(data):
                    raise IndexError("a field runs past the end")
                yield key >> 3, data[at : at + length]
                at += length
            case 1 | 5 as width:
                at += 8 if width == 1 else 4  # fixed-width numbers: no kind that is decoded has one
            case wire:
                raise IndexError(f"wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError("a number of more than 64 bits")


def _read(data: bytes, message: _Message) -> dict[str, Any]:
    """One message; empty values are left out, for clients send every field that is not a pointer."""
    found: dict[str, Any] = {}
    for number, value in _fields(data):
        field = message.get(number)
        if field is None:
            continue
        if field.map:
            key, item = _entry(value, field)
            found.setdefault(field.name, {})[key] = item
        elif field.repeated:
            found.setdefault(field.name, []).append(_value(value, field))
        else:
            found[field.name] = _value(value, field)
    kept = {field.name for field in message.values() if field.kept or field.repeated or field.map}
    return {name: value for name, value in found.items() if name in kept or value not in ("", 0, None, {})}


def _entry(value: int | bytes, field: _Field) -> tuple[str, Any]:
    key, item = "", _value(b"", field)
    for number, part in _fields(_length_delimited(value)):
        if number == 1:
            key = _length_delimited(part).decode()
        elif number == 2:
            item = _value(part, field)
    return key, item


def _value(value: int | bytes, field: _Field) -> Any:
    holds = field.holds
    if isinstance(holds, dict):
        return _read(_length_delimited(value), holds)
    match holds:
        case "int":
            number = _number(value)
            return number - (1 << 64) if number >= 1 << 63 else number
        case "bool":
            return bool(_number(value))
        case "bytes":
            return base64.b64encode(_length_delimited(value)).decode()
        case "time" | "microtime":
            moment = _moment(_length_delimited(value))
            return None if moment is None else rfc3339(moment) if holds == "time" else rfc3339_micro(moment)
        case _:
            return _length_delimited(value).decode()


def _moment(data: bytes) -> datetime | None:
    parts = dict(_fields(data))
    seconds, nanos = _number(parts.get(1, 0)), _number(parts.get(2, 0))
    if seconds >= 1 << 63:
        return None  # the zero time of Go lies before 1970; no timestamp that a client means does
    if seconds == nanos == 0:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=nanos // 1000)


def _length_delimited(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise IndexError("a number where text belongs")


def _number(value: int | bytes) -> int:
    if isinstance(value, int):
        return value
    raise IndexError("text where a number belongs")
