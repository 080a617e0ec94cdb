"""What can be wrong with a field of a built-in kind, in the words of the real server."""

import re
from collections.abc import Iterable
from typing import Any

from paddock.embedded.api.status import Cause
from paddock.embedded.api.validation.gotext import go_json

__all__ = ["LABEL_HELP", "config_key", "duplicate", "forbidden", "invalid", "is_dns_label", "missing", "unsupported"]

LABEL_HELP = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_KEY_HELP = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def missing(field: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def invalid(field: str, value: Any, why: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {go_json(value)}: {why}", field)


def forbidden(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def duplicate(field: str, value: Any, why: str = "") -> Cause:
    message = f"Duplicate value: {go_json(value)}"
    return Cause("FieldValueDuplicate", f"{message}: {why}" if why else message, field)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    listed = ", ".join(f'"{choice}"' for choice in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {go_json(value)}: supported values: {listed}", field)


def is_dns_label(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", text) is not None


def config_key(field: str, key: str) -> list[Cause]:
    """What is wrong with a key of a Secret or a ConfigMap, which may become a file name."""
    where = f"{field}[{key}]"
    if len(key) > 253:
        return [invalid(where, key, "must be no more than 253 characters")]
    if re.fullmatch(r"[-._a-zA-Z0-9]+", key) is None:
        return [invalid(where, key, _KEY_HELP)]
    if key in {".", ".."}:
        return [invalid(where, key, f"must not be '{key}'")]
    return [invalid(where, key, "must not start with '..'")] if key.startswith("..") else []
