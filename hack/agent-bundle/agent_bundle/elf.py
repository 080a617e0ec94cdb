"""The same questions to an ELF file, and the one thing that is mended: a search path of the machine that built it."""

import struct
from dataclasses import dataclass

__all__ = ["Elf", "is_elf", "parse_elf", "with_relative_search_path"]

_MACHINES = {62: "x86_64", 183: "arm64"}
_NEEDED, _STRTAB, _RPATH, _RUNPATH = 1, 5, 15, 29


@dataclass(frozen=True, slots=True)
class Elf:
    architecture: str
    libraries: tuple[str, ...]
    search_paths: tuple[tuple[int, str], ...]
    """Where in the file each is written, and what it says."""


def is_elf(head: bytes) -> bool:
    return head[:4] == b"\x7fELF"


def parse_elf(data: bytes) -> Elf:
    """Raises struct.error or ValueError for a file that is no whole 64-bit one."""
    if not is_elf(data) or data[4] != 2:
        raise ValueError("not a 64-bit ELF file")
    machine = struct.unpack_from("<H", data, 18)[0]
    table, size, count = (*struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54))
    headers = [struct.unpack_from("<IIQQQQ", data, table + index * size) for index in range(count)]
    loaded = [(address, address + length, offset) for kind, _, offset, address, _, length in headers if kind == 1]
    entries: list[tuple[int, int]] = []
    for kind, _, offset, _, _, length in headers:
        if kind == 2:
            entries = [struct.unpack_from("<qQ", data, at) for at in range(offset, offset + length, 16)]
    strings = next((value for tag, value in entries if tag == _STRTAB), None)
    libraries, paths = [], []
    if strings is not None:
        base = next(offset + strings - start for start, end, offset in loaded if start <= strings < end)
        for tag, value in entries:
            if tag in (_NEEDED, _RPATH, _RUNPATH):
                text = data[base + value : data.index(b"\0", base + value)].decode()
                if tag == _NEEDED:
                    libraries.append(text)
                else:
                    paths.append((base + value, text))
    return Elf(_MACHINES.get(machine, f"machine {machine}"), tuple(libraries), tuple(paths))


def with_relative_search_path(data: bytes, relative: str) -> bytes:
    """The file with `$ORIGIN/…` in place of an absolute search path; raises ValueError where it does not fit."""
    for at, text in parse_elf(data).search_paths:
        if text.startswith("/"):
            if len(relative) > len(text):
                raise ValueError(f"the search path {text!r} has no room for {relative!r}")
            data = data[:at] + relative.encode().ljust(len(text), b"\0") + data[at + len(text) :]
    return data
