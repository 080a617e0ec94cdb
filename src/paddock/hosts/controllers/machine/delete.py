"""The end of a machine: its host is given back, everything that was made for it is removed, the finalizer goes last."""

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from paddock.clients.scaleway import Gone
from paddock.hosts.api import FINALIZER, EndedJob, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.controllers.context import ReconcileContext, ready
from paddock.hosts.controllers.disruption import DisruptionGate
from paddock.hosts.controllers.machine.order import Order
from paddock.hosts.controllers.release import record_release
from paddock.hosts.delete import Ending, HostUnknown, RecordRelease, SkipRelease, ending, gives_back, may_end_jobs
from paddock.hosts.disruption import Clear, WorkLedgerAwayError
from paddock.hosts.ended_jobs import ended_jobs, with_ended_jobs
from paddock.hosts.health_check import was_given_up
from paddock.hosts.verify import server_zone
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition
from paddock.kube.controller import Done, RequeueAfter, Result
from paddock.kube.errors import NotFoundError

__all__ = ["DeleteMachine"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine
_WHEN_UNKNOWN = 30.0


class DeleteMachine:
    """Every step is repeatable; nothing here waits for a wipe, a billing floor or the cloud; only for jobs on the Mac."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        self._order = Order(context)
        self._gate = DisruptionGate(context)

    async def run(self, machine: Machine) -> Result:
        if FINALIZER not in machine.metadata.finalizers:
            return Done()
        context, now = self._context, self._context.clock.now()
        status = replace(machine.status, phase="Deleting")
        # What a drain said is left to the drain: two sentences in turn would be two writes in every pass.
        machine = await context.save(
            machine, status if _drains(machine) else ready(status, False, "Deleting", "is being deleted", now)
        )
        if machine.status.ordering and not machine.status.claiming:
            found = await self._order.find(machine)
            if isinstance(found, RequeueAfter):
                return found
            machine = found
        name = machine.status.host_name or machine.status.server_id or machine.status.claiming
        host = await context.fresh_host(name) if name else None
        decided, clear = ending(machine, host, context.settings.default_adopt_pool_prefix), Clear()
        # The host was read before the gate, and the release is recorded in that very version of it. Died after the gate:
        # nothing was taken, and it is asked again. Died after the record: `ReleaseRecorded`, and the rest is cleaned up.
        if may_end_jobs(decided):
            gated = await self._gate.clear(machine, "deletion", deleting=True)
            if isinstance(gated, RequeueAfter):
                return gated
            machine, clear = gated
        # Only for dispatch are they kept: without one nobody counts but this process.
        ended = ended_jobs(clear, machine, now) if context.work is not None else ()
        match decided:
            case RecordRelease(policy, prefix):
                assert host is not None
                given_up = was_given_up(machine)
                # What was ordered and is not claimed yet still has the name of its order, and no other proves it ours.
                only_ordered = host.spec.claim is None and not machine.status.server_id
                await record_release(
                    context,
                    host,
                    policy=policy,
                    prefix=prefix,
                    family=machine.spec.os,
                    reason="HostInTrouble" if given_up else "MachineDeleted",
                    message=f"machine {machine.metadata.namespace}/{machine.metadata.name} was deleted"
                    + (" because no tier helped its host" if given_up else ""),
                    cloud_name=machine.status.ordering if only_ordered else machine.metadata.name,
                    ended=ended,
                )
                if given_up:
                    # As where the operator gives it back itself. Died before: a life is not counted, which costs one more try.
                    await context.count(host, failed_lives=1)
                reason = "Deleting" if policy == "terminate" else "Releasing"
                context.say(machine, "Normal", reason, f"host {host.metadata.name} is given back ({policy})")
            case HostUnknown(message):
                # Not in the inventory: unseen yet, or gone. Only a proof that it is gone lets us go on.
                if not await self._gone(machine):
                    await context.save(machine, ready(machine.status, False, "HostUnknown", message, now))
                    return RequeueAfter(_WHEN_UNKNOWN)
            case SkipRelease(reason, message):
                context.say(machine, "Warning", reason, message)
            case None:
                pass
        if not isinstance(decided, RecordRelease):
            await self._write_down(machine, host, ended)
        self._gate.ended(machine, clear)
        await self._clean(machine, decided)
        machine = await context.again(machine)
        left = [finalizer for finalizer in machine.metadata.finalizers if finalizer != FINALIZER]
        await context.patch(machine, {"metadata": {"finalizers": left}})
        return Done()

    async def _write_down(self, machine: Machine, host: Host | None, ended: Sequence[EndedJob]) -> None:
        """Jobs that end with a Node whose host is not given back, before they do: died after it, they are found by their keys."""
        if not ended:
            return
        if host is not None:
            if added := with_ended_jobs(host, ended):
                await self._context.patch_host(host, added)
            return
        assert self._context.work is not None
        try:
            await self._context.work.ended(ended)
        except WorkLedgerAwayError as error:
            # Nothing of ours outlives the machine that could keep them, and whoever forced its end does not wait for a count.
            message = f"what ends with it is in no ledger, because dispatch could not be asked: {error}"
            self._context.say(machine, "Warning", "JobsKilled", message)

    async def _gone(self, machine: Machine) -> bool:
        status = machine.status
        server = status.server_id or (status.claiming if status.ordering else "")
        if not server:
            return True  # only an intent: the claim is written on the Host object, and there is none
        found = await self._context.cloud.is_gone(server_zone(machine), server)
        return isinstance(found, Gone)

    async def _clean(self, machine: Machine, decided: Ending) -> None:
        """What was made for the machine: its identity, its Secret and its Node. The Mac cannot deregister itself.

        The Node of a host that is given back is the fence that keeps work away until the disk is wiped: the Host
        controller removes it then. Removed now, a Mac that has not heard of its end could register anew, and open.
        """
        await self._context.bootstrapper.forget(machine)
        await self._context.logins.forget(machine)
        if gives_back(decided):
            return
        with suppress(NotFoundError):
            await self._context.client.delete(Node, machine.metadata.name)


def _drains(machine: Machine) -> bool:
    said = get_condition(machine.status.conditions, "Drained")
    return said is not None and said.status == "False"
