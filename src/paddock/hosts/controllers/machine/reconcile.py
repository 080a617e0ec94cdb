"""One pass over one machine: gates, then the stages of its life in order, then the sentence that sums it up."""

import msgspec
from msgspec.structs import replace

from paddock.hosts import cluster_api
from paddock.hosts.api import FINALIZER, ScalewayAppleSiliconMachine
from paddock.hosts.cluster_api import (
    BLOCK_MOVE,
    BLOCK_MOVE_IS_OURS,
    PAUSED,
    PAUSES,
    Cluster,
    Hold,
    OwnerMachine,
    lost_in_a_move,
    may_delete,
    may_reconcile,
    watched,
    zone_to_take,
)
from paddock.hosts.controllers.context import GoneError, ReconcileContext, condition, ready
from paddock.hosts.controllers.machine.bootstrap import BootstrapHost
from paddock.hosts.controllers.machine.claim import ClaimHost
from paddock.hosts.controllers.machine.delete import DeleteMachine
from paddock.hosts.controllers.machine.keys import MacKeys
from paddock.hosts.controllers.machine.maintain import MaintainHost
from paddock.hosts.controllers.machine.reinstall import ReinstallHost
from paddock.hosts.controllers.machine.verify import VerifyHost
from paddock.hosts.disruption import force_of
from paddock.hosts.fenced_cloud import LeaseTooShortError
from paddock.hosts.validation import KNOWN_ZONES, bad_input
from paddock.hosts.verify import RESTORED, bootstrapped_before, server_in, unheard
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition
from paddock.kube.controller import Done, Request, RequeueAfter, Result
from paddock.kube.errors import NotFoundError

__all__ = ["MachineReconciler"]

Machine = ScalewayAppleSiliconMachine
_WHEN_NO_KEY = 30.0
_WHEN_WRONG = 300.0
_WHEN_LEASE_IS_SHORT = 2.0


class MachineReconciler:
    """Level-triggered: reads everything fresh, moves the machine as far as it can, and says when to look again."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        self._acquire = ClaimHost(context)
        self._keep = VerifyHost(context)
        self._prepare = BootstrapHost(context)
        self._reinstall = ReinstallHost(context, self._prepare)
        self._keys = MacKeys(context, self._prepare)
        self._maintain = MaintainHost(context, self._prepare)
        self._end = DeleteMachine(context)

    async def __call__(self, request: Request) -> Result:
        machine = await self._context.fresh.get(Machine, request.name, request.namespace)
        settings = self._context.settings
        if machine is None or not watched(machine, settings.watch_filter, settings.watch_namespaces):
            return Done()
        try:
            return await self._pass(machine)
        except GoneError:
            return Done()
        except LeaseTooShortError:
            return RequeueAfter(_WHEN_LEASE_IS_SHORT)

    async def _pass(self, machine: Machine) -> Result:
        owner, cluster = await self._owners(machine)
        if machine.metadata.deletion_timestamp is not None:
            gate = may_delete(machine, cluster)
            if isinstance(gate, Hold):
                return _held(gate)
            met = await self._heard_of(machine)
            return met if isinstance(met, RequeueAfter) else await self._end.run(met)
        gate = may_reconcile(machine, owner, cluster)
        if isinstance(gate, Hold):
            machine = await self._say_paused(machine, gate)
            return await self._before_a_move(machine) or _held(gate)
        machine = await self._say_paused(machine, None)
        if zone := zone_to_take(machine, owner):
            machine = await self._context.patch(machine, {"spec": {"zone": zone}})
        if FINALIZER not in machine.metadata.finalizers:
            # Before anything that could leak: from here on a deletion passes through us.
            machine = await self._context.patch(
                machine, {"metadata": {"finalizers": [*machine.metadata.finalizers, FINALIZER]}}
            )
        return await self._live(machine)

    async def _say_paused(self, machine: Machine, gate: Hold | None) -> Machine:
        """The condition `Paused`, as Cluster API's contract has it; a machine that never was has none."""
        paused = gate is not None and gate.reason in PAUSES
        if not paused and get_condition(machine.status.conditions, "Paused") is None:
            return machine
        reason, message = (
            (gate.reason, gate.message) if gate is not None and paused else ("NotPaused", "it is worked on")
        )
        now = self._context.clock.now()
        return await self._context.save(machine, condition(machine.status, "Paused", paused, reason, message, now))

    async def _live(self, machine: Machine) -> Result:
        context = self._context
        prefix = machine.spec.adopt_pool_prefix or context.settings.default_adopt_pool_prefix
        machine = await context.allow_move(machine)
        if not machine.status.server_id and (server := server_in(machine.spec.provider_id)):
            machine = await self._restore(machine, server)
        if not machine.status.server_id:
            wrong = bad_input(
                machine,
                prefix,
                zones={*KNOWN_ZONES, *context.settings.zones},
                types=context.catalogue.types(machine.spec.zone),
                families=context.catalogue.families(machine.spec.zone),
            )
            if wrong is not None:
                now = context.clock.now()
                context.say(machine, "Warning", wrong.reason, wrong.message)
                status = condition(
                    machine.status, "Provisioned", False, wrong.reason, wrong.message, now, severity="Error"
                )
                await context.save(machine, ready(status, False, wrong.reason, wrong.message, now))
                return RequeueAfter(_WHEN_WRONG)
            problem = await context.bootstrapper.prepare_claim(machine)
            if problem is not None:
                return await self._no_key(machine, problem)
            acquired = await self._acquire.run(machine, prefix)
            if isinstance(acquired, RequeueAfter):
                return acquired
            machine = acquired
        kept = await self._keep.run(machine)
        if isinstance(kept, RequeueAfter):
            return kept
        machine, host = kept
        machine = await self._context.allow_move(machine)
        installed = await self._reinstall.run(machine, host)
        if isinstance(installed, RequeueAfter):
            return installed
        machine = installed
        prepared = await self._prepare.run(machine, host)
        if isinstance(prepared, RequeueAfter):
            return prepared
        # A Mac is silent, too, when no claim knows its key: it is asked before any tier, and given another one.
        keyed = await self._keys.run(prepared, host, silent=prepared.status.remediation is not None)
        rest = await self._maintain.run(keyed.machine, keyed.host)
        return rest if keyed.again is None else RequeueAfter(min(rest.seconds, keyed.again))

    async def _restore(self, machine: Machine, server: str) -> Machine:
        """Take up again the host that the spec names: clusterctl move and restores bring a machine without its status.

        Nothing is proven by that: the claim is judged and verified as after any bind, before the host is touched.
        """
        context, now = self._context, self._context.clock.now()
        message = f"takes server {server} up again, which its spec names"
        status = replace(
            machine.status,
            server_id=server,
            host_name=server,
            bound_at=now.replace(microsecond=0),
            claim_verified=False,
        )
        machine = await context.save(machine, ready(status, False, "Restored", message, now), guarded=True)
        context.say(machine, "Normal", "Restored", message)
        return machine

    async def _before_a_move(self, machine: Machine) -> RequeueAfter | None:
        """Bring to its end, under a paused Cluster, what a move would lose and clusterctl therefore waits for. Nothing new
        begins; once it has ended, the machine is as paused as any other. Died anywhere, the next pass goes on.
        """
        context, annotations = self._context, machine.metadata.annotations
        if annotations.get(BLOCK_MOVE) != BLOCK_MOVE_IS_OURS or PAUSED in annotations:
            return None
        if lost_in_a_move(machine):
            prefix = machine.spec.adopt_pool_prefix or context.settings.default_adopt_pool_prefix
            if not machine.status.server_id:
                acquired = await self._acquire.run(machine, prefix, begin=False)
                if isinstance(acquired, RequeueAfter):
                    return acquired
                machine = acquired
            if machine.status.server_id:
                kept = await self._keep.run(machine)  # which writes the server into the spec
                if isinstance(kept, tuple) and kept[0].status.reinstall is not None:
                    installed = await self._reinstall.run(*kept)
                    if isinstance(installed, RequeueAfter):
                        return installed
                machine = await context.again(machine)
        await context.allow_move(machine)
        return RequeueAfter(1.0) if lost_in_a_move(machine) else None

    async def _heard_of(self, machine: Machine) -> Machine | RequeueAfter:
        """A machine that was moved here and is deleted before its Mac was heard of: its agent is told of this cluster first,
        for only its report says who works there. Where that fails, the gate waits, and says so.
        """
        context, server = self._context, server_in(machine.spec.provider_id)
        forced = force_of(machine.metadata.annotations)
        if (
            forced.everything
            or not server
            or FINALIZER not in machine.metadata.finalizers
            or not context.settings.expect_nodes
        ):
            return machine
        if not unheard(machine, await context.fresh.get(Node, machine.metadata.name)):
            return machine
        if not machine.status.server_id:
            machine = await self._restore(machine, server)
        kept = await self._keep.run(machine, deleting=True)
        if isinstance(kept, RequeueAfter):
            return kept
        machine, host = kept
        if (config := bootstrapped_before(machine, host.spec.server_id)) is not None:
            machine = await self._prepare.restored(machine, host, config)
        keyed = await self._keys.run(machine, host, deleting=True)
        machine, host = keyed.machine, keyed.host
        said = get_condition(machine.status.conditions, "Bootstrapped")
        if said is not None and said.reason == RESTORED:
            await self._maintain.introduce(machine, host, deleting=True)
        return await context.again(machine)

    async def _no_key(self, machine: Machine, problem: str) -> Result:
        context, now = self._context, self._context.clock.now()
        message = f"the fleet's SSH key could not be registered, it is tried again in {_WHEN_NO_KEY:.0f} s: {problem}"
        status = condition(machine.status, "Provisioned", False, "SSHKeyUnavailable", message, now, severity="Error")
        await context.save(machine, ready(status, False, "SSHKeyUnavailable", message, now))
        return RequeueAfter(_WHEN_NO_KEY)

    async def _owners(self, machine: Machine) -> tuple[OwnerMachine | None, Cluster | None]:
        """The Cluster API Machine that owns this one and its Cluster, read fresh; both None for a standalone machine."""
        ref = cluster_api.machine_owner(machine)
        version = ref.api_version.rpartition("/")[2] if ref is not None else ""
        if ref is None:
            return None, None
        namespace = machine.metadata.namespace
        try:
            owner = msgspec.convert(
                await self._context.client.get(cluster_api.machine_resource(version), ref.name, namespace), OwnerMachine
            )
        except NotFoundError:
            return None, None
        if not owner.spec.cluster_name:
            return owner, None
        try:
            cluster = msgspec.convert(
                await self._context.client.get(
                    cluster_api.cluster_resource(version), owner.spec.cluster_name, namespace
                ),
                Cluster,
            )
        except NotFoundError:
            return owner, None
        return owner, cluster


def _held(gate: Hold) -> Result:
    return Done() if gate.seconds is None else RequeueAfter(gate.seconds)
