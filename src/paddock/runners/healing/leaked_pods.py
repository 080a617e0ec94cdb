"""Pods that are leaks: assigned and forgotten, done but not ended, or hung. See `paddock.runners.healing.verdicts.pod`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from paddock.base.logs import get_logger
from paddock.kube.builtin import Pod
from paddock.kube.reader import FreshReader
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.breaker import Attempts, implausible, within_caps
from paddock.runners.healing.observations import PodObservation, PodObserver, list_runner_pods, pool_of
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.reaping import BY, Kept, ReapContext, Reaper
from paddock.runners.healing.verdicts.pod import KINDS, Reap, Verdict, Watch, judge
from paddock.runners.healing.verdicts.pod_facts import HandedFact, HeldFact, PodLife
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import Fence, Heal

__all__ = ["LeakedPods"]

_LOG = get_logger("healing")
_ODD = frozenset({"contradicted", "reports", "started", "unremembered", "ageless"})
"""Reasons for keeping a Pod that a person should hear of."""
_NOT_OURS = frozenset({"contradicted", "started", "reports", "unremembered"})
"""Assigned Pods of which this ledger knows nothing at all."""


class LeakedPods:
    """Kinds `orphaned_stamped_pod`, `finished_job_pod` and `hung_runner`.

    No pass deletes anything unless its list of Pods was complete, and the ledger has not even been asked before. A ledger
    that knows nothing of most assigned Pods is taken for the wrong one, and nothing is done.
    """

    name = "pods"

    def __init__(self, context: ReapContext, settings: HealingSettings) -> None:
        self._ledger = context.ledger
        self._reader = FreshReader(context.client)
        self._settings = settings
        self._namespace = context.namespace
        self._metrics = context.metrics
        self._observations = PodObserver(
            context.ledger, self._reader, context.github, settings, context.clock, namespace=context.namespace
        )
        self._reaper = Reaper(context, self._observations, settings)
        self._attempts = Attempts()
        self._burst = False
        self._sizes: Counter[str] = Counter()

    @property
    def every(self) -> float:
        """Sooner while a burst of one proven cause is being worked off: each pass is capped, and reads everything anew."""
        return min(self._settings.burst_every, self._settings.every) if self._burst else self._settings.every

    async def heal(self) -> Report:
        return await self._pass(dry=False)

    async def plan(self) -> Report:
        """What a pass would do now, without doing it."""
        return await self._pass(dry=True)

    async def _pass(self, *, dry: bool) -> Report:
        pass_report = PassReport(self._settings)
        pods = await list_runner_pods(self._reader, self._namespace)
        if not dry:
            await self._resume(pods, pass_report)
        seen = await self._observations.of_all(pods)
        judged = [(each, judge(each.facts, self._settings)) for each in seen]
        pass_report.looked = sum(_concerned(each) for each in seen)
        self._show(judged, pass_report, dry=dry)
        strangers = sum(verdict.reason in _NOT_OURS for _, verdict in judged if not isinstance(verdict, Reap))
        if implausible(pass_report.looked, strangers, self._settings):
            self._metrics.refused.labels("breaker").inc()
            pass_report.refuse(
                f"this ledger knows nothing of {strangers} of {pass_report.looked} Pods that are assigned or handed out:"
                " is it the right database? Nothing was done"
            )
            return pass_report.report()
        if not dry:
            await self._spare(judged, pass_report)
        proven = [(each, verdict) for each, verdict in judged if isinstance(verdict, Reap) and not _retiring(each)]
        proven.sort(key=lambda pair: (pair[1].since, pair[0].name))
        reported, put_off = await self._reap(proven, pods, pass_report, dry=dry)
        return replace(pass_report.report(), reported=reported, deferred=put_off)

    async def _reap(
        self, proven: list[tuple[PodObservation, Reap]], pods: Sequence[Pod], pass_report: PassReport, *, dry: bool
    ) -> tuple[tuple[Healed, ...], int]:
        """Reap what is proven; gives what was only reported, and how many were put off."""
        reported: list[Healed] = []
        acting: list[tuple[PodObservation, Reap]] = []
        for each, verdict in proven:
            heal = _as_heal(each, verdict)
            if dry or pass_report.only_reports(heal.kind):
                reported.append(heal)
            else:
                acting.append((each, verdict))
        if dry:
            return tuple(reported), 0  # nothing is remembered of a look: the worker goes on as it would have
        acting = self._attempts.in_order(acting, lambda pair: pair[0].uid)
        # In the middle of a burst the share is that of the pool as it was: what was reaped lately is being replaced.
        sizes = Counter(pool_of(pod) for pod in pods) | (self._sizes if self._burst else Counter())
        self._sizes = sizes
        chosen, put_off = within_caps(
            acting,
            lambda pair: pool_of(pair[0].pod),
            sizes,
            self._settings,
            one_cause=lambda pair: pair[0].facts.dispatcher_died,
        )
        self._burst = put_off > 0 and any(each.facts.dispatcher_died for each, _ in acting)
        if put_off:
            self._metrics.refused.labels("cap").inc(put_off)
            _LOG.warning("more Pods are leaks than one pass may reap", reaped=len(chosen), put_off=put_off)
        for each, verdict in chosen:
            if pass_report.stopped:
                break
            self._attempts.tried(each.uid)
            with pass_report.item(f"Pod {each.name}"):
                result = await self._reaper.reap(each, verdict)
                if isinstance(result, Kept):
                    self._metrics.refused.labels(result.reason).inc()
                    pass_report.refuse(result.sentence)
                else:
                    pass_report.done(result)
        return tuple(reported), put_off

    async def _resume(self, pods: Sequence[Pod], pass_report: PassReport) -> None:
        """Reaps that were interrupted: of Pods that are gone now, the rest is done; others are judged anew below."""
        there = {pod.metadata.uid for pod in pods}
        intents = {heal.pod_uid: heal for heal in await self._ledger.heals.intended() if heal.kind in KINDS}
        fences = {fence.pod_uid: fence for fence in await self._ledger.fences.standing()}
        for uid in (intents.keys() | fences.keys()) - there:
            fence, intent = fences.get(uid), intents.get(uid)
            name = fence.pod_name if fence is not None else intent.subject if intent is not None else ""
            with pass_report.item(f"Pod {name}"):
                # The list may be older than the fence: a Pod is gone when it is not found under its name, by uid.
                left = await self._reader.get(Pod, name, self._namespace)
                if left is not None and left.metadata.uid == uid:
                    continue
                if intent is not None:
                    await self._reaper.count_if_alive(uid, name, intent.job_id)
                if fence is not None:
                    await self._reaper.gone(fence)
                if intent is not None:
                    pass_report.done(_resumed(intent))

    async def _spare(self, judged: Sequence[tuple[PodObservation, Verdict]], pass_report: PassReport) -> None:
        """Fences of ours, and intents, of Pods that turned out to be no leaks: an attempt was cut short, and is void.

        A turn can be lost while its holder goes on, so that a fence may be of an attempt that is under way: it is left until
        no attempt can last that long (`Reaper`). A Pod that asks for a job meanwhile is told to exit, and is replaced.
        """
        intents = {heal.pod_uid: heal for heal in await self._ledger.heals.intended() if heal.kind in KINDS}
        for each, verdict in judged:
            if isinstance(verdict, Reap) or each.facts.life is not PodLife.ALIVE:
                continue
            if each.fence is not None and each.fence.by == BY:
                if each.facts.now - each.fence.raised_at < self._settings.claim_grace:
                    continue  # of a process that lost its turn in the middle, perhaps, and is about to delete
                with pass_report.item(f"Pod {each.name}"):
                    await self._reaper.spare(each.fence, verdict.sentence)
            elif each.uid in intents:
                with pass_report.item(f"Pod {each.name}"):
                    await self._ledger.heals.withdraw(intents[each.uid].kind, each.uid)

    def _show(self, judged: Sequence[tuple[PodObservation, Verdict]], pass_report: PassReport, *, dry: bool) -> None:
        counted = Counter(dict.fromkeys((*KINDS, "watched"), 0))
        for each, verdict in judged:
            if isinstance(verdict, Reap):
                counted[verdict.kind] += 1
            elif isinstance(verdict, Watch):
                counted["watched"] += 1
                if dry:
                    pass_report.refuse(
                        f"Pod {each.name}: {verdict.sentence}"
                    )  # people who ask for leaks want to see suspects
            elif verdict.reason in _ODD:
                if not dry:
                    self._metrics.refused.labels(verdict.reason).inc()
                pass_report.refuse(f"Pod {each.name}: {verdict.sentence}")
        for kind, number in counted.items():
            self._metrics.suspects.labels(kind).set(number)


def _concerned(seen: PodObservation) -> bool:
    facts = seen.facts
    return facts.life is PodLife.ALIVE and (
        facts.assigned or facts.handed is not HandedFact.NONE or facts.held is not HeldFact.NONE
    )


def _retiring(seen: PodObservation) -> bool:
    """Fenced by the operator, which is about to delete it."""
    return isinstance(seen.fence, Fence) and seen.fence.by != BY


def _as_heal(seen: PodObservation, verdict: Reap) -> Healed:
    evidence = {
        "proof": [[ledger.value, fact] for ledger, fact in verdict.proof],
        "pod_uid": seen.uid,
        "job_id": seen.job_id,
    }
    seconds = max(0.0, (seen.facts.now - verdict.since).total_seconds())
    return Healed(verdict.kind, seen.name, f"Pod {seen.name}: {verdict.sentence}", evidence, seconds)


def _resumed(intent: Heal) -> Healed:
    evidence = {**intent.evidence, "pod_uid": intent.pod_uid, "job_id": intent.job_id}
    return Healed(intent.kind, intent.subject, intent.sentence, evidence, intent.seconds)
