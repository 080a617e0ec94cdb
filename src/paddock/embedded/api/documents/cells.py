"""The pieces that every table of a built-in kind is made of: columns, and the safe ways into an object."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from paddock.embedded.api.documents.ages import age

__all__ = ["AGE", "NAME", "Cells", "Columns", "Object", "age_of", "column", "condition", "name_of", "part"]

Object = dict[str, Any]
Columns = tuple[dict[str, Any], ...]
Cells = Callable[[Object, datetime], list[Any]]


def column(name: str, description: str, priority: int = 0, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "type": kind, "format": "", "description": description, "priority": priority}


NAME: dict[str, Any] = {
    **column("Name", "The name of the object, unique for its kind and namespace."),
    "format": "name",
}
AGE = column("Age", "How long ago the object was created.")


def name_of(obj: Object) -> str:
    return (obj.get("metadata") or {}).get("name", "")


def age_of(obj: Object, now: datetime) -> str:
    return age((obj.get("metadata") or {}).get("creationTimestamp"), now)


def part(obj: Object, name: str) -> dict[str, Any]:
    return obj.get(name) or {}


def condition(status: dict[str, Any], name: str) -> dict[str, Any]:
    return next((c for c in status.get("conditions") or () if c.get("type") == name), {})
