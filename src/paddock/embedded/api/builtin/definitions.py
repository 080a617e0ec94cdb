"""What the server adds to a CustomResourceDefinition and what it refuses.

On a real server, controllers accept the names and establish the kind a moment after it is created. Here nothing else can
claim a name, so a definition is established as soon as it is stored, and clients that wait for that wait for nothing.
"""

from datetime import datetime
from typing import Any

import msgspec

from paddock.base.clock import rfc3339
from paddock.embedded.api.status import Cause
from paddock.embedded.api.validation.causes import invalid, missing, unsupported
from paddock.embedded.api.validation.cel import not_evaluated

__all__ = [
    "CRDS",
    "crd_causes",
    "crd_change_causes",
    "default_crd",
    "establish_crd",
    "follow_crd",
    "rules_not_evaluated",
]

_Json = dict[str, Any]
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_RULES = "x-kubernetes-validations"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


def default_crd(crd: _Json) -> None:
    """Fill in, in place, the names that follow from others and the conversion."""
    spec = crd["spec"] = crd.get("spec") or {}
    names = spec["names"] = spec.get("names") or {}
    kind = names.get("kind") or ""
    if kind:
        names["singular"] = names.get("singular") or kind.lower()
        names["listKind"] = names.get("listKind") or f"{kind}List"
    spec["conversion"] = spec.get("conversion") or {"strategy": "None"}


def establish_crd(crd: _Json, now: datetime) -> None:
    """The status of a definition that is served from now on."""
    moment = rfc3339(now)
    crd["status"] = {
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "True",
                "lastTransitionTime": moment,
                "reason": "NoConflicts",
                "message": "no conflicts found",
            },
            {
                "type": "Established",
                "status": "True",
                "lastTransitionTime": moment,
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ],
        "acceptedNames": dict(crd["spec"]["names"]),
        "storedVersions": _storage(crd["spec"]),
    }


def follow_crd(crd: _Json) -> None:
    """Let the status of a changed definition follow its spec: accepted names, and versions in which objects may lie."""
    status = crd["status"] = dict(crd.get("status") or {})
    status["acceptedNames"] = dict(crd["spec"]["names"])
    stored = list(status.get("storedVersions") or ())
    status["storedVersions"] = [*stored, *(version for version in _storage(crd["spec"]) if version not in stored)]


def _storage(spec: _Json) -> list[str]:
    return [version["name"] for version in spec.get("versions") or () if version.get("storage") and version.get("name")]


def crd_causes(crd: _Json) -> list[Cause]:
    """Everything that is wrong with a defaulted definition."""
    spec = crd["spec"]
    names, name = spec.get("names") or {}, (crd.get("metadata") or {}).get("name", "")
    causes: list[Cause] = []
    if name != f"{names.get('plural', '')}.{spec.get('group', '')}":
        causes.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if not spec.get("group"):
        causes.append(missing("spec.group"))
    elif "." not in spec["group"]:
        causes.append(invalid("spec.group", spec["group"], "should be a domain with at least one dot"))
    if not spec.get("scope"):
        causes.append(missing("spec.scope"))
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        causes.append(unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    for index, version in enumerate(spec.get("versions") or ()):
        causes += _version_causes(f"spec.versions[{index}]", version)
    listed = [version.get("name") for version in spec.get("versions") or ()]
    if len(listed) != len(set(listed)):
        causes.append(invalid("spec.versions", listed, "must contain unique version names"))
    if len(_storage(spec)) != 1:
        causes.append(
            invalid("spec.versions", listed or None, "must have exactly one version marked as storage version")
        )
    causes += [
        missing(f"spec.names.{field}") for field in ("plural", "singular", "kind", "listKind") if not names.get(field)
    ]
    if (strategy := (spec.get("conversion") or {}).get("strategy")) != "None":
        # Nothing here calls webhooks: objects would be stored and shown unconverted, which is worse than a refusal.
        causes.append(unsupported("spec.conversion.strategy", strategy, ("None",)))
    return causes


def rules_not_evaluated(stored: bytes) -> list[str]:
    """A warning for each version of a stored definition whose schema has rules in CEL that nothing here evaluates."""
    if _RULES.encode() not in stored:
        return []
    crd = msgspec.json.decode(stored)
    if crd.get("kind") != "CustomResourceDefinition":
        return []
    found: list[str] = []
    for version in crd["spec"].get("versions") or ():
        places = list(not_evaluated((version.get("schema") or {}).get("openAPIV3Schema") or {}))
        if places:
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            found.append(
                f"version {version['name']}: {_RULES} at {places[0] or 'the root'}{more}: "
                "this API does not evaluate so much of CEL, and accepts objects that break these rules"
            )
    return found


def _version_causes(where: str, version: _Json) -> list[Cause]:
    causes: list[Cause] = []
    if not version.get("name"):
        causes.append(missing(f"{where}.name"))
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        causes.append(missing(f"{where}.schema.openAPIV3Schema"))
    elif schema.get("type") != "object":
        at = f"{where}.schema.openAPIV3Schema.type"
        why = "must be object at the root"
        causes.append(
            invalid(at, schema["type"], why) if schema.get("type") else missing(at, "must not be empty at the root")
        )
    else:
        causes += _structural_causes("spec.validation.openAPIV3Schema", schema)
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        causes += [
            missing(f"{where}.subresources.scale.{field}")
            for field in ("specReplicasPath", "statusReplicasPath")
            if not scale.get(field)
        ]
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        causes += _column_causes(f"{where}.additionalPrinterColumns[{index}]", column)
    return causes


def _structural_causes(where: str, schema: _Json) -> list[Cause]:
    """Every field must have a type, so that what is stored can be pruned, defaulted and merged."""
    causes: list[Cause] = []
    for name, part in (schema.get("properties") or {}).items():
        causes += _typed_causes(f"{where}.properties[{name}]", part, "object fields")
    if isinstance(schema.get("additionalProperties"), dict):
        causes += _typed_causes(f"{where}.additionalProperties", schema["additionalProperties"], "object fields")
    if isinstance(schema.get("items"), dict):
        causes += _typed_causes(f"{where}.items", schema["items"], "array items")
    elif schema.get("type") == "array":
        causes.append(missing(f"{where}.items", "must be specified"))
    return causes


def _typed_causes(where: str, schema: _Json, what: str) -> list[Cause]:
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    untyped = (
        [] if schema.get("type") or free else [missing(f"{where}.type", f"must not be empty for specified {what}")]
    )
    return untyped + _structural_causes(where, schema)


def _column_causes(where: str, column: _Json) -> list[Cause]:
    fields = (("name", "name"), ("type", "type"), ("jsonPath", "JSONPath"))
    causes = [missing(f"{where}.{shown}") for field, shown in fields if not column.get(field)]
    if column.get("type") and column["type"] not in _COLUMN_TYPES:
        causes.append(invalid(f"{where}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}"))
    if column.get("jsonPath") and not column["jsonPath"].startswith("."):
        why = "must be a simple json path starting with ."
        causes.append(invalid(f"{where}.JSONPath", column["jsonPath"], why))
    return causes


def crd_change_causes(old: _Json, new: _Json) -> list[Cause]:
    """What identifies the kind of stored objects can no longer change, and versions they lie in must stay."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    causes = [
        invalid(f"spec.{field}", after.get(field), "field is immutable")
        for field in ("group", "scope")
        if before.get(field) != after.get(field)
    ]
    causes += [
        invalid(f"spec.names.{field}", (after.get("names") or {}).get(field), "field is immutable")
        for field in ("kind", "plural")
        if (before.get("names") or {}).get(field) != (after.get("names") or {}).get(field)
    ]
    listed = {version.get("name") for version in after.get("versions") or ()}
    for index, version in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if version not in listed:
            causes.append(
                invalid(
                    f"status.storedVersions[{index}]",
                    version,
                    f"missing from spec.versions; {version} was previously a storage version, and must remain in "
                    "spec.versions until a storage migration ensures no data remains persisted in "
                    f"{version} and removes {version} from status.storedVersions",
                )
            )
    return causes
