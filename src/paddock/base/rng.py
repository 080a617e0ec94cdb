"""Randomness, as the rest of the program may know it: always an injected `random.Random`.

A seeded generator makes a whole run repeatable; nothing else in the program may draw from the global one.
"""

import random
import uuid

__all__ = ["kube_suffix", "new_uuid", "seeded", "unseeded"]

# The letters Kubernetes uses for generated names: no vowels, so that no words appear by chance.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def seeded(seed: int | str) -> random.Random:
    """A generator that gives the same sequence for the same seed, on every machine."""
    return random.Random(seed)  # noqa: S311 - names, jitter and schedules; keys and tokens come from `secrets`


def unseeded() -> random.Random:
    """A generator seeded by the operating system, for production."""
    return random.Random()  # noqa: S311 - as above


def new_uuid(rng: random.Random) -> str:
    """A version-4 UUID drawn from the given generator."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def kube_suffix(rng: random.Random, length: int = 5) -> str:
    """The random tail of a generated object name, in Kubernetes' own alphabet."""
    return "".join(rng.choice(_SUFFIX_ALPHABET) for _ in range(length))
