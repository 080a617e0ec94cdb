r"""The JSONPath subset of printer columns, scale paths and selectable fields, compiled once to a plain function.

Understood: `.a.b`, `.a['x/y']`, `.a.x\.y`, `.a['x\.y']`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `.*` and filters such as
`[?(@.type=="Ready")]` with the operators `== != < <= > >=`, or with a bare path that asks for existence. Braces and a
leading `$` are optional. What is missing in an object never fails: the path then has no match.

A dot in a quoted name must be escaped, as the real server wants it: `['x.y']` means `.x.y` there, and a column that is
full here and empty on a real cluster would mislead.
"""

import operator
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

__all__ = ["JsonPathError", "Path", "compile_path"]

Path = Callable[[Any], list[Any]]
"""All matches in one object, in document order."""

_Step = Callable[[list[Any]], list[Any]]


class JsonPathError(ValueError):
    """The path is not in the subset: write it as `.spec.field`, `.list[0]` or `.list[?(@.key=="value")].field`."""


@lru_cache(maxsize=1024)
def compile_path(text: str) -> Path:
    """The function that finds every match of a path. Raises `JsonPathError` for what the subset does not know."""
    body = text.strip()
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1].strip()
    steps = _parse(body.removeprefix("$"), text)

    def matches(root: Any) -> list[Any]:
        found = [root]
        for step in steps:
            found = step(found)
            if not found:
                break
        return found

    return matches


_FIELD = re.compile(r"(?:\\.|[^.\[\]\\'\"\s(){}])+")


def _parse(body: str, whole: str) -> list[_Step]:
    steps: list[_Step] = []
    at = 0
    while at < len(body):
        if body[at] == ".":
            at += 1
            if at == len(body):
                if steps:
                    raise JsonPathError(f"JSONPath {whole!r} ends in a dot")
                break  # `.` alone is the object itself
            if body[at] == "[":
                continue
        if body[at] == "[":
            end = _closing(body, at, whole)
            steps.append(_bracket(body[at + 1 : end].strip(), whole))
            at = end + 1
            continue
        name = _FIELD.match(body, at)
        if name is None:
            raise JsonPathError(f"JSONPath {whole!r} cannot be read at character {at + 1}")
        text = name.group()
        steps.append(_every if text == "*" else _field(re.sub(r"\\(.)", r"\1", text)))
        at = name.end()
    return steps


def _closing(body: str, start: int, whole: str) -> int:
    """Where the bracket that opens at `start` closes; brackets inside quotes do not count."""
    depth = 0
    quote = ""
    for at in range(start, len(body)):
        char = body[at]
        if quote:
            if char == quote and body[at - 1] != "\\":
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return at
    raise JsonPathError(f"JSONPath {whole!r} has a bracket that is not closed")


_QUOTED = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?")


def _bracket(inside: str, whole: str) -> _Step:
    if inside == "*":
        return _every
    if re.fullmatch(r"-?\d+", inside):
        return _item(int(inside))
    if name := _QUOTED.fullmatch(inside):
        return _quoted(name.group(1) if name.group(1) is not None else name.group(2))
    if part := _SLICE.fullmatch(inside):
        low, high = (None if bound is None else int(bound) for bound in part.groups())
        return lambda values: [item for value in values if isinstance(value, list) for item in value[low:high]]
    if inside.startswith("?(") and inside.endswith(")"):
        return _filter(inside[2:-1].strip(), whole)
    raise JsonPathError(f"JSONPath {whole!r}: [{inside}] is not an index, a name, a slice or a filter")


def _quoted(text: str) -> _Step:
    steps = [_field(re.sub(r"\\(.)", r"\1", part)) for part in re.split(r"(?<!\\)\.", text)]

    def step(values: list[Any]) -> list[Any]:
        for each in steps:
            values = each(values)
        return values

    return step


def _unquoted(name: re.Match[str]) -> str:
    single, double = name.groups()
    return re.sub(r"\\(.)", r"\1", single if single is not None else double)


def _every(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, list):
            found.extend(value)
        elif isinstance(value, dict):
            found.extend(value.values())
    return found


def _field(name: str) -> _Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _item(index: int) -> _Step:
    def step(values: list[Any]) -> list[Any]:
        return [value[index] for value in values if isinstance(value, list) and -len(value) <= index < len(value)]

    return step


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON = re.compile(r"(?P<left>@(?:[^=!<>'\"]|'[^']*'|\"[^\"]*\")*?)\s*(?P<sign>==|!=|<=|>=|<|>)\s*(?P<right>.+)")


def _filter(condition: str, whole: str) -> _Step:
    if not condition.startswith("@"):
        raise JsonPathError(f"JSONPath {whole!r}: a filter starts with @")
    compared = _COMPARISON.fullmatch(condition)
    if compared is None:
        present = _steps_of(condition[1:], whole)
        return lambda values: [item for item in _items(values) if present(item)]
    path = _steps_of(compared["left"][1:].strip(), whole)
    holds = _COMPARISONS[compared["sign"]]
    wanted = _literal(compared["right"].strip(), whole)

    def keeps(item: Any) -> bool:
        found = path(item)
        return bool(found) and _comparable(found[0], wanted) and holds(found[0], wanted)

    return lambda values: [item for item in _items(values) if keeps(item)]


def _items(values: list[Any]) -> Iterable[Any]:
    return (item for value in values if isinstance(value, list) for item in value)


def _comparable(left: Any, right: Any) -> bool:
    """Numbers with numbers, otherwise like with like: a condition of mixed types is simply not met."""
    if isinstance(left, bool) or isinstance(right, bool):
        return type(left) is type(right)
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return True
    return type(left) is type(right)


def _steps_of(body: str, whole: str) -> Path:
    steps = _parse(body, whole)

    def matches(root: Any) -> list[Any]:
        found = [root]
        for step in steps:
            found = step(found)
        return found

    return matches


def _literal(text: str, whole: str) -> str | int | float | bool:
    if name := _QUOTED.fullmatch(text):
        return _unquoted(name)
    if text in {"true", "false"}:
        return text == "true"
    try:
        return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
    except ValueError:
        raise JsonPathError(f"JSONPath {whole!r}: {text} is not a string, a number or a boolean") from None
