"""What has no Pod any more: shares that outlived their VM, and VMs that the journal does not know."""

from dataclasses import dataclass

from paddock.base.logs import get_logger
from paddock.node.context import Context
from paddock.node.journal import Stage
from paddock.node.machines import Liveness, TartError
from paddock.node.names import uid_of

__all__ = ["Sweep"]

log = get_logger("node sweep")


@dataclass(slots=True)
class _Absence:
    """When a Pod was first seen to be absent, by this agent's monotonic clock."""

    since: float


class Sweep:
    """Compares the journal, Tart's VMs and the Pods of complete answers.

    A VM without an entry goes after two sightings of its Pod's absence, `absent_for` apart, each in a complete answer. An answer
    that is incomplete or fails moves nothing, and a Pod that is shown again starts from the beginning.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._orphan_absences: dict[str, _Absence] = {}

    async def once(self) -> None:
        """One pass."""
        await self._leftovers()
        await self._orphans()

    async def _leftovers(self) -> None:
        """Shares that could not be removed with their VM. The entry stays until they are gone, also over restarts."""
        for entry in self._context.journal.entries():
            if entry.stage is Stage.CLEARED:
                try:
                    await self._context.shares(entry.uid).remove()
                except OSError as error:
                    log.warning("the shares of a VM that is gone cannot be removed", uid=entry.uid, why=str(error))

    async def _orphans(self) -> None:
        """VMs of our name that the journal does not know: the journal was lost, or a clone outlived its entry."""
        context = self._context
        present = context.present
        try:
            machines = await context.tart.machines()
        except TartError as error:
            log.warning("the VMs cannot be listed", why=str(error))
            return
        known = {entry.uid for entry in context.journal.entries()} | context.journal.unreadable
        orphans = {
            vm.name: uid for vm in machines if vm.source == "local" and (uid := uid_of(vm.name)) and uid not in known
        }
        shown = present or context.pods.keys()
        for name in [name for name in self._orphan_absences if name not in orphans or orphans[name] in shown]:
            del self._orphan_absences[name]
        alive: set[str] = set()
        for name, uid in orphans.items():
            lives = await context.tart.liveness(name, context.journal.folder(uid)) is not Liveness.GONE
            if lives:
                alive.add(name)
            if uid in shown:
                continue  # its keeper adopts it, or clones over it
            if present is None:
                continue
            now = context.clock.monotonic()
            first = self._orphan_absences.setdefault(name, _Absence(now))
            # A Pod's Node never changes, so that a complete answer without the uid says what a GET would.
            if now - first.since >= context.settings.absent_for and context.journal.get(uid) is None:
                await self._remove_orphan(name, lives=lives)
        context.orphans, context.vms_listed = alive, True

    async def _remove_orphan(self, name: str, *, lives: bool) -> None:
        try:
            if lives:
                await self._context.tart.stop(name)
            await self._context.tart.delete(name)
            log.info("a VM without a Pod was removed", vm=name)
        except TartError as error:
            log.warning("a VM without a Pod cannot be removed yet", vm=name, why=str(error))
