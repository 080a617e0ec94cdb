"""OpenAPI: what `kubectl explain` prints, and the one parameter by which apply, create and edit trust us to validate.

Documents are made once for each state of the registry. Their URLs carry a hash of their content, so clients may keep
them for ever and ask only for the index.
"""

import copy
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec

from paddock.embedded.api.builtin.schemas import META, definitions, reference
from paddock.embedded.api.kinds import Kind, Kinds

__all__ = ["V2_CONTENT_TYPE", "V2_DOCUMENT", "document", "index", "v2_document"]

V2_DOCUMENT: Final = bytes.fromhex("0a03322e30120f0a0a4b756265726e65746573120131")
"""An empty OpenAPI v2 document in protobuf: kubectl before 1.29 insists on one, later ones look and do not mind."""
V2_CONTENT_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_SCHEMAS = "#/components/schemas/"
_TYPE_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "apiVersion": {"type": "string", "description": "Group and version of this object's schema."},
    "kind": {"type": "string", "description": "The kind of this object."},
}


@dataclass(frozen=True, slots=True)
class _Documents:
    revision: int
    by_version: dict[tuple[str, str], tuple[dict[str, Any], str]]


_made: WeakKeyDictionary[Kinds, _Documents] = WeakKeyDictionary()


def index(kinds: Kinds) -> dict[str, Any]:
    """`/openapi/v3`: where the document of each group and version is."""
    paths = {}
    for (group, version), (_, digest) in _documents(kinds).items():
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def document(kinds: Kinds, group: str, version: str) -> dict[str, Any] | None:
    """The document of one group and version, or None when it is not served. Callers must not change it."""
    found = _documents(kinds).get((group, version))
    return found[0] if found else None


def v2_document(kinds: Kinds) -> dict[str, Any]:
    """`/openapi/v2` as JSON: the schemas of everything that is served, for clients that know no v3. Paths are in v3 alone."""
    schemas: dict[str, Any] = {}
    for content, _ in _documents(kinds).values():
        schemas |= content["components"]["schemas"]
    text = msgspec.json.encode(schemas).replace(_SCHEMAS.encode(), b"#/definitions/")
    info = {"title": "Paddock", "version": "unversioned"}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": msgspec.json.decode(text)}


def _documents(kinds: Kinds) -> dict[tuple[str, str], tuple[dict[str, Any], str]]:
    made = _made.get(kinds)
    if made is None or made.revision != kinds.revision:
        by_version = {}
        for group, versions in kinds.groups().items():
            for version, served in versions.items():
                content = _document(group, version, served)
                digest = hashlib.sha256(msgspec.json.encode(content)).hexdigest()
                by_version[(group, version)] = (content, digest.upper())
        made = _made[kinds] = _Documents(kinds.revision, by_version)
    return made.by_version


def _document(group: str, version: str, served: list[Kind]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = dict(definitions(None))
    if any(not kind.custom for kind in served):
        schemas |= definitions(group)
    for kind in served:
        name = _name(kind)
        schemas[name] = _custom(kind) if kind.custom else _builtin(kind, schemas.get(name))
        if "list" in kind.verbs:
            schemas[f"{name}List"] = _list(kind, name)
        paths |= _paths(kind, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Paddock", "version": version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _name(kind: Kind) -> str:
    if not kind.custom:
        return reference(kind.group, kind.kind)
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _identity(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _metadata(definition: str = "ObjectMeta") -> dict[str, Any]:
    return {"description": "The object's metadata.", "allOf": [{"$ref": f"{_SCHEMAS}{META}{definition}"}]}


def _custom(kind: Kind) -> dict[str, Any]:
    """A custom resource: the schema of its definition, with the fields that every object has."""
    schema = copy.deepcopy(kind.schema) or {"x-kubernetes-preserve-unknown-fields": True}
    own = {name: part for name, part in schema.get("properties", {}).items() if name not in (*_TYPE_FIELDS, "metadata")}
    schema["type"] = "object"
    schema["properties"] = {**_TYPE_FIELDS, "metadata": _metadata(), **own}
    schema["x-kubernetes-group-version-kind"] = [_identity(kind)]
    return schema


def _builtin(kind: Kind, schema: dict[str, Any] | None) -> dict[str, Any]:
    known = schema or {"type": "object", "description": f"A {kind.kind}.", "properties": {}}
    return {
        **known,
        "properties": {**_TYPE_FIELDS, "metadata": _metadata(), **known["properties"]},
        "x-kubernetes-group-version-kind": [_identity(kind)],
    }


def _list(kind: Kind, name: str) -> dict[str, Any]:
    items = {"type": "array", "description": "The objects.", "items": {"$ref": f"{_SCHEMAS}{name}"}}
    return {
        "type": "object",
        "description": f"A list of {kind.kind} objects.",
        "required": ["items"],
        "properties": {**_TYPE_FIELDS, "metadata": _metadata("ListMeta"), "items": items},
        "x-kubernetes-group-version-kind": [{**_identity(kind), "kind": kind.list_kind}],
    }


@lru_cache(maxsize=1)
def _write_parameters() -> list[dict[str, Any]]:
    text = {"type": "string", "uniqueItems": True}
    return [
        {"name": "dryRun", "in": "query", "schema": text, "description": "All: answer, and change nothing."},
        {"name": "fieldManager", "in": "query", "schema": text, "description": "Who makes the change."},
        {
            "name": "fieldValidation",
            "in": "query",
            "schema": text,
            "description": "Strict, Warn or Ignore: what to do about unknown and duplicate fields.",
        },
    ]


def _paths(kind: Kind, name: str) -> dict[str, Any]:
    """The operations on a kind.

    PATCH deliberately names no body of strategic merge patches: kubectl then merges built-ins by the types that are
    compiled into it, which know every list's key, instead of by this guide, which does not.
    """
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    collection = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{name}"}}}}}

    def operation(action: str, *, writes: bool = False) -> dict[str, Any]:
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _identity(kind),
            "parameters": _write_parameters() if writes else [],
            "responses": answer,
        }

    many = {
        method: operation(action, writes=action == "post")
        for method, action, verb in (("get", "list", "list"), ("post", "post", "create"))
        if verb in kind.verbs
    }
    one = {
        method: operation(method, writes=method in ("put", "patch"))
        for method, verb in (("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete"))
        if verb in kind.verbs
    }
    paths = {collection: many}
    if one:
        paths[f"{collection}/{{name}}"] = one
    return paths
