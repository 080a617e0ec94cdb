"""The waiting Pods: who waits for which pool, in which order, and what a Pod can be told (docs/design/dispatch.md).

No I/O and no tasks; no move depends on how many wait.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from paddock.base.explanation import utc
from paddock.base.failing_mac import jobs_fail
from paddock.base.secrets import Secret
from paddock.kube.builtin import Node, Pod
from paddock.runners.api import (
    ACCOUNT_LABEL,
    DRAIN_ELIGIBLE_LABEL,
    OPERATOR_DRAIN_LABEL,
    RUNNER,
    VM_RESOURCE,
    RunnerPool,
)
from paddock.runners.dispatch.identity import PodIdentity
from paddock.runners.dispatch.pod_proof import PodProof

__all__ = [
    "NOTHING",
    "SUPERSEDED",
    "ConcurrencyLimit",
    "HandedJob",
    "Place",
    "PollAnswer",
    "WaitQueue",
    "Waiter",
    "WaitingPods",
    "exit_now",
    "later",
    "must_go",
    "must_wait",
]


@dataclass(frozen=True, slots=True)
class HandedJob:
    """A runner for this Pod alone. The config is shown once, in the body of the answer, and nowhere else."""

    config: Secret
    owner: str
    job_id: int


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """`outcome` is what the counters call it; `reason` is what the Pod's log will say."""

    status: int
    outcome: str
    reason: str = ""
    retry_after: float = 0.0
    handed: HandedJob | None = None


NOTHING: Final = PollAnswer(204, "nothing")
SUPERSEDED: Final = PollAnswer(204, "superseded")
"""A newer request of the same Pod waits in this one's place."""


def exit_now(outcome: str, reason: str) -> PollAnswer:
    """The Pod ends and is replaced; it is never given a job, or never a second one."""
    return PollAnswer(410, outcome, reason)


def later(outcome: str, reason: str, seconds: float = 2.0) -> PollAnswer:
    """Nothing is wrong with the Pod: it asks again after that."""
    return PollAnswer(503, outcome, reason, retry_after=seconds)


def must_go(pod: Pod | None, pool: RunnerPool | None) -> PollAnswer | None:
    """The 410 for a Pod that is to end, or None for one that may be served.

    What could not be looked up counts as good: a blip of the API server must not stop dispatch, and everything that
    matters for safety is settled by the ledger. An older image alone is no reason, its turn in the roll must have come.
    """
    if pod is None:
        return None
    labels = pod.metadata.labels
    if pod.metadata.deletion_timestamp is not None:
        return exit_now("deleting", "this Pod is being deleted")
    if ACCOUNT_LABEL in labels:
        # Its 200 was lost. It must not wait for a second tenant.
        return exit_now("committed", "this Pod was handed a runner before")
    if labels.get(OPERATOR_DRAIN_LABEL) == "true":
        return exit_now("operator_drain", "an operator asked for this Pod to be retired")
    if labels.get(DRAIN_ELIGIBLE_LABEL) == "true" and pool is not None and _image(pod) not in ("", pool.spec.image):
        return exit_now("drain", "this Pod runs an older image of its pool")
    if (
        pool is not None
        and pool.spec.os == "darwin"
        and pool.spec.isolation == "exclusive"
        and _seats(pod) < pool.vm_seats
    ):
        # The scheduler and the Mac's agent keep a Pod alone that asks for all of the Mac's seats. One that was made before
        # the pool became exclusive may have another tenant beside it, today or in a minute: it is never given a job.
        return exit_now("shared", "this Pod may share its Mac, and its pool is exclusive now")
    return None


def must_wait(pod: Pod | None, node: Node | None) -> PollAnswer | None:
    """The 503 for a Pod whose Node takes no more work, or None. A Node that is not known is no reason to wait.

    Whoever drains a Node fences it first: a job that came after that would be waited for, or lost with the Mac. The Pod
    itself is fine, so it asks again: its Node may be opened, or its pool retires it.
    """
    if pod is None or node is None or not pod.spec.node_name:
        return None
    if not node.spec.unschedulable and node.metadata.deletion_timestamp is None:
        if (mark := jobs_fail(node.metadata.annotations, node.status.node_info)) is None:
            return None
        why = f"jobs fail at once on Node {node.metadata.name}: its Pods get none until {utc(mark.until)} at most"
        return later("jobs_fail", why, 30.0)
    what = "is cordoned" if node.spec.unschedulable else "is being deleted"
    return later("cordoned", f"Node {node.metadata.name} {what}: no job is given to its Pods until it is opened", 5.0)


def _seats(pod: Pod) -> int:
    try:
        return sum(int((each.resources.get("requests") or {}).get(VM_RESOURCE, 0)) for each in pod.spec.containers)
    except (TypeError, ValueError):
        return 0


def _image(pod: Pod) -> str:
    """The image of the container that runs the job."""
    containers = pod.spec.containers
    named = next((container for container in containers if container.name == RUNNER), None)
    return (named or containers[0]).image if containers else ""


class Place(Enum):
    LINE = "line"  # waits, and may be claimed for
    ASIDE = "aside"  # waits, but its Pod is held by a claim: asking for it now would be in vain
    HAND = "hand"  # a claim is being made or served for it
    OUT = "out"


class Waiter:
    """One held request. It is answered once; `gone` says that the Pod will not hear the answer."""

    __slots__ = ("answer", "entered", "gone", "line", "overdue", "parting", "place", "pod", "proof", "waker")

    def __init__(self, pod: PodIdentity, proof: PodProof, entered: float) -> None:
        self.pod = pod
        self.proof = proof
        self.entered = entered
        self.answer: PollAnswer | None = None
        self.gone = False
        self.overdue = False
        """Its time is up, but it was in hand: it is answered as soon as it would have to wait again."""
        self.parting: PollAnswer | None = None
        """It has to go, which was noticed while it was in hand: it must not wait again, nor be handed anything."""
        self.waker: Callable[[], None] | None = None
        """Rung when there is an answer; the request's own task sets it, so that waiting costs no other task."""
        self.place = Place.OUT
        self.line: WaitQueue | None = None

    def settle(self, answer: PollAnswer) -> None:
        """Answer it; the first answer stands."""
        if self.answer is None:
            self.answer = answer
            if self.waker is not None:
                self.waker()


class WaitQueue:
    """The Pods of one pool, first come first; and what is known about the pool's jobs."""

    __slots__ = ("aside", "asked_at", "dry", "heard", "pool", "waiting", "wake")

    def __init__(self, pool: str) -> None:
        self.pool = pool
        self.waiting: OrderedDict[str, Waiter] = OrderedDict()
        self.aside: dict[str, Waiter] = {}
        self.wake = asyncio.Event()
        self.dry = False
        """The ledger had nothing when it was last asked, and no notification came since: a newcomer need not ask."""
        self.heard = 0
        """How many hints there were: a hint that comes while the ledger is being asked must not be forgotten."""
        self.asked_at = float("-inf")

    def __len__(self) -> int:
        return len(self.waiting) + len(self.aside)


class WaitingPods:
    """One waiter a Pod in line. A Pod that asks again takes the place of its older request, which is let go."""

    def __init__(self) -> None:
        self.lines: dict[str, WaitQueue] = {}
        self._in_hand: dict[str, Waiter] = {}

    def __len__(self) -> int:
        return sum(len(line) for line in self.lines.values())

    def __iter__(self) -> Iterator[Waiter]:
        for line in self.lines.values():
            yield from list(line.waiting.values())
            yield from list(line.aside.values())

    def everybody(self) -> list[Waiter]:
        """Those who wait, and those for whom a claim is being made or served."""
        return [*self, *self._in_hand.values()]

    @property
    def in_hand(self) -> int:
        return len(self._in_hand)

    def holds(self, uid: str) -> bool:
        """Whether a claim for this Pod is being made or served by us."""
        return uid in self._in_hand

    def line_of(self, pool: str) -> WaitQueue:
        line = self.lines.get(pool)
        if line is None:
            line = self.lines[pool] = WaitQueue(pool)
        return line

    def enter(self, waiter: Waiter) -> WaitQueue:
        line, uid = self.line_of(waiter.pod.pool), waiter.pod.uid
        older = self.find(uid)
        if older is not None:
            self.leave(older)
            older.settle(SUPERSEDED)
        waiter.line = line
        if uid in self._in_hand:
            waiter.place = Place.ASIDE
            line.aside[uid] = waiter
        else:
            waiter.place = Place.LINE
            line.waiting[uid] = waiter
        return line

    def find(self, uid: str) -> Waiter | None:
        """The Pod's request that waits, in line or aside."""
        for line in self.lines.values():
            waiter = line.waiting.get(uid) or line.aside.get(uid)
            if waiter is not None:
                return waiter
        return None

    def send_away(self, uid: str, answer: PollAnswer) -> bool:
        """Answer the Pod's requests with this; one that is in hand as soon as it would be handed something, or wait."""
        waiter, in_hand = self.find(uid), self._in_hand.get(uid)
        if in_hand is not None:
            in_hand.parting = answer
        if waiter is not None and self.leave(waiter):
            waiter.settle(answer)
        return waiter is not None or in_hand is not None

    def leave(self, waiter: Waiter) -> bool:
        """Take it out. False if it is in hand: then an answer is on its way, and it must be waited for."""
        if waiter.place is Place.HAND:
            waiter.overdue = True
            return False
        line, uid = waiter.line, waiter.pod.uid
        if line is not None:
            for places in (line.waiting, line.aside):
                if places.get(uid) is waiter:
                    del places[uid]
        waiter.place = Place.OUT
        return True

    def take(self, line: WaitQueue, most: int) -> list[Waiter]:
        """The first in line, in hand from now on: give each back with `put_back`, `put_aside` or `done`."""
        taken: list[Waiter] = []
        while line.waiting and len(taken) < most:
            uid, waiter = line.waiting.popitem(last=False)
            waiter.place = Place.HAND
            self._in_hand[uid] = waiter
            taken.append(waiter)
        return taken

    def put_back(self, waiter: Waiter) -> None:
        """It got nothing and goes on waiting, at the head of its line; unless its time is up or it left."""
        self._release(waiter, Place.LINE)

    def put_aside(self, waiter: Waiter) -> None:
        """A claim holds its Pod: it waits without being asked for."""
        self._release(waiter, Place.ASIDE)

    def done(self, waiter: Waiter, answer: PollAnswer) -> None:
        """It has its answer. A newer request of the same Pod may be asked for now."""
        self._release(waiter, Place.OUT)
        waiter.settle(answer)

    def rejoin(self, line: WaitQueue) -> None:
        """Those aside may try again, except where this process serves their Pod."""
        for uid in [uid for uid in line.aside if uid not in self._in_hand]:
            waiter = line.aside.pop(uid)
            waiter.place = Place.LINE
            line.waiting[uid] = waiter

    def _release(self, waiter: Waiter, place: Place) -> None:
        uid, line = waiter.pod.uid, waiter.line
        assert line is not None, "only one that entered can be in hand"
        if self._in_hand.get(uid) is waiter:
            del self._in_hand[uid]
        newer = line.aside.pop(uid, None)
        if place is Place.OUT or waiter.gone or waiter.overdue or waiter.parting or newer is not None:
            waiter.place = Place.OUT
            if place is not Place.OUT:
                waiter.settle(waiter.parting or (SUPERSEDED if newer is not None else NOTHING))
        else:
            waiter.place = place
            if place is Place.LINE:
                line.waiting[uid] = waiter
                line.waiting.move_to_end(uid, last=False)
            else:
                line.aside[uid] = waiter
        if newer is not None:
            newer.place = Place.ASIDE if place is Place.ASIDE else Place.LINE
            (line.aside if place is Place.ASIDE else line.waiting)[uid] = newer


class ConcurrencyLimit:
    """Whole numbers of places, taken before a claim is made: no Pod wins a job that would then have to wait for us."""

    def __init__(self, places: int) -> None:
        self.free = places
        self._given = asyncio.Event()

    def take(self, wanted: int) -> int:
        """As many as there are, up to what is wanted; perhaps none."""
        taken = min(self.free, wanted)
        self.free -= taken
        return taken

    def give(self, places: int) -> None:
        if places:
            self.free += places
            self._given.set()

    async def some(self) -> None:
        """Until there may be one."""
        while self.free == 0:
            self._given.clear()
            await self._given.wait()
