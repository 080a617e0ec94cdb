"""Why a request is refused before it may wait. Each class is one status of the answer; the text is for the Pod's log."""
# ruff: noqa: N818 - they are the words of the answer, and read as such in `except NotAllowed:`

__all__ = ["IdentityError", "NotAllowed", "Unauthenticated", "Unreachable"]


class IdentityError(Exception):
    """The root: who asks is not known well enough to be answered. The text never holds a token."""

    status = 401
    outcome = "unauthenticated"


class Unauthenticated(IdentityError):
    """No token, or none that counts: expired, not signed by the cluster, for another audience. The Pod exits."""


class NotAllowed(IdentityError):
    """A good token of somebody who may not wait here: another namespace, a Pod that is gone, no pool. The Pod exits."""

    status = 403
    outcome = "not_allowed"


class Unreachable(IdentityError):
    """The cluster cannot be asked at the moment, so nothing is known. The Pod asks again."""

    status = 503
    outcome = "unreachable"
