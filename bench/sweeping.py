"""One sweep of 10,000 hosts against 10,000 Machines, through the real client, API and cloud client, in one process."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import psutil

from paddock.base.chance import new_uuid, seeded
from paddock.embedded.store import Key
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.objects import KubeObject

from .rig import Rig, rig
from .table import Row, amount

__all__ = ["sweeping"]


def sweeping(quick: bool) -> Iterator[Row]:
    yield from asyncio.run(_measure(1_000 if quick else 10_000))


async def _measure(count: int) -> list[Row]:
    async with rig(count, inventory_interval=3600.0) as house:
        await _fill(house)
        process = psutil.Process()
        before, rss = len(house.cloud.audit), process.memory_info().rss
        began = time.perf_counter()
        await house.operator.sweep.cycle()
        seconds = time.perf_counter() - began
        grown = process.memory_info().rss - rss
        calls = Counter(entry.operation for entry in house.cloud.audit[before:])
        verdicts = Counter(finding.verdict.state.value for finding in house.operator.sweep.findings)
    assert verdicts == {"owned": count}, verdicts
    kinds = ", ".join(f"{number} {name}" for name, number in sorted(calls.items()))
    what = f"sweep of {count:,} × {count:,}"
    return [
        Row("hosts", what, amount(seconds), "s", "real time; reads every Machine and Host fresh, in one process"),
        Row("hosts", f"{what}: memory", amount(grown / 1e6), "MB", "growth of the process, API answers included"),
        Row("hosts", f"{what}: cloud calls", str(sum(calls.values())), "calls", f"{kinds}; pages of 100"),
    ]


async def _fill(house: Rig) -> None:
    """Every host claimed by a machine of its own: written into the store as the API would have stored it."""
    chance = seeded(2)
    for number, server in enumerate(house.cloud.hosts()):
        name, uid = f"m-{number:05}", new_uuid(chance)
        house.cloud.foreign_rename(server.id, name)
        claim = {"machineNamespace": "default", "machineName": name, "machineUID": uid, "epoch": 1}
        host_status = {"state": "owned", "cloudName": name, "cloudStatus": "ready", "type": "M4-M", "delivered": True}
        await _store(
            house,
            ScalewayAppleSiliconHost,
            server.id,
            new_uuid(chance),
            {"zone": server.zone, "serverID": server.id, "claim": claim},
            host_status,
        )
        machine_status = {"serverID": server.id, "hostName": server.id, "ready": True, "phase": "Ready"}
        await _store(house, ScalewayAppleSiliconMachine, name, uid, {"type": "M4-M"}, machine_status)


async def _store(
    house: Rig, kind: type[KubeObject], name: str, uid: str, spec: dict[str, object], status: dict[str, object]
) -> None:
    meta = {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "generation": 1,
        "creationTimestamp": "2026-06-01T00:00:00Z",
    }
    resource = kind.RESOURCE
    body = {
        "apiVersion": f"{resource.group}/{resource.version}",
        "kind": resource.kind,
        "metadata": meta,
        "spec": spec,
        "status": status,
    }
    await house.store.create(Key(f"{resource.plural}.{resource.group}", "default", name), body)
