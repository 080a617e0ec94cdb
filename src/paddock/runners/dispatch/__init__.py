"""Dispatch: who waits, who gets which job, and how it reaches the Pod. See docs/design/dispatch.md."""

from paddock.runners.dispatch.http import PATH, bearer
from paddock.runners.dispatch.identity import (
    IdentityError,
    NotAllowed,
    PodIdentity,
    Principal,
    Tokens,
    Unauthenticated,
    Unreachable,
)
from paddock.runners.dispatch.service import DispatchContext, DispatchService

__all__ = [
    "PATH",
    "DispatchContext",
    "DispatchService",
    "IdentityError",
    "NotAllowed",
    "PodIdentity",
    "Principal",
    "Tokens",
    "Unauthenticated",
    "Unreachable",
    "bearer",
]
