"""Telling on a `ScalewayAppleSiliconRemediation` where it stands. It has no effect on a Mac: the machine's own pass has (`machine/remediate.py`).

No finalizer: when the MachineHealthCheck deletes the object it is gone at once, and the machine's next pass finds one trouble less.
"""

from msgspec.structs import replace

from paddock.hosts.api import ScalewayAppleSiliconMachine, ScalewayAppleSiliconRemediation
from paddock.hosts.breaker import same_fleet
from paddock.hosts.cluster_api import watched
from paddock.hosts.controllers.context import ReconcileContext
from paddock.hosts.controllers.health_check import core_machine
from paddock.hosts.health_check import NotWanted, Standing, asked_by, concerns, condition_of, refusal, standing
from paddock.hosts.remediation import RemediationStep, next_step, trouble_of
from paddock.kube.builtin import Node
from paddock.kube.conditions import is_true, set_condition
from paddock.kube.controller import Done, Request, RequeueAfter, Result
from paddock.kube.errors import NotFoundError
from paddock.kube.status_writes import write_status

__all__ = ["RemediationReconciler"]

Machine = ScalewayAppleSiliconMachine
RemediationObject = ScalewayAppleSiliconRemediation
_LOOK_AGAIN = 60.0


class RemediationReconciler:
    """Writes one status, and only where it says something else; died anywhere, the next pass writes it."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def __call__(self, request: Request) -> Result:
        context = self._context
        found = await context.fresh.get(RemediationObject, request.name, request.namespace)
        if found is None or found.metadata.deletion_timestamp is not None:
            return Done()
        core = await core_machine(context, found)
        machine = next((each for each in context.machines.list(request.namespace) if concerns(found, each)), None)
        if machine is not None and not watched(
            machine, context.settings.watch_filter, context.settings.watch_namespaces
        ):
            return Done()  # another operator's
        why = refusal(found, core, machine)
        if why is not None:
            context.recorder.record(found, "Warning", why.reason, why.message)
            await self._save(found, why, "Refused", 0)
        elif machine is not None and core is not None:
            step = await self._next(found, machine, core)
            said = standing(found, machine, core, step)
            done = machine.status.remediation
            await self._save(found, said, said.phase, done.tier if done is not None else 0)
        return RequeueAfter(_LOOK_AGAIN)

    async def _next(
        self, found: RemediationObject, machine: Machine, core: dict[str, object]
    ) -> RemediationStep | None:
        """The tier that the machine's own pass comes to by the same evidence; None while its Mac is not set up."""
        context, now = self._context, self._context.clock.now()
        asked = asked_by(found, core, now)
        host = context.hosts.get(machine.status.host_name, context.settings.namespace)
        if asked is None or host is None or not is_true(machine.status.conditions, "Bootstrapped"):
            return None
        expected = context.settings.expect_nodes
        node = await context.fresh.get(Node, machine.metadata.name) if expected else None
        trouble = trouble_of(node, host, machine.status.remediation, now, missing=expected, asked=asked)
        if trouble is None:
            return None
        halt = context.halt_of(machine)
        fleet = same_fleet(machine, context.machines.list())
        halted = halt.message if halt is not None else ""
        return next_step(trouble, machine, fleet, now, halted=halted, unwipeable=host.status.unwipeable)

    async def _save(self, found: RemediationObject, said: Standing | NotWanted, phase: str, tier: int) -> None:
        status, meta = found.status, found.metadata
        conditions = set_condition(status.conditions, condition_of(said), self._context.clock.now())
        wanted = replace(status, phase=phase, tier=tier, observed_generation=meta.generation, conditions=conditions)
        try:
            await write_status(self._context.client, found, wanted)
        except NotFoundError:
            return  # the health check deleted it meanwhile: then there is nothing to tell
