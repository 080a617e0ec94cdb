"""Settings of a simulated Mac: property lists, names, power. They are files on its disk, or kept with it."""

import json
import plistlib
import re
from pathlib import Path
from typing import Any

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac
from paddock.simulator.mac.launchd import read_plist

__all__ = ["defaults", "plutil", "pmset", "scutil"]


_THIS_MAC = "564D2A2E-0000-4000-8000-000000000001"
"""What `-currentHost` appends to the name of a domain: the Mac's own identifier."""


def _plist(mac: Mac, call: ToolCall, domain: str, *, current_host: bool = False) -> Path:
    user = call.user if call.user in mac.disk.users and not call.root else ""
    home = f"/Users/{user}" if user else "/var/root"
    if domain in {"-g", "NSGlobalDomain", "-globalDomain"}:
        domain = f"{home}/Library/Preferences/.GlobalPreferences"
    if "/" not in domain:
        folder = "Preferences/ByHost" if current_host else "Preferences"
        domain = f"{home}/Library/{folder}/{domain}" + (f".{_THIS_MAC}" if current_host else "")
    return mac.disk.at(domain if domain.endswith(".plist") else f"{domain}.plist")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, list):
        return "(\n" + ",\n".join(f"    {_shown(item)}" for item in value) + "\n)"
    if isinstance(value, dict):
        return "{\n" + "".join(f"    {key} = {_shown(item)};\n" for key, item in value.items()) + "}"
    return str(value)


def _typed(words: list[str]) -> Any:
    kind, *values = words if words and words[0].startswith("-") else ["-string", *words]
    text = values[0] if values else ""
    match kind:
        case "-int" | "-integer":
            return int(text)
        case "-float":
            return float(text)
        case "-bool" | "-boolean":
            return text.lower() in {"true", "yes", "1"}
        case "-array":
            return values
        case "-dict" | "-dict-add":
            return _pairs(values)
        case _:
            return text


def _pairs(words: list[str]) -> dict[str, Any]:
    """Keys and values of a dictionary, where a value may have its kind before it: `key -int 600`."""
    found: dict[str, Any] = {}
    while words:
        key, *words = words
        length = 2 if words and words[0].startswith("-") and len(words) > 1 else 1
        found[key] = _typed(words[:length])
        words = words[length:]
    return found


async def defaults(mac: Mac, call: ToolCall) -> ToolResult:
    arguments = [word for word in call.arguments if word != "-currentHost"]
    if len(arguments) < 2:
        return fail(255, "Command line interface to a user's defaults.")
    verb, domain, *rest = arguments
    place = _plist(mac, call, domain, current_host="-currentHost" in call.arguments)
    shown = mac.disk.shown(str(place)).removesuffix(".plist")
    known = read_plist(place) if place.is_file() else None
    if verb == "write":
        if len(rest) < 2:
            return fail(255, "defaults: missing value")
        mac.effect(call)
        try:
            value = _typed(rest[1:])
        except ValueError:
            return fail(255, f"defaults: {rest[-1]} is not a number")
        if rest[1] == "-dict-add" and isinstance(before := (known or {}).get(rest[0]), dict):
            value = {**before, **value}
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(plistlib.dumps({**(known or {}), rest[0]: value}))
        place.chmod(0o644)
        return ok()
    if known is None:
        return fail(1, "", f"Domain {shown} does not exist")
    if rest and rest[0] not in known:
        return fail(1, "", f"The domain/default pair of ({shown}, {rest[0]}) does not exist")
    if verb == "read":
        return ok(_shown(known[rest[0]] if rest else known))
    if verb == "read-type":
        kinds = {bool: "boolean", int: "integer", float: "float", str: "string", list: "array", dict: "dictionary"}
        return ok(f"Type is {kinds.get(type(known[rest[0]]), 'data')}")
    if verb == "delete":
        mac.effect(call)
        if rest:
            place.write_bytes(plistlib.dumps({key: value for key, value in known.items() if key != rest[0]}))
        else:
            place.unlink()
        return ok()
    return fail(255, f"defaults: unknown verb {verb}")


async def plutil(mac: Mac, call: ToolCall) -> ToolResult:
    arguments = list(call.arguments)
    verb = arguments.pop(0) if arguments else ""
    output: str | None = None
    if "-o" in arguments:
        position = arguments.index("-o")
        output = arguments[position + 1]
        del arguments[position : position + 2]
    words = {"-lint": 0, "-p": 0, "-convert": 1, "-extract": 2, "-replace": 3, "-insert": 3, "-remove": 1}.get(verb)
    if words is None or len(arguments) <= words - 1:
        return fail(1, f"{verb}: unrecognized or incomplete")
    options, paths = arguments[:words], [path for path in arguments[words:] if path not in {"-s", "--"}]
    for path in paths:
        data = await call.standard_input() if path == "-" else _bytes(mac, call, path)
        name = "<stdin>" if path == "-" else path
        if data is None:
            return fail(1, f"{name}: file does not exist or is not readable or is not a regular file")
        try:
            content = plistlib.loads(data)
        except Exception as error:  # noqa: BLE001 - the parser raises several kinds for the same thing: not a plist
            return fail(1, f"{name}: {type(error).__name__}: not a property list")
        answer = _plutil_one(mac, call, verb, options, path, content, output)
        if answer is not None:
            return answer
    return ok("\n".join(f"{path}: OK" for path in paths) if verb == "-lint" and "-s" not in arguments else "")


def _bytes(mac: Mac, call: ToolCall, path: str) -> bytes | None:
    place = mac.disk.at(call.beside(path))
    return place.read_bytes() if place.is_file() else None


def _plutil_one(
    mac: Mac, call: ToolCall, verb: str, options: list[str], path: str, content: Any, output: str | None
) -> ToolResult | None:
    if verb == "-lint":
        return None
    if verb == "-p":
        return ok(json.dumps(content, indent=2, default=repr).replace('": ', '" => '))
    if verb == "-extract":
        value: Any = content
        for key in options[0].split("."):
            value = value[int(key)] if isinstance(value, list) and key.isdigit() else _member(value, key)
            if value is None:
                return fail(
                    1,
                    f"{path}: Could not extract value, error: No value at that key path or invalid key path: {options[0]}",
                )
        return ok(_raw(value) if options[1] == "raw" else plistlib.dumps(value).decode())
    if verb == "-convert":
        text = json.dumps(content) if options[0] == "json" else plistlib.dumps(content).decode()
        if output == "-":
            return ok(text)
        return _written(mac, call, output or path, text.encode())
    changed = dict(content)
    if verb == "-remove":
        changed.pop(options[0], None)
    else:
        changed[options[0]] = _typed([options[1].replace("-integer", "-int"), options[2]])
    return _written(mac, call, output or path, plistlib.dumps(changed))


def _member(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _raw(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return str(len(value))
    return "\n".join(value) if isinstance(value, dict) else str(value)


def _written(mac: Mac, call: ToolCall, path: str, data: bytes) -> ToolResult:
    mac.effect(call)
    mac.disk.at(call.beside(path)).write_bytes(data)
    return ok()


async def scutil(mac: Mac, call: ToolCall) -> ToolResult:
    verb, *rest = call.arguments or [""]
    if not rest or rest[0] not in {"HostName", "LocalHostName", "ComputerName"}:
        return fail(64, "usage: scutil --get pref | --set pref [newval]")
    known = {"LocalHostName": mac.name, "ComputerName": mac.name, **mac.disk.names}
    if verb == "--get":
        return ok(known[rest[0]]) if rest[0] in known else fail(1, f"{rest[0]}: not set")
    if not call.root:
        return fail(1, "scutil: Operation not permitted")
    if rest[0] == "LocalHostName" and not re.fullmatch(r"[A-Za-z0-9-]{1,63}", rest[1]):
        return fail(1, "SCPreferencesSetLocalHostName() failed: Invalid argument")
    mac.effect(call)
    mac.disk.names[rest[0]] = rest[1]
    return ok()


async def pmset(mac: Mac, call: ToolCall) -> ToolResult:
    if call.arguments[:1] == ["-g"]:
        body = "".join(f" {name:<20} {value}\n" for name, value in sorted(mac.disk.power.items()))
        header = (
            "AC Power:\n" if call.arguments[1:] == ["custom"] else "System-wide power settings:\nCurrently in use:\n"
        )
        return ok(header + body)
    if not call.root:
        return fail(77, "'pmset' must be run as root...")
    words = [word for word in call.arguments if word not in {"-a", "-c", "-b", "-u"}]
    if len(words) % 2 or not words:
        return fail(64, "Usage: pmset <options>")
    mac.effect(call)
    mac.disk.power.update(zip(words[::2], words[1::2], strict=True))
    return ok()
