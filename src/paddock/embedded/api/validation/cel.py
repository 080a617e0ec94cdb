"""The part of CEL that rules about immutability need: comparisons of fields of `self` and `oldSelf`, joined by and, or, not.

A rule that needs more than this is not evaluated, as before: `compiled` says so by None. Where a rule reads a field that is
missing it fails, as Kubernetes has it; `has(…)` asks first.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from paddock.embedded.api.status import Cause

__all__ = ["compiled", "rule_violations"]

Json = dict[str, Any]
Check = Callable[[Any, Any], Any]
_TOKEN: Final = re.compile(r"\s*(?:(\|\||&&|==|!=|!|\(|\))|('[^'\\]*'|\"[^\"\\]*\")|([A-Za-z_][A-Za-z0-9_.]*))")


class _UnsupportedError(Exception):
    """The rule needs more of CEL."""


class _Parser:
    def __init__(self, rule: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while rule[at:].strip():
            found = _TOKEN.match(rule, at)
            if found is None:
                raise _UnsupportedError(rule)
            self._tokens.append(found[0].strip())
            at = found.end()

    def whole(self) -> Check:
        check = self._any()
        if self._tokens:
            raise _UnsupportedError(self._tokens[0])
        return check

    def _take(self, *wanted: str) -> str:
        if self._tokens and (not wanted or self._tokens[0] in wanted):
            return self._tokens.pop(0)
        return ""

    def _any(self) -> Check:
        parts = [self._all()]
        while self._take("||"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda new, old: any(part(new, old) for part in parts)

    def _all(self) -> Check:
        parts = [self._compared()]
        while self._take("&&"):
            parts.append(self._compared())
        return parts[0] if len(parts) == 1 else lambda new, old: all(part(new, old) for part in parts)

    def _compared(self) -> Check:
        left = self._one()
        match self._take("==", "!="):
            case "==":
                right = self._one()
                return lambda new, old: left(new, old) == right(new, old)
            case "!=":
                right = self._one()
                return lambda new, old: left(new, old) != right(new, old)
            case _:
                return left

    def _one(self) -> Check:
        word = self._take()
        if word == "!":
            inner = self._one()
            return lambda new, old: not inner(new, old)
        if word == "(":
            inner = self._any()
            self._expect(")")
            return inner
        if word == "has":
            self._expect("(")
            path = self._path(self._take())
            self._expect(")")
            return lambda new, old: _has(path, new, old)
        if word[:1] in ("'", '"') and word:
            text = word[1:-1]
            return lambda _new, _old: text
        path = self._path(word)
        return lambda new, old: _value(path, new, old)

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise _UnsupportedError(word)

    def _path(self, word: str) -> tuple[str, ...]:
        path = tuple(word.split("."))
        if path[0] not in ("self", "oldSelf") or not all(path):
            raise _UnsupportedError(word)
        return path


def _value(path: tuple[str, ...], new: Any, old: Any) -> Any:
    value = new if path[0] == "self" else old
    for name in path[1:]:
        value = value[name]
    return value


def _has(path: tuple[str, ...], new: Any, old: Any) -> bool:
    try:
        _value(path, new, old)
    except (KeyError, TypeError):
        return False
    return True


def compiled(rule: str) -> Check | None:
    """A function of the new and the old value; None where the rule needs more of CEL than this."""
    try:
        return _Parser(rule).whole()
    except _UnsupportedError:
        return None


def rule_violations(schema: Json, new: Any, old: Any, where: str = "") -> Iterator[Cause]:
    """What the rules of a schema refuse, at every object that the schema names. Rules about changes need an old value."""
    if not isinstance(new, dict):
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        text = str(rule.get("rule", ""))
        if "oldSelf" in text and not isinstance(old, dict):
            continue
        check = compiled(text)
        if check is None:
            continue
        try:
            holds = bool(check(new, old))
        except (KeyError, TypeError):
            holds = False
        if not holds:
            yield Cause(
                "FieldValueInvalid", f'Invalid value: "object": {rule.get("message") or text}', where or "<nil>"
            )
    for name, inner in (schema.get("properties") or {}).items():
        before = old.get(name) if isinstance(old, dict) else None
        yield from rule_violations(inner, new.get(name), before, f"{where}.{name}" if where else name)


def not_evaluated(schema: Json, where: str = "", *, reached: bool = True) -> Iterator[str]:
    """The places of a schema with a rule that `rule_violations` never asks.

    That is one which needs more of CEL, is about a value that is no object, or stands below a list or a map.
    """
    asked = reached and schema.get("type", "object") == "object"
    rules = schema.get("x-kubernetes-validations") or ()
    if any(not asked or compiled(str(rule.get("rule", ""))) is None for rule in rules):
        yield where
    for name, part in (schema.get("properties") or {}).items():
        yield from not_evaluated(part, f"{where}.{name}", reached=reached)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from not_evaluated(schema["additionalProperties"], f"{where}.*", reached=False)
    if isinstance(schema.get("items"), dict):
        yield from not_evaluated(schema["items"], f"{where}[*]", reached=False)
