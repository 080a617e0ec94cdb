"""Scaleway: the contract (`Cloud`), the client that keeps it, its values, its results and its errors."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from paddock.clients.scaleway.errors import (
    Expired,
    IncompleteList,
    InvalidArguments,
    Locked,
    NotFound,
    OutOfStock,
    PermissionDenied,
    PreconditionFailed,
    QuotaExceeded,
    RateLimited,
    ScalewayError,
    SettingsError,
    TransientState,
    Unauthenticated,
    Unavailable,
)
from paddock.clients.scaleway.model import (
    Diagnostic,
    HealthDetails,
    OperatingSystem,
    Price,
    Server,
    ServerList,
    ServerType,
    SSHKey,
)
from paddock.clients.scaleway.os_family import OSNotPublished, OSPinNotFamily
from paddock.clients.scaleway.results import AlreadyUnderWay, BelowBillingFloor, Done, Gone, StillThere, Unknown

if TYPE_CHECKING:
    from paddock.clients.scaleway.budget import RequestBudget
    from paddock.clients.scaleway.client import ScalewayClient
    from paddock.clients.scaleway.cloud import Cloud
    from paddock.clients.scaleway.credentials import Credentials, FetchedServer
    from paddock.clients.scaleway.settings import ScalewaySettings

__all__ = [
    "AlreadyUnderWay",
    "BelowBillingFloor",
    "Cloud",
    "Credentials",
    "Diagnostic",
    "Done",
    "Expired",
    "FetchedServer",
    "Gone",
    "HealthDetails",
    "IncompleteList",
    "InvalidArguments",
    "Locked",
    "NotFound",
    "OSNotPublished",
    "OSPinNotFamily",
    "OperatingSystem",
    "OutOfStock",
    "PermissionDenied",
    "PreconditionFailed",
    "Price",
    "QuotaExceeded",
    "RateLimited",
    "RequestBudget",
    "SSHKey",
    "ScalewayClient",
    "ScalewayError",
    "ScalewaySettings",
    "Server",
    "ServerList",
    "ServerType",
    "SettingsError",
    "StillThere",
    "TransientState",
    "Unauthenticated",
    "Unavailable",
    "Unknown",
]

# Imported when first used: whoever only reads what the cloud shows, as each command does, need not load the client.
_LATER = {
    "budget": ("RequestBudget",),
    "client": ("ScalewayClient",),
    "cloud": ("Cloud",),
    "credentials": ("Credentials", "FetchedServer"),
    "settings": ("ScalewaySettings",),
}
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return value
