"""The quick answer to whether a value conforms to a schema: yes, or perhaps not.

A value that is passed is valid. One that is doubted may be valid still: some rules are left to the thorough walk.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from paddock.embedded.api.validation.formats import format_check

__all__ = ["INT32", "INT64", "conforming", "go_regex"]

Json = dict[str, Any]
INT32: Final = range(-(2**31), 2**31)
INT64: Final = range(-(2**63), 2**63)
_Check = Callable[[Any], bool]
_COMPOSED: Final = ("allOf", "anyOf", "oneOf", "not", "multipleOf", "uniqueItems")
_PLAIN_TYPES: Final = {"string": str, "boolean": bool, "integer": int}


def conforming(schema: Json) -> _Check:
    kind = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        plain = not any(word in schema for word in (*_COMPOSED, "pattern", "enum", "minimum", "maximum"))
        plain = plain or not _restricting(schema)
        return (lambda value: value.__class__ in {int, str}) if plain else _doubt
    if any(word in schema for word in _COMPOSED) or (schema.get("enum") and kind != "string"):
        return _doubt
    if kind == "object":
        return _object_check(schema)
    if kind == "array":
        return _array_check(schema)
    if kind == "string":
        return _string_check(schema)
    if kind in {"integer", "number"}:
        return _number_check(schema, kind)
    if kind == "boolean":
        return lambda value: value.__class__ is bool
    return _doubt if set(schema) & _LIMITS else _trust


_LIMITS: Final = frozenset(
    {
        "properties",
        "additionalProperties",
        "items",
        "required",
        "enum",
        "format",
        "pattern",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    }
)


def _restricting(schema: Json) -> bool:
    """Whether an int-or-string says more than the customary `anyOf: [{type: integer}, {type: string}]`."""
    if any(word in schema for word in ("allOf", "oneOf", "not", "multipleOf", *_LIMITS)):
        return True
    return [set(option.items()) for option in schema.get("anyOf") or []] not in (
        [],
        [{("type", "integer")}, {("type", "string")}],
    )


def _doubt(_value: Any) -> bool:
    return False


def _trust(_value: Any) -> bool:
    return True


def _object_check(schema: Json) -> _Check:
    properties: dict[str, Any] = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    required = frozenset(schema.get("required") or ())
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    types = {name: found for name, inner in properties.items() if (found := _bare_type(inner)) is not None}
    checks = {name: conforming(inner) for name, inner in properties.items()}
    each = conforming(more) if isinstance(more, dict) else (_doubt if more is False else _trust)

    def check(value: Any) -> bool:
        if value.__class__ is not dict or not value.keys() >= required:
            return False
        if (least is not None and len(value) < least) or (most is not None and len(value) > most):
            return False
        for name, child in value.items():
            expected = types.get(name)
            if expected is not None:
                if child.__class__ is expected:
                    continue
                return False
            if not checks.get(name, each)(child):
                return False
        return True

    return check


def _bare_type(schema: Json) -> type | None:
    """The Python type that alone decides, for a leaf without any further limits."""
    known = _PLAIN_TYPES.get(schema.get("type", ""))
    if known is int or known is None or schema.get("x-kubernetes-int-or-string") or set(schema) & _LIMITS:
        return None
    return None if any(word in schema for word in _COMPOSED) else known


def _array_check(schema: Json) -> _Check:
    items = schema.get("items")
    item = conforming(items) if isinstance(items, dict) else _trust
    least, most = schema.get("minItems"), schema.get("maxItems")

    def check(value: Any) -> bool:
        if value.__class__ is not list:
            return False
        if (least is not None and len(value) < least) or (most is not None and len(value) > most):
            return False
        return all(map(item, value))

    return check


def _string_check(schema: Json) -> _Check:
    allowed = frozenset(v for v in schema["enum"] if isinstance(v, str)) if schema.get("enum") else None
    least, most = schema.get("minLength"), schema.get("maxLength")
    pattern = go_regex(schema["pattern"]) if schema.get("pattern") else None
    well_formed = format_check(schema.get("format", ""))

    def check(value: Any) -> bool:
        if value.__class__ is not str or (allowed is not None and value not in allowed):
            return False
        if (least is not None and len(value) < least) or (most is not None and len(value) > most):
            return False
        if pattern is not None and pattern.search(value) is None:
            return False
        return well_formed is None or well_formed(value)

    return check


def _number_check(schema: Json, kind: str) -> _Check:
    if "exclusiveMinimum" in schema or "exclusiveMaximum" in schema:
        return _doubt
    least, most = schema.get("minimum"), schema.get("maximum")
    bounds = INT32 if kind == "integer" and schema.get("format") == "int32" else INT64
    floats = kind == "number" and schema.get("format") != "float"

    def check(value: Any) -> bool:
        if value.__class__ is int:
            if value not in bounds:
                return False
        elif not floats or value.__class__ is not float:
            return False
        return (least is None or value >= least) and (most is None or value <= most)

    return check


_POSIX: Final = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\t\n\v\f\r ",
    "[:xdigit:]": "0-9A-Fa-f",
    "[:word:]": "0-9A-Za-z_",
    "[:punct:]": r"!-/:-@\[-`{-~",
}


def go_regex(pattern: str) -> re.Pattern[str]:
    """A Go pattern for Python: ASCII classes, `$` only at the very end, a few spellings that differ."""
    for name, inside in _POSIX.items():
        pattern = pattern.replace(name, inside)
    pattern = pattern.replace(r"\z", r"\Z")
    translated: list[str] = []
    escaped = in_class = False
    for character in pattern:
        if not escaped and character == "[":
            in_class = True
        elif not escaped and character == "]":
            in_class = False
        # Python's `$` also matches before a trailing newline, Go's does not.
        translated.append(r"\Z" if character == "$" and not escaped and not in_class else character)
        escaped = character == "\\" and not escaped
    try:
        return re.compile("".join(translated), re.ASCII)
    except re.error:
        # A schema is refused when its pattern cannot be read, so this is one that only Go understands: accept.
        return re.compile("")
