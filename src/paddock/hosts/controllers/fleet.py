"""The MacFleet controller: keeps as many standalone machines as the fleet asks for."""

import random

from msgspec.structs import replace

from paddock.base.chance import kube_suffix
from paddock.hosts.api import MacFleet, ScalewayAppleSiliconMachine
from paddock.hosts.cluster_api import WATCH_FILTER_LABEL, watched
from paddock.hosts.controllers.tools import Tools
from paddock.hosts.fleet import FLEET_LABEL, plan
from paddock.kube.conditions import set_condition
from paddock.kube.controller import Done, Request, Result
from paddock.kube.difference import merge_difference
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import Condition, ObjectMeta, OwnerReference

__all__ = ["FleetReconciler"]

Machine = ScalewayAppleSiliconMachine


class FleetReconciler:
    """Counts on a fresh list of its machines, so that a slow cache can neither make one too many nor delete one too many."""

    def __init__(self, tools: Tools, chance: random.Random) -> None:
        self._tools = tools
        self._chance = chance

    async def __call__(self, request: Request) -> Result:
        tools = self._tools
        fleet = await tools.fresh.get(MacFleet, request.name, request.namespace)
        if fleet is None or not watched(fleet, tools.settings.watch_filter):
            return Done()
        if fleet.metadata.deletion_timestamp is not None:
            return Done()  # its machines are owned by it, and garbage collection deletes them
        selector = f"{FLEET_LABEL}={fleet.metadata.name}"
        listed = (await tools.fresh.list(Machine, fleet.metadata.namespace, label_selector=selector)).items
        machines = [m for m in listed if any(ref.uid == fleet.metadata.uid for ref in m.metadata.owner_references)]
        hosts = {host.metadata.name: host for host in tools.hosts.list()}
        decided = plan(fleet, machines, hosts, tools.clock.now())
        for _ in range(decided.create):
            await tools.client.create(self._new_machine(fleet))
        for machine in decided.delete:
            meta = machine.metadata
            try:
                await tools.client.delete(
                    Machine, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
                )
            except NotFoundError:
                continue
        await self._tell(fleet, machines, decided.message, selector)
        return Done()

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
                name=f"{meta.name}-{kube_suffix(self._chance)}",
                namespace=meta.namespace,
                labels={**template.metadata.labels, **filtered, FLEET_LABEL: meta.name},
                annotations=template.metadata.annotations,
                owner_references=(owner,),
            ),
            spec=spec,
        )

    async def _tell(self, fleet: MacFleet, machines: list[Machine], message: str, selector: str) -> None:
        tools = self._tools
        living = [machine for machine in machines if machine.metadata.deletion_timestamp is None]
        ready = sum(machine.status.ready for machine in living)
        complete = ready >= fleet.spec.replicas
        said = Condition(
            type="Ready",
            status="True" if complete else "False",
            reason="AllReady" if complete else "NotAllReady",
            message=message,
        )
        status = replace(
            fleet.status,
            replicas=len(living),
            ready_replicas=ready,
            selector=selector,
            observed_generation=fleet.metadata.generation,
            conditions=set_condition(fleet.status.conditions, said, tools.clock.now()),
        )
        if change := merge_difference(fleet.status, status):
            await tools.client.merge_patch(
                MacFleet,
                fleet.metadata.name,
                {"status": change},
                namespace=fleet.metadata.namespace,
                subresource="status",
            )
