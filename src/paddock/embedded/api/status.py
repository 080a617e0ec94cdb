"""What the API says when it refuses: Status objects, with the words and codes of a real API server.

kubectl prints `message` and decides by `reason`, so both are part of the contract; each constructor below is one row of
that contract, held to the real server by the conformance suite.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paddock.embedded.api.kinds import Kind

__all__ = [
    "ApiFailure",
    "Cause",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "internal",
    "invalid",
    "invalid_options",
    "method_not_allowed",
    "namespace_ends",
    "not_acceptable",
    "not_found",
    "precondition_failed",
    "success",
    "timeout",
    "too_large_revision",
    "unauthorized",
    "unavailable",
    "unsupported_media_type",
]

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong with one field. `reason` is a CauseType such as FieldValueInvalid."""

    reason: str
    message: str
    field: str

    def as_json(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApiFailure(Exception):  # noqa: N818 - a refusal that travels to the client, not an error of ours
    """A refusal on its way to the client."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.headers = dict(headers or {})
        self.metadata = dict(metadata or {})
        self.usual = False
        """It also happens where nobody means harm, so that it is no warning in the log."""

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            body["details"] = self.details
        return body


def _of(kind: Kind, name: str) -> dict[str, Any]:
    details = {"name": name, "kind": kind.plural}
    return {**details, "group": kind.group} if kind.group else details


def not_found(kind: Kind, name: str) -> ApiFailure:
    return ApiFailure(404, "NotFound", f'{kind.resource} "{name}" not found', _of(kind, name))


def already_exists(kind: Kind, name: str, *, ending: bool = False) -> ApiFailure:
    """A name that is taken, maybe by an object that waits for its end."""
    message = f'{kind.resource} "{name}" already exists'
    return ApiFailure(
        409, "AlreadyExists", f"object is being deleted: {message}" if ending else message, _of(kind, name)
    )


def conflict(kind: Kind, name: str, why: str = _MODIFIED) -> ApiFailure:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return ApiFailure(409, "Conflict", message, _of(kind, name))


def precondition_failed(kind: Kind, name: str, field: str, wanted: str, found: str) -> ApiFailure:
    """A DELETE whose `preconditions.uid` or `.resourceVersion` does not match what is stored."""
    return conflict(
        kind,
        name,
        f"the {field} in the precondition ({wanted}) does not match the {field} in record ({found}). "
        "The object might have been deleted and then recreated"
        if field == "UID"
        else f"the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({found}). "
        "The object might have been modified",
    )


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> ApiFailure:
    """422, with every violation at once; `details.kind` is the Kind here, not the plural."""
    said = [f"{cause.field}: {cause.message}" for cause in causes]
    text = said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"
    where = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details: dict[str, Any] = {"name": name, "kind": kind.kind, "causes": [cause.as_json() for cause in causes]}
    if kind.group:
        details["group"] = kind.group
    return ApiFailure(422, "Invalid", f'{where} "{name}" is invalid: {text}', details)


def invalid_options(options: str, causes: Sequence[Cause]) -> ApiFailure:
    """422 for what a request asks of the server itself: `options` is CreateOptions, ListOptions or one of their like."""
    said = [f"{cause.field}: {cause.message}" for cause in causes]
    text = said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"
    details = {"group": "meta.k8s.io", "kind": options, "causes": [cause.as_json() for cause in causes]}
    return ApiFailure(422, "Invalid", f'{options}.meta.k8s.io "" is invalid: {text}', details)


def method_not_allowed() -> ApiFailure:
    return ApiFailure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def bad_request(message: str) -> ApiFailure:
    return ApiFailure(400, "BadRequest", message)


def unauthorized() -> ApiFailure:
    return ApiFailure(401, "Unauthorized", "Unauthorized")


def forbidden(message: str, kind: Kind | None = None, name: str = "") -> ApiFailure:
    return ApiFailure(403, "Forbidden", message, _of(kind, name) if kind else None)


def namespace_ends(kind: Kind, namespace: str, name: str) -> ApiFailure:
    """Nothing new may start in a namespace that is being deleted."""
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return ApiFailure(
        403,
        "Forbidden",
        f'{kind.resource} "{name}" is forbidden: unable to create new content in namespace {namespace} '
        "because it is being terminated",
        {**_of(kind, name), "causes": [cause]},
    )


def expired(message: str, continue_token: str = "") -> ApiFailure:
    return ApiFailure(410, "Expired", message, metadata={"continue": continue_token} if continue_token else None)


def not_acceptable(accepted: Sequence[str]) -> ApiFailure:
    return ApiFailure(406, "NotAcceptable", "only the following media types are accepted: " + ", ".join(accepted))


def unsupported_media_type(accepted: Sequence[str]) -> ApiFailure:
    return ApiFailure(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
    )


def too_large_revision(wanted: int, current: int) -> ApiFailure:
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiFailure(504, "Timeout", message, details, headers={"Retry-After": "1"})


def timeout(message: str) -> ApiFailure:
    return ApiFailure(504, "Timeout", message)


def unavailable(message: str, retry_after: int = 1) -> ApiFailure:
    return ApiFailure(503, "ServiceUnavailable", message, headers={"Retry-After": str(retry_after)})


def too_many_requests(message: str, cause: str) -> ApiFailure:
    """As an eviction that a disruption budget does not allow now: clients wait and ask again."""
    causes = [{"reason": "DisruptionBudget", "message": cause}]
    return ApiFailure(429, "TooManyRequests", message, {"causes": causes, "retryAfterSeconds": 10})


def internal(message: str) -> ApiFailure:
    return ApiFailure(500, "InternalError", f"Internal error occurred: {message}")


def success(kind: Kind, name: str, uid: str) -> dict[str, Any]:
    """What a DELETE answers when the object is gone."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**_of(kind, name), "uid": uid},
    }
