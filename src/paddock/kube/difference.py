"""The merge patch between two values: what must be sent so that the first becomes the second. Pure."""

from typing import Any

import msgspec

from paddock.kube.objects import Struct

__all__ = ["merge_difference"]


def merge_difference(before: Struct | None, after: Struct) -> dict[str, Any]:
    """A JSON merge patch (RFC 7386) that turns `before` into `after`; empty when there is nothing to write.

    Fields that fell back to their default are sent as null, because structs leave defaults out and a merge patch keeps
    what it does not mention. Lists are replaced whole.
    """
    old = msgspec.to_builtins(before) if before is not None else {}
    return _difference(old, msgspec.to_builtins(after))


def _difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        held = old.get(name)
        if isinstance(held, dict) and isinstance(value, dict):
            if inner := _difference(held, value):
                patch[name] = inner
        elif name not in old or held != value:
            patch[name] = value
    return patch
