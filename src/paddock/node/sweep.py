"""Which VMs have no Pod any more. A VM is ended only for what the API server said, twice; never for what it did not say."""

from dataclasses import dataclass

from paddock.base.logs import get_logger
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.kube.errors import ForbiddenError, KubeError, NotFoundError
from paddock.node.cluster import cluster_uid
from paddock.node.context import Context
from paddock.node.journal import Entry, Stage
from paddock.node.machines import Liveness, TartError
from paddock.node.names import uid_of

__all__ = ["Sweep", "is_absent"]

log = get_logger("node sweep")


@dataclass(slots=True)
class _Absence:
    """When a Pod was first seen to be absent, by this agent's monotonic clock."""

    since: float


class Sweep:
    """Compares the journal and Tart's VMs with complete lists of the Node's Pods.

    An entry whose VM may run is gone after two sightings of its absence, `absent_for` apart, each behind a complete list
    that does not show it. An entry that is over needs one sighting: nothing of it runs. A list or a GET that fails moves
    nothing, and a Pod that is seen again starts from the beginning.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._absences: dict[str, _Absence] = {}
        self._orphan_absences: dict[str, _Absence] = {}

    async def once(self) -> None:
        """One pass. Raises KubeError where the list fails: then nothing was concluded. A GET that fails moves nothing of its Pod."""
        context = self._context
        node = context.settings.node_name
        listed = await context.client.list(Pod, context.settings.namespace, field_selector=f"spec.nodeName={node}")
        present = {pod.metadata.uid for pod in listed.items}
        entries = context.journal.entries()
        if not context.cluster or any(entry.holds_seat and entry.uid not in present for entry in entries):
            # Read anew before anything follows from an absence: the same address may lead to another cluster by now.
            context.cluster = await cluster_uid(context.client)
        for entry in entries:
            if entry.uid in present:
                self._absences.pop(entry.uid, None)
            elif entry.uid not in context.gone:
                try:
                    await self._missing(entry)
                except KubeError as error:
                    # Of this one nothing is known. It must not keep the others from ending.
                    log.info("whether a Pod is gone cannot be told", uid=entry.uid, why=str(error))
        await self._leftovers()
        await self._orphans(present)

    async def _leftovers(self) -> None:
        """Shares that could not be removed with their VM. The entry stays until they are gone, also over restarts."""
        for entry in self._context.journal.entries():
            if entry.stage is Stage.CLEARED:
                try:
                    await self._context.shares(entry.uid).remove()
                except OSError as error:
                    log.warning("the shares of a VM that is gone cannot be removed", uid=entry.uid, why=str(error))

    async def _missing(self, entry: Entry) -> None:
        context = self._context
        if not await is_absent(context.client, entry, context.settings.node_name):
            self._absences.pop(entry.uid, None)
            return
        now = context.clock.monotonic()
        first = self._absences.setdefault(entry.uid, _Absence(now))
        if entry.over or now - first.since >= context.settings.absent_for:
            log.info("a Pod is gone", uid=entry.uid, pod=f"{entry.namespace}/{entry.name}")
            context.gone.add(entry.uid)
            del self._absences[entry.uid]

    async def _orphans(self, present: set[str]) -> None:
        """VMs of our name that the journal does not know: the journal was lost, or a clone outlived its entry."""
        context = self._context
        try:
            machines = await context.tart.machines()
        except TartError as error:
            log.warning("the VMs cannot be listed", why=str(error))
            return
        known = {entry.uid for entry in context.journal.entries()} | context.journal.unreadable
        orphans = {
            vm.name: uid for vm in machines if vm.source == "local" and (uid := uid_of(vm.name)) and uid not in known
        }
        for name in [name for name in self._orphan_absences if name not in orphans or orphans[name] in present]:
            del self._orphan_absences[name]
        alive: set[str] = set()
        for name, uid in orphans.items():
            lives = await context.tart.liveness(name, context.journal.folder(uid)) is not Liveness.GONE
            if lives:
                alive.add(name)
            if uid in present:
                continue  # its keeper adopts it, or clones over it
            now = context.clock.monotonic()
            first = self._orphan_absences.setdefault(name, _Absence(now))
            # A Pod's Node never changes, so that a complete list of the Node without the uid says what a GET would.
            if now - first.since >= context.settings.absent_for and context.journal.get(uid) is None:
                await self._remove_orphan(name, lives=lives)
        context.orphans = alive

    async def _remove_orphan(self, name: str, *, lives: bool) -> None:
        try:
            if lives:
                await self._context.tart.stop(name)
            await self._context.tart.delete(name)
            log.info("a VM without a Pod was removed", vm=name)
        except TartError as error:
            log.warning("a VM without a Pod cannot be removed yet", vm=name, why=str(error))


async def is_absent(client: Client, entry: Entry, node: str) -> bool:
    """Whether the API server says that this very Pod does not exist. Everything but a clear answer raises."""
    try:
        pod = await client.get(Pod, entry.name, entry.namespace)
    except NotFoundError:
        return True
    except ForbiddenError:
        # The Node authorizer knows only Pods that exist and are bound here: of others it says 403. A list may still ask.
        selector = f"spec.nodeName={node},metadata.name={entry.name}"
        found = await client.list(Pod, entry.namespace, field_selector=selector)
        return all(each.metadata.uid != entry.uid for each in found.items)
    return pod.metadata.uid != entry.uid
