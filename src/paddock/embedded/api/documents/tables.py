"""`meta.k8s.io/v1 Table` answers: what makes `kubectl get` show columns instead of names.

The server computes every cell, ages included, so that old and new clients print the same; a table is therefore true for
the moment `now` only. Columns of a custom resource come from its definition, those of built-ins from `builtin_columns`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, cast

from paddock.embedded.api.documents.ages import age
from paddock.embedded.api.documents.builtin_columns import BUILTIN_TABLES, CREATED_AT
from paddock.embedded.api.documents.cells import NAME, Cells
from paddock.embedded.api.documents.jsonpath import JsonPathError, Path, compile_path
from paddock.embedded.api.documents.pod_columns import completion
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.status import bad_request
from paddock.embedded.api.validation.gotext import go_json, go_number
from paddock.kube.resource import Column

__all__ = ["Include", "include_of", "row", "table", "table_columns"]

Include = Literal["Metadata", "Object", "None"]
"""What rides along in `row.object`: kubectl takes namespace and labels from it, `--sort-by` needs the whole object."""

_AGE = Column("Age", ".metadata.creationTimestamp", "date", "How long ago the object was created.")


def include_of(query: str | None) -> Include:
    """The `includeObject` parameter of a request, as one of its three values; absent means Metadata."""
    if not query:
        return "Metadata"
    if query not in {"Metadata", "Object", "None"}:
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{query}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return cast("Include", query)


def table_columns(kind: Kind) -> list[dict[str, Any]]:
    """The column definitions of a kind, with those that show only in `-o wide` at priority 1."""
    if kind.custom:
        return [dict(NAME), *(_definition(column) for column in kind.columns or (_AGE,))]
    columns, _ = BUILTIN_TABLES.get(kind.resource, CREATED_AT)
    return [dict(column) for column in columns]


def row(kind: Kind, obj: dict[str, Any], now: datetime, include: Include = "Metadata") -> dict[str, Any]:
    """One object as a row; its cells stand in the order of `table_columns`."""
    return _row(kind, obj, _cells_of(kind), now, include)


def table(
    kind: Kind,
    objects: Iterable[dict[str, Any]],
    now: datetime,
    include: Include = "Metadata",
    list_metadata: Mapping[str, Any] | None = None,
    *,
    with_columns: bool = True,
) -> dict[str, Any]:
    """A whole table.

    `list_metadata` is the list's metadata (resourceVersion, continue, remainingItemCount) or, for one object and for a
    watch frame, just that object's resourceVersion. Watch frames after the first one come without columns.
    """
    cells = _cells_of(kind)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(list_metadata or {}),
        "columnDefinitions": table_columns(kind) if with_columns else None,
        "rows": [_row(kind, obj, cells, now, include) for obj in objects],
    }


def _row(kind: Kind, obj: dict[str, Any], cells: Cells, now: datetime, include: Include) -> dict[str, Any]:
    made: dict[str, Any] = {"cells": cells(obj, now)}
    if kind.resource == "pods" and (conditions := completion(obj)):
        made["conditions"] = conditions
    if include == "Object":
        made["object"] = obj
    elif include == "None":
        made["object"] = None
    else:
        made["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj.get("metadata") or {},
        }
    return made


def _cells_of(kind: Kind) -> Cells:
    if kind.custom:
        return _custom_cells(kind.columns or (_AGE,))
    return BUILTIN_TABLES.get(kind.resource, CREATED_AT)[1]


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or f"Custom resource definition column (in JSONPath format): {column.path}",
        "priority": column.priority,
    }


@lru_cache(maxsize=256)
def _custom_cells(columns: tuple[Column, ...]) -> Cells:
    finders = [(_finder(column.path), column.type) for column in columns]

    def cells(obj: dict[str, Any], now: datetime) -> list[Any]:
        made: list[Any] = [(obj.get("metadata") or {}).get("name", "")]
        for find, declared in finders:
            found = find(obj)
            made.append(_cell(declared, found[0], now) if found else None)
        return made

    return cells


def _finder(path: str) -> Path:
    try:
        return compile_path(path)
    except JsonPathError:
        # A definition that was stored with such a path still lists: an empty column says less than a failing `get`.
        return lambda _: []


def _cell(declared: str, value: Any, now: datetime) -> Any:
    """A value under the declared type of its column; what does not fit the type is left empty."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match declared:
        case "string":
            return _text(value)
        case "integer":
            return int(value) if number else None
        case "number":
            return _plain(value) if number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return age(value, now) if isinstance(value, str) else None
        case _:
            return None


def _plain(value: float) -> float:
    """Whole numbers without a fraction, so that 3.0 travels as 3."""
    return int(value) if abs(value) < 1e21 and float(value).is_integer() else value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"  # an explicit null; a missing value never comes here
    if isinstance(value, bool):
        return "true" if value else "false"
    return go_number(value) if isinstance(value, (int, float)) else go_json(value)
