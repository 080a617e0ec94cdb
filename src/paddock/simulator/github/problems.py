"""The refusals of the real API, in its own shapes."""

from typing import Any

__all__ = [
    "ProblemError",
    "bad_credentials",
    "bad_json",
    "conflict",
    "forbidden",
    "invalid",
    "missing",
    "moved",
    "primary_limit",
    "secondary_limit",
    "suspended",
    "undecodable",
]

_DOCS = "https://docs.github.com/rest"


class ProblemError(Exception):
    """A refusal on its way to the wire."""

    def __init__(
        self, status: int, message: str, *, errors: list[Any] | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.headers = headers or {}
        self.body: dict[str, Any] = {"message": message, "documentation_url": _DOCS, "status": str(status)}
        if errors is not None:
            self.body["errors"] = errors


def bad_credentials() -> ProblemError:
    return ProblemError(401, "Bad credentials")


def undecodable(reason: str = "A JSON web token could not be decoded") -> ProblemError:
    return ProblemError(401, reason)


def forbidden() -> ProblemError:
    return ProblemError(403, "Resource not accessible by integration")


def suspended() -> ProblemError:
    return ProblemError(403, "This installation has been suspended")


def missing() -> ProblemError:
    return ProblemError(404, "Not Found")


def moved(url: str, *, method: str) -> ProblemError:
    """The repository has another name. A read is sent on for good; what changes something keeps its method (307)."""
    problem = ProblemError(301 if method in ("GET", "HEAD") else 307, "Moved Permanently", headers={"Location": url})
    problem.body = {"message": "Moved Permanently", "url": url, "documentation_url": _DOCS}
    return problem


def conflict(message: str) -> ProblemError:
    return ProblemError(409, message)


def bad_json() -> ProblemError:
    return ProblemError(400, "Problems parsing JSON")


def invalid(message: str, *, field: str | None = None) -> ProblemError:
    errors = None if field is None else [{"resource": "Runner", "code": "invalid", "field": field}]
    return ProblemError(422, message, errors=errors)


def primary_limit(headers: dict[str, str]) -> ProblemError:
    return ProblemError(403, "API rate limit exceeded for installation.", headers=headers)


def secondary_limit(status: int, retry_after: float) -> ProblemError:
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    return ProblemError(status, message, headers={"Retry-After": f"{max(1, round(retry_after))}"})
