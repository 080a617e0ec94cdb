"""What the stories of incidents have in common: what to wait for, and what to look at afterwards."""

from collections.abc import Iterable
from typing import Any

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.settings import HostSettings
from paddock.kube.builtin import Event
from paddock.kube.conditions import get_condition
from paddock.simulator.cloud.state import Host as CloudHost
from paddock.simulator.fleet_world import POOL, FleetWorld

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
OURS = "tuist-tuist-"
MUTATIONS = ("rename", "reboot", "reinstall", "delete", "schedule_deletion", "update")


def settings(**more: Any) -> HostSettings:
    """Quick cycles: nothing here depends on how long they are, and virtual hours cost real seconds."""
    quick = {"default_adopt_pool_prefix": POOL, "inventory_interval": 10.0, "reclaim_interval": 30.0}
    return HostSettings(**{**quick, **more})


async def force_delete(fleet: FleetWorld, name: str) -> None:
    """Delete a machine past its finalizer, as an impatient person or a broken garbage collector does."""
    await fleet.api.merge_patch(Machine, name, {"metadata": {"finalizers": None}}, namespace="default")
    await fleet.api.delete(Machine, name, "default")


async def one(fleet: FleetWorld, name: str) -> Machine:
    return next(machine for machine in await fleet.machines() if machine.metadata.name == name)


async def until_gone(fleet: FleetWorld, name: str, within: float = 60.0) -> None:
    async def gone() -> bool:
        return all(machine.metadata.name != name for machine in await fleet.machines())

    await fleet.eventually(f"{name} is gone", gone, within)


async def recorded(fleet: FleetWorld, *server_ids: str) -> None:
    """These hosts were claimed once, by machines that are gone: the ledger knows them as this cluster's own."""

    async def there() -> bool:
        hosts = await fleet.hosts()
        return all(each in hosts and hosts[each].status.cloud_name for each in server_ids)

    await fleet.ready.wait()
    await fleet.eventually("the hosts are in the ledger", there, 600.0)
    hosts = await fleet.hosts()
    for server_id in server_ids:
        spec = {"epoch": 1, "lastMachine": hosts[server_id].status.cloud_name}
        await fleet.api.merge_patch(Host, server_id, {"spec": spec}, namespace="default")


async def until_pooled(fleet: FleetWorld, server_id: str, within: float = 7200.0) -> Host:
    async def free() -> bool:
        host = (await fleet.hosts()).get(server_id)
        return host is not None and not host.spec.claim and not host.spec.release and host.status.state == "pooled"

    await fleet.eventually(f"{server_id} is free", free, within)
    return (await fleet.hosts())[server_id]


async def until_ready_says(fleet: FleetWorld, name: str, reason: str, within: float = 3600.0) -> str:
    """Wait for a reason in a machine's summary; returns its sentence."""

    async def said() -> bool:
        found = get_condition((await one(fleet, name)).status.conditions, "Ready")
        return found is not None and found.reason == reason

    await fleet.eventually(f"{name} says {reason}", said, within)
    condition = get_condition((await one(fleet, name)).status.conditions, "Ready")
    assert condition is not None
    return condition.message


def mutations(fleet: FleetWorld, server_id: str = "", *operations: str) -> list[str]:
    """The mutations that had an effect in the cloud, in order."""
    wanted: Iterable[str] = operations or MUTATIONS
    return [
        entry.operation
        for entry in fleet.cloud.audit
        if entry.effect and entry.operation in wanted and (not server_id or entry.server_id == server_id)
    ]


def asked(fleet: FleetWorld, *operations: str) -> int:
    """How often the cloud was asked for something, refused or not."""
    return sum(entry.operation in operations for entry in fleet.cloud.audit)


async def events(fleet: FleetWorld, reason: str) -> list[str]:
    await fleet.clock.sleep(5)  # events are written in the background
    return [event.message for event in (await fleet.api.list(Event)).items if event.reason == reason]


def orphans(fleet: FleetWorld, name: str = "operator-0") -> float:
    """The gauge that an alert watches."""
    registry = fleet.running[name].sweep._metrics.orphans
    return registry._value.get()


def reclaimed(fleet: FleetWorld, name: str = "operator-0") -> float:
    return fleet.running[name].sweep._metrics.reclaimed._value.get()


def cloud_host(fleet: FleetWorld, server_id: str) -> CloudHost:
    return fleet.cloud.host(server_id)
