"""Jobs that are `running` in the ledger while no runner runs them: put back, or settled, once GitHub has spoken.

Two ways in. `check` is told that a Pod has stopped, and asks about what ran on it at once. The sweep is the backstop, with
two arms: jobs older than the registration deadline, and younger ones whose Pod is gone.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from paddock.base.clock import Clock
from paddock.clients.github import GitHub
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.breaker import implausible
from paddock.runners.healing.dismissal import Dismissed, dismiss
from paddock.runners.healing.facts import guest_of
from paddock.runners.healing.inquiry import GitHubAnswer, Inquiry, Questions
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.pod_snapshot import CountPods, PodSnapshot
from paddock.runners.healing.verdicts.asking import Asking, due, urgency
from paddock.runners.healing.verdicts.job import (
    Action,
    JobSaid,
    JobVerdict,
    PodSaid,
    RunnerSaid,
    RunningJobFacts,
    judge_running,
)
from paddock.runners.healing.verdicts.pod_facts import RunnerRow
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import HeldPod, Job, Ledger, Moved, ProgressMark, Session

__all__ = ["OrphanedJobs"]

_OFTEN = 30.0
"""With the registration deadline this bounds how long a job waits for a runner that never comes."""
_AHEAD = timedelta(days=1)
"""GitHub's clock may be ahead of ours: a job that "started" in the future is looked at all the same."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A running job, as the ledger has it: its claim and session are None where they are gone."""

    job: Job
    claim: HeldPod | None
    session: Session | None
    installation_id: int | None

    @property
    def executing(self) -> bool:
        heard = self.claim is not None and self.claim.executing_since is not None
        return heard or (self.session is not None and self.session.executed_job_id is not None)


class OrphanedJobs:
    """Kinds `orphan_requeued` and `orphan_completed`. Never touches Pods, and nothing before GitHub has answered.

    A requeue names the generation, Pod and runner that were read, and happens together with the end of the claim: if
    anything moved in between, nothing is changed. A settlement needs no such guard, because what is over at GitHub stays
    over. A pass that dies anywhere leaves whole items only, and the next one finds the rest.
    """

    name = "orphans"

    def __init__(
        self, ledger: Ledger, github: GitHub, pods: CountPods, settings: HealingSettings, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._pods = pods
        self._settings = settings
        self._clock = clock
        self._github = github
        self._inquiry = Inquiry(github, ledger, clock)
        self.every = min(settings.every, _OFTEN)

    async def heal(self) -> Report:
        # Rows before Pods: a Pod that a row names existed when the row was read, so that its absence from a later list
        # is its end. The other way round, every job dispatched in between would look like one without a Pod.
        pass_report = PassReport(self._settings)
        jobs = await self._ledger.jobs.running(started_before=self._clock.now() + _AHEAD)
        questions = self._inquiry.begin(pass_report, [job.job_id for job in jobs])
        if not jobs:
            return pass_report.report()
        cases = await self._cases(jobs)
        snapshot = await self._snapshot(cases, pass_report)
        pass_report.looked = len(cases)
        marks = await self._ledger.progress.of_pods([job.pod_uid for job in jobs if job.pod_uid])
        asked = [(case, self._asking(case, snapshot, marks)) for case in cases]
        asked = [(case, asking) for case, asking in asked if due(asking, self._settings)]
        # The most urgent first, then those that were asked about longest ago: with little budget, no job starves.
        asked.sort(key=lambda one: (urgency(one[1]), self._inquiry.last_asked(one[0].job.job_id)))
        for case, asking in asked:
            if pass_report.stopped:
                break
            with pass_report.item(f"job {case.job.job_id}"):
                await self._settle_or_put_back(case, asking.pod, questions, pass_report)
        return pass_report.report()

    async def check(self, job_ids: Collection[int], pod_uid: str) -> Report:
        """The Pod has stopped: ask GitHub at once about these jobs that ran on it.

        Only those that are still running on that very Pod: a check that comes late finds the job with another Pod, and
        leaves it alone. Never raises what an item met; the sweep comes by later.
        """
        pass_report = PassReport(self._settings)
        questions = self._inquiry.aside(pass_report)
        for job_id in job_ids:
            pass_report.looked += 1
            with pass_report.item(f"job {job_id}"):
                job = await self._ledger.jobs.get(job_id)
                if job is None or job.status != "running" or not pod_uid or job.pod_uid != pod_uid:
                    pass_report.refuse(f"job {job_id} does not run on the Pod that stopped any more: left alone")
                    continue
                (case,) = await self._cases([job])
                await self._settle_or_put_back(case, _stopped(case), questions, pass_report)
        return pass_report.report()

    async def _cases(self, jobs: Collection[Job]) -> list[_Case]:
        unconfirmed = self._ledger.unconfirmed
        installations = await unconfirmed.installations({job.account_id for job in jobs})
        sessions = await unconfirmed.sessions([job.pod_uid for job in jobs if job.pod_uid])
        claims = {claim.job_id: claim for claim in await self._ledger.claims.all() if claim.job_id is not None}
        return [
            _Case(job, claims.get(job.job_id), sessions.get(job.pod_uid or ""), installations.get(job.account_id))
            for job in jobs
        ]

    async def _snapshot(self, cases: Collection[_Case], pass_report: PassReport) -> PodSnapshot | None:
        """The Pods there are, or None where the list is no evidence."""
        try:
            snapshot = await self._pods()
        except Exception as error:  # noqa: BLE001 - whatever keeps the list from us, it is not evidence; the other arm goes on
            pass_report.refuse(f"Pods could not be listed ({type(error).__name__}): only old jobs are looked at")
            return None
        if snapshot.empty:
            pass_report.refuse("the list of Pods is empty while jobs run: not believed, only old jobs are looked at")
            return None
        named = {case.job.pod_uid for case in cases if case.job.pod_uid and not _reported_ended(case)}
        absent = len(named - snapshot.alive - snapshot.ended)
        if implausible(len(named), absent, self._settings):
            pass_report.refuse(f"{absent} of {len(named)} Pods that run jobs are not in the list: not believed")
            return None
        return snapshot

    @staticmethod
    def _pod(case: _Case, snapshot: PodSnapshot | None) -> PodSaid:
        uid = case.job.pod_uid
        if not uid:
            return PodSaid.UNKNOWN
        if _reported_ended(case):
            return _stopped(case)
        if snapshot is None:
            return PodSaid.UNKNOWN
        if uid in snapshot.ended:
            return PodSaid.ENDED
        return PodSaid.ALIVE if uid in snapshot.alive else PodSaid.ABSENT

    def _age(self, job: Job) -> timedelta:
        return self._clock.now() - (job.started_at or job.changed_at)

    def _asking(self, case: _Case, snapshot: PodSnapshot | None, marks: Mapping[str, ProgressMark]) -> Asking:
        guest, still_for = guest_of(marks.get(case.job.pod_uid or ""), self._clock.now(), self._settings)
        return Asking(
            age=self._age(case.job),
            pod=self._pod(case, snapshot),
            executing=case.executing,
            unasked_for=self._inquiry.unasked_for(case.job.job_id),
            guest=guest,
            still_for=still_for,
        )

    async def _settle_or_put_back(
        self, case: _Case, pod: PodSaid, questions: Questions, pass_report: PassReport
    ) -> None:
        job = case.job
        answer = await questions.job(case.installation_id, job.repository, job.job_id)
        view = RunningJobFacts(
            age=self._age(job),
            pod=pod,
            said=answer.said,
            executing=case.executing,
            repository_answers=answer.repository_answers,
            missing_for=answer.missing_for,
        )
        verdict = judge_running(view, self._settings)
        if (
            answer.said in (JobSaid.QUEUED, JobSaid.WAITING)
            and verdict.action is Action.KEEP
            and not (case.executing and not view.pod_gone)
        ):
            # Only now is the runner itself worth a list: it is the last thing that could keep the job from waiting again.
            view = replace(view, runner=await self._runner(case, questions))
            verdict = judge_running(view, self._settings)
        if verdict.action is not Action.KEEP:
            await self._act(case, view, answer, verdict, questions, pass_report)

    async def _act(
        self,
        case: _Case,
        view: RunningJobFacts,
        answer: GitHubAnswer,
        verdict: JobVerdict,
        questions: Questions,
        pass_report: PassReport,
    ) -> None:
        job, by = case.job, f"healing/{self.name}"
        orphaned = (self._clock.now() - _since(case)).total_seconds()
        heal = Healed(
            kind=verdict.kind,
            subject=f"job {job.job_id}",
            sentence=f"job {job.job_id} of {job.repository} ({job.pool}) was {_DONE[verdict.action]}: {verdict.sentence}",
            evidence=_evidence(case, view, answer),
            seconds=max(0.0, orphaned),
        )
        if not pass_report.may(heal):
            return
        if verdict.action is Action.REQUEUE:
            # A runner that is only offline may come back, beside the one that the job is handed to next.
            if verdict.unregister and not await self._is_gone(case, questions, pass_report):
                pass_report.nothing()
                return
            heard = None if case.claim is None else case.claim.executing_since
            done = await self._ledger.unconfirmed.put_back(
                job, heard=heard, by=by, why=verdict.sentence, held=answer.said is JobSaid.WAITING
            )
        else:
            end = answer.job
            moved = await self._ledger.jobs.settle(
                job.job_id,
                conclusion=(end.conclusion if end is not None else None) or "stale",
                completed_at=end.completed_at if end is not None else None,
                runner_name=(end.runner_name if end is not None else None) or None,
                by=by,
                why=verdict.sentence,
            )
            done = moved is Moved.COMPLETED
        if done:
            pass_report.done(heal)
        else:
            pass_report.moved_on(heal)

    async def _is_gone(self, case: _Case, questions: Questions, pass_report: PassReport) -> bool:
        job = case.job
        about = f"job {job.job_id}"
        registration = await questions.registration(job.account_id, job.runner_name, job.repository, about)
        dismissed = await dismiss(self._github, questions, pass_report, about=about, registration=registration)
        return dismissed is Dismissed.GONE

    @staticmethod
    async def _runner(case: _Case, questions: Questions) -> RunnerSaid:
        job = case.job
        registration = await questions.registration(
            job.account_id, job.runner_name, job.repository, f"job {job.job_id}"
        )
        if registration is None:
            return RunnerSaid.UNKNOWN
        return _SAID[(await questions.runners.standing(registration)).row]


_SAID: Mapping[RunnerRow, RunnerSaid] = {
    RunnerRow.UNKNOWN: RunnerSaid.UNKNOWN,
    RunnerRow.ABSENT: RunnerSaid.ABSENT,
    RunnerRow.OFFLINE: RunnerSaid.OFFLINE,
    RunnerRow.IDLE: RunnerSaid.ONLINE,
    RunnerRow.BUSY: RunnerSaid.ONLINE,
}
_DONE: Mapping[Action, str] = {Action.REQUEUE: "put back into the line", Action.SETTLE: "settled"}


def _stopped(case: _Case) -> PodSaid:
    """How the Pod of a job stopped: a claim that outlived its Pod was kept because its runner may live on."""
    return PodSaid.ENDED if case.claim is None else PodSaid.ABSENT


def _reported_ended(case: _Case) -> bool:
    return case.session is not None and case.session.ended_at is not None


def _since(case: _Case) -> datetime:
    """Since when no runner runs it, as far as it is known."""
    if case.session is not None and case.session.ended_at is not None:
        return case.session.ended_at
    return case.job.started_at or case.job.changed_at


def _evidence(case: _Case, view: RunningJobFacts, answer: GitHubAnswer) -> dict[str, object]:
    job, runner = case.job, view.runner
    return {
        "job_id": job.job_id,
        "pod_uid": job.pod_uid,
        "pool": job.pool,
        "generation": job.generation,
        "runner_name": job.runner_name,
        "started_at": None if job.started_at is None else job.started_at.isoformat(),
        "kubernetes": view.pod.value,
        "claim": "none" if case.claim is None else case.claim.state,
        "executing": view.executing,
        "github": view.said.value,
        "github_conclusion": None if answer.job is None else answer.job.conclusion,
        "github_runner": "not asked" if runner is RunnerSaid.UNKNOWN else runner.value,
        "repository_answers": answer.repository_answers,
        "missing_seconds": answer.missing_for.total_seconds(),
    }
