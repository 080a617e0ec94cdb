"""Who asks, and what they may see: keys, projects, and the server a request speaks of."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from paddock.simulator.cloud import problems
from paddock.simulator.cloud.requests import CloudRequest
from paddock.simulator.cloud.state import ApiKey, CloudState, Host
from paddock.simulator.service.response import ServiceResponse, json_answer

__all__ = ["CloudCall", "authenticated", "checked_name", "host_of", "paged", "project_of"]

T = TypeVar("T")
_DEFAULT_PAGE = 20
_LARGEST_PAGE = 100
_LONGEST_NAME = 255


class CloudCall(msgspec.Struct, frozen=True):
    """A request whose sender is known, at one moment."""

    request: CloudRequest
    operation: str
    parts: dict[str, str]
    key: ApiKey
    now: datetime

    @property
    def fields(self) -> dict[str, Any]:
        return self.request.fields()

    @property
    def query(self) -> dict[str, str]:
        return self.request.query


def authenticated(state: CloudState, request: CloudRequest, operation: str) -> ApiKey:
    """The key behind the request's token; raises the 401 or 403 of the real API."""
    if operation == "list_products":  # the catalogue is public
        return ApiKey(projects=[])
    if not request.token:
        raise problems.unauthenticated("missing")
    key = state.api_keys.get(request.token)
    if key is None:
        raise problems.unauthenticated("not_found")
    needed, resource = ("ssh_keys", "ssh_key") if "ssh_key" in operation else ("servers", "server")
    if needed not in key.permissions:
        raise problems.forbidden("list" if operation.startswith("list") else "read", resource)
    return key


def project_of(call: CloudCall, named: str | None, action: str, resource: str) -> str:
    """The project a call names, if the key may act in it; a call that must name one and does not is refused too."""
    if named is None or named not in call.key.projects:
        raise problems.forbidden(action, resource)
    return named


def host_of(state: CloudState, call: CloudCall, action: str, server_id: str | None = None) -> Host:
    """The host of the call. Another project's host and a deleted one answer alike, as with the real API."""
    wanted, zone = server_id if server_id is not None else call.parts["server_id"], call.parts["zone"]
    host = state.hosts.get(wanted)
    if host is not None and host.zone == zone:
        if host.project_id not in call.key.projects:
            raise problems.forbidden(action, "server")
        return host
    if state.deleted.get(wanted) == zone and state.behaviour.gone_shape == "forbidden":
        raise problems.forbidden(action, "server")
    raise problems.missing("server", wanted, bare=state.behaviour.gone_shape == "bare")


def paged(
    call: CloudCall, key: str, entries: Sequence[T], render: Callable[[T], Any] = lambda entry: entry
) -> ServiceResponse:
    """One page of the entries; only those on it are rendered."""
    page, size = _number(call, "page", 1), _number(call, "page_size", _DEFAULT_PAGE)
    if size > _LARGEST_PAGE:
        raise problems.invalid("page_size", "constraint", f"must be at most {_LARGEST_PAGE}")
    shown = [render(entry) for entry in entries[(page - 1) * size : page * size]]
    return json_answer(200, {key: shown, "total_count": len(entries)})


def checked_name(value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > _LONGEST_NAME:
        raise problems.invalid("name", "constraint", f"must have 1 to {_LONGEST_NAME} characters")
    return value


def _number(call: CloudCall, name: str, default: int) -> int:
    text = call.query.get(name, str(default))
    if not text.isdigit() or int(text) < 1:
        raise problems.invalid(name, "constraint", "must be a positive integer")
    return int(text)
