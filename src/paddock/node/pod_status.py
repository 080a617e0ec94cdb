"""What the API server is told of a Pod: how it is, why it is not run, and how it ended."""

from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from paddock.base.clock import rfc3339
from paddock.kube.builtin import Pod
from paddock.kube.errors import ConflictError, NotFoundError
from paddock.node.context import FIELD_MANAGER, Context
from paddock.node.decide import Action, Facts
from paddock.node.journal import Entry, Stage
from paddock.node.pods import Json, Refusal, belongs_to_daemon_set, refused, report
from paddock.node.shares import Guest

__all__ = ["PodStatusWriter"]

_CONTRADICTED: Final = 10.0
"""So long the cache may be behind what was written."""
_TEXTS_EVERY: Final = 60.0
"""A text that counts seconds or gigabytes is written so often, and with every change beside it."""


class PodStatusWriter:
    """Writes one Pod's status, where it changed. A write that is lost is made up for by the next look."""

    def __init__(self, context: Context, uid: str) -> None:
        self._context = context
        self._uid = uid
        self._told: Json | None = None
        self._told_at = 0.0
        self._refused = False

    async def refuse(self, pod: Pod, refusal: Refusal) -> None:
        """Say once why the Pod is not run, and end it, unless its controller would make another one for ever."""
        context = self._context
        if not self._refused:
            self._refused = True
            context.events.record(pod, "Warning", refusal.reason, refusal.message)
        if belongs_to_daemon_set(pod):
            return  # failed, its controller would make another one, for ever
        status = refused(refusal, pod.status.start_time or context.clock.now())
        with suppress(NotFoundError, ConflictError):
            await self._apply(pod.metadata.namespace, pod.metadata.name, status)

    async def tell(self, action: Action, facts: Facts) -> None:
        """Say how the Pod is, where that changed. A report that fails is made up for by the next look."""
        entry = self._context.journal.get(self._uid)
        if facts.unreadable and facts.pod is not None and action.refusal is not None:
            await self._say_unreadable(facts.pod, action.refusal)
        if entry is None or entry.over or facts.pod is None:
            return
        guest = facts.guest if facts.entry is not None and facts.entry.holds_seat else Guest()
        waiting = action.refusal
        if waiting is None and entry.stage is Stage.CLONING:
            waiting = Refusal("VMCloning", "the VM is cloned from its image")
        status = report(entry, guest, waiting, self._context.host.address)
        now = self._context.clock.monotonic()
        texts_alone = _but_message(status) == _but_message(self._told) and now - self._told_at < _TEXTS_EVERY
        same = status == self._told or texts_alone
        # A control plane says of all Pods of a silent Node that they are not ready, and takes it back for none.
        if same and not (now - self._told_at >= _CONTRADICTED and _contradicts(facts.pod, status)):
            return
        with suppress(NotFoundError, ConflictError):
            await self._apply(entry.namespace, entry.name, status)
        self._told, self._told_at = status, now

    async def report_end(self, entry: Entry) -> None:
        """The end, as the journal has it."""
        # A lost answer leads to the same report again, which changes nothing: it comes from the journal alone.
        with suppress(NotFoundError, ConflictError):
            await self._apply(entry.namespace, entry.name, report(entry, Guest(), None, self._context.host.address))
        await self._context.journal.put(replace(entry, reported=True))

    async def _apply(self, namespace: str, name: str, status: Json, manager: str = FIELD_MANAGER) -> None:
        # The uid is a precondition: a namesake's status is not ours to write.
        metadata = {"namespace": namespace, "name": name, "uid": self._uid}
        await self._context.client.apply(
            {"metadata": metadata, "status": status},
            Pod.RESOURCE,
            subresource="status",
            field_manager=manager,
            force=True,
        )

    async def _say_unreadable(self, pod: Pod, refusal: Refusal) -> None:
        """One condition, by a writer of its own: whatever else the Pod's status says was written by who could read."""
        if any(each.type == "Ready" and each.reason == refusal.reason for each in pod.status.conditions):
            return
        if not self._refused:
            self._refused = True
            self._context.events.record(pod, "Warning", refusal.reason, refusal.message)
        condition = {
            "type": "Ready",
            "status": "False",
            "reason": refusal.reason,
            "message": refusal.message,
            "lastTransitionTime": rfc3339(self._context.clock.now()),
        }
        with suppress(NotFoundError, ConflictError):
            await self._apply(
                pod.metadata.namespace,
                pod.metadata.name,
                {"conditions": [condition]},
                manager=f"{FIELD_MANAGER}-journal",
            )


def _contradicts(pod: Pod, status: Json) -> bool:
    """Whether the API server shows another Ready than was written."""
    shown = next((each.status for each in pod.status.conditions if each.type == "Ready"), None)
    return shown != status["conditions"][-1]["status"]


def _but_message(status: Json | None) -> Any:
    """A status without its texts, some of which change all the time."""
    if status is None:
        return None
    state: dict[str, Any] = status["containerStatuses"][0]["state"]
    key = next(iter(state))
    ready: dict[str, Any] = status["conditions"][-1]
    return status["phase"], key, state[key].get("reason"), ready["status"], ready.get("reason")
