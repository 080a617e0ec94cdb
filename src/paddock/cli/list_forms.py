r"""The forms of `paddock get` that take an expression, and its order: JSONPath, columns of the user's own, `--sort-by`.  (pure)

Paths are written as for kubectl: `.metadata.name`, `{.items[*].status.phase}`, `.metadata.labels.tuist\.dev/fleet`.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

from paddock.cli.output import table
from paddock.embedded.api.documents.jsonpath import JsonPathError, Path, compile_path

__all__ = ["FormError", "by_path", "custom_columns", "jsonpath"]

_NONE = "<none>"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class FormError(ValueError):
    """The expression cannot be read; the message says where, and how one looks."""


def jsonpath(template: str, document: Any) -> str:
    """Text with `{paths}`, `{range path}…{end}` and `{"literals"}` filled in, as kubectl does it."""
    said, rest = _filled(_pieces(template), document)
    if rest:
        raise FormError(f"jsonpath {template!r}: {{end}} without {{range}}")
    return said


def _pieces(template: str) -> list[str]:
    """Literal text and `{…}` in turn; braces inside quotes do not count."""
    found = re.findall(r"\{(?:[^{}\"']|\"(?:\\.|[^\"])*\"|'(?:\\.|[^'])*')*\}|[^{}]+|[{}]", template)
    if any(piece in "{}" for piece in found):
        raise FormError(f"jsonpath {template!r}: a brace is not closed; write it as {{.items[*].metadata.name}}")
    if template and not any(piece.startswith("{") for piece in found):
        return [f"{{{template}}}"]  # `-o jsonpath=.metadata.name`: kubectl lets the braces be left out
    return found


def _filled(pieces: list[str], here: Any) -> tuple[str, list[str]]:
    """What the pieces say about `here`, and the pieces after the `{end}` that belongs to them."""
    said: list[str] = []
    while pieces:
        piece, pieces = pieces[0], pieces[1:]
        inside = piece[1:-1].strip() if piece.startswith("{") else None
        if inside is None:
            said.append(piece)
        elif inside == "end":
            return "".join(said), ["{end}", *pieces]
        elif inside.startswith("range "):
            rest = pieces
            found = _path(inside.removeprefix("range "))(here)
            for each in found or [None]:
                text, rest = _filled(pieces, each)
                said.append(text if found else "")
            if rest[:1] != ["{end}"]:
                raise FormError("jsonpath: {range} without {end}")
            pieces = rest[1:]
        elif inside[:1] in "\"'" and len(inside) > 1:
            said.append(re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), inside[1:-1]))
        else:
            said.append(" ".join(map(_shown, _path(inside)(here))))
    return "".join(said), []


def custom_columns(spec: str, documents: Sequence[Any], *, headers: bool = True) -> str:
    """`TITLE:.path,TITLE:.path` as a table; what an item does not have is `<none>`."""
    columns: list[tuple[str, Path]] = []
    for part in re.split(r",(?![^\[]*\])", spec):
        title, colon, path = part.partition(":")
        if not colon or not title or not path:
            raise FormError(f"custom-columns {part!r}: write TITLE:.path, such as NAME:.metadata.name,ZONE:.spec.zone")
        columns.append((title, _path(path)))
    rows = [[", ".join(map(_shown, path(item))) or _NONE for _, path in columns] for item in documents]
    lines = [[title for title, _ in columns], *rows] if headers else rows
    return table(lines) if lines else ""


def by_path(path: str, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A key for `sorted`: numbers by size, the rest as text; what lacks the field comes first, as with kubectl."""
    find = _path(path)

    def value(item: Any) -> Any:
        found = find(plain(item))
        return found[0] if found else None

    def compared(left: Any, right: Any) -> int:
        a: Any = value(left)
        b: Any = value(right)
        if a is None or b is None:
            return (a is not None) - (b is not None)
        if not (isinstance(a, (int, float)) and isinstance(b, (int, float))):
            a, b = str(a), str(b)
        return (a > b) - (a < b)

    return cmp_to_key(compared)


def _path(text: str) -> Path:
    body = text.strip()
    body = body[1:-1].strip() if body.startswith("{") and body.endswith("}") else body
    body = body.removeprefix("@")
    try:
        return compile_path(body if body.startswith((".", "[", "$")) or not body else f".{body}")
    except JsonPathError as error:
        raise FormError(f"{error}; a path looks like .metadata.name or .status.conditions[0].reason") from None


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
