"""What the cloud shows, as immutable values. Fields we do not use are dropped while decoding.

Status words stay plain strings: the API adds new ones, and an unknown word must survive a read. None of these types
has a field for a password, so the answer of a mutation or of a list cannot leak one.
"""

import calendar
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Final

import msgspec

__all__ = [
    "READY",
    "REINSTALLING",
    "TRANSIENT_STATUSES",
    "Commitment",
    "Diagnostic",
    "HealthDetails",
    "OperatingSystem",
    "Price",
    "SSHKey",
    "Server",
    "ServerList",
    "ServerType",
    "SupportedServerType",
    "next_anniversary",
]

READY: Final = "ready"
REINSTALLING: Final = "reinstalling"
_MONTHLY: Final = "renewed_monthly"
TRANSIENT_STATUSES: Final = frozenset(
    {"starting", "rebooting", "updating", "locking", "unlocking", "reinstalling", "busy"}
)


class SupportedServerType(msgspec.Struct, frozen=True):
    server_type: str
    fast_delivery_available: bool = False


class OperatingSystem(msgspec.Struct, frozen=True):
    """An image of the catalogue. `version` may be newer than the version in `name`; `family` is a name or a number."""

    id: str
    name: str
    family: str = ""
    version: str = ""
    label: str = ""
    is_beta: bool = False
    xcode_version: str = ""
    tags: tuple[str, ...] = ()
    compatible_server_types: tuple[str, ...] = ()
    supported_server_types: tuple[SupportedServerType, ...] = ()

    def runs_on(self, server_type: str) -> bool:
        """Whether the image is published for that type; an image that names no types is taken at its word."""
        named = {*self.compatible_server_types, *(entry.server_type for entry in self.supported_server_types)}
        return not named or server_type in named


class Commitment(msgspec.Struct, frozen=True):
    """What a server was rented for: `renewed_monthly`, `duration_24h` or `none`. A cancelled one is not renewed, and runs to its end."""

    type: str = "none"
    cancelled: bool = False


def next_anniversary(ordered: datetime, now: datetime) -> datetime:
    """The next end of a month that began with the order; in a month that is too short on its last day."""
    months = max(1, (now.year - ordered.year) * 12 + now.month - ordered.month)
    while (end := _months_after(ordered, months)) <= now:
        months += 1
    return end


def _months_after(ordered: datetime, months: int) -> datetime:
    year, month = divmod(ordered.year * 12 + ordered.month - 1 + months, 12)
    return ordered.replace(year=year, month=month + 1, day=min(ordered.day, calendar.monthrange(year, month + 1)[1]))


class Server(msgspec.Struct, frozen=True):
    """A rented Mac as the cloud sees it, without its credentials.

    `os` is the image that was installed, which does not follow later updates on the Mac itself. `deletable_at` equals
    `created_at` until the server is delivered and means nothing before that.
    """

    id: str
    name: str
    type: str = ""
    zone: str = ""
    status: str = "unknown_status"
    project_id: str = ""
    organization_id: str = ""
    ip: str = ""
    delivered: bool = False
    deletion_scheduled: bool = False
    created_at: datetime | None = None
    updated_at: datetime | None = None
    deletable_at: datetime | None = None
    os: OperatingSystem | None = None
    ssh_username: str = ""
    vnc_port: int = 0
    vpc_status: str = ""
    public_bandwidth_bps: int = 0
    kext_enabled: bool = False
    tags: tuple[str, ...] = ()
    applied_runner_configuration_ids: tuple[str, ...] = ()
    commitment: Commitment | None = None

    def committed_until(self, now: datetime) -> datetime | None:
        """Under a monthly commitment the anniversary of its order: until then it is paid for, and a deletion takes effect then."""
        if self.commitment is None or self.commitment.type != _MONTHLY or self.created_at is None:
            return None
        return next_anniversary(self.created_at, now).replace(microsecond=0)

    @property
    def usable(self) -> bool:
        """Delivered and ready. `delivered` alone stays true while the disk is being wiped."""
        return self.delivered and self.status == READY

    @property
    def unwipeable(self) -> str:
        """Why the cloud refuses to reinstall it; empty where it does not."""
        if not self.applied_runner_configuration_ids:
            return ""
        return "Scaleway's own Runner is set up on it, and the cloud reinstalls no such Mac: take its runner configuration off in the console"

    @property
    def transient(self) -> bool:
        """True while an operation is under way that ends by itself."""
        return self.status in TRANSIENT_STATUSES


class ServerList(msgspec.Struct, frozen=True):
    """Every server of one zone and project at one moment. There is no partial ServerList: an unproven read raises.

    Absence from this list is evidence; `taken_at` says of when.
    """

    zone: str
    servers: tuple[Server, ...]
    total_count: int
    taken_at: datetime

    @property
    def complete(self) -> bool:
        """Proven by the cloud's own count."""
        return len(self.servers) == self.total_count

    def find(self, server_id: str) -> Server | None:
        return next((server for server in self.servers if server.id == server_id), None)

    def named(self, name: str) -> tuple[Server, ...]:
        """All servers of that name: names are not unique in the cloud."""
        return tuple(server for server in self.servers if server.name == name)

    def __iter__(self) -> Iterator[Server]:
        return iter(self.servers)

    def __len__(self) -> int:
        return len(self.servers)


class ServerType(msgspec.Struct, frozen=True):
    """A type that can be rented, with its stock: `no_stock`, `low_stock` or `high_stock`."""

    name: str
    stock: str = "unknown_stock"
    minimum_lease_duration: str = ""
    default_os: OperatingSystem | None = None


class Price(msgspec.Struct, frozen=True):
    """What one server of a type costs; exact, because nine decimals of a euro do not fit a float."""

    server_type: str
    currency: str
    per_hour: Decimal
    per_month: Decimal | None = None


class HealthDetails(msgspec.Struct, frozen=True):
    is_server_alive: bool = False
    is_agent_alive: bool = False
    is_mdm_alive: bool = False
    is_ssh_port_up: bool = False
    is_vnc_port_up: bool = False
    last_checkin_date: datetime | None = None


class Diagnostic(msgspec.Struct, frozen=True):
    """The provider's own look at a server: evidence to gather before rebooting it or giving it up."""

    id: str
    status: str = "unknown_status"
    is_healthy: bool = False
    supported_actions: tuple[str, ...] = ()
    error_message: str = ""
    health_details: HealthDetails | None = None

    @property
    def finished(self) -> bool:
        return self.status in {"completed", "error"}


class SSHKey(msgspec.Struct, frozen=True):
    id: str
    name: str
    public_key: str
    project_id: str = ""
    disabled: bool = False
    created_at: datetime | None = None
