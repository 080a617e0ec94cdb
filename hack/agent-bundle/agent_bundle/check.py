"""What a bundle must be before it is given to a Mac. Every rule gives its own sentence; an empty list means: it may go."""

import hashlib
import json
import posixpath
import struct
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_bundle.elf import is_elf, parse_elf
from agent_bundle.mach_o import NotMachOError, is_mach_o, slices

__all__ = ["LARGEST", "OLDEST_MACOS", "problems_of"]

LARGEST = 60 * 1024 * 1024
OLDEST_MACOS = (11, 0)
"""The first macOS of Apple silicon: a file that wants a newer one would fail on some Mac of the fleet."""
_SYSTEM = ("/usr/lib/", "/System/Library/")
_INTERPRETERS = (b"#!/bin/sh\n", b"#!/usr/bin/env ")


def problems_of(bundle: Path, target: str, *, foreign: Sequence[str] = (), largest: int = LARGEST) -> list[str]:
    """Everything wrong with the bundle. `foreign` are folders of the building machine that nothing may name."""
    found: list[str] = []
    if (size := bundle.stat().st_size) > largest:
        found.append(f"it is {size / 2**20:.1f} MB large: at most {largest / 2**20:.0f} may be sent to every Mac")
    digests: dict[str, str] = {}
    manifest: dict[str, object] | None = None
    try:
        with tarfile.open(bundle) as tar:
            for number, member in enumerate(tar):
                found += _unsafe(member)
                if member.issym():
                    digests[member.name] = f"-> {member.linkname}"
                    continue
                file = tar.extractfile(member) if member.isreg() else None
                if file is None:
                    continue
                data = file.read()
                digests[member.name] = hashlib.sha256(data).hexdigest()
                if number == 0 and member.name == "manifest.json":
                    manifest = json.loads(data)
                    continue
                found += [f"{member.name}: {problem}" for problem in _content(data, member.mode, target, foreign)]
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        return [*found, f"it cannot be read: {error}"]
    found += _against(manifest, digests, target)
    return found


def _unsafe(member: tarfile.TarInfo) -> Iterator[str]:
    name = member.name
    if name.startswith("/") or ".." in name.split("/"):
        yield f"{name}: leads out of the folder"
    if not (member.isreg() or member.issym()):
        yield f"{name}: is neither a file nor a link"
    if member.issym():
        aim = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
        if member.linkname.startswith("/") or aim.startswith(".."):
            yield f"{name}: links to {member.linkname}, out of the folder"
    if member.mode & 0o7022:
        yield f"{name}: has the mode {member.mode:o}"
    if member.uid or member.gid or member.uname or member.gname:
        yield f"{name}: belongs to somebody"


def _content(data: bytes, mode: int, target: str, foreign: Sequence[str]) -> Iterator[str]:
    for folder in foreign:
        if folder.encode() in data:
            yield f"names {folder}, a folder of the machine that built it"
    if mode & 0o100 and data[:2] == b"#!" and not data.startswith(_INTERPRETERS):
        yield f"its first line names {data.splitlines()[0][2:].decode(errors='replace')}"
    if is_mach_o(data[:8]):
        yield from _mach_o(data) if target.startswith("darwin") else ["is for macOS"]
    elif is_elf(data):
        yield from _elf(data, target) if target.startswith("linux") else ["is for Linux"]


def _mach_o(data: bytes) -> Iterator[str]:
    try:
        parts = slices(data)
    except NotMachOError as error:
        yield str(error)
        return
    ours = [part for part in parts if part.architecture == "arm64"]
    if not ours:
        yield f"is for {', '.join(part.architecture for part in parts)}, not for arm64"
    for part in ours:
        if part.minimum is None:
            yield "does not say which macOS it needs"
        elif part.minimum > OLDEST_MACOS:
            yield f"needs macOS {part.minimum[0]}.{part.minimum[1]}"
        if part.signature:
            yield part.signature
        for path in (*part.libraries, *part.search_paths):
            if path.startswith("/") and not path.startswith(_SYSTEM):
                yield f"is linked to {path}"


def _elf(data: bytes, target: str) -> Iterator[str]:
    try:
        elf = parse_elf(data)
    except (ValueError, struct.error, StopIteration) as error:
        yield f"cannot be read: {error}"
        return
    if elf.architecture != target.partition("-")[2]:
        yield f"is for {elf.architecture}"
    for path in (*elf.libraries, *(text for _, text in elf.search_paths)):
        if path.startswith("/"):
            yield f"is linked to {path}"


def _against(manifest: dict[str, object] | None, digests: dict[str, str], target: str) -> Iterator[str]:
    if manifest is None:
        yield "its first entry is not manifest.json"
        return
    if manifest.get("target") != target:
        yield f"it is for {manifest.get('target')}, not for {target}"
    listed = manifest.get("files")
    there = {name: digest for name, digest in digests.items() if name != "manifest.json"}
    if not isinstance(listed, dict):
        yield "its manifest lists no files"
        return
    for name in sorted(listed.keys() | there.keys()):
        if name not in there:
            yield f"{name}: is in the manifest and not in the bundle"
        elif listed.get(name) != there[name]:
            yield f"{name}: is not what the manifest says"
