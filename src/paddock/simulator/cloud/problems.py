"""The refusals of the real API, in its own shapes."""

from datetime import datetime
from typing import Any

from paddock.simulator.cloud.state import CloudBehaviour

__all__ = [
    "ProblemError",
    "below_floor",
    "forbidden",
    "invalid",
    "locked",
    "missing",
    "out_of_stock",
    "precondition",
    "quota_exceeded",
    "transient",
    "unauthenticated",
]


class ProblemError(Exception):
    """A refusal on its way to the wire: a status, and a JSON body or plain text."""

    def __init__(self, status: int, body: dict[str, Any] | str) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


def unauthenticated(reason: str) -> ProblemError:
    body = {"message": "authentication is denied", "method": "api_key", "reason": reason}
    return ProblemError(401, {**body, "type": "denied_authentication"})


def forbidden(action: str, resource: str) -> ProblemError:
    details = [{"action": action, "resource": resource}]
    return ProblemError(403, {"details": details, "message": "insufficient permissions", "type": "permissions_denied"})


def missing(resource: str, resource_id: str, *, bare: bool = False) -> ProblemError:
    if bare:
        return ProblemError(404, {"message": "404 page not found"})
    body = {"message": "resource is not found", "resource": resource, "resource_id": resource_id}
    return ProblemError(404, {**body, "type": "not_found"})


def invalid(argument: str, reason: str, help_message: str = "") -> ProblemError:
    details = [{"argument_name": argument, "reason": reason, "help_message": help_message}]
    return ProblemError(400, {"details": details, "message": "invalid argument(s)", "type": "invalid_arguments"})


def transient(server_id: str, state: str) -> ProblemError:
    body = {"message": "resource is in a transient state", "resource": "server", "resource_id": server_id}
    return ProblemError(409, {**body, "current_state": state, "type": "transient_state"})


def locked(server_id: str) -> ProblemError:
    body = {"message": "resource is locked", "resource": "server", "resource_id": server_id, "type": "locked"}
    return ProblemError(403, body)


def out_of_stock(server_type: str) -> ProblemError:
    return ProblemError(412, {"message": "out of stock", "resource": server_type, "type": "out_of_stock"})


def quota_exceeded(quota: int, current: int) -> ProblemError:
    details = [{"resource": "apple_silicon_servers", "quota": quota, "current": current}]
    return ProblemError(403, {"details": details, "message": "quotas exceeded", "type": "quotas_exceeded"})


def precondition(help_message: str) -> ProblemError:
    body = {"message": "precondition failed", "precondition": "unknown_precondition", "help_message": help_message}
    return ProblemError(412, {**body, "type": "precondition_failed"})


def below_floor(behaviour: CloudBehaviour, deletable_at: datetime) -> ProblemError:
    """The billing floor, in the shape that the behaviour asks for."""
    sentence = f"this server cannot be deleted before {deletable_at:%Y-%m-%d %H:%M:%S}"
    if behaviour.floor_shape == "text":
        return ProblemError(412, "Precondition Failed")
    if behaviour.floor_shape == "bare":
        return ProblemError(412, {"message": f"precondition failed: unknown precondition, {sentence}"})
    typed = precondition(sentence)
    return ProblemError(400, typed.body) if behaviour.floor_shape == "mismatched" else typed
