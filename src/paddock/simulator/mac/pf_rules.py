"""Files of pf.conf(5), read as far as a loader has to: tables, anchors, the order of rules, errors with line numbers."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Ruleset", "RulesetError", "TableDefinition", "parse"]

_TABLE = re.compile(
    r"^table\s+<(?P<name>[^>]+)>\s*(?P<flags>(?:(?:persist|const|counters)\s*)*)"
    r"(?P<rest>(?:\{[^}]*\}|file\s+\"[^\"]+\")?(?:\s*(?:\{[^}]*\}|file\s+\"[^\"]+\"))*)$"
)
_LOAD = re.compile(r'^load\s+anchor\s+"?([^"\s]+)"?\s+from\s+"?([^"\s]+)"?$')
_ANCHOR = re.compile(r'^(?:(?P<kind>scrub|nat|rdr|binat|dummynet)-)?anchor\s+("[^"]+"|\S+)')
_MACRO = re.compile(r'^[A-Za-z_]\w*\s*=\s*("[^"]*"|\S+)$')
_MEMBERS = re.compile(r"<([^>]+)>")
_ORDER = {
    "set": 0,
    "scrub": 1,
    "scrub-anchor": 1,
    "nat": 3,
    "rdr": 3,
    "binat": 3,
    "no": 3,
    "nat-anchor": 3,
    "rdr-anchor": 3,
    "binat-anchor": 3,
    "dummynet": 3.5,
    "dummynet-anchor": 3.5,
    "pass": 4,
    "block": 4,
    "antispoof": 4,
    "anchor": 4,
}
_PROTOCOL = re.compile(r"\bproto\s+(\{[^}]*\}|\S+)")
_PROTOCOLS = frozenset({"tcp", "udp", "icmp", "ipv6-icmp", "igmp", "esp", "ah", "gre"})
"""Names of /etc/protocols that a rule of ours may use."""
_OUT_OF_ORDER = "Rules must be in order: options, normalization, queueing, translation, filtering"


@dataclass(frozen=True, slots=True)
class TableDefinition:
    name: str
    persist: bool
    addresses: tuple[str, ...]
    line: int


class RulesetError(Exception):
    """The file is not a ruleset: `lines` is what pfctl prints about it."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


@dataclass(slots=True)
class Ruleset:
    """What one file asks for. `nested` are the files that it loads into anchors, in their own order."""

    path: str
    tables: list[TableDefinition] = field(default_factory=list)
    filters: list[str] = field(default_factory=list)
    translations: list[str] = field(default_factory=list)
    nested: list[tuple[str, "Ruleset"]] = field(default_factory=list)

    def references(self) -> set[str]:
        """The tables that the rules speak of."""
        return {name for rule in (*self.filters, *self.translations) for name in _MEMBERS.findall(rule)}


def _logical_lines(text: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    held, start = "", 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = re.sub(r'#(?=(?:[^"]*"[^"]*")*[^"]*$).*', "", raw).rstrip()
        start = start or number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        line = (held + line).strip()
        open_braces = line.count("{") > line.count("}")
        if open_braces:
            held = line + " "
            continue
        if line:
            found.append((start, line))
        held, start = "", 0
    if held.strip():
        found.append((start, held.strip()))
    return found


def parse(path: str, text: str, opened: Callable[[str], str | None]) -> Ruleset:
    """The ruleset of a file. `opened` gives the text of a file it loads, or None. Raises RulesetError."""
    ruleset, errors, stage = Ruleset(path), [], 0.0
    if text and not text.endswith("\n"):
        # pfctl's grammar wants each line ended; a file without its last newline is the classic silent mistake.
        errors.append(f"{path}:{text.count(chr(10)) + 1}: syntax error")
    macros: dict[str, str] = {}
    for number, line in _logical_lines(text):
        for name, value in macros.items():
            line = line.replace(f"${name}", value)
        word = line.split()[0]
        if _MACRO.match(line):
            name, value = (part.strip() for part in line.split("=", 1))
            macros[name] = value.strip('"')
        elif word == "table":
            _add_table(ruleset, number, line, errors)
        elif loading := _LOAD.match(line):
            inner = opened(loading[2])
            if inner is None:
                errors.append(f"{path}:{number}: cannot open {loading[2]}: No such file or directory")
                continue
            try:
                ruleset.nested.append((loading[1], parse(loading[2], inner, opened)))
            except RulesetError as error:
                errors.extend(error.lines)
        elif word in _ORDER and not (word.endswith("anchor") and not _ANCHOR.match(line)):
            if _ORDER[word] < stage:
                errors.append(f"{path}:{number}: {_OUT_OF_ORDER}")
            stage = max(stage, _ORDER[word])
            if unknown := _unknown_protocols(line):
                errors.append(f"{path}:{number}: unknown protocol {unknown[0]}")
            if word != "set":
                (ruleset.translations if _ORDER[word] in {3, 3.5} else ruleset.filters).append(" ".join(line.split()))
        else:
            errors.append(f"{path}:{number}: syntax error")
    if errors:
        raise RulesetError(*errors)
    return ruleset


def _unknown_protocols(line: str) -> list[str]:
    named = _PROTOCOL.search(line)
    words = re.split(r"[,\s]+", named[1].strip("{} ")) if named else []
    return [word for word in words if word not in _PROTOCOLS and not word.isdigit()]


def _add_table(ruleset: Ruleset, number: int, line: str, errors: list[str]) -> None:
    form = _TABLE.match(line)
    if form is None:
        errors.append(f"{ruleset.path}:{number}: syntax error")
        return
    if len(form["name"]) > 31:
        errors.append(f"{ruleset.path}:{number}: table name too long, max 31 chars")
        return
    addresses: list[str] = []
    for group in re.findall(r"\{([^}]*)\}", form["rest"]):
        for word in re.split(r"[,\s]+", group.strip()):
            if not word:
                continue
            try:
                ipaddress.ip_network(word.lstrip("!"), strict=False)
            except ValueError:
                errors.append(f"{ruleset.path}:{number}: no IP address found for {word}")
                return
            addresses.append(word)
    persist = "persist" in form["flags"].split()
    ruleset.tables.append(TableDefinition(form["name"], persist, tuple(addresses), number))
