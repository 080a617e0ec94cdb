"""Values as the real API server prints them: it is written in Go, and its words are part of the contract."""

import json
import math
from typing import Any

__all__ = ["go_json", "go_literal", "go_number", "go_plain", "quoted", "shown"]

_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_SHORT = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def go_json(value: Any) -> str:
    """Compact JSON with sorted keys and the HTML characters escaped, as `encoding/json` writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.translate(_HTML)


def quoted(text: str) -> str:
    """A string as `%q` prints it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_quoted_character(c) for c in text) + '"'


def _quoted_character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character == " " or character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_number(number: float) -> str:
    """A number as `%v` prints it: whole floats without a point, exponents only from 1e21 on and below 1e-4."""
    if isinstance(number, int):
        return str(number)
    if math.isinf(number) or math.isnan(number):
        return "NaN" if math.isnan(number) else ("+Inf" if number > 0 else "-Inf")
    if number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    text = repr(number)
    if "e" in text and abs(number) < 1e21 and abs(number) >= 1e-4:
        return format(number, "f")
    return text


def shown(value: Any) -> str:
    """A rejected value as an error message quotes it."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return go_number(value)
    return go_json(value)


def go_plain(value: Any) -> str:
    """A value as `%v` prints it: `[a b]`, `map[k:v]`, no quotes."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_plain, value)) + "]"
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else shown(value)


def go_literal(value: Any) -> str:
    """A value as `%#v` prints it: Go source that would make it."""
    if isinstance(value, dict):
        inside = ", ".join(f"{quoted(key)}:{go_literal(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(go_literal, value)) + "}"
    return "interface {}(nil)" if value is None else shown(value)
