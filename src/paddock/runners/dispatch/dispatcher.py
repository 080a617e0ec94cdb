"""The dispatcher: hears that there is work, claims it for Pods that wait, and has each won claim served.

A Pod that enters a pool known to be dry costs no statement; a pool with Pods is asked about every two seconds at least,
so that a lost hint costs seconds and never a job.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from paddock.base.failing_mac import JOBS_FAIL
from paddock.base.logs import get_logger
from paddock.kube.builtin import Node
from paddock.kube.builtin import Pod as KubePod
from paddock.kube.store import CacheChange
from paddock.runners.api import POOL_LABEL
from paddock.runners.dispatch.handover import Handover, ServingContext
from paddock.runners.dispatch.heartbeat import Heartbeat
from paddock.runners.dispatch.neighbours import OUTCOME as NEIGHBOUR
from paddock.runners.dispatch.pending_releases import BY
from paddock.runners.dispatch.version_rest import VersionRest
from paddock.runners.dispatch.waiting_pods import (
    ConcurrencyLimit,
    PollAnswer,
    Waiter,
    WaitingPods,
    WaitQueue,
    exit_now,
    later,
    must_go,
    must_wait,
)
from paddock.runners.ledger import EVERY_POOL, LARGEST_BATCH, Claim, LedgerError, Outcome, Pod

__all__ = ["Dispatcher"]

_FIRST_ASKED: Final = 4
"""Pods in the first statement of a round; four times as many in the next while every one of them got a job. Jobs mostly come one by
one, and each Pod that is asked for costs a look at it here and a row of the answer."""
_QUICK_RETRIES: Final = 6
_QUICK_PAUSE: Final = 0.01
_REMEMBERED_SPENT: Final = 20_000
_REMEMBERED_RESTING: Final = 1_000
_NOTHING_MORE: Final = frozenset({Outcome.EMPTY, Outcome.LIMIT_REACHED, Outcome.LIMIT_MISSING})
_STOPPING = later("stopping", "this process stops", 1.0)
_NO_LEDGER = later("unreachable", "the ledger cannot be reached")
_COMMITTED = exit_now("committed", "this Pod was handed a runner before")
_SPENT = exit_now("spent", "this Pod was handed a runner before")
_FENCED = exit_now("fenced", "this Pod is being retired")

log = get_logger("dispatch")


class Dispatcher:
    """One a process. `enter` and `leave` are the request's side, `hear` and `see` the world's; lines work by themselves.

    `stop` ends in order: nothing is claimed any more, what is being served is finished, everybody else is told to ask
    again.
    """

    def __init__(self, context: ServingContext, waiting: WaitingPods, handover: Handover, heartbeat: Heartbeat) -> None:
        self._ledger = context.ledger
        self._waiting = waiting
        self._handover = handover
        self._pending_releases = context.pending_releases
        self._heartbeat = heartbeat
        self._observations = context.observations
        self._settings = context.settings
        self._clock = context.clock
        self._rng = context.rng
        self._metrics = context.metrics
        self._versions = VersionRest(context.ledger, context.clock)
        self._slots = ConcurrencyLimit(context.settings.serving)
        self._spent: OrderedDict[str, None] = OrderedDict()
        self._resting: dict[str, tuple[float, str]] = {}
        """Pods beside another account's work, until when, and why: claiming for one again and again would keep the job from
        those that can take it."""
        self._lines: dict[str, asyncio.Task[None]] = {}
        self._asking: set[str] = set()
        self._served: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._metrics.serving.set_function(lambda: len(self._served))

    # The request's side

    def enter(self, waiter: Waiter) -> None:
        """Let a Pod wait; it may be answered at once."""
        answer = self._answer_now(waiter)
        if answer is not None:
            waiter.settle(answer)
            return
        line = self._waiting.enter(waiter)
        if line.pool not in self._lines or self._lines[line.pool].done():
            self._metrics.waiting.labels(line.pool).set_function(line.__len__)
            self._lines[line.pool] = asyncio.create_task(self._attend(line), name=f"line {line.pool}")
        if not line.dry:
            line.wake.set()

    def leave(self, waiter: Waiter) -> bool:
        """Take a waiter out; False if a claim is being made or served for it, and its answer is on its way."""
        return self._waiting.leave(waiter)

    def _answer_now(self, waiter: Waiter) -> PollAnswer | None:
        if self._stopping:
            return _STOPPING
        if waiter.pod.uid in self._spent:
            return _COMMITTED
        pod = self._observations.from_cache(waiter.pod.name, waiter.pod.uid)
        return (
            must_go(pod, self._observations.cached_pool(waiter.pod.pool))
            or must_wait(pod, self._observations.node_of(pod))
            or self._rests(waiter.pod.uid)
        )

    def _rests(self, uid: str) -> PollAnswer | None:
        until, why = self._resting.get(uid, (0.0, ""))
        left = until - self._clock.monotonic()
        if left > 0:
            return later(NEIGHBOUR, why, left)
        self._resting.pop(uid, None)
        return None

    def _rest(self, uid: str, answer: PollAnswer) -> None:
        now = self._clock.monotonic()
        if len(self._resting) >= _REMEMBERED_RESTING:
            # Pods that ended while they rested never ask again.
            self._resting = {each: (until, why) for each, (until, why) in self._resting.items() if until > now}
        self._resting[uid] = (now + answer.retry_after, answer.reason)

    # What is heard

    def hear(self, pools: frozenset[str]) -> None:
        """There may be work in these pools."""
        if pools == EVERY_POOL:
            # Not news but a reminder, every other second: a line that has just been asked about needs none.
            recently = self._clock.monotonic() - self._settings.backstop / 2
            for line in self._waiting.lines.values():
                if line.asked_at < recently:
                    line.wake.set()
            return
        for pool in pools:
            line = self._waiting.lines.get(pool)
            if line is not None:
                line.heard += 1
                line.dry = False
                line.wake.set()

    def see(self, change: CacheChange[KubePod]) -> None:
        """A Pod changed: one that waits and has to go is told so at once."""
        pod = change.obj
        answer = must_go(pod, self._observations.cached_pool(pod.metadata.labels.get(POOL_LABEL, "")))
        if change.kind == "deleted":
            answer = exit_now("deleting", "this Pod is deleted")
        if answer is not None:
            self._waiting.send_away(pod.metadata.uid, answer)

    def see_node(self, change: CacheChange[Node]) -> None:
        """A Node changed: Pods that wait there are told to come back later at once when it takes no more work.

        One that is being handed a job at this moment is let go, too, as long as its claim is not committed.
        """
        node = change.new
        old = change.old
        if node is None or (old is not None and (old.spec, _mark(old)) == (node.spec, _mark(node))):
            return
        for waiter in self._waiting.everybody():
            pod = self._observations.from_cache(waiter.pod.name, waiter.pod.uid)
            if pod is None or pod.spec.node_name != node.metadata.name:
                continue
            if (answer := must_wait(pod, node)) is not None:
                self._waiting.send_away(waiter.pod.uid, answer)

    # The work

    async def _attend(self, line: WaitQueue) -> None:
        """One pool's Pods, for as long as the process lives."""
        while not self._stopping:
            try:
                async with asyncio.timeout(self._settings.backstop):
                    await line.wake.wait()
            except TimeoutError:
                pass
            line.wake.clear()
            self._waiting.rejoin(line)
            try:
                await self._claim_while_worthwhile(line)
            except Exception:
                # One bad answer must not end the line: its Pods are looked after again in two seconds.
                log.exception("claiming for a pool failed", pool=line.pool)

    async def _claim_while_worthwhile(self, line: WaitQueue) -> None:
        quick, most = 0, _FIRST_ASKED
        while line.waiting and not self._stopping:
            room = await self._versions.room(line.pool)
            if room == 0:
                return
            dispatcher = await self._heartbeat.current()
            await self._slots.some()
            places = self._slots.take(min(len(line.waiting), most, room or most))
            if not places or self._stopping:
                self._slots.give(places)
                continue
            waiters = self._fit(self._waiting.take(line, places))
            self._slots.give(places - len(waiters))
            if not waiters:
                continue
            heard = line.heard
            line.asked_at = self._clock.monotonic()
            claims = await self._ask(line, waiters, dispatcher)
            outcomes = {claim.outcome for claim in claims}
            if not claims:
                return  # the ledger is away; whoever is left waits for the backstop
            if outcomes & {Outcome.LOST_RACE, Outcome.ACCOUNT_BUSY}:
                quick += 1
                if quick > _QUICK_RETRIES:
                    return
                await self._clock.sleep(_QUICK_PAUSE * quick * (0.5 + self._rng.random()))
            elif outcomes & _NOTHING_MORE and heard == line.heard:
                line.dry = True
                return
            elif outcomes == {Outcome.CLAIMED}:
                most = min(4 * most, LARGEST_BATCH)

    def _fit(self, taken: list[Waiter]) -> list[Waiter]:
        """Those who still may be claimed for; the others are told why not."""
        fit: list[Waiter] = []
        for waiter in taken:
            answer = self._answer_now(waiter)
            if answer is not None:
                self._waiting.done(waiter, answer)
            elif waiter.gone:
                self._waiting.put_back(waiter)
            else:
                fit.append(waiter)
        return fit

    async def _ask(self, line: WaitQueue, waiters: Sequence[Waiter], dispatcher: int) -> list[Claim]:
        """One statement for all of these; each is served, put back or answered. The places of those not served are free."""
        pods = [Pod(waiter.pod.uid, waiter.pod.name) for waiter in waiters]
        self._asking.add(line.pool)
        try:
            claims = await self._ledger.claims.claim_many(line.pool, pods, by=BY, dispatcher=dispatcher)
        except BaseException as error:
            # Whether anything was won is not known. No Pod is served on a guess: what was won is looked for and given back.
            for waiter in waiters:
                self._pending_releases.doubt(waiter.pod.uid)
                self._waiting.done(waiter, _NO_LEDGER)
            self._slots.give(len(waiters))
            if not isinstance(error, LedgerError):
                raise
            log.warning("no jobs could be claimed", pool=line.pool, error=str(error))
            return []
        finally:
            self._asking.discard(line.pool)
        # Without a pause until every answer has found its Pod: a won claim without a Pod that is served would be lost.
        in_use: list[Waiter] = []
        for waiter, claim in reversed(list(zip(waiters, claims, strict=True))):
            self._metrics.claims.labels(line.pool, claim.outcome.value).inc()
            if claim.won:
                task = asyncio.create_task(self._serve(waiter, claim), name=f"serve {claim.pod_name}")
                self._served.add(task)
                task.add_done_callback(self._served.discard)
                continue
            self._slots.give(1)
            match claim.outcome:
                case Outcome.POD_SPENT:
                    self._remember_spent(waiter.pod.uid)
                    self._waiting.done(waiter, _SPENT)
                case Outcome.POD_FENCED:
                    self._waiting.done(waiter, _FENCED)
                case Outcome.POD_IN_USE:
                    self._waiting.put_aside(waiter)
                    in_use.append(waiter)
                case _:
                    self._waiting.put_back(waiter)  # to the head of the line, which is why this goes from the back
        for waiter in in_use:
            await self._in_use(waiter)
        return claims

    async def _in_use(self, waiter: Waiter) -> None:
        """The Pod has a claim: of another request that is being served, or of one whose answer was lost."""
        try:
            held = await self._ledger.claims.of_pod(waiter.pod.uid)
            if held is None:
                return  # free again; it is asked for with the others next time
            if held.state != "running":
                await self._pending_releases.look_after(held)
                return
            answer = _COMMITTED
        except LedgerError:
            answer = _NO_LEDGER
        if self.leave(waiter):
            waiter.settle(answer)

    async def _serve(self, waiter: Waiter, claim: Claim) -> None:
        answer: PollAnswer | None = _STOPPING
        try:
            answer = await self._handover.serve(waiter, claim)
        except Exception:
            answer = later("failed", "something is wrong with this process")
            log.exception("serving a claim failed; it was given back", pod=claim.pod_name, job=claim.job_id)
        finally:
            self._slots.give(1)
            if waiter.answer is not None and waiter.answer.handed is not None:
                answer = waiter.answer
                self._remember_spent(waiter.pod.uid)
                if waiter.gone:
                    self._metrics.lost_answers.inc()
                    log.warning("a Pod hung up before it was answered; it will be told to exit", pod=claim.pod_name)
            if answer is None and not self._stopping:
                self._waiting.put_back(waiter)
            else:
                self._waiting.done(waiter, answer or _STOPPING)
            if answer is not None and answer.outcome == NEIGHBOUR:
                self._rest(waiter.pod.uid, answer)
            line = waiter.line
            if line is not None and (answer is None or line.aside or not line.dry):
                line.wake.set()

    def _remember_spent(self, uid: str) -> None:
        self._spent[uid] = None
        if len(self._spent) > _REMEMBERED_SPENT:
            self._spent.popitem(last=False)

    def open(self) -> None:
        """Let Pods wait and be served, again after a stop."""
        self._stopping = False

    async def stop(self) -> None:
        """No new claims; what is being served is finished or undone; everybody else is told to come back. Repeatable."""
        self._stopping = True
        for waiter in self._waiting:
            if self.leave(waiter):
                waiter.settle(_STOPPING)
        for line in self._waiting.lines.values():
            line.wake.set()
        # A line that only waits has nothing to lose; one whose statement is on its way hears the answer first.
        for pool, task in self._lines.items():
            if pool not in self._asking:
                task.cancel()
        await _ended(set(self._lines.values()), min(5.0, self._settings.serve_deadline))
        await _ended(set(self._served), self._settings.serve_deadline)
        await self._handover.settle()
        await self._pending_releases.settle()


def _mark(node: Node) -> str:
    return node.metadata.annotations.get(JOBS_FAIL, "")


async def _ended(tasks: set[asyncio.Task[None]], timeout: float) -> None:
    """Wait for tasks; those that take too long are cancelled, and undo what they did before they end."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=timeout)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=timeout)
