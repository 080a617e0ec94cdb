"""Everything the simulated cloud remembers, as plain values that go to JSON and back."""

from datetime import datetime
from typing import Literal

import msgspec

__all__ = [
    "Activity",
    "ApiKey",
    "CloudBehaviour",
    "CloudState",
    "Diagnosis",
    "Host",
    "Image",
    "LateRequest",
    "Offer",
    "RegisteredKey",
    "ServerHealth",
]


Activity = Literal["starting", "rebooting", "reinstalling"]
"""What can be under way on a host and ends by itself."""


class CloudBehaviour(msgspec.Struct, kw_only=True):
    """How the cloud behaves when nothing is wrong, and which of its known shapes it shows. Durations are in seconds.

    Delays of hardware (`order…`, `reboot`, `reinstall`, `diagnostic`, the sealed windows) are divided by `speed`. The
    billing floor is not: it is a date that people read.
    """

    speed: float = 1.0
    order: float = 135.0
    order_of_another_image: float = 3600.0
    reboot: float = 106.0
    reinstall: tuple[float, float] = (720.0, 1080.0)
    diagnostic: float = 20.0
    latency: tuple[float, float] | None = None
    billing_floor: float = 86400.0
    floor_shape: Literal["typed", "bare", "text", "mismatched"] = "typed"
    """`mismatched` is the typed body under another status; `text` is a 412 that is not JSON and names no date."""
    gone_shape: Literal["forbidden", "not_found", "bare"] = "forbidden"
    retired_image_shape: Literal["not_found", "invalid_arguments"] = "not_found"
    sealed_after_rename: float = 0.0
    sealed_after_reboot: float = 0.0
    sealed_after_reinstall: float = 0.0
    requests_per_second: int | None = None
    """Above this the cloud answers 429; None means that it never does by itself."""
    quota: int | None = None


class Image(msgspec.Struct, kw_only=True):
    id: str
    name: str
    family: str
    version: str
    label: str = ""
    is_beta: bool = False
    xcode_version: str = ""
    server_types: list[str] = msgspec.field(default_factory=list)
    fast_for: list[str] = msgspec.field(default_factory=list)
    """The types that are delivered with it at once; with others a delivery takes an hour."""
    tags: list[str] = msgspec.field(default_factory=lambda: ["macos", "apple", "apple-license"])
    retired: bool = False


class Offer(msgspec.Struct, kw_only=True):
    """A server type that can be rented."""

    name: str
    product: str
    cpu: str
    cores: int
    frequency: int
    memory: int
    disk: int
    gpu: int
    bandwidths: list[int]
    default_image: str
    stock: int
    hourly_nanos: int
    monthly_euros: int


class ServerHealth(msgspec.Struct, kw_only=True):
    """What the provider's own probes see."""

    server_alive: bool = True
    agent_alive: bool = True
    mdm_alive: bool = True
    ssh_port_up: bool = True
    vnc_port_up: bool = True


class Host(msgspec.Struct, kw_only=True):
    """A rented Mac. `activity` is under way until `activity_until`; a `forced_status` hides everything else.

    `install` counts installs from 1: a simulated Mac makes one SSH host key for each.
    """

    id: str
    name: str
    type: str
    zone: str
    project_id: str
    organization_id: str
    ip: str
    image: str
    password: str
    created_at: datetime
    updated_at: datetime
    deletable_at: datetime
    vnc_port: int = 59010
    ssh_username: str = "m1"
    delivered: bool = True
    deletion_scheduled: bool = False
    activity: Activity | None = None
    activity_until: datetime | None = None
    next_image: str = ""
    next_status: str = ""
    forced_status: str = ""
    sealed_until: datetime | None = None
    powered: bool = True
    install: int = 1
    boots: int = 1
    authorized_keys: list[str] = msgspec.field(default_factory=list)
    next_authorized_keys: list[str] = msgspec.field(default_factory=list)
    health: ServerHealth = msgspec.field(default_factory=ServerHealth)
    kext_enabled: bool = False
    vpc_enabled: bool = False
    public_bandwidth_bps: int = 1_000_000_000
    commitment: str = "none"
    runner_mode: bool = False

    @property
    def status(self) -> str:
        return self.forced_status or self.activity or "ready"

    def sealed(self, now: datetime) -> bool:
        return self.sealed_until is not None and now < self.sealed_until


class RegisteredKey(msgspec.Struct, kw_only=True):
    id: str
    name: str
    public_key: str
    project_id: str
    organization_id: str
    created_at: datetime
    disabled: bool = False


class Diagnosis(msgspec.Struct, kw_only=True):
    id: str
    server_id: str
    zone: str
    ready_at: datetime


class ApiKey(msgspec.Struct, kw_only=True):
    """What a secret key may do: `servers`, `ssh_keys`, in these projects."""

    projects: list[str]
    permissions: list[str] = msgspec.field(default_factory=lambda: ["servers", "ssh_keys"])


class LateRequest(msgspec.Struct, kw_only=True):
    """A request that its sender has given up on, and that will take effect all the same."""

    at: datetime
    method: str
    path: str
    query: dict[str, str]
    token: str
    body: bytes


class CloudState(msgspec.Struct, kw_only=True):
    project_id: str
    organization_id: str
    secret_key: str
    behaviour: CloudBehaviour
    saved_at: datetime
    next_ip: str = "198.18.0.1"
    hosts: dict[str, Host] = msgspec.field(default_factory=dict)
    deleted: dict[str, str] = msgspec.field(default_factory=dict)
    """Ids of deleted hosts, and the zone each was in."""
    images: dict[str, Image] = msgspec.field(default_factory=dict)
    offers: dict[str, Offer] = msgspec.field(default_factory=dict)
    ssh_keys: dict[str, RegisteredKey] = msgspec.field(default_factory=dict)
    diagnoses: dict[str, Diagnosis] = msgspec.field(default_factory=dict)
    api_keys: dict[str, ApiKey] = msgspec.field(default_factory=dict)
    late: list[LateRequest] = msgspec.field(default_factory=list)
