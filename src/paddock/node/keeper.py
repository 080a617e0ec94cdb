"""One Pod's keeper: has the facts gathered, asks `decide`, performs the action, notes what a report says of it, for ever.

Every sequence here may be cut between any two awaits. The journal is written before each effect, and each effect can be
repeated; the design page's table names every window and its healer.
"""

import asyncio
from contextlib import suppress

from msgspec.structs import replace

from paddock.base.backoff import Backoff
from paddock.base.logs import get_logger
from paddock.base.tasks import first_of
from paddock.clients.gateway.messages import PodState, Reason, WantedPod
from paddock.node.attendance import Attendance
from paddock.node.context import Context
from paddock.node.decide import Action, Do, Facts, decide
from paddock.node.journal import Entry, Stage
from paddock.node.machines import Resources, TartError, VmRunningError
from paddock.node.names import golden_name
from paddock.node.observer import VmObserver
from paddock.node.pods import accepted
from paddock.node.report import Observed
from paddock.node.seat_leaks import leaked_seats, refused_for_limit

__all__ = ["Keeper"]

log = get_logger("node keeper")
_QUIET = frozenset({Do.NOTHING, Do.WAIT, Do.ATTEND})
_NEWCOMERS = {Do.REFUSE: PodState.REFUSED, Do.LET_GO: PodState.CLEARED}
_BACKOFF = Backoff(base=1.0, cap=30.0)
_KEPT_LOG = 1 << 20


class Keeper:
    """Keeps one Pod until nothing is left of it. `wake` makes it look at once."""

    def __init__(self, context: Context, uid: str) -> None:
        self._context = context
        self._uid = uid
        self._folder = context.journal.folder(uid)
        self._shares = context.shares(uid)
        self._attendance = Attendance(context, uid, self._shares, self.wake)
        self._woken = asyncio.Event()
        self._cloned = False
        self._halt_asked = False
        self._observer = VmObserver(context, uid, self._shares)
        self._refusal: Reason | None = None
        self._pause = 0.0

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Until nothing of the Pod is here: no entry, and nothing to do for the object."""
        failures = 0
        try:
            while True:
                self._woken.clear()
                wait = self._context.settings.tick
                action = None
                try:
                    action = await self._look()
                    failures = 0
                except (TartError, OSError) as error:
                    failures += 1
                    wait = _BACKOFF.delay(failures, self._context.rng)
                    self._context.metrics.failures.labels(type(error).__name__).inc()
                    log.warning("a step failed and is repeated", uid=self._uid, why=str(error), again_in=round(wait, 1))
                if action is not None:
                    if action.do is Do.FORGET or (action.do is Do.NOTHING and self._entry is None):
                        return
                    if action.do not in _QUIET:
                        wait = self._pause
                        self._pause = 0.0
                await self._wait(wait)
        finally:
            await self._attendance.close()
            self._context.observed.pop(self._uid, None)
            self._context.changed()

    async def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            await self._context.clock.sleep(0.0)
            return
        await first_of(self._context.clock.sleep(seconds), self._woken.wait())

    @property
    def _entry(self) -> Entry | None:
        return self._context.journal.get(self._uid)

    async def _look(self) -> Action:
        facts = await self._observer.gather(
            cloned=self._cloned, halt_asked=self._halt_asked, outcome=self._attendance.outcome
        )
        facts = await self._with_cluster(facts)
        if facts.entry is None and self._refusal is not None:
            # It may be written already, by whoever has the report: what was refused once stays refused.
            facts = replace(facts, refusal=self._refusal)
        action = decide(facts)
        if action.do not in _QUIET:
            log.info("pod", uid=self._uid, do=action.do.value, why=action.why)
        await self._perform(action, facts)
        self._note(action, facts)
        return action

    def _note(self, action: Action, facts: Facts) -> None:
        """What a report says of this Pod beside its entry. One that cannot be run, or whose entry cannot be read, is an event, too."""
        context, entry = self._context, self._entry
        before = context.observed.get(self._uid, Observed())
        newcomer = _NEWCOMERS.get(action.do)
        if entry is None and (newcomer is not None or facts.unreadable):
            observed = Observed(
                action.refusal, newcomer=newcomer, since=before.since or facts.now.replace(microsecond=0)
            )
            if action.refusal is not None and before.waits is None:
                context.event(action.refusal, self._uid)
        else:
            guest = facts.guest
            attended = facts.entry is not None and facts.entry.holds_seat
            handed = entry is not None and entry.handed_at is not None
            observed = Observed(
                action.refusal,
                mark=guest.mark or "" if handed else "",
                unsaid=attended and guest.readable and not guest.ready,
            )
        context.observed[self._uid] = observed
        context.changed()

    async def _with_cluster(self, facts: Facts) -> Facts:
        """An entry whose Pod the asked cluster shows belongs to that cluster; said once, and never said anew."""
        entry, cluster = facts.entry, self._context.cluster
        if entry is None or facts.pod is None or entry.cluster or not cluster:
            return facts
        entry = replace(entry, cluster=cluster)
        await self._put(entry)
        return replace(facts, entry=entry, other_cluster=False)

    # Actions

    async def _perform(self, action: Action, facts: Facts) -> None:
        entry, pod = facts.entry, facts.pod
        match action.do:
            case Do.NOTHING | Do.WAIT:
                return
            case Do.REFUSE | Do.LET_GO:
                self._refusal = action.refusal
                # It is reported; what follows comes with an answer.
                self._pause = self._context.settings.sweep_every
            case Do.ACCEPT if pod is not None:
                async with self._context.seats:
                    if self._context.refusal(pod) is None:
                        await self._put(replace(accepted(pod, facts.now), cluster=self._context.cluster))
            case Do.ADOPT if pod is not None:
                await self._adopt(pod, facts)
            case _ if entry is not None:
                await self._go_on(action, facts, entry)
            case _:
                raise AssertionError(f"{action.do} needs an entry")

    async def _go_on(self, action: Action, facts: Facts, entry: Entry) -> None:
        context = self._context
        match action.do:
            case Do.CLONE:
                await self._clone(entry)
            case Do.START:
                await self._start(entry, facts)
            case Do.NOTE_RUNNING:
                await self._put(replace(entry, stage=Stage.RUNNING, running_at=facts.now.replace(microsecond=0)))
                context.metrics.phases.labels("start").observe(facts.since_start)
            case Do.ATTEND:
                await self._attendance.attend(entry, facts)
            case Do.BEGIN_STOP:
                # The request for a job ends first: a job must not reach a VM that is about to halt.
                await self._attendance.close()
                self._observer.stop_began()
                await self._put(replace(entry, stop=action.stop))
            case Do.ASK_TO_HALT:
                await self._attendance.close()
                await self._ask_to_halt(entry, facts)
            case Do.POWER_OFF:
                await context.tart.stop(entry.vm)
                self._pause = 1.0
            case Do.RETRY:
                # A fresh clone: what ran once does not run again.
                self._cloned = False
                self._observer.run_is_over()
                self._pause = 5.0 * entry.attempt
                await self._put(replace(entry, stage=Stage.CLONING))
                await self._note_leak(entry, facts)
            case Do.END:
                await self._attendance.close()
                await self._put(replace(entry, stage=Stage.ENDED, end=action.end))
                await self._attendance.finish_log()
                context.metrics.ends.labels(action.end.reason if action.end else "").inc()
            case Do.CLEAR:
                await context.tart.delete(entry.vm)
                await self._keep_log()
                # The VM is gone, and the sweep removes what stays: what a job left behind must not hold up its Pod.
                with suppress(OSError):
                    await self._shares.remove()
                await self._put(replace(entry, stage=Stage.CLEARED))
            case Do.FORGET:
                await self._shares.remove()
                # Without an entry, one that is shown would be a Pod to be run.
                context.pods.pop(self._uid, None)
                await context.journal.forget(self._uid)
                context.gone.discard(self._uid)
            case _:
                raise AssertionError(f"{action.do} is not for an entry")

    async def _ask_to_halt(self, entry: Entry, facts: Facts) -> None:
        try:
            await self._shares.ask_to_halt()
        except OSError:
            # A guest that cannot be asked has the same time as any other, and no more.
            if entry.stop is None or facts.since_stop < entry.stop.grace:
                raise
        self._halt_asked = True

    async def _keep_log(self) -> None:
        """The end of the log outlives the share, for whoever asks before the Pod is deleted. Optional: it may fail."""
        with suppress(OSError):
            if (tail := await self._shares.log(_KEPT_LOG)) is not None:
                await self._context.files.write(self._folder / "log", tail)

    async def _put(self, entry: Entry) -> None:
        await self._context.journal.put(entry)

    async def _clone(self, entry: Entry) -> None:
        context = self._context
        await self._put(replace(entry, stage=Stage.CLONING))
        await context.tart.clone(golden_name(entry.image), entry.vm)
        await context.tart.configure(entry.vm, Resources(entry.cpu, entry.memory_mb))
        # An exit that is left over belongs to the run before; from the next `starting` on it is this run's own.
        await context.files.remove(self._folder / "exit")
        await context.files.remove(self._folder / "console.log")
        await context.goldens.used(entry.image)
        self._cloned = True

    async def _start(self, entry: Entry, facts: Facts) -> None:
        context, pod = self._context, facts.pod
        if pod is None:
            # Without the Pod there is no environment: wait until the cache has it, or it is proven gone.
            self._pause = context.settings.tick
            return
        attempt = entry.attempt + 1 if entry.stage is Stage.CLONING else entry.attempt
        async with context.seats:
            if context.seat_problem(self._uid) is not None:
                return
            script, archive = context.settings.guest_script, context.settings.runner_archive
            await self._shares.prepare(pod.env, script, archive, anew=True)
            entry = replace(
                entry,
                stage=Stage.STARTING,
                attempt=attempt,
                # A run that an agent before us may have begun is as that one would have begun it, if it was.
                softnet=context.settings.use_softnet and (attempt != entry.attempt or entry.softnet),
                boot_id=context.host.boot_id,
                started_at=facts.now.replace(microsecond=0),
            )
            await self._put(entry)
        self._observer.run_began()
        # A crash here leaves a run that never began, and the next agent begins it; a crash behind leaves a VM, which it adopts.
        with suppress(VmRunningError):
            await context.tart.run(entry.vm, self._observer.run_of(entry))

    async def _adopt(self, pod: WantedPod, facts: Facts) -> None:
        context, now = self._context, facts.now.replace(microsecond=0)
        names = await context.files.names(self._folder)
        runs = [int(name[4:]) for name in names if name.startswith("run.") and name[4:].isdigit()]
        attempt = max(runs, default=1)
        # The mark of the run: without it the end of this VM would look as if it had never begun.
        await context.files.make_folder(self._folder / f"run.{attempt}")
        entry = accepted(pod, facts.now)
        await self._put(
            replace(
                entry,
                stage=Stage.RUNNING,
                cluster=context.cluster,
                attempt=attempt,
                boot_id=context.host.boot_id,
                started_at=entry.accepted_at,
                running_at=now,
            )
        )
        context.metrics.adopted.inc()

    async def _note_leak(self, entry: Entry, facts: Facts) -> None:
        """Record that macOS counts VMs that are gone. One refusal may be a VM's that has ended this moment; the second is not."""
        if not refused_for_limit(facts.complaint) or entry.attempt < 2:
            return
        context = self._context
        alive = {each.vm for each in context.journal.entries() if each.holds_seat} | context.orphans
        with suppress(TartError):
            alive |= {vm.name for vm in await context.tart.machines() if vm.running}
            new = await context.leaks.note(leaked_seats(len(alive - {entry.vm})))
            context.metrics.leaked.labels(context.host.os_image).inc(new)
