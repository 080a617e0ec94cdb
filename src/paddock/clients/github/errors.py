"""What GitHub may answer instead of what was asked for. Match by class, never by text."""
# ruff: noqa: N818 - these are the API's own words for what happened, and they read as such in `except NotFound:`

__all__ = [
    "BudgetSpent",
    "Conflict",
    "Forbidden",
    "GitHubError",
    "GroupRefused",
    "IncompleteList",
    "Invalid",
    "NotFound",
    "OutOfReach",
    "RateLimited",
    "SettingsError",
    "Unauthenticated",
    "Unavailable",
]


class GitHubError(Exception):
    """The root of everything that `paddock.clients.github` raises, and an answer that fits no class below.

    `status` is the HTTP status, 0 where there was none. The text never holds a token, a key or a JIT config.
    """

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class SettingsError(GitHubError):
    """The App's id, key or webhook secret is missing or unusable: the message names which, and the remedy."""


class Unauthenticated(GitHubError):
    """401: the App's key, or the installation, is not accepted. Nothing will work until a person looks."""


class Forbidden(GitHubError):
    """403 that is no rate limit: the App lacks a permission there, or the installation is suspended."""


class NotFound(GitHubError):
    """404: not there, or not to be seen by this installation. Alone it proves nothing about what was there before."""


class OutOfReach(GitHubError):
    """404 for the organisation or repository itself, before what was asked for was reached: that may be there as ever.

    No NotFound, which would pass for proof that a scale set, a session or a runner is gone.
    """


class GroupRefused(GitHubError):
    """The organisation has no such runner group, or the group is closed to the repository: the message has the remedy.

    A runner that is registered all the same would wait for ever: GitHub would never give it the repository's jobs.
    """


class Conflict(GitHubError):
    """409: the name is taken, or the runner is busy."""


class Invalid(GitHubError):
    """422: GitHub does not accept the values."""


class RateLimited(GitHubError):
    """403 or 429 with a limit behind it: come back after `retry_after` seconds."""

    def __init__(self, message: str, *, status: int = 0, retry_after: float) -> None:
        super().__init__(message, status=status)
        self.retry_after = retry_after


class BudgetSpent(RateLimited):
    """Our own budget for this installation leaves nothing for a call of this priority; nothing was sent."""


class Unavailable(GitHubError):
    """5xx, a timeout or a lost connection. With `effect_unknown` the effect may have happened: read before acting."""

    def __init__(self, message: str, *, status: int = 0, effect_unknown: bool = False) -> None:
        super().__init__(message, status=status)
        self.effect_unknown = effect_unknown


class IncompleteList(GitHubError):
    """A list changed, ended early or lacked a page while it was read: it proves nothing, read it again later."""
