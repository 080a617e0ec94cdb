"""The gate before every disruptive effect: reads who works on a Mac, fences it, and lets pass only what ends no job."""

from datetime import timedelta

from paddock.base.clock import rfc3339
from paddock.base.explanation import utc
from paddock.base.logs import get_logger
from paddock.clients.scaleway import Gone
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.controllers.context import ReconcileContext, condition, ready
from paddock.hosts.disruption import (
    CORDON_REASON,
    CORDONED_AT,
    Clear,
    Cordon,
    DrainStep,
    Idle,
    Job,
    Occupancy,
    Unknown,
    Wait,
    WorkLedgerAwayError,
    at_work,
    drain_step,
    force_of,
    occupancy,
    unproven,
)
from paddock.hosts.ended_jobs import GIVEN_UP_BECAUSE
from paddock.hosts.verify import server_zone, unheard
from paddock.kube.builtin import Node, Pod
from paddock.kube.conditions import get_condition, is_true
from paddock.kube.controller import RequeueAfter
from paddock.kube.errors import KubeError, NotFoundError

__all__ = ["DisruptionGate"]

Machine = ScalewayAppleSiliconMachine
log = get_logger("disruption")


class DisruptionGate:
    """One a controller. Its reads are fresh; its one effect is a cordon, which costs no job and can be undone.

    Crash windows: died after a cordon, the next pass finds the Node cordoned with our annotation and goes on from
    there; a cordon for a bootstrap is undone when that succeeds (`reopen`). Died after `Clear`, nothing was taken, and
    the next pass asks again. Between `Clear` and the effect nobody can get work there: the fence came before the last read.
    """

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def clear(
        self, machine: Machine, doing: str, *, deleting: bool = False, lost: bool = False
    ) -> tuple[Machine, Clear] | RequeueAfter:
        """Whether the machine's Mac may be taken for `doing`; otherwise a wait, which its conditions explain.

        The limit and the force of a machine are about its deletion alone: no recovery may use them. `lost` is for hosts
        that run and are in trouble: that their Node is missing does not prove that nobody works there.
        """
        node, seen = await self._look(machine, lost=lost)
        drained = get_condition(machine.status.conditions, "Drained")
        since = drained.last_transition_time if drained is not None and drained.status == "False" else None
        if deleting and since is not None:
            # What a reboot or a bootstrap has waited for before is no part of the time that the deletion gives its jobs.
            since = max(since, machine.metadata.deletion_timestamp or since)
        limit = machine.spec.drain_timeout_seconds
        step = drain_step(
            seen,
            node,
            since=since,
            now=self._context.clock.now(),
            timeout=timedelta(seconds=limit) if deleting and limit else None,
            force=force_of(machine.metadata.annotations) if deleting else None,
        )
        match step:
            case Clear():
                return await self._cleared(machine, node, step, told=drained is not None), step
            case Cordon(message, seconds):
                assert node is not None
                machine = await self._tell(machine, doing, message)
                try:
                    await self._cordon(node, f"{doing} of machine {machine.metadata.name}")
                except NotFoundError:
                    return RequeueAfter(1.0)  # it went meanwhile: then there is nothing to fence
                return RequeueAfter(seconds)
            case Wait(message, seconds):
                await self._tell(machine, doing, message)
                return RequeueAfter(seconds)

    async def about(self, node: Node, doing: str) -> DrainStep:
        """The same for a Node whose machine is gone: nobody is told but the caller, and nothing can force it."""
        pods, now = await self._pods(node.metadata.name), self._context.clock.now()
        seen = pods if isinstance(pods, Unknown) else await self._with_the_ledger(occupancy(node, pods, now), pods)
        step = drain_step(seen, node, since=None, now=now)
        if isinstance(step, Cordon):
            await self._cordon(node, doing)
        return step

    async def reopen(self, machine: Machine) -> None:
        """Take back a cordon of ours. What somebody else cordoned stays so."""
        node = await self._context.fresh.get(Node, machine.metadata.name)
        if node is None or CORDONED_AT not in node.metadata.annotations:
            return
        ours = CORDON_REASON in node.metadata.annotations
        patch = {
            "metadata": {"uid": node.metadata.uid, "annotations": {CORDON_REASON: None, CORDONED_AT: None}},
            **({"spec": {"unschedulable": None}} if ours else {}),
        }
        try:
            await self._context.client.merge_patch(Node, node.metadata.name, patch)
        except NotFoundError:
            return

    def ended(self, machine: Machine, clear: Clear) -> None:
        """Count and name the jobs that have just been given up; dispatch gets them from the Host that they ended with."""
        if clear.kills:
            self._context.live_kills.labels(clear.path).inc(len(clear.kills))
            because = GIVEN_UP_BECAUSE[clear.path]
            self._context.say(
                machine, "Warning", "JobsKilled", f"ended with its Mac, because {because}: {_names(clear.kills)}"
            )

    # Reads

    async def _look(self, machine: Machine, *, lost: bool) -> tuple[Node | None, Occupancy]:
        """The Node first: a Pod can be bound only to a Node that is there."""
        name = machine.metadata.name
        try:
            node = await self._context.fresh.get(Node, name)
        except KubeError as error:
            return None, Unknown(f"Node {name} could not be read ({error})")
        pods = await self._pods(name)
        if isinstance(pods, Unknown):
            return node, pods
        now = self._context.clock.now()
        seen = await self._with_the_ledger(occupancy(node, pods, now), pods)
        if isinstance(seen, Idle) and (silence := self._silence(machine, node, lost=lost)):
            gone = await self._context.cloud.is_gone(server_zone(machine), machine.status.server_id)
            return node, Idle() if isinstance(gone, Gone) else Unknown(silence, silent=True)
        if isinstance(seen, Idle) or not machine.status.server_id:
            return node, seen
        # Whether the server exists is asked only where the answer can matter: a call to the cloud.
        if isinstance(occupancy(node, pods, now, server_gone=True), Idle):
            gone = await self._context.cloud.is_gone(server_zone(machine), machine.status.server_id)
            return node, Idle() if isinstance(gone, Gone) else seen
        return node, seen

    def _silence(self, machine: Machine, node: Node | None, *, lost: bool) -> str:
        """Why a Mac on which nobody is seen may be at work all the same; empty where it cannot be."""
        if not self._context.settings.expect_nodes or not machine.status.server_id:
            return ""
        if unheard(machine, node):
            came = machine.metadata.creation_timestamp
            when = f" ({utc(came)})" if came is not None else ""
            return f"its agent has not reported to this cluster since the machine was moved or restored{when}"
        if lost and node is None and is_true(machine.status.conditions, "Bootstrapped"):
            return f"its Node {machine.metadata.name} is missing, and VMs outlive their agent"
        return ""

    async def _with_the_ledger(self, seen: Occupancy, pods: list[Pod]) -> Occupancy:
        """Pods that show no job may have one: dispatch says so, where it can be asked. Otherwise they are waited for as idle."""
        asked = [pod.metadata.uid for pod in unproven(pods)]
        if self._context.work is None or not asked:
            return seen
        try:
            return at_work(seen, pods, await self._context.work.at_work(asked))
        except WorkLedgerAwayError as error:
            log.warning("dispatch could not be asked who works", error=str(error))
            return seen

    async def _pods(self, node: str) -> list[Pod] | Unknown:
        try:
            return list((await self._context.fresh.list(Pod, field_selector=f"spec.nodeName={node}")).items)
        except KubeError as error:
            return Unknown(f"the Pods on Node {node} could not be listed ({error})")

    # Effects

    async def _cordon(self, node: Node, why: str) -> None:
        """Ours only where it was open before: a person's cordon is not undone by us."""
        marks = {CORDONED_AT: rfc3339(self._context.clock.now())}
        if not node.spec.unschedulable:
            marks[CORDON_REASON] = why
        meta = node.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": marks},
            "spec": {"unschedulable": True},
        }
        await self._context.client.merge_patch(Node, meta.name, patch)

    async def _tell(self, machine: Machine, doing: str, message: str) -> Machine:
        context, now = self._context, self._context.clock.now()
        said = f"{doing} {message}"
        before = get_condition(machine.status.conditions, "Drained")
        if before is None or before.status != "False":
            context.say(machine, "Normal", "Draining", said)
        status = condition(machine.status, "Drained", False, "Draining", said, now, severity="Info")
        return await context.save(machine, ready(status, False, "Draining", said, now))

    async def _cleared(self, machine: Machine, node: Node | None, clear: Clear, *, told: bool) -> Machine:
        """Say so where anybody was told of a drain; a machine that nobody ever worked on has none."""
        if node is None and not told and not clear.kills:
            return machine
        context, now = self._context, self._context.clock.now()
        message = "nobody works on its Mac, and nobody can begin to"
        if clear.path:
            message = f"gives up {_names(clear.kills) or 'whatever may run on its Mac, which nobody could tell'}"
        reason = "Forced" if clear.path else "Drained"
        # In the version that was judged: whoever stalled since must not go on with what is another's by now.
        status = condition(machine.status, "Drained", True, reason, message, now)
        return await context.save(machine, status, guarded=True)


def _names(jobs: tuple[Job, ...]) -> str:
    return ", ".join(str(job) for job in jobs)
