"""What is known about one Pod and its VM at one moment: the Pod, the journal, the VM's process, and what the guest says."""

from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from paddock.clients.dispatch import Drained, Refused
from paddock.clients.gateway.messages import Reason
from paddock.node.context import Context
from paddock.node.decide import Facts
from paddock.node.journal import Entry, Exit
from paddock.node.machines import Liveness, Run
from paddock.node.pods import accepted
from paddock.node.shares import Shares, readable_tail

__all__ = ["VmObserver"]

_CONSOLE: Final = 4096


class VmObserver:
    """Gathers the facts of one Pod. How long something has been so is counted in this agent's own seconds."""

    def __init__(self, context: Context, uid: str, shares: Shares) -> None:
        self._context = context
        self._uid = uid
        self._folder = context.journal.folder(uid)
        self._shares = shares
        self._running_since: float | None = None
        self._stopping_since: float | None = None
        self._done_since: float | None = None
        self._unreadable_since: float | None = None

    def run_began(self) -> None:
        self._running_since = self._context.clock.monotonic()

    def run_is_over(self) -> None:
        self._running_since = None

    def stop_began(self) -> None:
        self._stopping_since = self._context.clock.monotonic()

    async def gather(self, *, cloned: bool, halt_asked: bool, outcome: Drained | Refused | None) -> Facts:
        """What is known about the Pod now. Raises OSError or TartError where something cannot be found out."""
        context, entry = self._context, self._context.journal.get(self._uid)
        pod = context.pods.get(self._uid)
        facts = Facts(
            now=context.clock.now(),
            boot_id=context.host.boot_id,
            booted_at=context.host.booted_at,
            pod=pod,
            gone=self._uid in context.gone,
            other_cluster=entry is not None and context.of_another_cluster(entry),
            entry=entry,
            cloned=cloned,
            halt_asked=halt_asked,
            outcome=outcome,
            vms_listed=context.vms_listed,
            unreadable=self._uid in context.journal.unreadable,
        )
        if entry is None:
            return await self._newcomer(facts)
        if entry.over:
            return facts
        if not entry.holds_seat:
            return replace(facts, waiting=self._waiting(entry))
        return await self._machine(facts, entry)

    async def _newcomer(self, facts: Facts) -> Facts:
        pod = facts.pod
        if pod is None or facts.unreadable:
            return facts
        if pod.refusal is not None:
            return replace(facts, refusal=self._context.refusal(pod))
        liveness = await self._context.tart.liveness(accepted(pod, facts.now).vm, self._folder)
        return replace(facts, liveness=liveness, refusal=self._context.refusal(pod))

    def _waiting(self, entry: Entry) -> Reason | None:
        context = self._context
        pull = context.goldens.waiting(entry.image)
        if pull is not None:
            return pull
        if (seat := context.seat_problem(self._uid)) is not None:
            return seat
        return context.start_problem

    async def _machine(self, facts: Facts, entry: Entry) -> Facts:
        context, now = self._context, self._context.clock.monotonic()
        # The order matters: a VM that was gone when it was asked has written its last word before the files are read.
        liveness = await context.tart.liveness(entry.vm, self._folder)
        guest = await self._shares.guest()
        if self._running_since is None or not guest.readable:
            self._running_since = now  # what the guest could not tell us does not count against it
        if entry.stop is not None and self._stopping_since is None:
            self._stopping_since = now
        if guest.readable:
            self._unreadable_since = None
        elif self._unreadable_since is None:
            self._unreadable_since = now
        if guest.state == "done" and self._done_since is None:
            self._done_since = now
        facts = replace(
            facts,
            liveness=liveness,
            guest=guest,
            handed=await self._shares.handed(),
            since_start=now - self._running_since,
            since_done=now - self._done_since if self._done_since is not None else 0.0,
            unreadable_for=now - self._unreadable_since if self._unreadable_since is not None else 0.0,
            since_stop=now - self._stopping_since if self._stopping_since is not None else 0.0,
        )
        if liveness is not Liveness.GONE:
            return facts
        exit_ = await self._exit()
        return replace(
            facts,
            began=await context.tart.began(entry.vm, self.run_of(entry)),
            exit=exit_,
            complaint=await self._complaint(exit_),
            log_tail=await self._shares.log_tail(),
            waiting=self._waiting(entry),
        )

    async def _exit(self) -> Exit | None:
        text = (await self._context.files.read(self._folder / "exit", 64) or b"").split()
        if len(text) != 2 or not all(part.isdigit() for part in text):
            return None
        return Exit(int(text[0]), datetime.fromtimestamp(int(text[1]), UTC))

    async def _complaint(self, exit_: Exit | None) -> str:
        """What `tart run` said as it ended, where that was a complaint: its exit code alone tells nothing."""
        lines = readable_tail(await self._context.files.tail(self._folder / "console.log", _CONSOLE) or b"").split("\n")
        bad = [line.strip() for line in lines if "error" in line.lower() or "exceeds" in line.lower()]
        if bad:
            return bad[-1][:500]
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][:500] if exit_ is not None and exit_.code != 0 and said else ""

    def run_of(self, entry: Entry) -> Run:
        return Run(self._folder, entry.attempt, self._shares.env, self._shares.status)
