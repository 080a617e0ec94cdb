"""The MacFleet controller: keeps as many standalone machines as the fleet asks for."""

import random
from collections import Counter

from msgspec.structs import replace

from paddock.base.names import FLEET_LABEL
from paddock.base.rng import kube_suffix
from paddock.hosts.api import MacFleet, ScalewayAppleSiliconMachine
from paddock.hosts.breaker import HALTED, fleet_halt
from paddock.hosts.cluster_api import WATCH_FILTER_LABEL, watched
from paddock.hosts.controllers.context import ReconcileContext
from paddock.hosts.disruption import jobs_by_node
from paddock.hosts.fleet import FleetPlan, outdated, plan
from paddock.hosts.validation import KNOWN_ZONES, bad_input
from paddock.kube.builtin import Pod
from paddock.kube.conditions import get_condition, set_condition
from paddock.kube.controller import Done, Request, RequeueAfter, Result
from paddock.kube.difference import merge_difference
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import Condition, ObjectMeta, OwnerReference

__all__ = ["FleetReconciler"]

Machine = ScalewayAppleSiliconMachine
_SOON = 1.0
_LATER = 10.0


class FleetReconciler:
    """Counts on a fresh list of its machines, so that a slow cache can neither make one too many nor delete one too many."""

    def __init__(self, context: ReconcileContext, rng: random.Random) -> None:
        self._context = context
        self._rng = rng

    async def __call__(self, request: Request) -> Result:
        context = self._context
        fleet = await context.fresh.get(MacFleet, request.name, request.namespace)
        if fleet is None or not watched(fleet, context.settings.watch_filter, context.settings.watch_namespaces):
            return Done()
        if fleet.metadata.deletion_timestamp is not None:
            return Done()  # its machines are owned by it, and garbage collection deletes them
        selector = f"{FLEET_LABEL}={fleet.metadata.name}"
        listed = (await context.fresh.list(Machine, fleet.metadata.namespace, label_selector=selector)).items
        machines = [m for m in listed if any(ref.uid == fleet.metadata.uid for ref in m.metadata.owner_references)]
        hosts = {host.metadata.name: host for host in context.hosts.list()}
        jobs = await self._jobs(fleet, machines)
        decided = plan(fleet, machines, hosts, context.clock.now(), jobs, impossible=self._impossible(fleet))
        # Each effect has its own look at the fleet right before it: whoever corrects a number stops what was decided for
        # the wrong one, but for the one effect whose look came first; the next pass takes that back. Dying between
        # two of them, or losing an answer, costs nothing: the next pass counts anew, on a fresh list.
        for _ in range(decided.create):
            if not await self._unchanged(fleet):
                return RequeueAfter(_SOON)
            await context.client.create(self._new_machine(fleet))
        for machine in decided.delete:
            if not await self._unchanged(fleet):
                return RequeueAfter(_SOON)
            meta = machine.metadata
            try:
                await context.client.delete(
                    Machine, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
                )
            except NotFoundError:
                continue
        await self._tell(fleet, machines, decided, selector)
        if not decided.growing:
            return Done()
        # A machine that gets its host brings the fleet back here by itself; this is for the pace, and the sentence.
        return RequeueAfter(_SOON if decided.create else _LATER)

    def _impossible(self, fleet: MacFleet) -> str:
        """What no machine of the template could work with, as far as the template tells; empty where nothing is wrong."""
        context, spec = self._context, fleet.spec.template.spec
        wrong = bad_input(
            Machine(metadata=ObjectMeta(name=fleet.metadata.name), spec=spec),
            spec.adopt_pool_prefix or context.settings.default_adopt_pool_prefix,
            zones={*KNOWN_ZONES, *context.settings.zones},
            types=context.catalogue.types(spec.zone),
            families=context.catalogue.families(spec.zone),
        )
        return f"template.{wrong.message}" if wrong is not None else ""

    async def _jobs(self, fleet: MacFleet, machines: list[Machine]) -> Counter[str]:
        """Who works where, read only where somebody is to go. A read that fails raises: nobody goes on a guess.

        It is for choosing. Who was idle here may be at work when its turn comes: each machine's own gate asks again.
        """
        living = sum(machine.metadata.deletion_timestamp is None for machine in machines)
        rolls = fleet.spec.strategy == "RollingUpdate" and any(outdated(fleet, machine) for machine in machines)
        if living <= fleet.spec.replicas and not rolls:
            return Counter()
        return jobs_by_node((await self._context.fresh.list(Pod)).items)

    async def _unchanged(self, fleet: MacFleet) -> bool:
        """Whether the fleet still asks for what was read: the same one, of the same generation, and not being deleted."""
        meta = fleet.metadata
        now = await self._context.fresh.get(MacFleet, meta.name, meta.namespace)
        return (
            now is not None
            and now.metadata.uid == meta.uid
            and now.metadata.generation == meta.generation
            and now.metadata.deletion_timestamp is None
            and now.spec == fleet.spec
        )

    def _new_machine(self, fleet: MacFleet) -> Machine:
        template, meta = fleet.spec.template, fleet.metadata
        owner = OwnerReference(
            api_version=MacFleet.RESOURCE.api_version,
            kind="MacFleet",
            name=meta.name,
            uid=meta.uid,
            controller=True,
            block_owner_deletion=True,
        )
        spec = template.spec if template.spec.fleet_name else replace(template.spec, fleet_name=meta.name)
        # Whoever works on the fleet works on its machines.
        filtered = {name: value for name, value in meta.labels.items() if name == WATCH_FILTER_LABEL}
        return Machine(
            metadata=ObjectMeta(
                name=f"{meta.name}-{kube_suffix(self._rng)}",
                namespace=meta.namespace,
                labels={**template.metadata.labels, **filtered, FLEET_LABEL: meta.name},
                annotations=template.metadata.annotations,
                owner_references=(owner,),
            ),
            spec=spec,
        )

    async def _tell(self, fleet: MacFleet, machines: list[Machine], decided: FleetPlan, selector: str) -> None:
        context = self._context
        living = [machine for machine in machines if machine.metadata.deletion_timestamp is None]
        ready = sum(machine.status.ready for machine in living)
        complete = ready >= fleet.spec.replicas
        halt = fleet_halt(living, context.bootstrapper.desired_hash(living[0]), context.clock.now()) if living else None
        said = Condition(
            type="Ready",
            status="True" if complete else "False",
            reason="AllReady"
            if complete
            else HALTED
            if halt is not None
            else "WaitingForHosts"
            if decided.short
            else "NotAllReady",
            message=decided.message if complete or halt is None else f"{decided.message}; {halt.message}",
        )
        before = get_condition(fleet.status.conditions, "Ready")
        if (decided.short or said.reason == HALTED) and (before is None or before.reason != said.reason):
            context.recorder.record(fleet, "Warning", said.reason, said.message)
        status = replace(
            fleet.status,
            replicas=len(living),
            ready_replicas=ready,
            selector=selector,
            observed_generation=fleet.metadata.generation,
            conditions=set_condition(fleet.status.conditions, said, context.clock.now()),
        )
        if change := merge_difference(fleet.status, status):
            await context.client.merge_patch(
                MacFleet,
                fleet.metadata.name,
                {"status": change},
                namespace=fleet.metadata.namespace,
                subresource="status",
            )
