"""The cloud name as the echo of ownership: parse and format.

The cloud keeps no tags on Apple-silicon servers, so a host's *name* is the only mark that we can write on it and that
a person without our ledger can read. Free hosts start with the pool prefix, hosts that change hands carry a marker, and
a claimed host carries its machine's own name.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID, uuid5

__all__ = [
    "CLAIM_PENDING",
    "LONGEST_NAME",
    "RELEASE_PENDING",
    "NameKind",
    "Rename",
    "claim_pending_name",
    "kind_of",
    "marker_of",
    "nested",
    "pool_name",
    "problem_with_prefix",
    "release_pending_name",
]

CLAIM_PENDING = "tuist-claim-pending-"
RELEASE_PENDING = "tuist-release-pending-"
LONGEST_NAME = 63
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?-")


class NameKind(StrEnum):
    """What a name says about its host."""

    POOLED = "pooled"
    CLAIM_PENDING = "claim-pending"
    RELEASE_PENDING = "release-pending"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Rename:
    """Give the server this name: it carries `expected` now, and is ours to rename."""

    to: str
    expected: str


def kind_of(name: str, pool_prefix: str) -> NameKind:
    """What a cloud name says. An empty prefix makes nothing pooled: it never means "everything"."""
    if name.startswith(CLAIM_PENDING):
        return NameKind.CLAIM_PENDING
    if name.startswith(RELEASE_PENDING):
        return NameKind.RELEASE_PENDING
    if pool_prefix and name.startswith(pool_prefix):
        return NameKind.POOLED
    return NameKind.OTHER


def pool_name(pool_prefix: str, unique: str) -> str:
    """The name of a free host. Only ever given to a host whose disk has been wiped."""
    if not pool_prefix:
        raise ValueError("a pool name needs a pool prefix: set adoptPoolPrefix or --default-adopt-pool-prefix")
    return f"{pool_prefix}{unique}"


def claim_pending_name(unique: str) -> str:
    """The marker of a host that is about to be claimed."""
    return f"{CLAIM_PENDING}{unique}"


def marker_of(machine_uid: str, epoch: int) -> str:
    """The claim-pending name of one claim: computed, so that whoever resumes knows it as its own."""
    return claim_pending_name(str(uuid5(UUID(machine_uid), str(epoch))))


def release_pending_name(unique: str) -> str:
    """The marker of a host that is being given back: dirty, owned by no machine, not free."""
    return f"{RELEASE_PENDING}{unique}"


def nested(prefixes: Iterable[tuple[str, str]]) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Pairs of (whose, prefix) of which one begins as the other: by such names nobody can tell whose a host is.

    One prefix that several share is none: that is a pool which they share on purpose.
    """
    given = sorted({each for each in prefixes if each[1]}, key=lambda each: (each[1], each[0]))
    return [
        (one, other)
        for at, one in enumerate(given)
        for other in given[at + 1 :]
        if other[1].startswith(one[1]) and other[1] != one[1]
    ]


def problem_with_prefix(prefix: str) -> str | None:
    """What is wrong with a pool prefix, with what to write instead; None when it is fine."""
    if not prefix:
        return None
    if (
        CLAIM_PENDING.startswith(prefix)
        or RELEASE_PENDING.startswith(prefix)
        or prefix.startswith((CLAIM_PENDING, RELEASE_PENDING))
    ):
        return f"the pool prefix {prefix!r} overlaps with the markers {CLAIM_PENDING}* and {RELEASE_PENDING}*: use one such as tuist-pool-"
    if not _PREFIX.fullmatch(prefix):
        return f"the pool prefix {prefix!r} must be lower-case letters, digits and dashes and end in a dash, such as tuist-pool-"
    if len(prefix) + 36 > LONGEST_NAME:
        return (
            f"the pool prefix {prefix!r} is too long: a prefix and a UUID of 36 characters must fit into {LONGEST_NAME}"
        )
    return None
