"""The tools for files whose flags or owners differ from what the machine that runs the simulation has."""

import hashlib
import os
import shutil
from pathlib import Path

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac

__all__ = ["chgrp", "chown", "codesign", "ditto", "install", "md5", "shasum", "stat"]

_ALGORITHMS = {"1": "sha1", "224": "sha224", "256": "sha256", "384": "sha384", "512": "sha512"}


def _split(arguments: list[str], takes: str) -> tuple[dict[str, str], list[str]]:
    """Options and operands; letters in `takes` have a value. A flag without one has an empty value."""
    options: dict[str, str] = {}
    operands: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return options, [*operands, *rest]
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in takes:
                options[letter] = letters or (rest.pop(0) if rest else "")
                letters = ""
            else:
                options[letter] = ""
    return options, operands


def _tree(place: Path) -> list[Path]:
    return [place, *place.rglob("*")] if place.is_dir() and not place.is_symlink() else [place]


async def chown(mac: Mac, call: ToolCall) -> ToolResult:
    options, operands = _split(call.arguments, "")
    if len(operands) < 2:
        return fail(1, "usage: chown [-fhnvx] [-R [-H | -L | -P]] owner[:group] file ...")
    owner, _, group = operands[0].partition(":")
    return _owned(mac, call, owner, group, operands[1:], deep="R" in options)


async def chgrp(mac: Mac, call: ToolCall) -> ToolResult:
    options, operands = _split(call.arguments, "")
    if len(operands) < 2:
        return fail(1, "usage: chgrp [-fhnvx] [-R [-H | -L | -P]] group file ...")
    return _owned(mac, call, "", operands[0], operands[1:], deep="R" in options)


def _owned(mac: Mac, call: ToolCall, owner: str, group: str, paths: list[str], *, deep: bool) -> ToolResult:
    names = {str(user.uid): name for name, user in mac.disk.users.items()}
    owner = names.get(owner, owner)
    if owner and owner not in mac.disk.users:
        return fail(1, f"chown: {owner}: illegal user name")
    for path in paths:
        shown = mac.disk.shown(call.beside(path))
        place = mac.disk.at(shown)
        if not os.path.lexists(place):
            return fail(1, f"{call.tool}: {shown}: No such file or directory")
        if not call.root and (owner and owner != call.user):
            return fail(1, f"{call.tool}: {shown}: Operation not permitted")
        for item in _tree(place) if deep else [place]:
            name = mac.disk.shown(str(item))
            before = mac.disk.owner(name)
            mac.disk.own(name, owner or before[0], group or before[1])
    mac.effect(call)
    return ok()


async def install(mac: Mac, call: ToolCall) -> ToolResult:
    options, operands = _split(call.arguments, "mogfBD")
    mode = int(options.get("m", "755"), 8)
    if not operands or ("d" not in options and len(operands) < 2):
        return fail(64, "usage: install [-bCcpSsUv] [-f flags] [-g group] [-m mode] [-o owner] file1 ... file2")
    owner, group = options.get("o", call.user), options.get("g", "wheel" if call.root else "staff")
    if not call.root and owner != call.user:
        return fail(71, f"install: {operands[-1]}: chown/chgrp: Operation not permitted")
    written: list[str] = []
    if "d" in options:
        for path in operands:
            place = mac.disk.at(call.beside(path))
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(mode)
            written.append(mac.disk.shown(str(place)))
    else:
        *sources, last = operands
        target = mac.disk.at(call.beside(last))
        for path in sources:
            data = await _content(mac, call, path)
            if data is None:
                return fail(71, f"install: {mac.disk.shown(path)}: No such file or directory")
            place = target / Path(path).name if target.is_dir() else target
            if not place.parent.is_dir():
                return fail(71, f"install: {mac.disk.shown(str(place))}: No such file or directory")
            staged = place.with_name(place.name + ".install")
            staged.write_bytes(data)
            staged.chmod(mode)
            staged.replace(place)  # a new file in place of the old one, so that a running program keeps its own
            written.append(mac.disk.shown(str(place)))
    for name in written:
        mac.disk.own(name, owner, group)
    mac.effect(call)
    return ok()


async def _content(mac: Mac, call: ToolCall, path: str) -> bytes | None:
    if path in {"/dev/stdin", "-"}:
        return await call.standard_input()
    if path == "/dev/null":
        return b""
    place = mac.disk.at(call.beside(path))
    return place.read_bytes() if place.is_file() else None


async def ditto(mac: Mac, call: ToolCall) -> ToolResult:
    operands = [word for word in call.arguments if not word.startswith("-")]
    if len(operands) != 2:
        return fail(1, "Usage: ditto [ <options> ] src dst")
    source, target = (mac.disk.at(call.beside(path)) for path in operands)
    if not source.exists():
        return fail(1, f"ditto: Cannot get the real path for source '{operands[0]}'")
    mac.effect(call)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    return ok()


async def shasum(mac: Mac, call: ToolCall) -> ToolResult:
    options, operands = _split(call.arguments, "a")
    algorithm = _ALGORITHMS.get(options.get("a", "1"))
    if algorithm is None:
        return fail(1, "shasum: Unrecognized algorithm")
    if "c" in options:
        return await _checked(mac, call, algorithm, operands, quiet="s" in options)
    lines: list[str] = []
    for path in operands or ["-"]:
        data = await _content(mac, call, path)
        if data is None:
            return fail(1, f"shasum: {path}: No such file or directory")
        lines.append(f"{hashlib.new(algorithm, data).hexdigest()}  {path}")
    return ok("\n".join(lines))


async def _checked(mac: Mac, call: ToolCall, algorithm: str, lists: list[str], *, quiet: bool) -> ToolResult:
    out: list[str] = []
    wrong = 0
    for path in lists or ["-"]:
        text = await _content(mac, call, path)
        for line in (text or b"").decode(errors="replace").splitlines():
            digest, _, name = line.partition(" ")
            data = await _content(mac, call, name.strip().lstrip("*"))
            fine = data is not None and hashlib.new(algorithm, data).hexdigest() == digest
            wrong += not fine
            out.append(f"{name.strip()}: {'OK' if fine else 'FAILED'}")
    body = "" if quiet else "".join(f"{line}\n" for line in out)
    if not out:
        return ToolResult(1, err="shasum: no properly formatted SHA checksum lines found\n")
    return ToolResult(
        1 if wrong else 0, body, f"shasum: WARNING: {wrong} computed checksum did NOT match\n" if wrong else ""
    )


async def md5(mac: Mac, call: ToolCall) -> ToolResult:
    options, operands = _split(call.arguments, "s")
    data = await _content(mac, call, operands[0] if operands else "-")
    if data is None:
        return fail(1, f"md5: {operands[0]}: No such file or directory")
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return ok(digest if "q" in options or not operands else f"MD5 ({operands[0]}) = {digest}")


async def stat(mac: Mac, call: ToolCall) -> ToolResult:
    options, operands = _split(call.arguments, "ft")
    if "c" in options:
        return fail(1, "stat: illegal option -- c")
    lines: list[str] = []
    for path in operands:
        shown = mac.disk.shown(call.beside(path))
        place = mac.disk.at(shown)
        try:
            facts = place.stat() if "L" in options else place.lstat()
        except FileNotFoundError:
            return fail(1, f"stat: {shown}: stat: No such file or directory")
        owner, group = mac.disk.owner(shown)
        gid = {"wheel": 0, "staff": 20, "admin": 80}.get(group, 20)
        text = options.get("f", "%N")
        # Longer forms first, so that %Lp is not read as %L.
        for form, value in (
            ("%OLp", f"{facts.st_mode & 0o7777:o}"),
            ("%Lp", f"{facts.st_mode & 0o7777:o}"),
            ("%Mp%Lp", f"{facts.st_mode & 0o7777:o}"),
            ("%Su", owner),
            ("%Sg", group),
            ("%u", str(mac.uid(owner))),
            ("%g", str(gid)),
            ("%z", str(facts.st_size)),
            ("%m", str(int(facts.st_mtime))),
            ("%i", str(facts.st_ino)),
            ("%N", path),
        ):
            text = text.replace(form, value)
        lines.append(text)
    return ok("\n".join(lines))


async def codesign(mac: Mac, call: ToolCall) -> ToolResult:
    options, operands = _split([word for word in call.arguments if not word.startswith("--")], "s")
    long = {word.split("=", 1)[0] for word in call.arguments if word.startswith("--")}
    if "--sign" in long and operands and operands[0] == "-":
        operands = operands[1:]
    for path in operands:
        shown = mac.disk.shown(call.beside(path))
        place = mac.disk.at(shown)
        if not place.exists():
            return fail(1, f"{shown}: No such file or directory")
        if "s" not in options and "--sign" not in long:
            continue
        for item in (item for item in _tree(place) if item.is_file()):
            mac.disk.signatures[item.stat().st_ino] = hashlib.sha256(item.read_bytes()).hexdigest()
        mac.effect(call)
        return ToolResult(0, err=f"{shown}: replacing existing signature\n")
    return ok()
