"""APFS volumes of a simulated Mac, and newsyslog. A volume is a folder below /Volumes; its quota is written down beside."""

import json
import plistlib
import re
import shutil

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac

__all__ = ["diskutil", "newsyslog", "volumes"]

_CONTAINER = "disk3"
_RECORD = "/var/db/apfs-volumes.json"
_OWNERS = "/var/db/apfs-owners"
_SIZE = re.compile(r"^(\d+)([bkmgt]?)$")
_UNITS = {"": 1, "b": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_LOG_LINE = re.compile(
    r"^/\S+\s+(?:[\w.-]*:[\w.-]*\s+)?[0-7]{3,4}\s+\d+\s+(?:\d+|\*)\s+(?:\*|[@$]\S+|\d+)(?:\s+[BCDGJNUWXZ-]+)?"
    r"(?:\s+/\S+)?(?:\s+\d+)?$",
    re.IGNORECASE,
)


def volumes(mac: Mac) -> dict[str, int]:
    """Name → quota in bytes; 0 has none."""
    place = mac.disk.at(_RECORD)
    return json.loads(place.read_text()) if place.is_file() else {}


def _written(mac: Mac, known: dict[str, int]) -> None:
    mac.disk.at(_RECORD).write_text(json.dumps(known))
    mac.disk.own(_RECORD, "root", "wheel")


async def diskutil(mac: Mac, call: ToolCall) -> ToolResult:
    words = call.arguments
    if words[:1] == ["info"] and len(words) in {2, 3}:
        return _info(mac, words[-1], as_plist="-plist" in words)
    if words[:1] == ["enableOwnership"] and len(words) == 2:
        return _enable_ownership(mac, call, words[1])
    if words[:2] == ["apfs", "addVolume"] and len(words) >= 5:
        return _add(mac, call, words[2:])
    if words[:2] == ["apfs", "deleteVolume"] and len(words) == 3:
        return _delete(mac, call, words[2])
    if words[:1] == ["mount"] and len(words) == 2:
        if words[1] not in volumes(mac):
            return fail(1, f"Unable to find disk for {words[1]}")
        mac.effect(call)
        mac.disk.at(f"/Volumes/{words[1]}").mkdir(exist_ok=True)
        return ok(f"Volume {words[1]} on {_CONTAINER}s7 mounted")
    return fail(1, f'diskutil: did not recognize verb "{" ".join(words[:2])}"; type "diskutil" for a list')


def _enable_ownership(mac: Mac, call: ToolCall, name: str) -> ToolResult:
    if not call.root:
        return fail(1, "Ownership could not be changed: must be root")
    if name not in volumes(mac):
        return fail(1, f"Unable to find disk for {name}")
    mac.effect(call)
    mac.disk.at(f"{_OWNERS}-{name}").write_text("")
    return ok(f"File system user/group ownership enabled on {name}")


def _info(mac: Mac, name: str, *, as_plist: bool = False) -> ToolResult:
    if name != "/" and name not in volumes(mac):
        return fail(1, f"Could not find disk: {name}")
    shown = "Macintosh HD" if name == "/" else name
    place = "/" if name == "/" else f"/Volumes/{name}"
    owners = name == "/" or mac.disk.at(f"{_OWNERS}-{name}").is_file()
    if as_plist:
        facts = {
            "VolumeName": shown,
            "MountPoint": place,
            "APFSContainerReference": _CONTAINER,
            "GlobalPermissionsEnabled": owners,
        }
        return ok(plistlib.dumps(facts).decode())
    lines = {
        "Volume Name": shown,
        "Mounted": "Yes",
        "Mount Point": place,
        "APFS Container": _CONTAINER,
        "Owners": "Enabled" if owners else "Disabled",
    }
    return ok("".join(f"   {key + ':':<26} {value}\n" for key, value in lines.items()))


def _add(mac: Mac, call: ToolCall, words: list[str]) -> ToolResult:
    container, kind, name, *options = words
    if not call.root:
        return fail(1, "You cannot manipulate a different user's disks: must be root")
    if container != _CONTAINER:
        return fail(1, f"Could not find APFS Container {container}")
    if kind not in {"APFS", "APFSX"}:
        return fail(1, f"{kind} is not a file system personality that can be used for an APFS volume")
    quota = 0
    if options[:1] == ["-quota"]:
        form = _SIZE.match(options[1].lower()) if len(options) > 1 else None
        if form is None:
            return fail(1, "The quota size is invalid")
        quota = int(form[1]) * _UNITS[form[2]]
    mac.effect(call)
    known = volumes(mac)
    if name in known:
        name = f"{name} 1"  # as on a Mac: a second volume of that name, mounted beside
    _written(mac, {**known, name: quota})
    mac.disk.at(f"/Volumes/{name}").mkdir(exist_ok=True)
    mac.disk.own(f"/Volumes/{name}", "root", "wheel")
    return ok(
        f'Will export new APFS Volume "{name}" from APFS Container Reference {container}\nFinished APFS operation'
    )


def _delete(mac: Mac, call: ToolCall, name: str) -> ToolResult:
    if not call.root:
        return fail(1, "You cannot manipulate a different user's disks: must be root")
    known = volumes(mac)
    if name not in known:
        return fail(1, f"Could not find disk: {name}")
    mac.effect(call)
    _written(mac, {other: quota for other, quota in known.items() if other != name})
    shutil.rmtree(mac.disk.at(f"/Volumes/{name}"), ignore_errors=True)
    return ok("Finished APFS operation")


async def newsyslog(mac: Mac, call: ToolCall) -> ToolResult:
    """Read the rules, as `-n` does; the simulation rotates no file."""
    if not call.root and "-r" not in call.arguments:
        return fail(1, "newsyslog: must have root privs")
    path = call.arguments[call.arguments.index("-f") + 1] if "-f" in call.arguments else "/etc/newsyslog.conf"
    place = mac.disk.at(call.beside(path))
    if not place.is_file():
        return fail(1, f"newsyslog: {path}: No such file or directory")
    for line in place.read_text().splitlines():
        rule = line.partition("#")[0].strip()
        if rule and not _LOG_LINE.match(rule):
            return fail(1, "newsyslog: malformed line (missing fields):", rule)
    return ok()
