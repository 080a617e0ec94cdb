"""The one way in which a status with conditions is written, so that no writer undoes what another wrote since."""

from typing import Any, TypeVar

from msgspec.structs import replace

from paddock.kube.client import Client
from paddock.kube.conditions import changed_conditions, merge_conditions
from paddock.kube.difference import merge_difference
from paddock.kube.errors import ConflictError
from paddock.kube.objects import KubeObject
from paddock.kube.reader import FreshReader

__all__ = ["write_status"]

T = TypeVar("T", bound=KubeObject)
_RETRIES = 3


async def write_status(client: Client, obj: T, status: Any, *, guarded: bool = False) -> T | None:
    """Write what differs between the object's status and `status`; gives the object as it is then, None where it is gone.

    A list is replaced whole, so conditions are written in the version that they were merged into, and merged anew where that
    has changed: those that this caller did not change stay as others wrote them, and what others took away does not return.
    ConflictError where the object changes faster than it can be read; with `guarded`, which is for what must not be decided
    twice, where it changed at all since it was read.
    """
    before = _status(obj)
    changed = changed_conditions(before.conditions, status.conditions)
    change = merge_difference(before, replace(status, conditions=before.conditions))
    for left in reversed(range(_RETRIES + 1)):
        now = _status(obj)
        merged = merge_difference(
            now, replace(now, conditions=merge_conditions(now.conditions, status.conditions, changed))
        )
        if not change and not merged:
            return obj
        meta = obj.metadata
        version = {"resourceVersion": meta.resource_version} if merged or guarded else {}
        patch = {"metadata": {"uid": meta.uid, **version}, "status": change | merged}
        try:
            return await client.merge_patch(type(obj), meta.name, patch, namespace=meta.namespace, subresource="status")
        except ConflictError:
            if guarded or not left:
                raise
        fresh = await FreshReader(client).get(type(obj), meta.name, meta.namespace)
        if fresh is None or fresh.metadata.uid != meta.uid:
            return None
        obj = fresh
    raise AssertionError("the last conflict is raised")


def _status(obj: Any) -> Any:
    return obj.status
