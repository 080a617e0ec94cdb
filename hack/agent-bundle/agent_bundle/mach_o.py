"""What a Mach-O file says about itself: architecture, oldest macOS, libraries, and whether its signature is whole.  (pure)

On Apple silicon the kernel runs nothing without a valid signature, ad-hoc at least. Linux can prove that one is there and
that every page still has the hash that was signed; only a Mac proves that the loader agrees.
"""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["MachO", "NotMachOError", "is_mach_o", "slices"]

_THIN = 0xFEEDFACF
_FAT, _FAT_64 = 0xCAFEBABE, 0xCAFEBABF
_ARCHITECTURES = {0x0100000C: "arm64", 0x01000007: "x86_64"}
_VERSION_MIN, _BUILD_VERSION, _SIGNATURE, _RPATH = 0x24, 0x32, 0x1D, 0x8000001C
_LIBRARIES = frozenset({0xC, 0x80000018, 0x8000001F, 0x80000023})
_SUPER_BLOB, _CODE_DIRECTORY = 0xFADE0CC0, 0xFADE0C02
_DIGESTS = {1: ("sha1", 20), 2: ("sha256", 32), 3: ("sha256", 20), 4: ("sha384", 48)}
_AD_HOC = 0x2


class NotMachOError(ValueError):
    """The bytes are not a 64-bit Mach-O file, or are cut off."""


@dataclass(frozen=True, slots=True)
class MachO:
    """One architecture of a file. `signature` is empty where it is whole, else what is wrong with it."""

    architecture: str
    minimum: tuple[int, int] | None
    libraries: tuple[str, ...]
    search_paths: tuple[str, ...]
    ad_hoc: bool
    signature: str


def is_mach_o(head: bytes) -> bool:
    """Whether a file that begins so is one. Java's class files share the magic of fat ones: those have no few slices."""
    if len(head) < 8:
        return False
    if struct.unpack("<I", head[:4])[0] == _THIN:
        return True
    magic, count = struct.unpack(">II", head[:8])
    return magic in (_FAT, _FAT_64) and 0 < count < 20


def slices(data: bytes) -> list[MachO]:
    """Every architecture in the file; raises NotMachOError."""
    try:
        return [_parsed(part) for part in _parts(data)]
    except struct.error:
        raise NotMachOError("the file is cut off") from None


def _parts(data: bytes) -> Iterator[bytes]:
    magic, count = struct.unpack_from(">II", data)
    if magic not in (_FAT, _FAT_64):
        yield data
        return
    shape, size = (">iiIII", 20) if magic == _FAT else (">iiQQII", 32)
    for index in range(count):
        offset, length = struct.unpack_from(shape, data, 8 + index * size)[2:4]
        if offset + length > len(data):
            raise NotMachOError("a slice lies beyond the end of the file")
        yield data[offset : offset + length]


def _parsed(data: bytes) -> MachO:
    magic, cpu, _, _, count, _, _ = struct.unpack_from("<IIIIIII", data)
    if magic != _THIN:
        raise NotMachOError("not a 64-bit Mach-O file")
    minimum: tuple[int, int] | None = None
    libraries, paths = [], []
    ad_hoc, signature = False, "it has no signature"
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        if size < 8 or at + size > len(data):
            raise NotMachOError("a load command is cut off")
        if command == _BUILD_VERSION:
            minimum = _version(struct.unpack_from("<I", data, at + 12)[0])
        elif command == _VERSION_MIN:
            minimum = _version(struct.unpack_from("<I", data, at + 8)[0])
        elif command in _LIBRARIES:
            libraries.append(_text(data, at, size))
        elif command == _RPATH:
            paths.append(_text(data, at, size))
        elif command == _SIGNATURE:
            offset, length = struct.unpack_from("<II", data, at + 8)
            ad_hoc, signature = _signed(data, data[offset : offset + length])
        at += size
    architecture = _ARCHITECTURES.get(cpu, f"cpu {cpu:#x}")
    return MachO(architecture, minimum, tuple(libraries), tuple(paths), ad_hoc, signature)


def _version(packed: int) -> tuple[int, int]:
    return packed >> 16, packed >> 8 & 0xFF


def _text(data: bytes, at: int, size: int) -> str:
    start = at + struct.unpack_from("<I", data, at + 8)[0]
    return data[start : at + size].split(b"\0", 1)[0].decode(errors="replace")


def _signed(data: bytes, blob: bytes) -> tuple[bool, str]:
    """Whether the signature is ad-hoc, and what is wrong with it."""
    if len(blob) < 12 or struct.unpack_from(">I", blob)[0] != _SUPER_BLOB:
        return False, "its signature is not one"
    found = False
    flags = 0
    for index in range(struct.unpack_from(">I", blob, 8)[0]):
        offset = struct.unpack_from(">II", blob, 12 + 8 * index)[1]
        if struct.unpack_from(">I", blob, offset)[0] != _CODE_DIRECTORY:
            continue
        found = True
        flags, wrong = _directory(data, blob[offset:])
        if wrong:
            return bool(flags & _AD_HOC), wrong
    return bool(flags & _AD_HOC), "" if found else "its signature holds no code directory"


def _directory(data: bytes, directory: bytes) -> tuple[int, str]:
    version, flags, hashes, _, _, slots, limit = struct.unpack_from(">IIIIIII", directory, 8)
    size, kind, _, page = struct.unpack_from("BBBB", directory, 36)
    if version >= 0x20300 and (wide := struct.unpack_from(">Q", directory, 56)[0]):
        limit = wide
    digest, length = _DIGESTS.get(kind, ("", 0))
    if not digest or size != length:
        return flags, f"its signature uses the unknown hash {kind}"
    step = 1 << page if page else max(limit, 1)
    if limit > len(data) or slots != -(-limit // step):
        return flags, "its signature covers another length"
    for number in range(slots):
        expected = directory[hashes + number * size : hashes + (number + 1) * size]
        piece = data[number * step : min((number + 1) * step, limit)]
        if hashlib.new(digest, piece).digest()[:length] != expected:
            return flags, f"page {number} was changed after it was signed"
    return flags, ""
