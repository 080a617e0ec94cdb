"""Validation against a structural schema, with the words and cause reasons of the real server.

`conformity` answers quickly that nothing is wrong, which is nearly always so; only when it cannot, the walk below goes
through everything and says what is.
"""

from dataclasses import dataclass
from typing import Any, Final

from paddock.embedded.api.status import Cause
from paddock.embedded.api.validation.conformity import INT32, INT64, conforming, go_regex
from paddock.embedded.api.validation.formats import format_check
from paddock.embedded.api.validation.gotext import go_json, go_number, quoted, shown
from paddock.embedded.api.validation.listtypes import list_violations, unique_check
from paddock.embedded.api.validation.metadata import embedding_parts, validate_embedded

__all__ = ["Validator"]

Json = dict[str, Any]
_ABSENT: Final[Any] = object()
_NOWHERE: Final = "<nil>"
"""Where the real server puts violations of oneOf and its like: it has lost the field by then."""


class Validator:
    """One schema, ready to judge."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._conforms = conforming(schema)
        self._unique = unique_check(schema)
        self._embedding = embedding_parts(schema)
        self._status: Json | None = (schema.get("properties") or {}).get("status")
        self._status_conforms = conforming(self._status) if self._status is not None else None

    def causes(self, obj: Json, old: Json | None, subresource: str) -> list[Cause]:
        found: list[Cause] = []
        if subresource == "status":
            if self._status is not None and self._status_conforms is not None and "status" in obj:
                status = obj["status"]
                if not self._status_conforms(status):
                    before = (old or {}).get("status", _ABSENT)
                    found += [_under_status(cause) for cause in _explain(self._status, status, "", before)]
        elif not self._conforms(obj):
            found += _explain(self._schema, obj, "", old if old is not None else _ABSENT)
        if self._embedding is not None:
            found += validate_embedded(self._embedding, obj)
        if self._unique is not None and not self._unique(obj):
            duplicates = list_violations(self._schema, obj)
            if duplicates and (old is None or not list_violations(self._schema, old)):
                found += duplicates
        return found


def _under_status(cause: Cause) -> Cause:
    where = "status" if cause.field in {_NOWHERE, "."} else "status." + cause.field.removeprefix(".")
    return Cause(cause.reason, cause.message, where)


@dataclass(slots=True)
class _PassReport:
    """What one schema found, and how many of its checks ran: the measure of the closest alternative of an anyOf."""

    causes: list[Cause]
    checks: int = 0


def _explain(schema: Json, value: Any, path: str, old: Any) -> list[Cause]:
    return _judged(schema, value, path, old).causes


def _judged(schema: Json, value: Any, path: str, old: Any) -> _PassReport:
    pass_report = _PassReport([])
    causes = pass_report.causes
    kinds = _types(schema)
    wrong = _type_violation(schema, kinds, value, path)
    if wrong is not None:
        causes.append(wrong)
    if value is None:
        causes.extend(_enum_violation(schema, value, path))
        pass_report.checks = 1
    else:
        _composed(schema, value, path, old, pass_report)
        if isinstance(value, str):
            causes.extend(_string_violations(schema, kinds, value, path))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            causes.extend(_number_violations(schema, value, path))
        elif isinstance(value, list):
            _in_list(schema, value, path, old, pass_report)
        causes.extend(_enum_violation(schema, value, path))
        if isinstance(value, dict):
            _in_object(schema, value, path, old, pass_report)
        pass_report.checks += 4
    # What was wrong before and is the same still is not this write's fault.
    if causes and old is not _ABSENT and old == value:
        causes.clear()
    return pass_report


def _types(schema: Json) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _kind_of(value: Any) -> tuple[str, str]:
    """The JSON type of a value, and the format that a Go decoder gives it."""
    if isinstance(value, bool):
        return ("boolean", "")
    if isinstance(value, int):
        return ("integer", "int64")
    if isinstance(value, float):
        return ("number", "float64")
    if isinstance(value, str):
        return ("string", "")
    return ("array", "") if isinstance(value, list) else ("object", "")


def _format(schema: Json, kinds: tuple[str, ...]) -> str:
    """The schema's format, if it is one that counts for its type."""
    name = schema.get("format", "")
    if not name:
        return ""
    kind = kinds[0] if len(kinds) == 1 else ""
    if kind in {"", "string"}:
        return name if format_check(name) is not None else ""
    known = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
    return name if name in known else ""


def _wrong_type(path: str, wanted: str, got: str) -> Cause:
    return Cause(
        "FieldValueTypeInvalid",
        f"Invalid value: {quoted(got)}: {path} in body must be of type {wanted}: {quoted(got)}",
        path or _NOWHERE,
    )


def _type_violation(schema: Json, kinds: tuple[str, ...], value: Any, path: str) -> Cause | None:
    if value is None:
        if not kinds or schema.get("nullable"):
            return None
        return _wrong_type(path, ",".join(kinds), "null")
    format_name = _format(schema, kinds)
    if not kinds and not format_name:
        return None
    kind, own_format = _kind_of(value)
    fits = kind in kinds or (kind == "integer" and "number" in kinds)
    fits = fits or (isinstance(value, float) and value.is_integer() and "integer" in kinds)
    numeric = "number" in kinds or "integer" in kinds
    if kind not in {"string", "array"} and format_name and not fits and own_format != format_name:
        return _wrong_type(path, format_name, own_format)
    if not numeric and format_name and kind in {"string", "array"}:
        return None
    return None if fits else _wrong_type(path, ",".join(kinds), kind)


def _invalid(path: str, value: Any, what: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {path} in body {what}", path or _NOWHERE)


def _enum_violation(schema: Json, value: Any, path: str) -> list[Cause]:
    allowed = schema.get("enum")
    if not allowed or (value is not None and any(_equal(value, option) for option in allowed)):
        return []
    listed = ", ".join(quoted(option if isinstance(option, str) else go_json(option)) for option in allowed)
    message = f"Unsupported value: {shown(value)}: supported values: {listed}"
    return [Cause("FieldValueNotSupported", message, path or _NOWHERE)]


def _equal(left: Any, right: Any) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _string_violations(schema: Json, kinds: tuple[str, ...], value: str, path: str) -> list[Cause]:
    causes: list[Cause] = []
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        unit = "byte" if most == 1 else "bytes"
        causes.append(Cause("FieldValueTooLong", f"Too long: may not be more than {most} {unit}", path or _NOWHERE))
    elif least is not None and len(value) < least:
        causes.append(_invalid(path, value, f"should be at least {least} chars long"))
    elif pattern and go_regex(pattern).search(value) is None:
        causes.append(_invalid(path, value, f"should match '{pattern}'"))
    name = _format(schema, kinds)
    well_formed = format_check(name) if name else None
    if well_formed is not None and not well_formed(value):
        causes.append(_wrong_type(path, name, value))
    return causes


def _number_violations(schema: Json, value: float, path: str) -> list[Cause]:
    causes: list[Cause] = []
    kind, name = schema.get("type", ""), schema.get("format", "")
    if kind == "integer":
        bounds = INT32 if name == "int32" else INT64
        if not (float(value).is_integer() and int(value) in bounds):
            form = f"with format {name}" if name in {"int32", "int64"} else "(default format)"
            said = f"Checked value must be of type integer {form} in {path}"
            causes.append(Cause("FieldValueInvalid", f'Invalid value: "": {said}', _NOWHERE))
    factor, least, most = schema.get("multipleOf"), schema.get("minimum"), schema.get("maximum")
    if factor is not None and not float(value / factor).is_integer():
        causes.append(_invalid(path, value, f"should be a multiple of {go_number(factor)}"))

    def bound(limit: float) -> float:
        # Whole numbers are compared with the whole part of the limit.
        return int(limit) if isinstance(value, int) else limit

    if least is not None:
        least, strict = bound(least), schema.get("exclusiveMinimum", False)
        if value < least or (strict and value == least):
            than = "greater than" if strict else "greater than or equal to"
            causes.append(_invalid(path, value, f"should be {than} {go_number(least)}"))
    if most is not None:
        most, strict = bound(most), schema.get("exclusiveMaximum", False)
        if value > most or (strict and value == most):
            than = "less than" if strict else "less than or equal to"
            causes.append(_invalid(path, value, f"should be {than} {go_number(most)}"))
    return causes


def _too_many(path: str, size: int, most: int) -> Cause:
    unit = "item" if most == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {size}: must have at most {most} {unit}", path or _NOWHERE)


def _in_list(schema: Json, value: list[Any], path: str, old: Any, pass_report: _PassReport) -> None:
    items = schema.get("items")
    if isinstance(items, dict):
        before = _by_keys(schema, old)
        for index, item in enumerate(value):
            old_item = before.get(_identity(schema, item), _ABSENT) if before else _ABSENT
            inner = _judged(items, item, f"{path}[{index}]", old_item)
            pass_report.causes.extend(inner.causes)
            pass_report.checks += inner.checks
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        pass_report.causes.append(_invalid(path, len(value), f"should have at least {least} items"))
    if most is not None and len(value) > most:
        pass_report.causes.append(_too_many(path, len(value), most))
    if schema.get("uniqueItems") and any(_equal(a, b) for i, a in enumerate(value) for b in value[:i]):
        pass_report.causes.append(_invalid(path, "", "shouldn't contain duplicates"))


def _identity(schema: Json, item: Any) -> str:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    return go_json({key: item.get(key) for key in keys}) if isinstance(item, dict) else ""


def _by_keys(schema: Json, old: Any) -> dict[str, Any]:
    """The old items of a keyed list; items of other lists cannot be told apart, so nothing is known of them."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return {}
    return {_identity(schema, item): item for item in old if isinstance(item, dict)}


def _in_object(schema: Json, value: Json, path: str, old: Any, pass_report: _PassReport) -> None:
    causes = pass_report.causes
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        causes.append(_invalid(path, len(value), f"should have at least {least} properties"))
    if most is not None and len(value) > most:
        causes.append(_too_many(path, len(value), most))
    properties: dict[str, Any] = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    before: Json = old if isinstance(old, dict) else {}
    if more is False:
        causes.extend(
            Cause(
                "FieldValueInvalid",
                f'Invalid value: "": {path}.{name} in body is a forbidden property',
                path or _NOWHERE,
            )
            for name in value
            if name not in properties
        )
    if isinstance(more, dict):
        for name, child in value.items():
            if name not in properties:
                inner = _judged(more, child, f"{path}.{name}", before.get(name, _ABSENT))
                causes.extend(inner.causes)
                pass_report.checks += inner.checks
    for name, below in properties.items():
        if name in value:
            # The type of the object is not something that an update can leave alone.
            old_child = _ABSENT if not path and name in {"apiVersion", "kind"} else before.get(name, _ABSENT)
            inner = _judged(below, value[name], f"{path}.{name}" if path else name, old_child)
            causes.extend(inner.causes)
            pass_report.checks += inner.checks
    for name in schema.get("required") or ():
        if name not in value:
            where = f"{path}.{name}" if path else name
            causes.append(Cause("FieldValueRequired", "Required value", where))


def _composed(schema: Json, value: Any, path: str, old: Any, pass_report: _PassReport) -> None:
    """anyOf, oneOf, allOf and not. Of alternatives that all fail, the one that came furthest explains."""

    def composite(text: str) -> Cause:
        return Cause("FieldValueInvalid", f'Invalid value: "": {quoted(path)} must {text}', _NOWHERE)

    options = [_judged(option, value, path, old) for option in schema.get("anyOf") or ()]
    if options and all(option.causes for option in options):
        pass_report.causes.append(composite("validate at least one schema (anyOf)"))
        pass_report.causes.extend(max(options, key=lambda option: option.checks).causes)
    options = [_judged(option, value, path, old) for option in schema.get("oneOf") or ()]
    valid = sum(not option.causes for option in options)
    if options and valid != 1:
        found = "Found none valid" if valid == 0 else f"Found {valid} valid alternatives"
        pass_report.causes.append(composite(f"validate one and only one schema (oneOf). {found}"))
        if valid == 0:
            pass_report.causes.extend(max(options, key=lambda option: option.checks).causes)
    options = [_judged(option, value, path, old) for option in schema.get("allOf") or ()]
    failed = [option for option in options if option.causes]
    for option in failed:
        pass_report.causes.extend(option.causes)
    if failed:
        none = ". None validated" if len(failed) == len(options) else ""
        pass_report.causes.append(composite(f"validate all the schemas (allOf){none}"))
    if "not" in schema and not _judged(schema["not"], value, path, old).causes:
        pass_report.causes.append(composite("not validate the schema (not)"))
