"""What the API server may answer instead of an object. Match by class, never by text."""

from typing import Any

import msgspec

from paddock.base.backoff import LONGEST_ADVICE, retry_after

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "BadRequestError",
    "ConfigError",
    "ConflictError",
    "ExpiredError",
    "ForbiddenError",
    "InvalidError",
    "KubeError",
    "NoNameError",
    "NotFoundError",
    "ThrottledError",
    "TransportError",
    "UnauthorizedError",
    "UnavailableError",
    "UnknownKindError",
    "UnreadableObjectError",
    "from_response",
    "from_status",
]


class KubeError(Exception):
    """The root of everything that `paddock.kube` raises."""


class TransportError(KubeError):
    """The server did not answer: it is away, the address is wrong, or a deadline passed. The effect may have happened."""


class ConfigError(KubeError):
    """The connection settings cannot be used: the message names the file, the field and the remedy."""


class NoNameError(KubeError, ValueError):
    """Nothing can be called that: the message has the name. Nothing was sent."""


class UnreadableObjectError(KubeError):
    """An object does not fit its struct, so the read is not complete: correct the object that the message names."""


class ApiError(KubeError):
    """The server answered with a Status that is a failure."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.details: dict[str, Any] = details or {}
        self.retry_after = retry_after


class BadRequestError(ApiError):
    """The request itself is malformed (400)."""


class UnauthorizedError(ApiError):
    """The token is missing, expired or unknown (401): check the kubeconfig or the ServiceAccount."""


class ForbiddenError(ApiError):
    """The identity may not do this (403): grant the verb that the message names."""


class NotFoundError(ApiError):
    """There is no such object (404)."""


class UnknownKindError(ApiError):
    """The server does not serve this kind (404 without a Status): install the CustomResourceDefinitions.

    Deliberately no `NotFoundError`: that a kind is unknown says nothing about whether its objects are gone.
    """


class AlreadyExistsError(ApiError):
    """An object of that name exists (409)."""


class ConflictError(ApiError):
    """Another client changed the object, or owns the field (409): read again and decide again."""


class ExpiredError(ApiError):
    """The resourceVersion or continue token is too old (410): list again."""


class InvalidError(ApiError):
    """The object breaks its schema (422): `causes` names each field."""

    @property
    def causes(self) -> list[dict[str, str]]:
        return self.details.get("causes", [])


class ThrottledError(ApiError):
    """The server asks to slow down (429): wait `retry_after`."""


class UnavailableError(ApiError):
    """The server cannot answer now (5xx). The effect may have happened."""


_BY_REASON: dict[str, type[ApiError]] = {
    "BadRequest": BadRequestError,
    "Unauthorized": UnauthorizedError,
    "Forbidden": ForbiddenError,
    "NotFound": NotFoundError,
    "AlreadyExists": AlreadyExistsError,
    "Conflict": ConflictError,
    "Expired": ExpiredError,
    "Gone": ExpiredError,
    "Invalid": InvalidError,
    "TooManyRequests": ThrottledError,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: UnknownKindError,  # an object that is missing comes with the reason NotFound
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: ThrottledError,
}


def from_status(status: dict[str, Any], *, code: int = 0, wait: float | None = None) -> ApiError:
    """The error that a Status object stands for; the reason decides, then the code."""
    number = int(status.get("code") or code or 500)
    reason = str(status.get("reason") or "")
    cls = _BY_REASON.get(reason) or _BY_CODE.get(number) or (UnavailableError if number >= 500 else ApiError)
    message = str(status.get("message") or f"the API server answered {number} {reason}".strip())
    details = status.get("details") or {}
    if wait is None and isinstance(seconds := details.get("retryAfterSeconds"), int) and seconds > 0:
        wait = min(seconds, LONGEST_ADVICE)
    return cls(message, code=number, reason=reason, details=details, retry_after=wait)


def from_response(code: int, body: bytes, advice: str | None = None) -> ApiError:
    """The error behind a failed HTTP answer, whether it carries a Status or something else."""
    try:
        status = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = body[:200].decode("utf-8", "replace").strip()
        status = {"code": code, "message": f"the API server answered {code}: {text}" if text else ""}
    return from_status(status, code=code, wait=retry_after(advice))
