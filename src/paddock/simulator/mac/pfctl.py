"""The command in front of the packet filter."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac
from paddock.simulator.mac.pf import Table
from paddock.simulator.mac.pf_rules import RulesetError, parse

__all__ = ["pfctl"]

_NOISE = "No ALTQ support in kernel\nALTQ related functions disabled\n"
_FLUSHING = (
    "pfctl: Use of -f option, could result in flushing of rules\n"
    "present in the main ruleset added by the system at startup.\n"
    "See /etc/pf.conf for further details.\n\n"
)
_USAGE = "usage: pfctl [-AdeEghmNnOqRrvz] [-a anchor] [-D macro=value] [-F modifier] [-f file] [-s modifier] [-t table -T command]"
_TAKES = "aDFfiKkopstTXxw"
_SHOW = {"r": "rules", "n": "nat", "A": "Anchors", "T": "Tables", "i": "info", "a": "all", "R": "References"}
_FLUSH = {"a": "all", "r": "rules", "n": "nat", "T": "Tables", "s": "states"}


@dataclass(slots=True)
class _Request:
    flags: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)


def _request(arguments: list[str]) -> _Request | None:
    request, rest = _Request(), list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            request.words.append(word)
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in _TAKES:
                if not letters and not rest:
                    return None
                request.values[letter] = letters or rest.pop(0)
                letters = ""
            elif letter in "AdeEghmNnOqRrvz":
                request.flags.add(letter)
            else:
                return None
    return request


async def pfctl(mac: Mac, call: ToolCall) -> ToolResult:
    request = _request(call.arguments)
    if request is None:
        return fail(1, _USAGE)
    if not call.root:
        return fail(1, "pfctl: /dev/pf: Permission denied")
    anchor = request.values.get("a", "")
    noise = "" if "q" in request.flags else _NOISE
    out = ""
    if "d" in request.flags:
        mac.effect(call)
        if not mac.pf.enabled:
            return ToolResult(1, err=noise + "pfctl: pf not enabled\n")
        mac.pf.enabled, noise = False, noise + "pf disabled\n"
    if (what := request.values.get("F")) is not None:
        word = _FLUSH.get(what[0], what) if len(what) == 1 else what
        mac.effect(call)
        mac.pf.flush(anchor, word)
        noise += {"rules": "rules cleared\n", "nat": "nat cleared\n", "states": "0 states cleared\n"}.get(word, "")
    if "T" in request.values:
        answer = _table(mac, call, request, anchor)
        return ToolResult(answer.status, out + answer.out, noise + answer.err)
    if (path := request.values.get("f")) is not None:
        answer = await _load(mac, call, path, anchor, dry="n" in request.flags)
        if anchor == "":
            noise = noise and _FLUSHING + noise
        if answer.status != 0:
            return ToolResult(answer.status, out, noise + answer.err)
    noise += _enable(mac, call, request)
    if "e" in request.flags and noise.endswith("already enabled\n"):
        return ToolResult(1, out, noise)
    if (what := request.values.get("s")) is not None:
        out += _shown(mac, anchor, _SHOW.get(what, what), verbose="v" in request.flags)
    return ToolResult(0, out, noise)


def _enable(mac: Mac, call: ToolCall, request: _Request) -> str:
    if "E" in request.flags:
        mac.effect(call)
        mac.pf.enabled = True
        mac.pf.tokens.append(mac.rng.getrandbits(63))
        return f"pf enabled\nToken : {mac.pf.tokens[-1]}\n"
    if "e" in request.flags:
        mac.effect(call)
        if mac.pf.enabled:
            return "pfctl: pf already enabled\n"
        mac.pf.enabled = True
        return "pf enabled\n"
    if (token := request.values.get("X")) is not None:
        mac.effect(call)
        mac.pf.tokens = [held for held in mac.pf.tokens if str(held) != token]
        mac.pf.enabled = bool(mac.pf.tokens)
    return ""


async def _load(mac: Mac, call: ToolCall, path: str, anchor: str, *, dry: bool) -> ToolResult:
    if path in {"-", "/dev/stdin"}:
        text, shown = (await call.standard_input()).decode(errors="replace"), "stdin"
    elif path == "/dev/null":
        text, shown = "", path
    else:
        shown = mac.disk.shown(call.beside(path))
        place = mac.disk.at(shown)
        if not place.is_file():
            return fail(1, f"pfctl: {shown}: No such file or directory")
        text = place.read_text(errors="replace")

    def opened(nested: str) -> str | None:
        file = mac.disk.at(nested)
        return file.read_text(errors="replace") if file.is_file() else None

    try:
        ruleset = parse(shown, text, opened)
        if not dry:
            mac.effect(call)
            mac.pf.load(ruleset, anchor)
    except RulesetError as error:
        return fail(1, *error.lines, "pfctl: Syntax error in config file: pf rules not loaded")
    return ok()


def _table(mac: Mac, call: ToolCall, request: _Request, anchor: str) -> ToolResult:
    name, command, words = request.values.get("t"), request.values["T"], request.words
    if name is None:
        return fail(1, _USAGE)
    held = mac.pf.tables(anchor.strip("/")).get(name)
    if command == "kill":
        mac.effect(call)
        removed = mac.pf.kill(anchor, name)
        return ToolResult(0, err=f"{int(removed)} table{'' if removed else 's'} deleted.\n")
    if command in {"add", "replace"}:
        mac.effect(call)
        if held is None:
            held = mac.pf.anchor(anchor).tables.setdefault(name, Table(persist=True))  # a table made by hand persists
        held.addresses = (
            words if command == "replace" else [*held.addresses, *(w for w in words if w not in held.addresses)]
        )
        return ToolResult(0, err=f"{len(words)}/{len(words)} addresses added.\n")
    if held is None:
        return fail(255, "pfctl: Table does not exist.")
    if command == "show":
        return ok("".join(f"   {address}\n" for address in held.addresses))
    if command == "test":
        found = sum(any(_within(word, address) for address in held.addresses) for word in words)
        return ToolResult(0 if found == len(words) else 1, err=f"{found}/{len(words)} addresses match.\n")
    if command in {"delete", "flush"}:
        mac.effect(call)
        before = len(held.addresses)
        held.addresses = [] if command == "flush" else [known for known in held.addresses if known not in words]
        return ToolResult(0, err=f"{before - len(held.addresses)} addresses deleted.\n")
    return fail(1, _USAGE)


def _within(word: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(word) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return word == network


def _shown(mac: Mac, anchor: str, what: str, *, verbose: bool) -> str:
    name = anchor.strip("/")
    sections: dict[str, Iterator[str]] = {
        "rules": iter(mac.pf.rules(name)),
        "nat": iter(mac.pf.translations(name)),
        "Anchors": (f"  {other}" for other in sorted(mac.pf.anchors) if _child(name, other)),
        "Tables": (
            f"{'-p' if table.persist else '--'}a{'-r' if key in mac.pf.anchor(name).references else '--'}-\t{key}\t{name}"
            if verbose
            else key
            for key, table in sorted(mac.pf.tables(name).items())
        ),
        "info": iter(
            [f"Status: {'Enabled for 0 days 00:10:00' if mac.pf.enabled else 'Disabled'}           Debug: Urgent"]
        ),
        "References": iter(["TOKENS:", *(str(token) for token in mac.pf.tokens)]),
    }
    if what == "all":
        parts = ("nat", "rules", "info", "Tables")
        return "".join(f"{line}\n" for part in parts for line in sections[part])
    return "".join(f"{line}\n" for line in sections.get(what, iter(())))


def _child(parent: str, name: str) -> bool:
    rest = name.removeprefix(f"{parent}/") if parent else name
    return bool(name) and (not parent or rest != name) and "/" not in rest
