"""Jobs whose place in the line is in doubt: waiting here though GitHub has moved on, or waiting at GitHub and unknown here."""

from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta

from paddock.base.clock import Clock
from paddock.clients.github import GitHub, GitHubJob, Priority
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.inquiry import GitHubAnswer, Inquiry, Questions
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.verdicts.job import Action, JobVerdict, QueuedJobFacts, judge_queued
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import Execution, Job, Ledger, Moved, NewJob
from paddock.runners.ledger.scale_sets import may_act_on
from paddock.runners.ledger.unconfirmed import SeenRepository

__all__ = ["Announce", "LongQueued", "UnheardJobs"]

Announce = Callable[[int, str, GitHubJob], Awaitable[bool]]
"""Treat a job as if its `queued` had just arrived: (installation, "owner/name", job). True: it waits here from now on.

Must be repeatable, as events are; False says that no pool of ours runs such a job, or that it was known.
"""

_EVER = datetime.min.replace(tzinfo=UTC)
_ON_ITS_WAY = timedelta(seconds=60)
"""An event may take so long; only then is a job at GitHub that is unknown here one whose event was lost."""
_REPOSITORIES_KEPT = timedelta(minutes=5)
_ROUND = 20.0
_HELD_BELIEVED = timedelta(minutes=20)
"""A job may wait for its approval for weeks, and the approval is announced: so seldom is an old one asked about."""


class LongQueued:
    """Kinds `queued_completed`, `queued_started` and `queued_gave_up`: jobs that have waited suspiciously long. Kinds
    `approval_found` and `hold_found`: jobs that wait for an approval, of which GitHub is asked from the first minute on,
    because a `waiting` and a `queued` that arrived together do not say which of them was the last word.

    A job that GitHub says is in progress is never ended; where GitHub names the runner it is bound to that, as its
    event would have done. One that no pool serves and that a runner of somebody else's has is over here, as its event would
    have said. Giving up holds only while the job still waits: whoever took it meanwhile keeps it.
    """

    name = "queued"

    def __init__(self, ledger: Ledger, github: GitHub, settings: HealingSettings, clock: Clock) -> None:
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        # The line is asked about with what proofs of leaks leave over: those give Macs back.
        self._inquiry = Inquiry(github, ledger, clock, Priority.CLEAN_UP)
        self.every = settings.every

    async def heal(self) -> Report:
        pass_report = PassReport(self._settings)
        now = self._clock.now()
        # No lower bound: a job that is not served any more for its age needs its end all the more.
        held = await self._ledger.jobs.held()
        jobs = [*held, *await self._ledger.jobs.queued(before=now - self._settings.queued_verify, after=_EVER)]
        questions = self._inquiry.begin(pass_report, [job.job_id for job in jobs])
        if not jobs:
            return pass_report.report()
        installations = await self._ledger.unconfirmed.installations({job.account_id for job in jobs})
        pass_report.looked = len(jobs)
        due = [job for job in jobs if not self._believed(job, now)]
        due.sort(key=lambda job: self._inquiry.last_asked(job.job_id))
        for job in due:
            if pass_report.stopped:
                break
            with pass_report.item(f"job {job.job_id}"):
                await self._judge(job, installations.get(job.account_id), questions, pass_report)
        return pass_report.report()

    def _believed(self, job: Job, now: datetime) -> bool:
        if job.status == "waiting":
            return self._inquiry.believed(job.job_id, now - job.changed_at, _HELD_BELIEVED)
        return self._inquiry.believed(job.job_id, now - job.enqueued_at)

    async def _judge(
        self, job: Job, installation_id: int | None, questions: Questions, pass_report: PassReport
    ) -> None:
        answer = await questions.job(installation_id, job.repository, job.job_id)
        if answer.refused:
            return  # not even silence: there is no answer to judge by until the budget allows the question
        view = QueuedJobFacts(
            waited=self._clock.now() - job.enqueued_at,
            said=answer.said,
            held=job.status == "waiting",
            runner_named=answer.job is not None and bool(answer.job.runner_name),
            repository_answers=answer.repository_answers,
            missing_for=answer.missing_for,
            elsewhere=await self._is_elsewhere(job, answer),
        )
        verdict = judge_queued(view, self._settings)
        if verdict.action is Action.RENEW:
            # Half a day: enough for its next day, and only behind those of its account that have waited longer than that.
            await self._ledger.unconfirmed.renew(job, self._clock.now() - self._settings.queued_give_up / 2)
        if verdict.action in (Action.KEEP, Action.RENEW):
            return
        heal = Healed(
            kind=verdict.kind,
            subject=f"job {job.job_id}",
            sentence=f"job {job.job_id} of {job.repository} ({job.pool}) was {_DONE[verdict.action]}: {verdict.sentence}",
            evidence={
                "job_id": job.job_id,
                "pool": job.pool,
                "enqueued_at": job.enqueued_at.isoformat(),
                "mint_failures": job.mint_failures,
                "github": answer.said.value,
                "github_conclusion": None if answer.job is None else answer.job.conclusion,
                "github_runner": None if answer.job is None else answer.job.runner_name,
                "repository_answers": answer.repository_answers,
                "missing_seconds": answer.missing_for.total_seconds(),
            },
            seconds=view.waited.total_seconds(),
        )
        if pass_report.may(heal):
            if await self._act(job, answer, verdict):
                pass_report.done(heal)
            else:
                pass_report.moved_on(heal)

    async def _is_elsewhere(self, job: Job, answer: GitHubAnswer) -> bool:
        """Every runner of ours has its session before it can be given a job, so that one without is none."""
        name = answer.job.runner_name if answer.job is not None else None
        if not name:
            return False
        session = await self._ledger.overview.runner(job.account_id, name)
        if session is None:
            return job.status == "unserved"
        # A scale set's runner has the same job under the set's own number: bound to this one, that one would wait again.
        return not may_act_on(session.job_id, job.job_id)

    async def _act(self, job: Job, answer: GitHubAnswer, verdict: JobVerdict) -> bool:
        by, found = f"healing/{self.name}", answer.job
        match verdict.action:
            case Action.GIVE_UP:
                return await self._ledger.unconfirmed.give_up(job, conclusion="stale", by=by, why=verdict.sentence)
            case Action.HOLD | Action.RELEASE:
                status, wanted = ("waiting", Moved.HELD) if verdict.action is Action.HOLD else ("queued", Moved.QUEUED)
                moved = await self._ledger.jobs.enqueue(_as_announced(job), by=by, status=status, why=verdict.sentence)
                return moved is wanted
            case Action.LEAVE if found is not None:
                moved = await self._ledger.jobs.settle(
                    job.job_id,
                    conclusion="elsewhere",
                    completed_at=found.completed_at or found.started_at,
                    by=by,
                    why=f"runner {found.runner_name} has it: {verdict.sentence}",
                )
                return moved is Moved.COMPLETED
            case Action.BIND if found is not None:
                execution = await self._ledger.jobs.started(
                    _as_announced(job),
                    runner_name=found.runner_name,
                    started_at=found.started_at or self._clock.now(),
                    by=by,
                )
                return execution not in (Execution.FINISHED, Execution.OTHER_SOURCE)
            case _:
                moved = await self._ledger.jobs.settle(
                    job.job_id,
                    conclusion=(found.conclusion if found is not None else None) or "stale",
                    completed_at=found.completed_at if found is not None else None,
                    runner_name=(found.runner_name if found is not None else None) or None,
                    by=by,
                    why=verdict.sentence,
                )
                return moved is Moved.COMPLETED


class UnheardJobs:
    """Kind `queued_found`: asks one repository after the other which jobs wait there, and announces those unknown here.

    The second source beside webhooks, for what GitHub never tried to deliver. One repository a pass and at the lowest
    priority, so that it costs little and yields to everything else. Announcing is repeatable and never brings a finished
    job back, so that an event that arrives after all does no harm.
    """

    name = "unheard"

    def __init__(
        self, ledger: Ledger, github: GitHub, announce: Announce, settings: HealingSettings, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._github = github
        self._announce = announce
        self._settings = settings
        self._clock = clock
        self._line: list[SeenRepository] = []
        self._read_at = _EVER
        self._served = ""
        self._foreign: dict[str, frozenset[int]] = {}
        self.every = min(settings.every, _ROUND)

    async def heal(self) -> Report:
        pass_report = PassReport(self._settings)
        seen = await self._next()
        if seen is None:
            return pass_report.report()
        with pass_report.item(seen.repository):
            waiting = await self._github.waiting_jobs(seen.installation_id, seen.repository)
            await self._compare(seen, waiting, pass_report)
        return pass_report.report()

    async def _compare(self, seen: SeenRepository, waiting: Collection[GitHubJob], pass_report: PassReport) -> None:
        foreign = self._foreign.get(seen.repository, frozenset())
        self._foreign[seen.repository] = foreign & {job.job_id for job in waiting}
        lost = [job for job in waiting if job.job_id not in foreign and self._is_late(job)]
        pass_report.looked = len(waiting)
        known = await self._ledger.unconfirmed.known([job.job_id for job in lost]) if lost else frozenset[int]()
        for job in lost:
            if job.job_id not in known and not pass_report.stopped:
                with pass_report.item(f"job {job.job_id}"):
                    await self._found(seen, job, pass_report)

    async def _found(self, seen: SeenRepository, job: GitHubJob, pass_report: PassReport) -> None:
        since = job.created_at or self._clock.now()
        heal = Healed(
            kind="queued_found",
            subject=f"job {job.job_id}",
            sentence=f"job {job.job_id} of {seen.repository} waits at GitHub and was never announced here: it waits here, too",
            evidence={
                "job_id": job.job_id,
                "installation_id": seen.installation_id,
                "labels": list(job.labels),
                "created_at": None if job.created_at is None else job.created_at.isoformat(),
                "github": job.status,
            },
            seconds=max(0.0, (self._clock.now() - since).total_seconds()),
        )
        if not pass_report.may(heal):
            return
        if await self._announce(seen.installation_id, seen.repository, job):
            pass_report.done(heal)
        else:
            # Of no pool of ours, most likely: it is left alone until the line of repositories is read anew.
            self._foreign[seen.repository] |= {job.job_id}
            pass_report.nothing()

    def _is_late(self, job: GitHubJob) -> bool:
        return job.created_at is None or self._clock.now() - job.created_at >= _ON_ITS_WAY

    async def _next(self) -> SeenRepository | None:
        """The repository after the one that was served last, in an order that does not change when the list does."""
        now = self._clock.now()
        if now - self._read_at >= _REPOSITORIES_KEPT or not self._line:
            found = await self._ledger.unconfirmed.repositories(now - timedelta(days=1))
            self._line = sorted(found, key=lambda seen: seen.repository)
            self._read_at = now
            # What no pool of ours offered then, one may offer now: a job that came while its pool was being replaced would
            # else never be heard of, because its event was answered and GitHub sends no other.
            self._foreign = {}
        if not self._line:
            return None
        following = next((seen for seen in self._line if seen.repository > self._served), self._line[0])
        self._served = following.repository
        return following


_DONE = {
    Action.SETTLE: "settled",
    Action.GIVE_UP: "given up",
    Action.BIND: "bound to the runner that executes it",
    Action.LEAVE: "left to the runner that has it",
    Action.HOLD: "taken out of the line",
    Action.RELEASE: "put into the line",
}


def _as_announced(job: Job) -> NewJob:
    return NewJob(**{name: getattr(job, name) for name in NewJob.__struct_fields__})
