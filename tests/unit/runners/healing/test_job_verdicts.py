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
AGES = [timedelta(seconds=s) for s in (0, 60, 89, 90, 300, 599, 600, 3600, 86_399, 86_400, 7 * 86_400, 31 * 86_400)]
SPANS = [timedelta(0), timedelta(seconds=299), timedelta(minutes=5), timedelta(hours=1)]


def _running() -> list[RunningJobFacts]:
    return [
        RunningJobFacts(age, pod, said, runner, executing, answers, missing)
        for age, pod, said, runner, executing, answers, missing in itertools.product(
            AGES, PodSaid, JobSaid, RunnerSaid, (False, True), (False, True), SPANS
        )
    ]


def _queued() -> list[QueuedJobFacts]:
    yes_or_no = (False, True)
    states = itertools.product(AGES, JobSaid, yes_or_no, yes_or_no, yes_or_no, SPANS, yes_or_no)
    return [QueuedJobFacts(*one) for one in states]


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
    return not shown_offline or job.executing or job.age < timedelta(seconds=90)


def _waits_for_nothing(job: RunningJobFacts) -> bool:
    """A live runner that had the time to come, and whose job GitHub gives to nobody before somebody approves it."""
    came = job.runner is RunnerSaid.ONLINE and job.age >= timedelta(seconds=90)
    return job.said is JobSaid.WAITING and came and not job.executing


def _running_oracle(job: RunningJobFacts) -> Action:
    if job.said is JobSaid.COMPLETED or (_proven_missing(job) and job.age >= timedelta(seconds=90)):
        return Action.SETTLE
    at_no_runner = job.said in (JobSaid.QUEUED, JobSaid.WAITING)
    if at_no_runner and (not _may_still_take_it(job) or _waits_for_nothing(job)):
        return Action.REQUEUE
    return Action.KEEP


def _queued_oracle(job: QueuedJobFacts) -> Action:
    if job.elsewhere and job.said in (JobSaid.IN_PROGRESS, JobSaid.COMPLETED):
        return Action.LEAVE
    if job.said is JobSaid.IN_PROGRESS:
        return Action.BIND if job.runner_named else Action.KEEP
    if job.said is JobSaid.COMPLETED or (_proven_missing(job) and job.waited >= timedelta(minutes=10)):
        return Action.SETTLE
    if job.said is JobSaid.WAITING:
        return Action.KEEP if job.held else Action.HOLD
    if job.said is JobSaid.QUEUED and job.held:
        return Action.RELEASE
    # Without a word of GitHub's: a day, but an approval has the thirty days that GitHub gives it, and one of ours.
    patience = timedelta(days=31) if job.held else timedelta(hours=24)
    if job.waited < patience:
        return Action.KEEP
    return Action.RENEW if job.said is JobSaid.QUEUED else Action.GIVE_UP


def test_every_state_of_a_running_job_is_judged_as_the_rules_say():
    states = _running()
    assert len(states) == 12 * 4 * 6 * 4 * 2 * 2 * 4
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


def test_no_job_is_put_back_unless_github_itself_has_it_at_no_runner():
    put_back = [job for job in _running() if judge_running(job, SETTINGS).action is Action.REQUEUE]
    assert put_back
    assert {job.said for job in put_back} == {JobSaid.QUEUED, JobSaid.WAITING}


def test_no_job_is_put_back_while_a_live_runner_is_bound_to_it():
    """Only one that no runner can take is taken from a live one, which GitHub has to let go first."""
    for job in _running():
        verdict = judge_running(job, SETTINGS)
        if verdict.action is Action.REQUEUE:
            if job.runner is RunnerSaid.ONLINE and job.pod is not PodSaid.ENDED:
                assert job.said is JobSaid.WAITING, job
                assert not job.executing, job
                assert verdict.unregister, job
            assert not (job.executing and job.pod in (PodSaid.ALIVE, PodSaid.UNKNOWN)), job


def test_no_slot_is_free_before_its_runner_ended_with_its_pod_or_is_unregistered():
    for job in _running():
        verdict = judge_running(job, SETTINGS)
        frees = verdict.action is Action.REQUEUE
        assert verdict.unregister == (frees and job.pod is not PodSaid.ENDED), job


def test_what_github_has_in_progress_is_left_alone_or_bound_and_nothing_else():
    for job in _running():
        if job.said is JobSaid.IN_PROGRESS:
            assert judge_running(job, SETTINGS).action is Action.KEEP
    for queued in _queued():
        if queued.said is JobSaid.IN_PROGRESS:
            left = Action.LEAVE if queued.elsewhere else Action.BIND
            assert judge_queued(queued, SETTINGS).action in (Action.KEEP, left)


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
        if queued.said in (JobSaid.QUEUED, JobSaid.WAITING):
            assert judge_queued(queued, SETTINGS).action not in (Action.SETTLE, Action.GIVE_UP), queued


def test_a_job_is_held_and_released_by_githubs_word_alone():
    for queued in _queued():
        action = judge_queued(queued, SETTINGS).action
        assert (action is Action.HOLD) == (queued.said is JobSaid.WAITING and not queued.held), queued
        assert (action is Action.RELEASE) == (queued.said is JobSaid.QUEUED and queued.held), queued


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
        if job.said in (JobSaid.QUEUED, JobSaid.WAITING) and job.pod is PodSaid.ENDED:
            assert verdict is Action.REQUEUE, job
        never_came = job.runner in (RunnerSaid.OFFLINE, RunnerSaid.ABSENT) and not job.executing
        if job.said is JobSaid.QUEUED and job.age >= deadline and never_came:
            assert verdict is Action.REQUEUE, job
        seen = job.runner is not RunnerSaid.UNKNOWN and not job.executing
        if job.said is JobSaid.WAITING and job.age >= deadline and seen:
            assert verdict is Action.REQUEUE, job
    for queued in _queued():
        without_a_word = queued.said not in (JobSaid.IN_PROGRESS, JobSaid.QUEUED, JobSaid.WAITING)
        longest = timedelta(days=31) if queued.held else SETTINGS.queued_give_up
        if queued.waited >= longest and without_a_word:
            assert judge_queued(queued, SETTINGS).action in (Action.SETTLE, Action.LEAVE, Action.GIVE_UP), queued
