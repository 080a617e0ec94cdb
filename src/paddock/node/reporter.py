"""The conversation with whoever writes this Mac's Node and Pods: one report at a time, each with all that there is to say.

A report with news is sent at once. One without is held by the other side, and given up for one with news.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from paddock.base.backoff import Backoff
from paddock.base.logs import get_logger
from paddock.base.rng import kube_suffix
from paddock.base.tasks import end as end_task
from paddock.base.tasks import first_of
from paddock.clients.gateway.messages import LONGEST_HOLD, Answer, Event, MacFacts, PodReport, Report, Vitals, WantedPod
from paddock.node.absences import Absences
from paddock.node.context import Context
from paddock.node.health import Health, stated
from paddock.node.journal import Life
from paddock.node.link import LinkError, NodeTakenError, NotKnownError
from paddock.node.report import Observed, entry_report, fill, newcomer_report, news_of, unreadable_report

__all__ = ["Reporter"]

log = get_logger("node reports")
_BACKOFF: Final = Backoff(base=1.0, cap=30.0)
_NOT_KNOWN: Final = 30.0
_APART: Final = 0.1
"""Between two reports, so that news that come together travel together."""
_BURST, _BURST_SECONDS = 4, 2.0
"""So many reports at most in so many seconds: more than two a second are refused in the long run."""
_MARKS_EVERY: Final = 5.0
_WORD: Final = 16


class Reporter:
    """Sends reports and reads answers. `health` is asked for anew once a Lease's interval; `keep` is called for every uid whose Pod
    differs from the answer before, or is proven gone.
    """

    def __init__(
        self,
        context: Context,
        tart_version: str,
        health: Callable[[], Awaitable[Health]],
        keep: Callable[[str], None],
    ) -> None:
        self._context = context
        self._tart_version = tart_version
        self._ask_health = health
        self._keep = keep
        self._health = Health()
        self._health_until = float("-inf")
        self._life: Life | None = None
        self._word = kube_suffix(context.rng, _WORD)
        self._sequence = 0
        self._named: Counter[str] = Counter()
        self._sent: object = None
        self._marks: dict[str, str] = {}
        self._sent_at = float("-inf")
        self._recent: deque[float] = deque(maxlen=_BURST)
        self._absences = Absences(context.settings.absent_for)
        self._changed = asyncio.Event()
        context.changed = self._changed.set

    async def run(self) -> None:
        """Report until cancelled. Raises NodeTakenError where another Mac has this Mac's name."""
        failures = 0
        while True:
            try:
                await self.once()
                failures = 0
                wait = self._until_next()
            except NodeTakenError:
                raise
            except NotKnownError as error:
                log.error("this agent is not known any more", why=str(error))  # noqa: TRY400
                wait = _NOT_KNOWN
            except LinkError as error:
                failures += 1
                wait = min(self._context.settings.lease_every, _BACKOFF.delay(failures, self._context.rng))
                log.warning("a report was not answered", why=str(error), again_in=round(wait, 1))
            await self._context.clock.sleep(wait)

    def _until_next(self) -> float:
        earliest = self._sent_at + _APART
        if len(self._recent) == _BURST:
            earliest = max(earliest, self._recent[0] + _BURST_SECONDS)
        return max(0.0, earliest - self._context.clock.monotonic())

    async def once(self, hold: float | None = None) -> None:
        """One report, and its answer."""
        context = self._context
        if self._life is None:
            self._life = await context.journal.begin_life(kube_suffix(context.rng, _WORD))
        now = context.clock.monotonic()
        if now >= self._health_until:
            # The same interval whatever is reported in between, so that a Lease follows it.
            self._health = await self._ask_health()
            self._health_until = now + context.settings.lease_every
        pods = self._pods()
        events = tuple(context.events)
        report, named = fill(self._head(self._life, events), pods, self._named)
        late = any(each.end is not None and uid not in named and not self._named[uid] for uid, each in pods.items())
        news = self._is_news(pods) or bool(events) or late
        if hold is None:
            until = self._health_until - context.clock.monotonic()
            hold = 0.0 if news else min(LONGEST_HOLD, max(0.0, until))
        self._sequence += 1
        self._named = Counter({uid: self._named[uid] + (uid in named) for uid in pods})
        self._sent, self._sent_at = news_of(pods.items()), context.clock.monotonic()
        self._recent.append(self._sent_at)
        self._marks = {uid: each.mark for uid, each in pods.items()}
        try:
            answer = await self._answer(report, hold)
        except LinkError:
            self._sent, context.present = None, None
            raise
        if answer is None:
            return
        # What was not sent yet, or came meanwhile, stays.
        sent = {(each.reason, each.pod, each.at) for each in report.events}
        context.events[:] = [each for each in context.events if (each.reason, each.pod, each.at) not in sent]
        self._read(answer)

    async def _answer(self, report: Report, hold: float) -> Answer | None:
        """The answer; None where there were news before it came. Only a report that says nothing new is given up for them."""
        if hold <= 0.0:
            return await self._context.link.report(report, 0.0)
        asking = asyncio.create_task(self._context.link.report(report, hold), name="report")
        try:
            while not asking.done():
                self._changed.clear()
                if self._is_news(self._pods()) or self._context.events:
                    return None
                await first_of(_over(asking), self._changed.wait())
            return await asking
        finally:
            await end_task(asking)

    def _is_news(self, pods: dict[str, PodReport]) -> bool:
        if news_of(pods.items()) != self._sent:
            return True
        late = self._context.clock.monotonic() - self._sent_at >= _MARKS_EVERY
        return late and any(each.mark != self._marks.get(uid) for uid, each in pods.items())

    # What is sent

    def _pods(self) -> dict[str, PodReport]:
        context = self._context
        found: dict[str, PodReport] = {}
        for entry in context.journal.entries():
            observed = context.observed.get(entry.uid, Observed())
            found[entry.uid] = entry_report(entry, context.pods.get(entry.uid), observed)
        for uid in context.journal.unreadable:
            found[uid] = unreadable_report(context.pods.get(uid), context.observed.get(uid, Observed()))
        for uid, wanted in context.pods.items():
            if (
                uid not in found
                and (told := newcomer_report(wanted, context.observed.get(uid, Observed()))) is not None
            ):
                found[uid] = told
        return found

    def _head(self, life: Life, events: tuple[Event, ...]) -> Report:
        context, disk = self._context, self._context.goldens.disk
        return Report(
            folder=life.folder,
            life=life.number,
            word=self._word,
            sequence=self._sequence,
            agent=context.settings.version,
            mac=self._facts(context.clock.now(), disk.total if disk is not None else 0),
            conditions=stated(self._health),
            events=events,
            vitals=Vitals(disk_free_bytes=disk.free) if disk is not None else None,
        )

    def _facts(self, now: datetime, disk_bytes: int) -> MacFacts:
        context, host, offer = self._context, self._context.host, self._context.offer
        held = context.goldens.held
        return MacFacts(
            machine_id=host.machine_id,
            boot_id=host.boot_id,
            booted_at=host.booted_at,
            cpus=host.cpus,
            memory_bytes=offer.memory_bytes,
            disk_bytes=disk_bytes,
            seats=offer.vms,
            clock=now,
            fewer=offer.fewer,
            os_image=host.os_image,
            kernel=host.kernel,
            tart=self._tart_version,
            address=host.address,
            hostname=host.hostname,
            softnet=context.behind_softnet,
            goldens=tuple(sorted(held)) if held is not None else None,
        )

    # What is answered

    def _read(self, answer: Answer) -> None:
        context = self._context
        context.cluster = answer.cluster
        context.clock_skew = skew = (context.clock.now() - answer.now).total_seconds()
        context.metrics.clock_skew.set(skew)
        shown = {pod.uid: pod for pod in answer.pods}
        before = dict(context.pods)
        if not answer.complete:
            shown = before | shown
        context.present = frozenset(shown) if answer.complete else None
        context.pods.clear()
        context.pods.update(shown)
        gone = self._absences.read(answer, context.journal.entries(), context.clock.monotonic())
        for uid in gone:
            if uid not in context.gone:
                log.info("a Pod is gone", uid=uid)
                context.gone.add(uid)
        for uid in {*gone, *_differing(before, shown)}:
            self._keep(uid)


async def _over(task: "asyncio.Task[Answer]") -> None:
    await asyncio.wait([task])


def _differing(before: dict[str, WantedPod], after: dict[str, WantedPod]) -> set[str]:
    return {uid for uid in before.keys() | after.keys() if before.get(uid) != after.get(uid)}
