"""What the agent's VMs are called. A name that is not of these forms is somebody else's, and is left alone."""

import hashlib
import re
from typing import Final

from paddock.base.names import GOLDEN_LABEL

__all__ = ["VM_PREFIX", "golden_hash", "golden_label", "golden_name", "is_golden", "uid_of", "vm_name"]

VM_PREFIX: Final = "pdk-"
_GOLDEN_PREFIX: Final = "tuist-golden-"
_LONGEST_POOL: Final = 20
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_GOLDEN = re.compile(re.escape(_GOLDEN_PREFIX) + r"[0-9a-f]{16}")
_UNSAFE = re.compile(r"[^a-z0-9-]+")


def vm_name(pool: str, uid: str) -> str:
    """`pdk-<pool>-<uid>`: short, because control sockets break beyond 104 bytes; the uid, so that no namesake inherits it."""
    safe = _UNSAFE.sub("-", pool.lower()).strip("-")[:_LONGEST_POOL].rstrip("-") or "pod"
    return f"{VM_PREFIX}{safe}-{uid}"


def uid_of(name: str) -> str | None:
    """The Pod uid in the name of one of our VMs; None where the VM is not ours."""
    if not name.startswith(VM_PREFIX) or len(name) < 37:
        return None
    uid = name[-36:]
    return uid if _UID.fullmatch(uid) and name[-37] == "-" else None


def golden_hash(image: str) -> str:
    """What of an image its golden and its label are named after."""
    return hashlib.sha256(image.encode()).hexdigest()[:16]


def golden_name(image: str) -> str:
    """The local VM that holds an image. It never runs; Pods' VMs are clones of it."""
    return _GOLDEN_PREFIX + golden_hash(image)


def golden_label(image: str) -> str:
    """The Node's label that says that it holds the image."""
    return GOLDEN_LABEL + golden_hash(image)


def is_golden(name: str) -> bool:
    return _GOLDEN.fullmatch(name) is not None
