"""Every machine that may own a host, also one whose object does not fit its struct: what cannot be read still owns."""

from typing import Any

import msgspec

from paddock.base.logs import get_logger
from paddock.hosts.api import MachineSpec, MachineStatus, ScalewayAppleSiliconMachine
from paddock.hosts.controllers.context import ReconcileContext
from paddock.kube.errors import UnreadableObjectError
from paddock.kube.objects import ObjectMeta

__all__ = ["owning_machines"]

log = get_logger("owners")
Machine = ScalewayAppleSiliconMachine


async def owning_machines(context: ReconcileContext) -> list[Machine]:
    """A complete fresh list. An object that does not decode, say of a newer version, is in it with its name, its uid and its
    server: it keeps its host, and keeps nobody from judging the other hosts. Raises KubeError where the list fails.
    """
    try:
        return (await context.fresh.list(Machine)).items
    except UnreadableObjectError as error:
        log.warning("a machine cannot be read; it counts as the owner of its host", why=str(error))
    return [_readable(each) for each in (await context.client.list(Machine.RESOURCE)).items]


def _readable(obj: dict[str, Any]) -> Machine:
    try:
        return msgspec.convert(obj, Machine)
    except msgspec.ValidationError:
        meta = obj.get("metadata") or {}
        return Machine(
            metadata=ObjectMeta(name=_text(meta, "name"), namespace=_text(meta, "namespace"), uid=_text(meta, "uid")),
            spec=MachineSpec(adopt_pool_prefix=_text(obj.get("spec"), "adoptPoolPrefix")),
            status=MachineStatus(server_id=_text(obj.get("status"), "serverID")),
        )


def _text(holder: Any, key: str) -> str:
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, str) else ""
