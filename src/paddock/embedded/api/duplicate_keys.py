"""Fields that a JSON text names twice: most likely a slip of the pen, of which only the last value would count."""

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["repeated_fields"]


class _Object(dict[str, Any]):
    """A JSON object that remembers which of its names came more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.repeated = [] if len(self) == len(names) else sorted({name for name in names if names.count(name) > 1})


def repeated_fields(text: bytes) -> tuple[str, ...]:
    """Where they are (`spec.slots`, `spec.ports[0].name`); nothing for a text that is no JSON, which others refuse."""
    try:
        return tuple(_walk(json.loads(text, object_pairs_hook=_Object), ""))
    except ValueError:
        return ()


def _walk(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Object):
        yield from (f"{path}{name}" for name in value.repeated)
        for name, part in value.items():
            yield from _walk(part, f"{path}{name}.")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _walk(part, f"{path.removesuffix('.')}[{index}].")
