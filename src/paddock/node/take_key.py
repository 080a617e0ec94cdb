"""A key that comes over SSH: read from standard input, put beside the agent's journal, and answered in one line.

The agent may run meanwhile: it reads the file at its next request.
"""

from pathlib import Path
from typing import Final, Protocol

from paddock.clients.gateway.mac_key import FORM, KeyAnswer, digits_of
from paddock.node.key_file import KeyFile

__all__ = ["LONGEST", "NoKeyError", "ReadsMachineId", "held_keys", "take_key"]

LONGEST: Final = 512
"""No line that holds a key is longer."""
_MOST: Final = 2**53


class NoKeyError(ValueError):
    """What came is no key. The message repeats nothing of it."""


class ReadsMachineId(Protocol):
    async def machine_id(self) -> str:
        """The Mac's own id, as its agent reports it. Raises OSError."""
        ...


async def take_key(data: Path, line: bytes, mac: ReadsMachineId) -> KeyAnswer:
    """Take the key of the line `NUMBER KEY`, if its number is higher than every one before. Raises NoKeyError and OSError; after
    either nothing was taken, or the same key is refused when it comes again, because it was.
    """
    number, key = _read(line)
    machine = await mac.machine_id()  # before anything is written: a key counts with it alone
    took, held = KeyFile.of_agent(data).offer(key, number)
    return KeyAnswer(took, held.number, digits_of(held.proven), machine)


async def held_keys(data: Path, mac: ReadsMachineId) -> KeyAnswer:
    """Which keys are held, without any of them, and without a new one."""
    held = KeyFile.of_agent(data).read()
    return KeyAnswer(False, held.number, digits_of(held.proven), await mac.machine_id())


def _read(line: bytes) -> tuple[int, str]:
    try:
        number, _, key = line.decode("ascii").strip().partition(" ")
    except UnicodeDecodeError:
        number = key = ""
    if len(line) > LONGEST or not number.isdigit() or not 0 < int(number[:20]) < _MOST or not FORM.fullmatch(key):
        raise NoKeyError("standard input holds no key: expected one line `NUMBER KEY`, and the number at least 1")
    return int(number), key
