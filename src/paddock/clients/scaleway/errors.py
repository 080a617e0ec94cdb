"""What the cloud may answer instead of what was asked for. Match by class, never by text.

The API names its errors in the JSON field `type`, with or without a matching HTTP status, and a gateway in front of it
may answer with HTML and a bare status. Both shapes of the same refusal become the same class here: a caller that knows
`PreconditionFailed` knows every 412 there is.
"""
# ruff: noqa: N818 - these are the API's own words for what happened, and they read as such in `except NotFound:`

import re
from typing import Any

import msgspec

__all__ = [
    "Expired",
    "IncompleteList",
    "InvalidArguments",
    "Locked",
    "NotFound",
    "OutOfStock",
    "PermissionDenied",
    "PreconditionFailed",
    "QuotaExceeded",
    "RateLimited",
    "ScalewayError",
    "SettingsError",
    "TransientState",
    "Unauthenticated",
    "Unavailable",
    "error_of_answer",
]


class ScalewayError(Exception):
    """The root of everything that `paddock.clients.scaleway` raises, and an answer that fits no class below.

    `status` is the HTTP status (0 where there was none), `kind` the body's `type` ("" for an untyped answer), and
    `details` the rest of the body. None of them ever holds a credential: the API puts none into an error.
    """

    def __init__(self, message: str, *, status: int = 0, kind: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.details: dict[str, Any] = details or {}

    @property
    def resource(self) -> str:
        """Which sort of thing the answer speaks of (`server`, `os`), or "" where it does not say."""
        value = self.details.get("resource")
        return value if isinstance(value, str) else ""


class SettingsError(ScalewayError):
    """A setting is missing or malformed: the message names the variable and what to put there."""


class NotFound(ScalewayError):
    """There is no such thing (404 or `not_found`). Look at `resource`: a retired image is not a vanished server."""


class PermissionDenied(ScalewayError):
    """The key may not do this, or the server was deleted: a deleted server answers the same. Ask `is_gone`."""


class Unauthenticated(ScalewayError):
    """The key is missing, unknown or expired (401): check SCW_SECRET_KEY. Nothing can be concluded about any server."""


class PreconditionFailed(ScalewayError):
    """The cloud refuses for now (412 or `precondition_failed`), for example below the billing floor."""

    @property
    def help_message(self) -> str:
        value = self.details.get("help_message")
        return value if isinstance(value, str) and value else self.message


class TransientState(ScalewayError):
    """Another operation is under way on the server (409 or `transient_state`): wait, read again, decide again."""

    @property
    def current_state(self) -> str:
        """The state the server is said to be in, or "" where the answer does not say."""
        value = self.details.get("current_state")
        return value if isinstance(value, str) else ""


class Locked(ScalewayError):
    """The provider locked the server (billing or abuse): ask the provider; nothing we send helps."""


class QuotaExceeded(ScalewayError):
    """The project's quota is used up: raise it in the console, or release hosts."""


class OutOfStock(ScalewayError):
    """The provider has no such server left in this zone: wait, or use another type or zone."""


class InvalidArguments(ScalewayError):
    """The request breaks a rule of the API (400): `fields` says which argument and why."""

    @property
    def fields(self) -> dict[str, str]:
        plain = self.details.get("fields")
        if isinstance(plain, dict):
            return {str(name): str(reason) for name, reason in plain.items()}
        found: dict[str, str] = {}
        for entry in self.details.get("details") or ():
            if isinstance(entry, dict):
                name = str(entry.get("argument_name") or entry.get("name") or "?")
                found[name] = str(entry.get("help_message") or entry.get("reason") or "invalid")
        return found


class Expired(ScalewayError):
    """The resource has expired (410 or `resource_expired`)."""


class RateLimited(ScalewayError):
    """Too many requests, said by the cloud (429) or by our own budget (`local`). The request had no effect.

    Come back no sooner than `retry_after` seconds from now, where it is known.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        local: bool = False,
        status: int = 429,
        kind: str = "too_many_requests",
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, status=status, kind=kind, details=details)
        self.retry_after = retry_after
        self.local = local


class Unavailable(ScalewayError):
    """No usable answer: 5xx, an answer that is not the API's, a broken connection or a passed deadline.

    Where `effect_unknown` is true the request may have taken effect all the same, now or a little later: read before
    acting again.
    """

    def __init__(
        self,
        message: str,
        *,
        effect_unknown: bool,
        retry_after: float | None = None,
        status: int = 0,
        kind: str = "",
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, status=status, kind=kind, details=details)
        self.effect_unknown = effect_unknown
        self.retry_after = retry_after


class IncompleteList(ScalewayError):
    """The pages of a list do not add up to what the cloud says there is. Nothing may be concluded from absence."""


_BY_KIND: dict[str, type[ScalewayError]] = {
    "not_found": NotFound,
    "unknown_resource": NotFound,
    "permissions_denied": PermissionDenied,
    "denied_authentication": Unauthenticated,
    "precondition_failed": PreconditionFailed,
    "transient_state": TransientState,
    "locked": Locked,
    "quotas_exceeded": QuotaExceeded,
    "out_of_stock": OutOfStock,
    "invalid_arguments": InvalidArguments,
    "invalid_request_error": InvalidArguments,
    "resource_expired": Expired,
}
_BY_STATUS: dict[int, type[ScalewayError]] = {
    400: InvalidArguments,
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    409: TransientState,
    410: Expired,
    412: PreconditionFailed,
    423: Locked,
}


def error_of_answer(
    status: int, body: bytes, *, retry_after: float | None = None, effect_possible: bool = False
) -> ScalewayError:
    """The error behind a failed answer: the body's `type` decides, then the status.

    `effect_possible` says that the request was a mutation, so that a 5xx leaves its effect unknown. A redirect counts
    as unavailable: the API sends none, so whoever answered was not the API.
    """
    details = _object(body)
    kind = str(details.get("type") or "")
    message = str(details.get("message") or "") or f"the cloud answered {status}{_excerpt(body, details)}"
    if kind == "too_many_requests" or status == 429:
        return RateLimited(message, retry_after=retry_after, status=status, details=details)
    cls = _BY_KIND.get(kind) or _BY_STATUS.get(status)
    if cls is not None:
        return cls(message, status=status, kind=kind, details=details)
    if 400 <= status < 500:
        return ScalewayError(message, status=status, kind=kind, details=details)
    return Unavailable(
        message, effect_unknown=effect_possible, retry_after=retry_after, status=status, kind=kind, details=details
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _excerpt(body: bytes, details: dict[str, Any]) -> str:
    """A short, readable piece of an answer that is not the API's; nothing of one that is."""
    if details:
        return ""
    text = re.sub(r"<[^>]*>", " ", body[:2000].decode("utf-8", "replace"))
    text = " ".join(text.split())[:160]
    return f": {text}" if text else ""
