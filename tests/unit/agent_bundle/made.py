"""Mach-O files made by hand: small, for any architecture and macOS, signed ad hoc page by page or not at all."""

import hashlib
import struct

PAGE = 4096
ARM64, X86_64 = 0x0100000C, 0x01000007


def mach_o(
    *,
    cpu: int = ARM64,
    minimum: tuple[int, int] = (11, 0),
    libraries: tuple[str, ...] = ("/usr/lib/libSystem.B.dylib",),
    search_paths: tuple[str, ...] = (),
    signed: bool = True,
    old_style: bool = False,
    body: bytes = b"code" * 3000,
) -> bytes:
    version = minimum[0] << 16 | minimum[1] << 8
    commands = [
        struct.pack("<IIII", 0x24, 16, version, version)
        if old_style
        else struct.pack("<IIIIII", 0x32, 24, 1, version, version, 0)
    ]
    commands += [_named(0xC, struct.pack("<IIII", 24, 0, 0, 0), path) for path in libraries]
    commands += [_named(0x8000001C, struct.pack("<I", 12), path) for path in search_paths]
    size = sum(map(len, commands)) + (16 if signed else 0)
    limit = 32 + size + len(body)
    limit += -limit % 16
    slots = -(-limit // PAGE)
    identifier = b"made\0"
    directory_size = 44 + len(identifier) + 32 * slots
    blob_size = 12 + 8 + directory_size
    if signed:
        commands.append(struct.pack("<IIII", 0x1D, 16, limit, blob_size))
    head = struct.pack("<IIIIIIII", 0xFEEDFACF, cpu, 0, 6, len(commands), size, 0, 0)
    data = (head + b"".join(commands) + body).ljust(limit, b"\0")
    if not signed:
        return data
    hashes = b"".join(hashlib.sha256(data[at : at + PAGE]).digest() for at in range(0, limit, PAGE))
    directory = struct.pack(
        ">IIIIIIIIIBBBBI",
        0xFADE0C02, directory_size, 0x20001, 0x20002, 44 + len(identifier), 44, 0, slots, limit, 32, 2, 0, 12, 0,
    )  # fmt: skip
    blob = struct.pack(">IIIII", 0xFADE0CC0, blob_size, 1, 0, 20) + directory + identifier + hashes
    return data + blob


def fat(*parts: bytes) -> bytes:
    """One file with several architectures."""
    offset = PAGE
    table, content = b"", b""
    for part in parts:
        padded = part + b"\0" * (-len(part) % PAGE)
        cpu = struct.unpack_from("<I", part, 4)[0]
        table += struct.pack(">IIIII", cpu, 0, offset, len(part), 12)
        content += padded
        offset += len(padded)
    return (struct.pack(">II", 0xCAFEBABE, len(parts)) + table).ljust(PAGE, b"\0") + content


def _named(command: int, rest: bytes, path: str) -> bytes:
    text = path.encode() + b"\0"
    size = 8 + len(rest) + len(text)
    size += -size % 8
    return (struct.pack("<II", command, size) + rest + text).ljust(size, b"\0")
