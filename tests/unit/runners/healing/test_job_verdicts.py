"""Every combination of what four ledgers can say about a job, judged against an independent oracle."""

import itertools
from datetime import timedelta

from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.verdicts.job import (
    Action,
    JobSaid,
    PodSaid,
    QueuedJobFacts,
    RunnerSaid,
    RunningJobFacts,
    judge_queued,
    judge_running,
    worth_asking,
)

SETTINGS = HealingSettings()
AGES = [timedelta(seconds=s) for s in (0, 60, 299, 300, 599, 600, 3600, 86_399, 86_400, 7 * 86_400)]
SPANS = [timedelta(0), timedelta(seconds=299), timedelta(minutes=5), timedelta(hours=1)]


def _running() -> list[RunningJobFacts]:
    return [
        RunningJobFacts(age, pod, said, runner, executing, answers, missing)
        for age, pod, said, runner, executing, answers, missing in itertools.product(
            AGES, PodSaid, JobSaid, RunnerSaid, (False, True), (False, True), SPANS
        )
    ]


def _queued() -> list[QueuedJobFacts]:
    return [QueuedJobFacts(*one) for one in itertools.product(AGES, JobSaid, (False, True), (False, True), SPANS)]


def _proven_missing(job: RunningJobFacts | QueuedJobFacts) -> bool:
    needed = timedelta(minutes=5) if job.repository_answers else timedelta(hours=1)
    return job.said is JobSaid.MISSING and job.missing_for >= needed


def _may_still_take_it(job: RunningJobFacts) -> bool:
    """A live runner is bound to the job, or may be: not proven gone by Kubernetes, nor shown not to be online by GitHub."""
    if job.pod is PodSaid.ENDED:
        return False
    if job.runner is RunnerSaid.ONLINE:
        return True
    if job.pod is PodSaid.ABSENT:
        return False
    shown_offline = job.runner in (RunnerSaid.OFFLINE, RunnerSaid.ABSENT)
    return not shown_offline or job.executing or job.age < timedelta(minutes=5)


def _running_oracle(job: RunningJobFacts) -> Action:
    if job.said is JobSaid.COMPLETED or (_proven_missing(job) and job.age >= timedelta(minutes=5)):
        return Action.SETTLE
    if job.said is JobSaid.QUEUED and not _may_still_take_it(job):
        return Action.REQUEUE
    return Action.KEEP


def _queued_oracle(job: QueuedJobFacts) -> Action:
    if job.said is JobSaid.IN_PROGRESS:
        return Action.BIND if job.runner_named else Action.KEEP
    if job.said is JobSaid.COMPLETED or (_proven_missing(job) and job.waited >= timedelta(minutes=10)):
        return Action.SETTLE
    if job.waited < timedelta(hours=24):
        return Action.KEEP
    return Action.RENEW if job.said is JobSaid.QUEUED else Action.GIVE_UP


def test_every_state_of_a_running_job_is_judged_as_the_rules_say():
    states = _running()
    assert len(states) == 10 * 4 * 5 * 4 * 2 * 2 * 4
    for job in states:
        verdict = judge_running(job, SETTINGS)
        assert verdict.action is _running_oracle(job), job
        assert verdict.sentence
        assert bool(verdict.kind) == (verdict.action is not Action.KEEP)


def test_every_state_of_a_queued_job_is_judged_as_the_rules_say():
    for job in _queued():
        verdict = judge_queued(job, SETTINGS)
        assert verdict.action is _queued_oracle(job), job
        assert verdict.sentence
        assert bool(verdict.kind) == (verdict.action not in (Action.KEEP, Action.RENEW))


def test_no_job_is_put_back_unless_github_itself_has_it_queued():
    put_back = [job for job in _running() if judge_running(job, SETTINGS).action is Action.REQUEUE]
    assert put_back
    assert {job.said for job in put_back} == {JobSaid.QUEUED}


def test_no_job_is_put_back_while_a_live_runner_is_bound_to_it():
    for job in _running():
        if judge_running(job, SETTINGS).action is Action.REQUEUE:
            assert not (job.runner is RunnerSaid.ONLINE and job.pod is not PodSaid.ENDED), job
            assert not (job.executing and job.pod in (PodSaid.ALIVE, PodSaid.UNKNOWN)), job


def test_what_github_has_in_progress_is_left_alone_or_bound_and_nothing_else():
    for job in _running():
        if job.said is JobSaid.IN_PROGRESS:
            assert judge_running(job, SETTINGS).action is Action.KEEP
    for queued in _queued():
        if queued.said is JobSaid.IN_PROGRESS:
            assert judge_queued(queued, SETTINGS).action in (Action.KEEP, Action.BIND)


def test_a_queued_job_is_never_put_back_and_a_running_one_never_given_up():
    assert not any(judge_queued(job, SETTINGS).action is Action.REQUEUE for job in _queued())
    assert not any(judge_running(job, SETTINGS).action is Action.GIVE_UP for job in _running())


def test_a_first_404_settles_nothing_whether_the_repository_answers_or_not():
    for job in _running():
        if job.said is JobSaid.MISSING and not job.missing_for:
            assert judge_running(job, SETTINGS).action is Action.KEEP
    for queued in _queued():
        if queued.said is JobSaid.MISSING and not queued.missing_for:
            assert judge_queued(queued, SETTINGS).action is not Action.SETTLE


def test_a_job_that_github_says_is_waiting_is_never_ended():
    for queued in _queued():
        if queued.said is JobSaid.QUEUED:
            assert judge_queued(queued, SETTINGS).action in (Action.KEEP, Action.RENEW)


def test_every_stuck_job_has_a_way_out_within_its_time():
    deadline = SETTINGS.registration_deadline
    for job in _running():
        asked = worth_asking(job.age, job.pod, SETTINGS)
        if job.age >= deadline or job.pod_gone:
            assert asked, job
        if not asked:
            continue
        verdict = judge_running(job, SETTINGS).action
        if job.said is JobSaid.COMPLETED:
            assert verdict is Action.SETTLE, job
        if job.said is JobSaid.MISSING and job.missing_for >= timedelta(hours=1) and job.age >= deadline:
            assert verdict is Action.SETTLE, job
        if job.said is JobSaid.QUEUED and job.pod is PodSaid.ENDED:
            assert verdict is Action.REQUEUE, job
        never_came = job.runner in (RunnerSaid.OFFLINE, RunnerSaid.ABSENT) and not job.executing
        if job.said is JobSaid.QUEUED and job.age >= deadline and never_came:
            assert verdict is Action.REQUEUE, job
    for queued in _queued():
        if queued.waited >= SETTINGS.queued_give_up and queued.said not in (JobSaid.IN_PROGRESS, JobSaid.QUEUED):
            assert judge_queued(queued, SETTINGS).action in (Action.SETTLE, Action.GIVE_UP), queued
