"""Listeners that hang: dismissed at GitHub, their job put back, their Pod reaped, within two minutes of the last move.

| # | step | dies, or fails, after it | healed by |
|---|---|---|---|
| 1 | everything is read anew, and judged (`verdicts.listener`) | nothing was done | the next pass |
| 2 | the runner is unregistered; GitHub refuses that while it has a job | a runner that can get no job, a claim, a Pod | the next pass finds it absent and goes on; without marks `orphans` and `pods` do, later |
| 3 | its job is put back under its generation, with the end of its claim | a Pod without claim | the next pass goes on at 4; `pods` judges it the same |
| 4 | the Pod is reaped (`reaping`: fence, read again, judge again, delete) | see there | see there |

Once step 2 is done no job can reach the runner, so that nothing after it can end one.
"""

from collections import Counter
from datetime import datetime, timedelta

from paddock.base.logs import get_logger
from paddock.clients.github import Conflict
from paddock.kube.builtin import Pod
from paddock.kube.reader import FreshReader
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.breaker import Attempts, implausible, within_caps
from paddock.runners.healing.facts import LISTENER_STAGES
from paddock.runners.healing.observations import PodObservation, PodObserver, list_runner_pods, pool_of
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.reaping import Kept, ReapContext, Reaper
from paddock.runners.healing.verdicts.listener import Dismiss, judge_listener
from paddock.runners.healing.verdicts.pod import HUNG_RUNNER, Reap, judge
from paddock.runners.healing.verdicts.pod_facts import HeldFact, JobFact, RunnerRow
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import Job

__all__ = ["HungListeners"]

_LOG = get_logger("healing")
_ASKED_AGAIN = timedelta(seconds=60)
"""How long GitHub's word that a still listener is well is believed: each look costs it two questions."""


class HungListeners:
    """Kind `hung_runner`, the quick way: for runners whose guest says which stage they are in. A job that goes back to
    the queue on the way is an `orphan_requeued`.

    A pass without suspects is one small query. The caps are those of every worker; where most runners seem to hang, it is
    GitHub or the way to it, and nothing is done.
    """

    name = "listeners"

    def __init__(self, context: ReapContext, settings: HealingSettings) -> None:
        self._ledger = context.ledger
        self._reader = FreshReader(context.client)
        self._github = context.github
        self._settings = settings
        self._clock = context.clock
        self._namespace = context.namespace
        self._metrics = context.metrics
        self._observer = PodObserver(
            context.ledger, self._reader, context.github, settings, context.clock, namespace=context.namespace
        )
        self._reaper = Reaper(context, self._observer, settings)
        self._well: dict[str, datetime] = {}
        self._attempts = Attempts()
        self.every = settings.listener_every

    async def heal(self) -> Report:
        pass_report = PassReport(self._settings)
        now, grace = self._clock.now(), self._settings.listener_grace
        marks = await self._ledger.progress.still(LISTENER_STAGES, unmoved_since=now - grace, heard_since=now - grace)
        uids = {mark.pod_uid for mark in marks}
        self._well = {uid: at for uid, at in self._well.items() if uid in uids and now - at < _ASKED_AGAIN}
        if not uids - self._well.keys():
            return pass_report.report()
        pods = await list_runner_pods(self._reader, self._namespace)
        suspects = [pod for pod in pods if pod.metadata.uid in uids and pod.metadata.uid not in self._well]
        pass_report.looked = len(suspects)
        handed = len(await self._ledger.sessions.open())
        if implausible(handed, len(uids), self._settings):
            self._metrics.refused.labels("breaker").inc()
            pass_report.refuse(
                f"{len(uids)} of {handed} runners stand still at once: that is GitHub, or the way to it. Nothing was done"
            )
            return pass_report.report()
        sizes = Counter(pool_of(pod) for pod in pods)
        suspects = self._attempts.in_order(suspects, lambda pod: pod.metadata.uid)
        chosen, put_off = within_caps(suspects, pool_of, sizes, self._settings)
        if put_off:
            self._metrics.refused.labels("cap").inc(put_off)
        for pod in chosen:
            if pass_report.stopped:
                break
            self._attempts.tried(pod.metadata.uid)
            with pass_report.item(f"Pod {pod.metadata.name}"):
                await self._look(pod, pass_report)
        return pass_report.report()

    async def _look(self, pod: Pod, pass_report: PassReport) -> None:
        name, uid = pod.metadata.name, pod.metadata.uid
        seen = await self._observer.of_one(name, uid, claimed=True)
        if seen is None:
            return
        verdict = judge_listener(seen.facts, executing=_executing(seen))
        if not isinstance(verdict, Dismiss):
            self._well[uid] = seen.facts.now
            pass_report.refuse(f"Pod {name}: {verdict.sentence}")
            return
        since = seen.facts.listener_still_since or seen.facts.now
        seconds = (seen.facts.now - since).total_seconds()
        evidence = {"pod_uid": uid, "job_id": seen.job_id, "runner_name": seen.runner_name}
        heal = Healed(HUNG_RUNNER, name, f"Pod {name}: {verdict.sentence}", evidence, seconds)
        job = None
        if seen.facts.held is HeldFact.RUNNING:
            job = None if seen.job_id is None else await self._ledger.jobs.get(seen.job_id)
            if job is None or job.pod_uid != uid or seen.facts.job is not JobFact.QUEUED:
                self._well[uid] = seen.facts.now
                pass_report.refuse(f"Pod {name}: its claim is settled first, by the healing of jobs")
                return
        if not pass_report.may(heal):
            return
        done = await self._dismissed(seen, pass_report)
        if done and job is not None:
            done = await self._put_back(job, verdict, pass_report)
        if not done or not await self._reaped(name, uid, pass_report):
            pass_report.nothing()

    async def _dismissed(self, seen: PodObservation, pass_report: PassReport) -> bool:
        """Whether GitHub has no such runner any more: it had none, or took it away now."""
        if seen.facts.runner_row is RunnerRow.ABSENT:
            return True
        if seen.github_runner is None or seen.place is None:
            return False
        try:
            await self._github.remove_runner(seen.place, seen.github_runner.runner_id)
        except Conflict:
            self._well[seen.uid] = seen.facts.now
            pass_report.refuse(f"Pod {seen.name}: its runner has just been given a job")
            return False
        _LOG.warning("a runner that hangs was unregistered", pod=seen.name, runner=seen.runner_name)
        return True

    async def _put_back(self, job: Job, verdict: Dismiss, pass_report: PassReport) -> bool:
        sentence = f"job {job.job_id} of {job.repository} ({job.pool}) was put back into the line: {verdict.sentence}"
        evidence = {"job_id": job.job_id, "pod_uid": job.pod_uid, "generation": job.generation}
        seconds = max(0.0, (self._clock.now() - (job.started_at or job.changed_at)).total_seconds())
        heal = Healed("orphan_requeued", f"job {job.job_id}", sentence, evidence, seconds)
        by, why = f"healing/{self.name}", verdict.sentence
        if not await self._ledger.unconfirmed.put_back(job, heard=None, by=by, why=why):
            pass_report.refuse(f"{heal.subject} moved on while it was looked at: left alone")
            return False
        pass_report.done(heal)
        return True

    async def _reaped(self, name: str, uid: str, pass_report: PassReport) -> bool:
        seen = await self._observer.of_one(name, uid)
        verdict = None if seen is None else judge(seen.facts, self._settings)
        if seen is None or not isinstance(verdict, Reap):
            return False
        result = await self._reaper.reap(seen, verdict)
        if isinstance(result, Kept):
            self._metrics.refused.labels(result.reason).inc()
            pass_report.refuse(result.sentence)
            return False
        pass_report.done(result)
        return True


def _executing(seen: PodObservation) -> bool:
    heard = seen.claim is not None and seen.claim.executing_since is not None
    return heard or (seen.session is not None and seen.session.executed_job_id is not None)
