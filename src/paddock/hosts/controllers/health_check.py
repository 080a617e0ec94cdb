"""Reading what a MachineHealthCheck asks for a machine, and giving its Machine back to Cluster API; decided in `paddock.hosts.health_check`."""

from typing import Any

from paddock.hosts.api import ScalewayAppleSiliconMachine, ScalewayAppleSiliconRemediation
from paddock.hosts.cluster_api import machine_owner, machine_resource
from paddock.hosts.controllers.context import ReconcileContext
from paddock.hosts.health_check import asked_by, concerns, handed_over, leaving, replaceable, with_owner_remediated
from paddock.hosts.remediation import Asked
from paddock.kube.errors import ConflictError, NotFoundError
from paddock.kube.objects import KubeObject, OwnerReference

__all__ = ["HealthChecks", "core_machine"]

Machine = ScalewayAppleSiliconMachine
RemediationObject = ScalewayAppleSiliconRemediation
_TRIES = 5


class HealthChecks:
    """One a controller. It reads from the API server only for machines that the cache shows a remediation of."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def asks(self, machine: Machine) -> Asked | None:
        """What is asked for now, by fresh reads; None where nothing is."""
        if machine_owner(machine) is None:
            return None  # standalone, or of a MacFleet: no health check of Cluster API is about it
        context, namespace = self._context, machine.metadata.namespace
        for cached in context.remediations.list(namespace):
            if not concerns(cached, machine):
                continue
            found = await context.fresh.get(RemediationObject, cached.metadata.name, namespace)
            if found is None or not concerns(found, machine):
                continue
            asked = asked_by(found, await core_machine(context, found), context.clock.now())
            if asked is not None:
                return asked
        return None

    async def leaves(self, machine: Machine) -> bool:
        """Whether core's Machine of a machine in trouble is on its way out, read fresh."""
        return machine_owner(machine) is not None and leaving(await core_machine(self._context, machine))

    async def hand_over(self, machine: Machine, message: str) -> bool:
        """Ask the owner of core's Machine to replace it: `OwnerRemediated=False`. False where nobody would.

        Written in the version that was read, because the list of conditions is core's; repeatable, because one that is set
        is left alone. Died before: the last tier comes again after its pause. Died after: its owner deletes the Machine.
        """
        context, ref = self._context, machine_owner(machine)
        if ref is None:
            return False
        where, namespace = machine_resource(_version(ref)), machine.metadata.namespace
        for attempt in range(1, _TRIES + 1):
            core = await core_machine(context, machine)
            if core is None or not replaceable(core):
                return False
            if handed_over(core):
                return True
            conditions = with_owner_remediated(core, _version(ref), message, context.clock.now())
            seen = {"uid": core["metadata"]["uid"], "resourceVersion": core["metadata"]["resourceVersion"]}
            patch = {"metadata": seen, "status": {"conditions": conditions}}
            try:
                await context.client.merge_patch(where, ref.name, patch, namespace, subresource="status")
            except ConflictError:
                if attempt == _TRIES:
                    raise
                continue  # core writes there all the time: read it again
            except NotFoundError:
                return False
            return True
        raise AssertionError("unreachable")


async def core_machine(context: ReconcileContext, owned: KubeObject) -> dict[str, Any] | None:
    """The Machine of Cluster API that owns an object, read fresh; None where there is none, or another one of its name."""
    ref = machine_owner(owned)
    if ref is None:
        return None
    try:
        found = await context.client.get(machine_resource(_version(ref)), ref.name, owned.metadata.namespace)
    except NotFoundError:
        return None
    return found if found["metadata"].get("uid") == ref.uid else None


def _version(ref: OwnerReference) -> str:
    return ref.api_version.rpartition("/")[2]
