"""A request, free of any HTTP library, so that it can be kept, delayed and replayed; and what it asks for."""

import re
from typing import Any

import msgspec

__all__ = ["CloudRequest", "operation_of", "server_id_of"]

_ZONE = r"/apple-silicon/v1alpha1/zones/(?P<zone>[^/]+)"
_OPERATIONS: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (method, name, re.compile(pattern))
    for method, name, pattern in (
        ("GET", "list", rf"{_ZONE}/servers"),
        ("POST", "create", rf"{_ZONE}/servers"),
        ("GET", "get", rf"{_ZONE}/servers/(?P<server_id>[^/]+)"),
        ("PATCH", "update", rf"{_ZONE}/servers/(?P<server_id>[^/]+)"),
        ("DELETE", "delete", rf"{_ZONE}/servers/(?P<server_id>[^/]+)"),
        ("POST", "reboot", rf"{_ZONE}/servers/(?P<server_id>[^/]+)/reboot"),
        ("POST", "reinstall", rf"{_ZONE}/servers/(?P<server_id>[^/]+)/reinstall"),
        ("GET", "list_os", rf"{_ZONE}/os"),
        ("GET", "get_os", rf"{_ZONE}/os/(?P<os_id>[^/]+)"),
        ("GET", "list_server_types", rf"{_ZONE}/server-types"),
        ("GET", "get_server_type", rf"{_ZONE}/server-type/(?P<server_type>[^/]+)"),
        ("GET", "list_private_networks", rf"{_ZONE}/server-private-networks"),
        ("POST", "start_diagnostic", rf"{_ZONE}/connectivity-diagnostics"),
        ("GET", "get_diagnostic", rf"{_ZONE}/connectivity-diagnostics/(?P<diagnostic_id>[^/]+)"),
        ("GET", "list_products", r"/product-catalog/v2alpha1/public-catalog/products"),
        ("GET", "list_ssh_keys", r"/iam/v1alpha1/ssh-keys"),
        ("POST", "create_ssh_key", r"/iam/v1alpha1/ssh-keys"),
        ("GET", "get_ssh_key", r"/iam/v1alpha1/ssh-keys/(?P<ssh_key_id>[^/]+)"),
        ("DELETE", "delete_ssh_key", r"/iam/v1alpha1/ssh-keys/(?P<ssh_key_id>[^/]+)"),
    )
)


class CloudRequest(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: dict[str, str]
    token: str
    body: bytes

    def fields(self) -> dict[str, Any]:
        """The JSON object in the body; empty where there is none."""
        try:
            decoded = msgspec.json.decode(self.body) if self.body else {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return decoded if isinstance(decoded, dict) else {}


def operation_of(request: CloudRequest) -> tuple[str, dict[str, str]]:
    """What the request asks for, and the parts of its path; `unknown` for what the API does not have.

    A PATCH is `rename` where it names, `schedule_deletion` where it schedules, else `update`.
    """
    for method, name, pattern in _OPERATIONS:
        if method == request.method and (match := pattern.fullmatch(request.path)) is not None:
            return _kind_of_update(request) if name == "update" else name, match.groupdict()
    return "unknown", {}


def _kind_of_update(request: CloudRequest) -> str:
    fields = request.fields()
    if "name" in fields:
        return "rename"
    return "schedule_deletion" if "schedule_deletion" in fields else "update"


def server_id_of(request: CloudRequest, parts: dict[str, str]) -> str:
    """The server that the request speaks of, or ""."""
    return parts.get("server_id") or str(request.fields().get("server_id") or "")
