"""Label and field selectors: which objects a list or a watch is about."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paddock.embedded.api.status import ApiFailure, bad_request
from paddock.embedded.api.validation.gotext import quoted
from paddock.embedded.api.validation.metadata import label_key_problems, label_value_problems

__all__ = ["FieldRequirement", "FieldSelector", "LabelRequirement", "LabelSelector", "parse_fields", "parse_labels"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One term. `operator` is one of: in, notin, exists, absent, gt, lt; `=` and `!=` are in and notin of one value."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return self.key in labels
            case "absent":
                return self.key not in labels
            case _:
                return self._compares(value)

    def _compares(self, value: Any) -> bool:
        (limit,) = self.values
        if value is None or not _INTEGER.fullmatch(value):
            return False
        return int(value) > int(limit) if self.operator == "gt" else int(value) < int(limit)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; without any, everything matches."""

    requirements: tuple[LabelRequirement, ...] = ()

    @property
    def matches_everything(self) -> bool:
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One term: the value at a path is, or is not, this text. What is absent reads as the empty text."""

    path: str
    equal: bool
    value: str

    def matches(self, obj: Json) -> bool:
        return (_text_at(obj, self.path) == self.value) is self.equal


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All requirements must hold; without any, everything matches."""

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def matches_everything(self) -> bool:
        return not self.requirements

    @property
    def name(self) -> str | None:
        """The one `metadata.name` that can match, if the selector asks for one."""
        return self.exact("metadata.name")

    @property
    def namespace(self) -> str | None:
        """The one `metadata.namespace` that can match, if the selector asks for one."""
        return self.exact("metadata.namespace")

    def exact(self, path: str) -> str | None:
        """The value that the selector demands of a field, if it demands one."""
        return next((r.value for r in self.requirements if r.path == path and r.equal), None)

    def matches(self, obj: Json) -> bool:
        return all(requirement.matches(obj) for requirement in self.requirements)


def _text_at(obj: Json, path: str) -> str:
    found: Any = obj
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        return ""
    if isinstance(found, bool):
        return "true" if found else "false"
    return found if isinstance(found, str) else str(found)


# --------------------------------------------------------------------------- labels

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:([=!(),<>]+)|([^=!(),<> \t\r\n]+))")
_SYMBOLS: Final = frozenset({")", ",", "!", "==", "=", ">", "<", "!=", "("})
_OPERATORS: Final = {"=": "in", "==": "in", "in": "in", "!=": "notin", "notin": "notin", ">": "gt", "<": "lt"}
_BINARY: Final = "in, notin, =, ==, !=, gt, lt"
_END: Final = ""


class _UnreadableError(ValueError):
    """The selector cannot be read; the text says where."""


def _tokens(text: str) -> list[str]:
    """Symbols, words, and an empty lexeme as the end. Of symbols in a row, each is the longest there is."""
    tokens: list[str] = []
    for symbols, word in _TOKEN.findall(text):
        if word:
            tokens.append(word)
            continue
        rest = symbols
        while rest:
            length = 2 if rest[:2] in _SYMBOLS else 1
            tokens.append(rest[:length])
            rest = rest[length:]
    return [*tokens, _END]


def _is_word(lexeme: str) -> bool:
    return lexeme != _END and lexeme not in _SYMBOLS


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _next(self) -> str:
        lexeme = self._peek()
        self._at += 1
        return lexeme

    def parse(self) -> tuple[LabelRequirement, ...]:
        requirements: list[LabelRequirement] = []
        while (lexeme := self._peek()) != _END:
            if not _is_word(lexeme) and lexeme != "!":
                raise _UnreadableError(f"found '{lexeme}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except _UnreadableError as error:
                raise _UnreadableError(f"unable to parse requirement: {error}") from None
            after = self._next()
            if after == _END:
                break
            if after != ",":
                raise _UnreadableError(f"found '{after}', expected: ',' or 'end of string'")
            following = self._peek()
            if not _is_word(following) and following != "!":
                raise _UnreadableError(f"found '{following}', expected: identifier after ','")
        return tuple(requirements)

    def _requirement(self) -> LabelRequirement:
        lexeme = self._next()
        absent = lexeme == "!"
        key = self._next() if absent else lexeme
        if not _is_word(key):
            raise _UnreadableError(f"found '{key}', expected: identifier")
        if problems := label_key_problems(key):
            raise _UnreadableError(f"<nil>: Invalid value: {quoted(key)}: {'; '.join(problems)}")
        if absent or self._peek() in {_END, ","}:
            return LabelRequirement(key, "absent" if absent else "exists")
        said = self._next()
        operator = _OPERATORS.get(said)
        if operator is None:
            raise _UnreadableError(f"found '{said}', expected: {_BINARY}")
        values = self._set() if said in {"in", "notin"} else [self._exact()]
        self._check(key, operator, sorted(values))
        return LabelRequirement(key, operator, frozenset(values))

    def _check(self, key: str, operator: str, values: list[str]) -> None:
        problems: list[str] = []
        for index, value in enumerate(values):
            if operator in {"gt", "lt"} and not _INTEGER.fullmatch(value):
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                problems.append(f"values[{index}]: Invalid value: {quoted(value)}: {why}")
        for index, value in enumerate(values):
            if wrong := label_value_problems(value):
                problems.append(f"values[{index}][{key}]: Invalid value: {quoted(value)}: {'; '.join(wrong)}")
        if problems:
            raise _UnreadableError(problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]")

    def _exact(self) -> str:
        if self._peek() in {_END, ","}:
            return ""
        lexeme = self._next()
        if not _is_word(lexeme):
            raise _UnreadableError(f"found '{lexeme}', expected: identifier")
        return lexeme

    def _set(self) -> list[str]:
        lexeme = self._next()
        if lexeme != "(":
            raise _UnreadableError(f"found '{lexeme}' expected: '('")
        lexeme = self._peek()
        if lexeme == ")":
            self._next()
            return [""]
        if not _is_word(lexeme) and lexeme != ",":
            raise _UnreadableError(f"found '{lexeme}', expected: ',', ')' or identifier")
        values = self._listed()
        self._next()
        return values

    def _listed(self) -> list[str]:
        """Values up to the closing parenthesis, which is left. Nothing between commas is the empty value."""
        values: list[str] = []
        while True:
            lexeme = self._next()
            if _is_word(lexeme):
                values.append(lexeme)
                following = self._peek()
                if following == ")":
                    return values
                if following != ",":
                    raise _UnreadableError(f"found '{following}', expected: ',' or ')'")
            elif lexeme == ",":
                following = self._peek()
                if not values or following in {",", ")"}:
                    values.append("")
                if following == ")":
                    return values
            else:
                raise _UnreadableError(f"found '{lexeme}', expected: ',', or identifier")


def parse_labels(text: str) -> LabelSelector:
    """Read `a=b,a!=b,a in (x,y),a notin (x),a,!a,a>1`; 400 with the real server's words if it cannot be read."""
    try:
        return LabelSelector(tuple(sorted(_Parser(text).parse(), key=lambda r: r.key)))
    except _UnreadableError as error:
        raise bad_request(str(error)) from None


# --------------------------------------------------------------------------- fields


def parse_fields(
    text: str, supported: Collection[str], refusal: str = "field label not supported: {}"
) -> FieldSelector:
    r"""Read `a=b,c==d,e!=f` where `\\`, `\,` and `\=` are escapes; 400 for what cannot be read or is not supported.

    `refusal` is how a field that is not supported is refused: the words differ between kinds.
    """
    requirements: list[FieldRequirement] = []
    for term in sorted(_terms(text)):
        if not term:
            continue
        match = re.match(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = match.groups()
        requirements.append(FieldRequirement(path, operator != "!=", _unescaped(value)))
    for requirement in requirements:
        if requirement.path not in supported:
            raise bad_request(refusal.format(requirement.path))
    return FieldSelector(tuple(requirements))


def _terms(text: str) -> list[str]:
    return re.findall(r"(?:[^\\,]|\\.|\\$)+", text, re.DOTALL)


def _unescaped(value: str) -> str:
    plain: list[str] = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in {"\\", ",", "="}:
                raise _bad_escape(f"invalid escape sequence: \\{escaped}")
            plain.append(escaped)
        elif character in ",=":
            raise _bad_escape(f"unescaped character in value: {ord(character)}")
        else:
            plain.append(character)
    return "".join(plain)


def _bad_escape(why: str) -> ApiFailure:
    return bad_request(f"invalid field selector: {why}")
