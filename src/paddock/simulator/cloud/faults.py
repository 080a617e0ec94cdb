"""What can go wrong between a caller and the cloud, on order."""

import random
from enum import StrEnum

import msgspec

from paddock.simulator.cloud import problems
from paddock.simulator.service.ordered_faults import OrderedFault, OrderedFaults
from paddock.simulator.service.response import ServiceResponse, json_answer

__all__ = ["LIST_FAULTS", "CloudFaults", "Fault", "FaultKind", "refusal", "spoiled"]

_HTML = b"<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>"


class FaultKind(StrEnum):
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    BAD_GATEWAY = "bad_gateway"
    EMPTY_503 = "empty_503"
    LOST = "lost"
    """The connection breaks: before the effect, or after it with the answer on its way."""
    LATE = "late"
    """The connection breaks, and the request takes effect `delay` seconds later all the same."""
    SLOW = "slow"
    """The request waits `delay` seconds in front of the cloud, then proceeds as usual."""
    NOT_JSON = "not_json"
    FORBIDDEN = "forbidden"
    UNAUTHENTICATED = "unauthenticated"
    NOT_FOUND = "not_found"
    NOT_FOUND_BARE = "not_found_bare"
    TRANSIENT = "transient"
    CONFLICT_BARE = "conflict_bare"
    PRECONDITION = "precondition"
    PRECONDITION_BARE = "precondition_bare"
    LOCKED = "locked"
    QUOTA = "quota"
    OUT_OF_STOCK = "out_of_stock"
    INVALID = "invalid"
    EMPTY_LIST = "empty_list"
    """A list that claims, consistently, that there is nothing."""
    SHORT_LIST = "short_list"
    """A list whose pages hold fewer entries than its total says."""


LIST_FAULTS = frozenset({FaultKind.EMPTY_LIST, FaultKind.SHORT_LIST})


class Fault(OrderedFault, kw_only=True):
    """A fault of the cloud. Without `server_id` it meets every server."""

    kind: FaultKind
    server_id: str = ""
    retry_after: float | None = None
    state: str = "busy"
    message: str = "something went wrong"


class CloudFaults(OrderedFaults[Fault]):
    def for_request(self, operation: str, server_id: str, rng: random.Random) -> Fault | None:
        """What goes wrong with a request about this server, or about none (""), if anything."""
        return self.take(operation, rng, lambda fault: fault.server_id in ("", server_id))


def refusal(fault: Fault, server_id: str) -> ServiceResponse:
    """The answer that the fault puts in place of the cloud's own."""
    match fault.kind:
        case FaultKind.RATE_LIMITED:
            headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
            return json_answer(429, {"message": "too many requests", "type": "too_many_requests"}, headers=headers)
        case FaultKind.SERVER_ERROR:
            return json_answer(500, {"message": "internal server error", "type": "internal"})
        case FaultKind.BAD_GATEWAY:
            return ServiceResponse(status=502, body=_HTML, content_type="text/html")
        case FaultKind.EMPTY_503:
            headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
            return ServiceResponse(status=503, content_type="text/plain", headers=headers)
        case FaultKind.NOT_JSON:
            return ServiceResponse(status=200, body=_HTML, content_type="text/html")
        case FaultKind.NOT_FOUND_BARE:
            return ServiceResponse(status=404, body=b"404 page not found", content_type="text/plain")
        case FaultKind.CONFLICT_BARE:
            return json_answer(409, {"message": "conflict"})
        case FaultKind.PRECONDITION_BARE:
            return json_answer(412, {"message": fault.message})
        case FaultKind.LOST | FaultKind.LATE:
            return ServiceResponse(status=0, lost=True)
        case _:
            problem = _problem(fault, server_id)
            return json_answer(problem.status, problem.body)


def _problem(fault: Fault, server_id: str) -> problems.ProblemError:
    match fault.kind:
        case FaultKind.FORBIDDEN:
            return problems.forbidden("write", "server")
        case FaultKind.UNAUTHENTICATED:
            return problems.unauthenticated("expired")
        case FaultKind.NOT_FOUND:
            return problems.missing("server", server_id)
        case FaultKind.TRANSIENT:
            return problems.transient(server_id, fault.state)
        case FaultKind.PRECONDITION:
            return problems.precondition(fault.message)
        case FaultKind.LOCKED:
            return problems.locked(server_id)
        case FaultKind.QUOTA:
            return problems.quota_exceeded(10, 10)
        case FaultKind.OUT_OF_STOCK:
            return problems.out_of_stock("M4-S")
        case FaultKind.INVALID:
            return problems.invalid("name", "constraint", fault.message)
        case _:
            raise ValueError(f"{fault.kind} has no answer of its own")


def spoiled(fault: Fault, answer: ServiceResponse) -> ServiceResponse:
    """A list answer with entries missing; anything else stays as it is."""
    decoded = msgspec.json.decode(answer.body) if answer.status == 200 else None
    if not isinstance(decoded, dict) or "total_count" not in decoded:
        return answer
    key = next(name for name in decoded if name != "total_count")
    if fault.kind is FaultKind.EMPTY_LIST:
        decoded = {key: [], "total_count": 0}
    else:
        decoded[key] = decoded[key][:-1]
    return json_answer(200, decoded)
