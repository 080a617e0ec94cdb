"""What can go wrong between a caller and GitHub, and between GitHub and its webhook, on order."""

import random
from enum import StrEnum

import msgspec

from paddock.simulator.github import problems
from paddock.simulator.github.requests import json_answer
from paddock.simulator.service.ordered_faults import OrderedFault, OrderedFaults
from paddock.simulator.service.response import ServiceResponse

__all__ = ["LIST_FAULTS", "Fault", "FaultKind", "GitHubFaults", "problem_answer", "refusal", "spoiled"]

_HTML = b"<html><head><title>Unicorn!</title></head><body>No server is currently available.</body></html>"


class FaultKind(StrEnum):
    # Calls
    SERVER_ERROR = "server_error"
    BAD_GATEWAY = "bad_gateway"
    UNAVAILABLE = "unavailable"
    NOT_JSON = "not_json"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    INVALID = "invalid"
    RATE_LIMITED = "rate_limited"
    """429 with Retry-After."""
    SECONDARY_LIMIT = "secondary_limit"
    """403 with Retry-After, and budget left."""
    PRIMARY_LIMIT = "primary_limit"
    """403 with nothing left until the reset."""
    LOST = "lost"
    """The connection breaks: before the effect, or after it with the answer on its way."""
    SLOW = "slow"
    """The call waits `delay` seconds in front of GitHub, then proceeds as usual."""
    EMPTY_LIST = "empty_list"
    """A list that claims, consistently, that there is nothing."""
    SHORT_LIST = "short_list"
    """A page that lacks its last entry, under the full total."""

    # Deliveries
    UNSENT = "unsent"
    UNDELIVERED = "undelivered"
    REPEATED = "repeated"
    DELAYED = "delayed"
    OVERTAKEN = "overtaken"


LIST_FAULTS = frozenset({FaultKind.EMPTY_LIST, FaultKind.SHORT_LIST})
_OF_DELIVERIES = frozenset(
    {FaultKind.UNSENT, FaultKind.UNDELIVERED, FaultKind.REPEATED, FaultKind.DELAYED, FaultKind.OVERTAKEN}
)


class Fault(OrderedFault, kw_only=True):
    """A fault of GitHub's: by its kind it meets calls, or deliveries.

    `operations` are names of calls (`mint`, `get_job`, `list_runners`, …) or of deliveries (`queued`, `in_progress`,
    `completed`, `waiting`, `redelivery`).
    """

    kind: FaultKind
    retry_after: float = 60.0
    message: str = "something went wrong"


class GitHubFaults(OrderedFaults[Fault]):
    def for_call(self, operation: str, rng: random.Random) -> Fault | None:
        """What goes wrong between a caller and GitHub, if anything."""
        return self.take(operation, rng, lambda fault: fault.kind not in _OF_DELIVERIES)

    def for_delivery(self, action: str, rng: random.Random) -> Fault | None:
        """What goes wrong between GitHub and its webhook, if anything."""
        return self.take(action, rng, lambda fault: fault.kind in _OF_DELIVERIES)


def problem_answer(problem: problems.ProblemError) -> ServiceResponse:
    return json_answer(problem.status, problem.body, headers=problem.headers)


def refusal(fault: Fault, exhausted: dict[str, str]) -> ServiceResponse:
    """The answer that the fault puts in place of GitHub's own. `exhausted` are the headers of a spent budget."""
    match fault.kind:
        case FaultKind.SERVER_ERROR:
            return json_answer(500, {"message": "Server Error"})
        case FaultKind.BAD_GATEWAY:
            return ServiceResponse(status=502, body=_HTML, content_type="text/html")
        case FaultKind.UNAVAILABLE:
            return ServiceResponse(status=503, body=_HTML, content_type="text/html")
        case FaultKind.NOT_JSON:
            return ServiceResponse(status=200, body=_HTML, content_type="text/html")
        case FaultKind.LOST:
            return ServiceResponse(status=0, lost=True)
        case _:
            return problem_answer(_problem(fault, exhausted))


def _problem(fault: Fault, exhausted: dict[str, str]) -> problems.ProblemError:
    match fault.kind:
        case FaultKind.UNAUTHENTICATED:
            return problems.bad_credentials()
        case FaultKind.FORBIDDEN:
            return problems.forbidden()
        case FaultKind.NOT_FOUND:
            return problems.missing()
        case FaultKind.CONFLICT:
            return problems.conflict(fault.message)
        case FaultKind.INVALID:
            return problems.invalid(fault.message)
        case FaultKind.RATE_LIMITED:
            return problems.secondary_limit(429, fault.retry_after)
        case FaultKind.SECONDARY_LIMIT:
            return problems.secondary_limit(403, fault.retry_after)
        case FaultKind.PRIMARY_LIMIT:
            return problems.primary_limit(exhausted)
        case _:
            raise ValueError(f"{fault.kind} has no answer of its own")


def spoiled(fault: Fault, answer: ServiceResponse) -> ServiceResponse:
    """A list answer with entries missing; anything else stays as it is."""
    decoded = msgspec.json.decode(answer.body) if answer.status == 200 else None
    if isinstance(decoded, list):
        return msgspec.structs.replace(
            answer,
            body=msgspec.json.encode([] if fault.kind is FaultKind.EMPTY_LIST else decoded[:-1]),
            headers={} if fault.kind is FaultKind.EMPTY_LIST else answer.headers,
        )
    if not isinstance(decoded, dict) or "total_count" not in decoded:
        return answer
    key = next(name for name in decoded if name != "total_count")
    if fault.kind is FaultKind.EMPTY_LIST:
        return json_answer(200, {"total_count": 0, key: []})
    decoded[key] = decoded[key][:-1]
    return msgspec.structs.replace(answer, body=msgspec.json.encode(decoded))
