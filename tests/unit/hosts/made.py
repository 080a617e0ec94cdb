"""Machines, Hosts and servers as tests need them: everything fits until a test says otherwise."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from paddock.clients.scaleway import Server
from paddock.clients.scaleway.model import OperatingSystem as Image
from paddock.hosts.api import (
    HostClaim,
    HostRelease,
    HostSpec,
    HostStatus,
    MachineSpec,
    MachineStatus,
    OperatingSystem,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
)
from paddock.kube.objects import ObjectMeta

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
POOL = "tuist-pool-"
SERVER_ID = "11111111-1111-4111-8111-111111111111"
OTHER_ID = "22222222-2222-4222-8222-222222222222"
UID = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
OTHER_UID = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
FREE_NAME = f"{POOL}0c5d"


def later(**duration: float) -> datetime:
    return NOW + timedelta(**duration)


def machine(
    name: str = "m-1",
    *,
    uid: str = UID,
    namespace: str = "default",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    deleted: bool = False,
    made: datetime | None = None,
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> ScalewayAppleSiliconMachine:
    return ScalewayAppleSiliconMachine(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid,
            annotations=annotations or {},
            labels=labels or {},
            creation_timestamp=made,
            deletion_timestamp=NOW if deleted else None,
        ),
        spec=MachineSpec(**(spec or {})),
        status=MachineStatus(**status),
    )


def claim(owner: ScalewayAppleSiliconMachine | None = None, *, epoch: int = 1) -> HostClaim:
    owner = owner or machine()
    return HostClaim(
        machine_namespace=owner.metadata.namespace,
        machine_name=owner.metadata.name,
        machine_uid=owner.metadata.uid,
        epoch=epoch,
    )


def release(**fields: Any) -> HostRelease:
    return HostRelease(**{"pool_prefix": POOL, "os_family": "Tahoe", "reason": "MachineDeleted", **fields})


def host(
    server_id: str = SERVER_ID, *, spec: dict[str, Any] | None = None, deleted: bool = False, **status: Any
) -> ScalewayAppleSiliconHost:
    """A free host, ready to be claimed."""
    shown = HostStatus(
        state="pooled",
        cloud_name=FREE_NAME,
        cloud_status="ready",
        type="M2-L",
        os=OperatingSystem(family="Tahoe", name="macos-tahoe-26.3", version="26.3"),
        delivered=True,
        ip="198.18.0.1",
    )
    return ScalewayAppleSiliconHost(
        metadata=ObjectMeta(name=server_id, namespace="default", deletion_timestamp=NOW if deleted else None),
        spec=HostSpec(**{"zone": "fr-par-1", "server_id": server_id, **(spec or {})}),
        status=replace(shown, **status),
    )


def server(name: str = FREE_NAME, **fields: Any) -> Server:
    """What a GET shows of a host that is ready."""
    image = Image(id="33333333-3333-4333-8333-333333333333", name="macos-tahoe-26.3", family="Tahoe", version="26.3")
    shown = {
        "id": SERVER_ID,
        "type": "M2-L",
        "zone": "fr-par-1",
        "status": "ready",
        "delivered": True,
        "ip": "198.18.0.1",
    }
    return Server(**{"os": image, **shown, **fields, "name": name})
