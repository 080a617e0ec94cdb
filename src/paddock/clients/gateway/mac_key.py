"""The key with which a Mac speaks to the gateway, as both of its ends know it: its form, its hash, and what the Mac answers."""

import hashlib
import re
from typing import Final

from msgspec import Struct

__all__ = ["DIGITS", "FORM", "KeyAnswer", "digits_of", "hash_of"]

DIGITS: Final = 16
"""How much of a hash names a key where nothing is proven by it: on the Mac's Lease, and over SSH."""
FORM: Final = re.compile(r"[A-Za-z0-9_-]{40,128}")


class KeyAnswer(Struct, frozen=True):
    """What a Mac answered when it was given a key, or asked about its keys. `number` is the highest that it has taken, `proven` the
    digits of the hash of the key that the gateway last answered there, empty where none was; `machine_id` is its own.
    """

    took: bool
    number: int
    proven: str = ""
    machine_id: str = ""


def hash_of(key: str) -> str:
    """What a claim keeps of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


def digits_of(key: str) -> str:
    return hash_of(key)[:DIGITS] if key else ""
