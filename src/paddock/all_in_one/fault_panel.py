"""Faults for the simulation, ordered of its world: each says what should be seen, and how long it takes to heal."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from paddock.all_in_one.outage import Outage
from paddock.all_in_one.world_client import WorldAwayError
from paddock.base.clock import Clock
from paddock.base.explanation import span
from paddock.base.logs import get_logger
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.cluster_api import PAUSED
from paddock.kube.builtin import Node
from paddock.kube.client import Client
from paddock.runners.api.settings import HealingSettings
from paddock.simulator.world.messages import FaultOrder, RunnerFault
from paddock.web.faults import Breakage, Struck
from paddock.web.links import href
from paddock.web.page_data import PageData
from paddock.web.tiles import groups_of

__all__ = ["FaultContext", "SimulatedFaults"]

log = get_logger("faults")
Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
_REMEMBERED = 20
_AWAY = 20.0
_SEALED = 45.0
_TIMEOUT = 600.0
_LOOK_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class _Fault:
    breakage: Breakage
    strike: Callable[[], Awaitable[tuple[str, str] | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContext:
    """What the fault panel strikes: the cluster that `seen` shows, and the world, which takes orders."""

    client: Client
    seen: Callable[[], PageData]
    order: Callable[[FaultOrder], Awaitable[None]]
    outage: Outage
    clock: Clock
    rng: random.Random
    webhooks: bool
    """Whether GitHub calls: what never comes cannot be lost."""


class SimulatedFaults:
    """The fault panel of `paddock up --simulate`. Nothing that it reaches is real."""

    def __init__(self, context: FaultContext, *, healing: HealingSettings, reclaims: bool) -> None:
        self._client = context.client
        self._seen = context.seen
        self._order = context.order
        self._outage = context.outage
        self._clock = context.clock
        self._rng = context.rng
        self._struck: deque[Struck] = deque(maxlen=_REMEMBERED)
        self._later: set[asyncio.Task[None]] = set()
        self._faults = {
            fault.breakage.name: fault
            for fault in (*self._of_macs(reclaims=reclaims), *self._of_jobs(healing, webhooks=context.webhooks))
        }

    def breakages(self) -> tuple[Breakage, ...]:
        return tuple(fault.breakage for fault in self._faults.values())

    def struck(self) -> tuple[Struck, ...]:
        return tuple(reversed(self._struck))

    async def strike(self, name: str) -> Struck | None:
        fault = self._faults[name]
        try:
            said = await fault.strike()
        except WorldAwayError as error:
            log.warning("nothing was broken", fault=name, why=str(error))
            return None
        if said is None:
            return None
        struck = Struck(self._clock.now(), fault.breakage.title, said[0], said[1])
        self._struck.append(struck)
        log.info("broken on purpose", fault=name, what=said[0])
        return struck

    async def stop(self) -> None:
        """Forget what was still to come."""
        for task in self._later:
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)

    # What is on offer.

    def _of_macs(self, *, reclaims: bool) -> Sequence[_Fault]:
        end = (
            "the sweep proves that no machine owns it, wipes it and pools it: about two minutes"
            if reclaims
            else "never by itself here, because reclaiming is off: start with --orphan-reclaim-claim-name-prefix mac-fleet- to see it wiped and pooled"
        )
        return (
            _Fault(
                Breakage(
                    "force-delete-machine",
                    "Force-delete a machine",
                    "Its finalizer is taken away and the object deleted, so that no machine gives its Mac back.",
                    "The Mac is orphaned within seconds and listed as a problem with its price; the fleet creates another machine.",
                    end,
                ),
                self._force_delete,
            ),
            _Fault(
                Breakage(
                    "delete-node",
                    "Lose a Node",
                    "The Node object of a Mac is deleted, as by somebody who tidied up.",
                    "Its machine says NodeMissing and is not Ready, until the agent on the Mac registers again.",
                    "a few seconds",
                ),
                self._delete_node,
            ),
            _Fault(
                Breakage(
                    "lock-account",
                    "Lock a Mac's account",
                    "An idle Mac is given back. When it is claimed next, macOS has locked its account after too many wrong passwords.",
                    "The tile goes through reinstalling, then recovering: the bootstrap fails three times, and the Mac is rebooted once.",
                    "three to five minutes",
                ),
                self._lock,
            ),
            _Fault(
                Breakage(
                    "seal-password",
                    "Seal a password",
                    "An idle Mac is given back. When it is claimed next, the cloud shows its password as sealed.",
                    "The new machine waits and says so; no wrong password is ever tried, so the account is not locked.",
                    f"the cloud shows the password again after {_SEALED:.0f} s",
                ),
                self._seal,
            ),
            _Fault(
                Breakage(
                    "wedge-sshd",
                    "Wedge a Mac's SSH",
                    "An idle Mac is given back. When it is claimed next, its sshd accepts connections and says nothing.",
                    "The tile goes through reinstalling and stays at reach-ssh. Three attempts of five minutes fail, then the Mac is rebooted once.",
                    "about 20 minutes: Paddock's own timeouts run in real time here, too",
                ),
                self._wedge,
            ),
        )

    def _of_jobs(self, healing: HealingSettings, *, webhooks: bool) -> Iterable[_Fault]:
        look = timedelta(seconds=healing.every)
        unheard = f"{span(healing.registration_deadline)} to {span(healing.registration_deadline + 2 * look)}"
        still = healing.finished_grace + healing.progress_grace
        finished = f"{span(still)} to {span(still + 2 * look)}"
        silent = healing.registration_deadline + healing.lost_communication
        if webhooks:  # what never comes cannot be lost
            yield _Fault(
                Breakage(
                    "lose-webhook",
                    "Lose a webhook",
                    "GitHub's next “queued” does not arrive.",
                    "A job that the ledger does not know. Then a line in Healed: GitHub is asked which deliveries failed, and sends it again.",
                    f"within {healing.redelivery_every:.0f} to {2 * healing.redelivery_every:.0f} s",
                ),
                self._lose_webhook,
            )
        heard = "webhooks that were missed are sent again" if webhooks else "what GitHub's queues hold is read"
        yield from (
            _Fault(
                Breakage(
                    "lose-answer",
                    "Lose a dispatch answer",
                    "The next runner never gets the answer that carries its job.",
                    "The Pod asks again, is told to go, and the job is handed to another Pod; it never runs twice.",
                    f"the Pod goes at once; its job is looked at after {unheard}",
                ),
                self._mishap("loses the answer", "The next runner loses the answer to its request."),
            ),
            _Fault(
                Breakage(
                    "never-registers",
                    "A runner that never registers",
                    "The next runner takes its job and is never heard of again.",
                    "The job says “handed over, and GitHub has not said that it runs”. Then a line in Healed, and the job waits in its old place.",
                    f"its job is looked at {unheard} after it was handed over; its Pod goes {span(silent)} to {span(2 * silent)} after that, when GitHub itself would have given it up",
                ),
                self._mishap("never registers", "The next runner never registers."),
            ),
            _Fault(
                Breakage(
                    "hangs-after-job",
                    "A runner that hangs after its job",
                    "The next runner finishes its job and does not exit.",
                    "The Mac stays busy without a job. Then a line in Healed: GitHub says that it is over, and nothing moves.",
                    f"{finished} after its job",
                ),
                self._mishap("hangs after its job", "The next runner hangs after its job."),
            ),
            _Fault(
                Breakage(
                    "kill-dispatcher",
                    "Kill the dispatcher",
                    f"For {_AWAY:.0f} s every {'webhook and every ' if webhooks else ''}request of a Pod is cut off, as while a process is restarted.",
                    f"Running jobs run on; new ones wait. Afterwards Pods ask again, and {heard}.",
                    f"{_AWAY:.0f} s, and up to {span(healing.redelivery_every)} more for what GitHub said meanwhile"
                    if webhooks
                    else f"{_AWAY:.0f} s",
                ),
                self._kill,
            ),
        )

    # Macs.

    async def _force_delete(self) -> tuple[str, str] | None:
        machine = self._machine("ready", "busy")
        if machine is None:
            return None
        meta = machine.metadata
        # Paused first, so that the controller does not put its finalizer back in between.
        paused = {"metadata": {"uid": meta.uid, "annotations": {PAUSED: "true"}}}
        await self._client.merge_patch(Machine, meta.name, paused, namespace=meta.namespace)
        bare = {"metadata": {"uid": meta.uid, "finalizers": None}}
        await self._client.merge_patch(Machine, meta.name, bare, namespace=meta.namespace)
        await self._client.delete(Machine, meta.name, meta.namespace, uid=meta.uid)
        return f"Machine {meta.name} is gone past its finalizer; no machine gave its Mac back.", href(
            "host", machine.status.host_name
        )

    async def _delete_node(self) -> tuple[str, str] | None:
        machine = self._machine("ready", "busy")
        if machine is None:
            return None
        await self._client.delete(Node, machine.metadata.name)
        return f"The Node {machine.metadata.name} is deleted.", href("machine", machine.metadata.name)

    async def _wedge(self) -> tuple[str, str] | None:
        return await self._when_claimed_next("its sshd will hang", FaultOrder(kind="wedge-sshd"))

    async def _lock(self) -> tuple[str, str] | None:
        return await self._when_claimed_next("its account will be locked", FaultOrder(kind="lock-account"))

    async def _seal(self) -> tuple[str, str] | None:
        return await self._when_claimed_next(
            "its password will be sealed", FaultOrder(kind="seal-password", seconds=_SEALED)
        )

    async def _when_claimed_next(self, what: str, order: FaultOrder) -> tuple[str, str] | None:
        machine = self._machine("ready")
        if machine is None:
            return None
        meta, name, server_id = machine.metadata, machine.status.host_name, machine.status.server_id
        await self._client.delete(Machine, meta.name, meta.namespace, uid=meta.uid)
        task = asyncio.create_task(
            self._spoil_next(name, meta.uid, replace(order, server_id=server_id)), name=f"fault on {name}"
        )
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        return f"Machine {meta.name} is being released; when its Mac is claimed next, {what}.", href("host", name)

    async def _spoil_next(self, name: str, before: str, order: FaultOrder) -> None:
        """Wait until another machine has the host, and spoil it then; give up after a while."""
        deadline = self._clock.monotonic() + _TIMEOUT
        while self._clock.monotonic() < deadline:
            host = next((one for one in self._seen().hosts if one.metadata.name == name), None)
            if host is None:
                return
            if host.spec.claim is not None and host.spec.claim.machine_uid != before and host.spec.release is None:
                with suppress(WorldAwayError):
                    await self._order(order)
                return
            await self._clock.sleep(_LOOK_EVERY)

    def _machine(self, *states: str) -> Machine | None:
        """A machine whose Mac is in one of the states; the first state that has any."""
        seen = self._seen()
        by_state: dict[str, list[str]] = {}
        for group in groups_of(seen):
            for tile in group.tiles:
                by_state.setdefault(tile.state, []).append(tile.name)
        for state in states:
            if names := by_state.get(state):
                name = self._rng.choice(names)
                return next((m for m in seen.machines if m.status.host_name == name and m.status.ready), None)
        return None

    # Jobs.

    def _mishap(self, kind: RunnerFault, sentence: str) -> Callable[[], Awaitable[tuple[str, str] | None]]:
        async def strike() -> tuple[str, str] | None:
            await self._order(FaultOrder(kind="runner", runner=kind))
            return sentence, "/"

        return strike

    async def _lose_webhook(self) -> tuple[str, str] | None:
        await self._order(FaultOrder(kind="lose-webhook"))
        return "The next “queued” of GitHub will not arrive.", "/"

    async def _kill(self) -> tuple[str, str] | None:
        if self._outage.down:
            return None
        task = asyncio.create_task(self._outage.last(_AWAY), name="outage")
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        return f"Dispatch answers no request for {_AWAY:.0f} s.", "/"
