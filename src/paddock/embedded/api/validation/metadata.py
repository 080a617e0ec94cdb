"""What every object's metadata must be: names, labels, annotations, finalizers, owners. In the real server's words."""

import re
from typing import Any, Final

from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.status import Cause, bad_request
from paddock.embedded.api.validation.gotext import go_json, quoted, shown
from paddock.embedded.api.validation.metadata_types import malformed_metadata

__all__ = [
    "METADATA_FIELDS",
    "embedding_parts",
    "label_key_problems",
    "label_value_problems",
    "validate_embedded",
    "validate_metadata",
]

Json = dict[str, Any]
METADATA_FIELDS: Final = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""All that metadata may hold; anything else is unknown, whatever a schema says."""
MAX_ANNOTATIONS: Final = 256 * 1024

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_is_label: Final = re.compile(_LABEL, re.ASCII).fullmatch
_is_subdomain: Final = re.compile(_SUBDOMAIN, re.ASCII).fullmatch
_is_label_1035: Final = re.compile(_LABEL_1035, re.ASCII).fullmatch
_is_key: Final = re.compile(_KEY, re.ASCII).fullmatch
_is_value: Final = re.compile(_VALUE, re.ASCII).fullmatch

_LABEL_NAMED: Final = frozenset({"namespaces", "services"})
_PATH_NAMED: Final = frozenset(
    {
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
    }
)


def _regex_problem(message: str, regex: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {listed}regex used for validation is '{regex}')"


_KEY_PROBLEM: Final = _regex_problem(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _KEY,
    "MyName",
    "my.name",
    "123-abc",
)


def _subdomain_problems(text: str, unit: str = "characters") -> list[str]:
    # The real server counts bytes either way, and says so only where a subdomain is the prefix of a label key.
    problems = [f"must be no more than 253 {unit}"] if len(text.encode()) > 253 else []
    if not _is_subdomain(text):
        problems.append(
            _regex_problem(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
                "and must start and end with an alphanumeric character",
                _SUBDOMAIN,
                "example.com",
            )
        )
    return problems


def _label_problems(text: str) -> list[str]:
    problems = ["must be no more than 63 characters"] if len(text.encode()) > 63 else []
    if not _is_label(text):
        if _is_subdomain(text):
            problems.append("must not contain dots")
        else:
            problems.append(
                _regex_problem(
                    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
                    "and must start and end with an alphanumeric character",
                    _LABEL,
                    "my-name",
                    "123-abc",
                )
            )
    return problems


def _label_1035_problems(text: str) -> list[str]:
    problems = ["must be no more than 63 characters"] if len(text.encode()) > 63 else []
    if not _is_label_1035(text):
        problems.append(
            _regex_problem(
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
                "alphabetic character, and end with an alphanumeric character",
                _LABEL_1035,
                "my-name",
                "abc-123",
            )
        )
    return problems


def _path_problems(text: str) -> list[str]:
    if text in {".", ".."}:
        return [f"may not be '{text}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in text]


def label_key_problems(key: str) -> list[str]:
    """What is wrong with a label key, or the name of a finalizer: `[subdomain/]name`."""
    prefix, slash, name = key.partition("/")
    if not slash:
        prefix, name = "", key
    elif "/" in name:
        return [
            f"a valid label key {_KEY_PROBLEM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems: list[str] = []
    if slash:
        found = _subdomain_problems(prefix, "bytes") if prefix else ["must be non-empty"]
        problems += ["prefix part " + problem for problem in found]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _is_key(name):
        problems.append("name part " + _KEY_PROBLEM)
    return problems


def label_value_problems(value: str) -> list[str]:
    problems = ["must be no more than 63 bytes"] if len(value.encode()) > 63 else []
    if not _is_value(value):
        problems.append(
            _regex_problem(
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
                "and must start and end with an alphanumeric character",
                _VALUE,
                "MyValue",
                "my_value",
                "12345",
            )
        )
    return problems


def _invalid(field: str, value: Any, why: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {why}", field)


def _name_problems(kind: Kind, name: str, *, prefix: bool = False) -> list[str]:
    if kind.resource in _PATH_NAMED:
        return _path_problems(name)
    if prefix and len(name) > 1 and name.endswith("-"):
        # A name is still to follow the dash.
        name = name[:-2] + "a"
    if kind.resource == "services":
        return _label_1035_problems(name)
    return _label_problems(name) if kind.resource in _LABEL_NAMED else _subdomain_problems(name)


def validate_metadata(kind: Kind, obj: Json) -> list[Cause]:
    """Everything wrong with an object's metadata. Names must have been generated by now.

    Metadata of the wrong types cannot be judged at all: 400, as when the real server fails to read it.
    """
    found = obj.get("metadata")
    if unreadable := malformed_metadata(found):
        raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {unreadable}')
    metadata: Json = found if isinstance(found, dict) else {}
    causes: list[Cause] = []
    prefix = metadata.get("generateName")
    if prefix:
        causes += [
            _invalid("metadata.generateName", prefix, problem) for problem in _name_problems(kind, prefix, prefix=True)
        ]
    name = metadata.get("name")
    if not name:
        message = "Required value: name or generateName is required"
        causes.append(Cause("FieldValueRequired", message, "metadata.name"))
    else:
        causes += [_invalid("metadata.name", name, problem) for problem in _name_problems(kind, name)]
    namespace = metadata.get("namespace")
    if kind.namespaced and not namespace:
        causes.append(Cause("FieldValueRequired", "Required value", "metadata.namespace"))
    elif kind.namespaced:
        causes += [_invalid("metadata.namespace", namespace, problem) for problem in _label_problems(namespace or "")]
    elif namespace:
        causes.append(Cause("FieldValueForbidden", "Forbidden: not allowed on this type", "metadata.namespace"))
    return causes + _common(metadata, "metadata")


def _common(metadata: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in (metadata.get("labels") or {}).items():
        causes += [_invalid(f"{path}.labels", key, problem) for problem in label_key_problems(key)]
        causes += [_invalid(f"{path}.labels", value, problem) for problem in label_value_problems(value or "")]
    annotations: Json = metadata.get("annotations") or {}
    for key in annotations:
        causes += [_invalid(f"{path}.annotations", key, problem) for problem in label_key_problems(key.lower())]
    if sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        message = f"Too long: may not be more than {MAX_ANNOTATIONS} bytes"
        causes.append(Cause("FieldValueTooLong", message, f"{path}.annotations"))
    causes += _owner_causes(metadata.get("ownerReferences") or [], f"{path}.ownerReferences")
    return causes + _finalizer_causes(metadata.get("finalizers") or [], f"{path}.finalizers")


def _owner_causes(owners: list[Json], path: str) -> list[Cause]:
    causes: list[Cause] = []
    controller = ""
    for owner in (owner or {} for owner in owners):
        version = (owner.get("apiVersion") or "").rpartition("/")[2]
        if not version:
            causes.append(_invalid(f"{path}.apiVersion", owner.get("apiVersion") or "", "version must not be empty"))
        empty = [field for field in ("kind", "name", "uid") if not owner.get(field)]
        causes += [_invalid(f"{path}.{field}", "", "must not be empty") for field in empty]
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            causes.append(_invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller") is True:
            this = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                why = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {this}"
                )
                causes.append(Cause("FieldValueInvalid", f"Invalid value: {_owners_text(owners)}: {why}", path))
            else:
                controller = this
    return causes


def _owners_text(owners: list[Json]) -> str:
    """Owner references as the server's own type writes them: a fixed order, and uid even when it is empty."""
    order = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    written = [
        ",".join(f"{quoted(key)}:{go_json(owner[key])}" for key in order if owner.get(key) is not None)
        for owner in owners
    ]
    return "[" + ",".join(f"{{{text}}}" for text in written) + "]"


def _finalizer_causes(finalizers: list[str], path: str) -> list[Cause]:
    causes = [_invalid(path, name or "", problem) for name in finalizers for problem in label_key_problems(name or "")]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        causes.append(_invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    return causes


def embedding_parts(schema: Json, *, root: bool = True) -> Json | None:
    """The branches of a schema that lead to embedded resources, and nothing else; None if there are none."""
    marked = not root and schema.get("x-kubernetes-embedded-resource") is True
    inner = {
        name: part
        for name, below in (schema.get("properties") or {}).items()
        if (part := embedding_parts(below, root=False)) is not None
    }
    parts: Json = {"properties": inner} if inner else {}
    for word in ("additionalProperties", "items"):
        below = schema.get(word)
        if isinstance(below, dict) and (part := embedding_parts(below, root=False)) is not None:
            parts[word] = part
    if marked:
        parts["x-kubernetes-embedded-resource"] = True
    return parts or None


def validate_embedded(parts: Json, value: Any, path: str = "") -> list[Cause]:
    """What is wrong with the resources that a schema embeds; `parts` is what `embedding_parts` found in it."""
    causes: list[Cause] = []
    if isinstance(value, dict):
        if parts.get("x-kubernetes-embedded-resource"):
            causes += _embedded_causes(value, path)
        properties: dict[str, Any] = parts.get("properties") or {}
        for name, below in properties.items():
            if name in value:
                causes += validate_embedded(below, value[name], f"{path}.{name}" if path else name)
        if "additionalProperties" in parts:
            for name, child in value.items():
                if name not in properties:
                    causes += validate_embedded(parts["additionalProperties"], child, f"{path}[{name}]")
    elif isinstance(value, list) and "items" in parts:
        for index, item in enumerate(value):
            causes += validate_embedded(parts["items"], item, f"{path}[{index}]")
    return causes


def _embedded_causes(value: Json, path: str) -> list[Cause]:
    causes = [
        Cause("FieldValueRequired", "Required value", f"{path}.{name}")
        for name in ("apiVersion", "kind")
        if name not in value
    ]
    for name in ("apiVersion", "kind"):
        if name not in value:
            continue
        text = value[name]
        if not isinstance(text, str):
            causes.append(_invalid(f"{path}.{name}", text, "must be a string"))
        elif not text:
            causes.append(_invalid(f"{path}.{name}", text, "must not be empty"))
        elif name == "apiVersion" and text.count("/") > 1:
            causes.append(_invalid(f"{path}.{name}", text, f"unexpected GroupVersion string: {text}"))
        elif name == "kind" and (problems := _label_1035_problems(text.lower())):
            why = "may have mixed case, but should otherwise match: " + ",".join(problems)
            causes.append(_invalid(f"{path}.{name}", text, why))
    metadata = value.get("metadata")
    if unreadable := malformed_metadata(metadata):
        causes.append(_invalid(f"{path}.metadata", metadata, unreadable))
    elif metadata:
        name = metadata.get("name")
        if name:
            causes += [_invalid(f"{path}.metadata.name", name, problem) for problem in _path_problems(name)]
        causes += _common(metadata, f"{path}.metadata")
    return causes
