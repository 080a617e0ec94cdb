"""What a call is made of: its path, its query, its body and its options. No I/O."""

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from paddock.kube.errors import NoNameError
from paddock.kube.objects import KubeObject
from paddock.kube.resource import Resource

__all__ = [
    "ApplyOptions",
    "ListOptions",
    "PatchOptions",
    "ReadOptions",
    "WriteOptions",
    "collection_path",
    "object_path",
    "parts_of",
    "resource_of",
    "selector_params",
]


class ReadOptions(TypedDict, total=False):
    """What every call on one object takes beside it."""

    subresource: str | None
    timeout: float | None


class WriteOptions(ReadOptions, total=False):
    """What every write of a whole object takes beside it."""

    dry_run: bool


class ListOptions(TypedDict, total=False):
    """What a list takes beside its kind; `limit` is the size of a page, `timeout` bounds each page."""

    label_selector: str
    field_selector: str
    limit: int
    timeout: float | None


class ApplyOptions(WriteOptions, total=False):
    field_manager: str | None
    force: bool


class PatchOptions(ReadOptions, total=False):
    field_manager: str | None


def resource_of(kind: type[KubeObject] | Resource) -> Resource:
    return kind if isinstance(kind, Resource) else kind.RESOURCE


def selector_params(label_selector: str, field_selector: str) -> dict[str, str]:
    """The query of a selective list or watch."""
    both = {"labelSelector": label_selector, "fieldSelector": field_selector}
    for selector in both.values():
        if not _is_text(selector):
            raise NoNameError(f"nothing can be selected by {selector!r}: it is not UTF-8")
    return {key: value for key, value in both.items() if value}


def collection_path(resource: Resource, namespace: str | None) -> str:
    if resource.namespaced and not namespace:
        raise ValueError(f"{resource.kind} is namespaced: give a namespace")
    return resource.path(namespace)


def object_path(resource: Resource, namespace: str | None, name: str, subresource: str | None) -> str:
    # An empty name, and each of the others by way of the path it makes, would name something else: a collection, and deleting
    # that deletes everything in it.
    if not name:
        raise NoNameError(f"{resource.kind}: give the object's name")
    for part in (name, namespace or ""):
        if part in (".", "..") or "/" in part or "%" in part or not _is_text(part):
            raise NoNameError(f"no {resource.kind} can be called {part!r}: a name has no slash, and is not only dots")
    collection_path(resource, namespace)
    return resource.path(namespace, name, subresource)


def _is_text(name: str) -> bool:
    """Whether it was UTF-8 where it was typed."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def parts_of(obj: KubeObject | Mapping[str, Any], resource: Resource | None) -> tuple[Any, bytes, str, str]:
    """(kind, body with apiVersion and kind filled in, namespace, name)."""
    if isinstance(obj, KubeObject):
        where = obj.RESOURCE
        filled = msgspec.structs.replace(obj, api_version=where.api_version, kind=where.kind)
        return type(obj), msgspec.json.encode(filled), obj.metadata.namespace, obj.metadata.name
    if resource is None:
        raise TypeError("a dict needs its Resource beside it")
    body = msgspec.json.encode({**obj, "apiVersion": resource.api_version, "kind": resource.kind})
    metadata = obj.get("metadata") or {}
    return resource, body, metadata.get("namespace", ""), metadata.get("name", "")
