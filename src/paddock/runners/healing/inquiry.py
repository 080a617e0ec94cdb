"""Asking GitHub about jobs and their runners, as sparingly as the proof allows.

Within one pass a repository or a list of runners is asked for once, and an installation that has no budget left, or does
not answer, is left alone for the rest of it. Between passes it is remembered when a job was asked about, and since when
the answer has been 404; a restart forgets both, which costs a pass and nothing else.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from paddock.base.clock import Clock
from paddock.clients.github import (
    Forbidden,
    GitHub,
    GitHubError,
    GitHubJob,
    NotFound,
    Priority,
    RateLimited,
    RunnerPlace,
    Unauthenticated,
)
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.runner_lists import RunnerLists
from paddock.runners.healing.verdicts.job import JobSaid
from paddock.runners.ledger import Ledger
from paddock.runners.ledger.registrations import Registration

__all__ = ["GitHubAnswer", "Inquiry", "Questions"]

_ASKED_AT_ONCE = 30
"""Questions about jobs of one installation in one pass; those asked longest ago come first in the next one. Each installation
has its own budget at GitHub and its own share here, so that no account's long line keeps the jobs of others from being asked
about. Running jobs are looked at every 30 s: 3,600 questions an hour at most, less than the 4,000 that are for verifying. The
line is asked about with what is left over.
"""
_LONGEST_BELIEF = timedelta(minutes=5)
_TIMEOUT = 2
"""How many answers may fail to come before an installation is left alone for the rest of the pass."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class GitHubAnswer:
    """What GitHub said about a job. `refused`: it was not asked, for want of budget; that is no answer at all."""

    said: JobSaid
    job: GitHubJob | None = None
    repository_answers: bool = False
    missing_for: timedelta = timedelta()
    refused: bool = False


class Inquiry:
    """What one worker remembers from pass to pass."""

    def __init__(self, github: GitHub, ledger: Ledger, clock: Clock, priority: Priority = Priority.VERIFY) -> None:
        self.github = github
        self.ledger = ledger
        self.priority = priority
        self.clock = clock
        self.asked: dict[int, datetime] = {}
        self.missing: dict[int, datetime] = {}

    def begin(self, pass_report: PassReport, jobs: Collection[int]) -> "Questions":
        """A new pass over these jobs; what is remembered of others is forgotten."""
        wanted = set(jobs)
        self.asked = {job: when for job, when in self.asked.items() if job in wanted}
        self.missing = {job: when for job, when in self.missing.items() if job in wanted}
        return Questions(self, pass_report)

    def aside(self, pass_report: PassReport) -> "Questions":
        """Questions outside the passes, about a job or two; nothing is forgotten."""
        return Questions(self, pass_report)

    def last_asked(self, job_id: int) -> datetime:
        return self.asked.get(job_id, _NEVER)

    def unasked_for(self, job_id: int) -> timedelta:
        """Since the last question about a job; very long for one that was never asked about."""
        return self.clock.now() - self.last_asked(job_id)

    def believed(self, job_id: int, age: timedelta, longest: timedelta = _LONGEST_BELIEF) -> bool:
        """Whether the last answer is fresh enough: for a tenth of the job's age, at most five minutes (or `longest`).

        GitHub sends an event for each change of a job; asking again is for events that were lost.
        """
        return self.unasked_for(job_id) < min(age / 10, longest)


class Questions:
    """The questions of one pass. Nothing of GitHub's is raised: trouble is a line in the report, and no evidence."""

    def __init__(self, inquiry: Inquiry, pass_report: PassReport) -> None:
        self._inquiry = inquiry
        self._pass_report = pass_report
        self._asked: dict[int, int] = {}
        self._held: dict[int, str] = {}
        self._silent: dict[int, int] = {}
        self._answering: dict[tuple[int, str], bool] = {}
        self.runners = RunnerLists(inquiry.github, inquiry.ledger, self._unlisted, self._may_list)

    async def job(self, installation_id: int | None, repository: str, job_id: int) -> GitHubAnswer:
        """What GitHub says about a job."""
        if installation_id is None or "/" not in repository:
            self._pass_report.refuse(
                f"job {job_id} of {repository or 'no repository'}: no installation to ask GitHub with"
            )
            return GitHubAnswer(JobSaid.UNKNOWN)
        if installation_id in self._held:
            self._pass_report.refuse(self._held[installation_id])
            return GitHubAnswer(JobSaid.UNKNOWN, refused=True)
        if self._asked.get(installation_id, 0) >= _ASKED_AT_ONCE:
            self._pass_report.refuse(
                f"more than {_ASKED_AT_ONCE} jobs of installation {installation_id} to ask GitHub about: the rest comes in"
                " the next pass"
            )
            return GitHubAnswer(JobSaid.UNKNOWN, refused=True)
        self._asked[installation_id] = self._asked.get(installation_id, 0) + 1
        memory, now = self._inquiry, self._inquiry.clock.now()
        try:
            job = await memory.github.job(installation_id, repository, job_id, priority=memory.priority)
        except NotFound:
            memory.asked.pop(job_id, None)  # asked again in the next pass: there the 404 may count
            since = memory.missing.setdefault(job_id, now)
            answers = await self._repository_answers(installation_id, repository)
            return GitHubAnswer(JobSaid.MISSING, repository_answers=answers, missing_for=now - since)
        except GitHubError as error:
            self._trouble(installation_id, f"job {job_id} of {repository}", error)
            return GitHubAnswer(JobSaid.UNKNOWN, refused=isinstance(error, RateLimited))
        memory.asked[job_id] = now
        memory.missing.pop(job_id, None)
        self._answering[installation_id, repository] = True
        return GitHubAnswer(JobSaid(job.status), job)

    async def registration(
        self, account_id: int, runner_name: str | None, repository: str, about: str
    ) -> Registration | None:
        """Where a runner is registered; None, with a line in the report, where nobody can be asked about it."""
        found = None
        if runner_name:
            found = await self._inquiry.ledger.registrations.of_runner(account_id, runner_name, repository)
        if found is None:
            self._pass_report.refuse(f"{about}: no installation to ask GitHub about its runner with")
        return found

    def _may_list(self, place: RunnerPlace) -> bool:
        if (held := self._held.get(place.installation_id)) is not None:
            self._pass_report.refuse(held)
        return held is None

    def _unlisted(self, place: RunnerPlace, error: GitHubError) -> None:
        self._trouble(place.installation_id, f"runners of {place.path}", error)

    async def _repository_answers(self, installation_id: int, repository: str) -> bool:
        """Whether GitHub shows us this repository's jobs at all, so that a 404 is about one of them."""
        key = (installation_id, repository)
        if key not in self._answering:
            self._answering[key] = False
            try:
                await self._inquiry.github.waiting_jobs(installation_id, repository)
                self._answering[key] = True
            except NotFound:
                self._pass_report.refuse(
                    f"GitHub does not show {repository} at all: it was deleted, transferred or taken from the App, and a 404 for "
                    "one of its jobs proves little"
                )
            except GitHubError as error:
                self._trouble(installation_id, repository, error)
        return self._answering[key]

    def _trouble(self, installation_id: int, subject: str, error: GitHubError) -> None:
        if isinstance(error, RateLimited):
            sentence = f"installation {installation_id}: {error.message}; its jobs are asked about in the next pass"
            self._held[installation_id] = sentence
            self._pass_report.refuse(sentence)
            return
        self._pass_report.fail(f"{subject}: {error.message}")
        self._silent[installation_id] = self._silent.get(installation_id, 0) + 1
        if isinstance(error, (Unauthenticated, Forbidden)) or self._silent[installation_id] >= _TIMEOUT:
            self._held[installation_id] = f"installation {installation_id} does not answer: the rest waits"
