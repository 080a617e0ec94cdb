"""An object that cannot be reconciled says so itself: a condition, an Event, and through the condition a problem for people.

Without it such an object merely stays as it is: its reconcile fails before it writes anything, and only the log knows.
"""

from collections import OrderedDict
from typing import Any, Final

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.kube.client import Client
from paddock.kube.conditions import get_condition, set_condition, without_condition
from paddock.kube.errors import ConflictError, KubeError
from paddock.kube.events import EventRecorder
from paddock.kube.objects import Condition, KubeObject
from paddock.kube.resource import Resource
from paddock.kube.stalled_condition import STALLED

__all__ = ["Stalls"]

_FAILURES: Final = 5
"""In a row: conflicts and blips are over sooner."""
_AGAIN: Final = 300.0
"""Seconds between two writes about one object. Each write wakes its controller, and an error may read differently each time."""
_REMEMBERED: Final = 4096
_LONGEST: Final = 600
_LOG = get_logger("stalled")


class Stalls:
    """Told of every failure and success of a controller; writes rarely, never raises, and takes back what it wrote."""

    def __init__(self, client: Client, recorder: EventRecorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._written: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    async def failed(self, controller: str, obj: KubeObject, error: str, failures: int | None) -> None:
        """So many times in a row; None: it is not tried again until the object changes."""
        if (failures is not None and failures < _FAILURES) or not _has_conditions(obj):
            return
        key, now = (controller, obj.metadata.namespace, obj.metadata.name), self._clock.monotonic()
        if (last := self._written.get(key)) is not None and now - last < _AGAIN:
            return
        self._written[key] = now
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)
        again = f"has failed {failures} times in a row and tries again, less and less often"
        why = f"{_whose(controller)} {again if failures else 'does not try again until it changes'}: {error}"
        condition = Condition(
            type=STALLED,
            status="True",
            reason="ReconcileFailed",
            message=why[:_LONGEST],
            observed_generation=obj.metadata.generation,
        )
        if last is None:
            self._recorder.record(obj, "Warning", "ReconcileFailed", condition.message)
        await self._write(key, obj, set_condition(_conditions(obj), condition, self._clock.now()))

    async def succeeded(self, controller: str, obj: KubeObject) -> None:
        """Also where an earlier process wrote the condition; another controller's is its own to take back."""
        key = (controller, obj.metadata.namespace, obj.metadata.name)
        self._written.pop(key, None)
        if not _has_conditions(obj):
            return
        found = get_condition(_conditions(obj), STALLED)
        if found is not None and found.message.startswith(_whose(controller)):
            await self._write(key, obj, without_condition(_conditions(obj), STALLED))

    async def _write(self, key: tuple[str, str, str], obj: KubeObject, conditions: tuple[Condition, ...]) -> None:
        meta = obj.metadata
        patch = {
            # Conditions are one list: whoever wrote since wins, and this comes again with the next failure or success.
            "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
            "status": {"conditions": conditions},
        }
        where: Resource = obj.RESOURCE
        try:
            await self._client.merge_patch(
                type(obj), meta.name, patch, meta.namespace or None, subresource="status" if where.status else None
            )
        except ConflictError:
            self._written.pop(key, None)
        except KubeError as error:
            _LOG.warning("that an object is stalled could not be written", object=str(meta.name), problem=str(error))


def _whose(controller: str) -> str:
    return f"the {controller} controller"


def _has_conditions(obj: KubeObject) -> bool:
    return hasattr(getattr(obj, "status", None), "conditions") and obj.RESOURCE.group != ""


def _conditions(obj: Any) -> tuple[Condition, ...]:
    return obj.status.conditions
