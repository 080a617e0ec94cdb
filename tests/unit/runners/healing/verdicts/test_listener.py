"""Every state that a still listener can be in: it is dismissed only where nobody says that it has, or may just get, a job."""

from datetime import UTC, datetime, timedelta
from itertools import product

from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.verdicts.listener import Dismiss, judge_listener
from paddock.runners.healing.verdicts.pod import Reap, judge
from paddock.runners.healing.verdicts.pod_facts import (
    ExecutorFact,
    HandedFact,
    HeldFact,
    JobFact,
    LedgerName,
    MovesFact,
    PodFacts,
    PodLife,
    RunnerRow,
    VmFact,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
STILL = NOW - timedelta(seconds=75)


def _states(still: datetime | None) -> list[PodFacts]:
    return [
        PodFacts(
            now=NOW,
            life=life,
            machine=VmFact.MACOS,
            created_at=NOW - timedelta(hours=1),
            assigned=True,
            held=held,
            handed=handed,
            handed_at=NOW - timedelta(minutes=2) if handed is not HandedFact.NONE else None,
            job=job,
            executor=executor,
            job_over_at=NOW - timedelta(minutes=1) if job is JobFact.COMPLETED else None,
            runner_row=row,
            unseen_since=NOW if row in (RunnerRow.ABSENT, RunnerRow.OFFLINE) else None,
            moves=MovesFact.MOVING,
            listener_still_since=still,
        )
        for life, held, handed, job, executor, row in product(
            PodLife, HeldFact, HandedFact, JobFact, ExecutorFact, RunnerRow
        )
    ]


def _may_work(facts: PodFacts) -> bool:
    """Some ledger says that the runner has a job, or nobody could say that it has none."""
    return (
        facts.runner_row in (RunnerRow.BUSY, RunnerRow.UNKNOWN)
        or facts.job is JobFact.UNKNOWN
        or (facts.job is JobFact.IN_PROGRESS and facts.executor is not ExecutorFact.OTHER)
    )


def test_no_listener_is_dismissed_that_may_work() -> None:
    dismissed = 0
    for facts, executing in product(_states(STILL), (False, True)):
        verdict = judge_listener(facts, executing=executing)
        if isinstance(verdict, Dismiss):
            dismissed += 1
            assert not _may_work(facts)
            assert not executing
            assert facts.life is PodLife.ALIVE
            assert facts.held not in (HeldFact.CLAIMED, HeldFact.FENCE)
    assert dismissed, "nothing is ever dismissed"


def test_a_listener_that_moves_is_never_dismissed() -> None:
    assert not any(isinstance(judge_listener(facts, executing=False), Dismiss) for facts in _states(None))


def test_the_stillness_of_a_listener_reaps_only_what_github_does_not_list_and_nobody_claims() -> None:
    reaped = 0
    for facts in _states(STILL):
        verdict = judge(facts, HealingSettings())
        if isinstance(verdict, Reap):
            reaped += 1
            assert facts.runner_row is RunnerRow.ABSENT
            assert facts.held not in (HeldFact.CLAIMED, HeldFact.RUNNING)
            assert not _may_work(facts)
            assert {ledger for ledger, _ in verdict.proof} == {LedgerName.G, LedgerName.H}
    assert reaped, "nothing is ever reaped"


def test_without_a_still_listener_a_moving_mark_protects_whatever_github_says() -> None:
    assert not any(isinstance(judge(facts, HealingSettings()), Reap) for facts in _states(None))
