"""Every state that the ledgers can show a Pod in, in steps as coarse as the verdict's own limits, and a second opinion.

The second opinion is written the other way round from the verdict. It does not ask what proves a leak. It lists the worlds in
which the Pod executes a job or is about to, says what each world can look like from outside, and forbids a reap wherever one
of them looks like the facts.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.verdicts.pod_facts import (
    ExecutorFact,
    HandedFact,
    HeldFact,
    JobFact,
    MovesFact,
    PodFacts,
    PodLife,
    PollerFact,
    RunnerFact,
    RunnerRow,
    VmFact,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SETTINGS = HealingSettings()

Part = dict[str, Any]


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


JUST, TWO, FOUR, LONG = ago(seconds=10), ago(minutes=2), ago(minutes=4), ago(hours=1)

_JOBS: list[Part] = [
    {},
    {"job": JobFact.QUEUED, "executor": ExecutorFact.NONE},
    {"job": JobFact.IN_PROGRESS, "executor": ExecutorFact.THIS},
    {"job": JobFact.IN_PROGRESS, "executor": ExecutorFact.OTHER},
    {"job": JobFact.COMPLETED, "executor": ExecutorFact.THIS, "job_over_at": JUST},
    {"job": JobFact.COMPLETED, "executor": ExecutorFact.THIS, "job_over_at": FOUR},
    {"job": JobFact.COMPLETED, "executor": ExecutorFact.THIS, "job_over_at": LONG},
    {"job": JobFact.COMPLETED, "executor": ExecutorFact.OTHER, "job_over_at": LONG},
]
_FINER_JOBS: list[Part] = [
    {"job": JobFact.IN_PROGRESS, "executor": ExecutorFact.UNKNOWN},
    {"job": JobFact.COMPLETED, "executor": ExecutorFact.THIS},
    {"job": JobFact.COMPLETED, "executor": ExecutorFact.NONE, "job_over_at": LONG},
    {"job": JobFact.COMPLETED, "executor": ExecutorFact.UNKNOWN, "job_over_at": LONG},
]
_ROWS: list[Part] = [
    {},
    {"runner_row": RunnerRow.ABSENT, "unseen_since": FOUR, "absent_since": FOUR},
    {"runner_row": RunnerRow.OFFLINE, "unseen_since": FOUR},
    {"runner_row": RunnerRow.OFFLINE, "unseen_since": LONG},
    {"runner_row": RunnerRow.IDLE},
    {"runner_row": RunnerRow.BUSY},
]
_CONTAINERS = [
    (RunnerFact.WAITING, PollerFact.RUNNING),
    (RunnerFact.WAITING, PollerFact.TERMINATED),
    (RunnerFact.STARTED, PollerFact.TERMINATED),
    (RunnerFact.TERMINATED, PollerFact.TERMINATED),
]
_SESSIONS: list[Part] = [
    {},
    {"handed": HandedFact.OPEN, "handed_at": JUST},
    {"handed": HandedFact.OPEN, "handed_at": LONG},
    {"handed": HandedFact.OPEN, "handed_at": LONG, "finish_recorded": True},
    {"handed": HandedFact.ENDED, "handed_at": LONG},
]


class Grid:
    """All combinations of what each ledger can say by itself. The fine grid also tells unknowns and short times apart."""

    def __init__(self, *, fine: bool) -> None:
        machines = tuple(VmFact) if fine else (VmFact.LINUX, VmFact.MACOS)
        finer = list(product(RunnerFact, (PollerFact.NONE, PollerFact.RUNNING, PollerFact.TERMINATED)))
        containers = finer if fine else _CONTAINERS
        ages = [(JUST, None), (LONG, None), (LONG, LONG), *([(LONG, JUST)] if fine else [])]
        self.kubernetes: list[Part] = [
            {"assigned": a, "machine": b, "runner": c, "poller": d, "created_at": created, "stuck_since": stuck}
            for a, b, (c, d), (created, stuck) in product((True, False), machines, containers, ages)
        ]
        self.postgres: list[Part] = [
            {**session, "held": held, "committed": committed, "unclaimed_since": unclaimed}
            for held, session, committed, unclaimed in product(
                HeldFact, _SESSIONS, (False, True), (None, JUST, LONG) if fine else (None, LONG)
            )
        ]
        rows: list[Part] = [
            *_ROWS,
            *([{"runner_row": RunnerRow.ABSENT, "unseen_since": JUST, "absent_since": JUST}] if fine else []),
        ]
        jobs: list[Part] = [*_JOBS, *(_FINER_JOBS if fine else [])]
        self.github: list[Part] = [{**a, **b} for a, b in product(jobs, rows)]
        self.runner: list[Part] = [
            {},
            {"moves": MovesFact.MOVING},
            {"moves": MovesFact.MOVING, "listens": True},
            {"moves": MovesFact.STILL, "still_since": JUST},
            {"moves": MovesFact.STILL, "still_since": LONG},
            *([{"moves": MovesFact.STILL, "still_since": FOUR}] if fine else []),
        ]

    def __len__(self) -> int:
        return len(self.kubernetes) * len(self.postgres) * len(self.github) * len(self.runner)

    def __iter__(self) -> Iterator[PodFacts]:
        said = [{**a, **b} for a, b in product(self.github, self.runner)]
        for kube in self.kubernetes:
            for retirement in self.postgres:
                both = {**kube, **retirement}
                for more in said:
                    yield PodFacts(now=NOW, **both, **more)

    def drawn(self, rng: random.Random, how_many: int) -> Iterator[PodFacts]:
        """That many of them, drawn at random."""
        parts = (self.kubernetes, self.postgres, self.github, self.runner)
        for _ in range(how_many):
            facts: Part = {}
            for part in parts:
                facts |= rng.choice(part)
            yield PodFacts(now=NOW, **facts)


def living_world(facts: PodFacts) -> str | None:
    """A world in which the Pod executes a job, or is about to, and that looks exactly like these facts."""
    if facts.life is not PodLife.ALIVE:
        return None  # nothing is left to be killed, or somebody else decided it
    if facts.held is HeldFact.CLAIMED:
        return "a dispatcher is minting for it"
    answered = facts.handed is not HandedFact.NONE or facts.held in (HeldFact.RUNNING, HeldFact.DISPLACED)
    if not answered and not _could_be_strangers(facts):
        return None  # our own ledger never let it be answered, and so nothing runs on it
    for world, looks in (
        ("its answer is on the way", _starting),
        ("it listens for a job", _listening),
        ("it executes the job that was asked about", _executing),
        ("it executes a job that we never heard of", _executing_a_sibling),
        ("a worker moves in it", _says_that_it_works),
        ("it uploads what its job left", _wrapping_up),
    ):
        if looks(facts):
            return world
    return None


def _could_be_strangers(facts: PodFacts) -> bool:
    """Another ledger than ours answered it: ours says "nothing" because it is the wrong one, or lost its memory."""
    if facts.committed or facts.moves is not MovesFact.UNKNOWN:
        return True
    if facts.runner_row in (RunnerRow.IDLE, RunnerRow.BUSY):
        return True
    if facts.job is JobFact.IN_PROGRESS and facts.executor is not ExecutorFact.OTHER:
        return True
    if not facts.assigned:
        return True
    if facts.runner is RunnerFact.TERMINATED:
        return True
    if facts.machine is VmFact.LINUX:
        # The Pod itself shows whether it was answered, except in the seconds that serving takes.
        seen_waiting = (
            facts.runner in (RunnerFact.NONE, RunnerFact.WAITING) and facts.poller is not PollerFact.TERMINATED
        )
        settled = facts.unclaimed_since is not None and facts.unclaimed_since <= ago(seconds=30)
        stood = facts.stuck_since is not None and facts.stuck_since <= ago(minutes=5)
        return not (seen_waiting and (settled or stood))
    shown = facts.machine is VmFact.UNKNOWN and (
        facts.runner is RunnerFact.STARTED or facts.poller is PollerFact.TERMINATED
    )
    return shown or facts.unclaimed_since is None or facts.unclaimed_since > ago(seconds=30)


def _is_its_own_job(facts: PodFacts) -> bool:
    return facts.job is JobFact.COMPLETED and facts.executor is ExecutorFact.THIS


def _starting(facts: PodFacts) -> bool:
    young = facts.handed_at is None or facts.handed_at > ago(minutes=5)
    unregistered = facts.runner_row in (RunnerRow.UNKNOWN, RunnerRow.ABSENT, RunnerRow.OFFLINE)
    return young and unregistered and not _is_its_own_job(facts)


def _in_touch_with_github(facts: PodFacts, *present: RunnerRow) -> bool:
    """GitHub shows the runner, or nobody looked, or it lost sight of it so lately that its job still counts."""
    if facts.runner_row in (RunnerRow.UNKNOWN, *present):
        return True
    lately = facts.unseen_since is None or facts.unseen_since > ago(minutes=10)
    return facts.runner_row is RunnerRow.OFFLINE and lately


def _says_that_it_works(facts: PodFacts) -> bool:
    """It moves, and does not say that only its listener does."""
    return facts.moves is MovesFact.MOVING and not facts.listens and facts.executor is not ExecutorFact.THIS


def _listening(facts: PodFacts) -> bool:
    return _in_touch_with_github(facts, RunnerRow.IDLE) and not _is_its_own_job(facts)


def _executing(facts: PodFacts) -> bool:
    """GitHub's own word that the job is in progress outweighs every other one, and so does its silence about it."""
    return facts.job is JobFact.UNKNOWN or (
        facts.job is JobFact.IN_PROGRESS and facts.executor is not ExecutorFact.OTHER
    )


def _executing_a_sibling(facts: PodFacts) -> bool:
    elsewhere = facts.executor is not ExecutorFact.THIS
    return elsewhere and _in_touch_with_github(facts, RunnerRow.BUSY)


def _wrapping_up(facts: PodFacts) -> bool:
    if not _is_its_own_job(facts):
        return False
    works = facts.moves is MovesFact.MOVING and not (facts.listens and facts.runner_row is RunnerRow.ABSENT)
    if facts.runner_row not in (RunnerRow.ABSENT, RunnerRow.OFFLINE) or works:
        return True
    if facts.job_over_at is None or facts.job_over_at > ago(minutes=3):
        return True
    if facts.moves is MovesFact.STILL:
        return facts.still_since is None or facts.still_since > TWO
    return facts.job_over_at > ago(minutes=15)


def must_be_reaped(facts: PodFacts) -> str | None:
    """The leaks that are known, each stated on its own: a verdict that keeps one of these lets capacity leak for ever."""
    if facts.life is not PodLife.ALIVE or facts.runner_row in (RunnerRow.IDLE, RunnerRow.BUSY):
        return None
    if facts.job is JobFact.IN_PROGRESS and facts.executor is not ExecutorFact.OTHER:
        return None
    if facts.moves is MovesFact.MOVING:
        retries = facts.listens and facts.runner_row is RunnerRow.ABSENT and facts.unseen_since == FOUR
        handed = facts.handed is not HandedFact.NONE and facts.handed_at == LONG
        settled = facts.held in (HeldFact.NONE, HeldFact.FENCE, HeldFact.DISPLACED)
        return "hung_runner" if retries and handed and settled and facts.job is JobFact.QUEUED else None
    no_claim = facts.held in (HeldFact.NONE, HeldFact.FENCE)
    forgotten = facts.assigned and no_claim and facts.handed is HandedFact.NONE and not facts.committed
    if forgotten and facts.created_at == LONG and facts.moves is MovesFact.UNKNOWN and facts.unclaimed_since == LONG:
        if facts.machine is VmFact.MACOS and facts.runner is not RunnerFact.TERMINATED:
            return "orphaned_stamped_pod"
        waiting = facts.runner in (RunnerFact.NONE, RunnerFact.WAITING) and facts.poller is not PollerFact.TERMINATED
        if facts.machine is VmFact.LINUX and waiting:
            return "orphaned_stamped_pod"
    if facts.handed is HandedFact.NONE:
        return None
    still = facts.moves is MovesFact.STILL and facts.still_since in (FOUR, LONG)
    if _is_its_own_job(facts) and no_claim and facts.runner_row is not RunnerRow.UNKNOWN:
        if facts.job_over_at in (FOUR, LONG) and still:
            return "finished_job_pod"
        if facts.job_over_at == LONG and facts.moves is MovesFact.UNKNOWN and facts.finish_recorded:
            return "finished_job_pod"
    away = facts.job is JobFact.QUEUED or (
        facts.executor in (ExecutorFact.OTHER, ExecutorFact.NONE) and facts.job is not JobFact.UNKNOWN
    )
    free = facts.held is HeldFact.DISPLACED or (no_claim and facts.unclaimed_since == LONG)
    silent = facts.moves is MovesFact.UNKNOWN and facts.unseen_since == LONG
    if away and free and silent and facts.handed_at == LONG:
        return "hung_runner"
    if (
        away
        and facts.held is not HeldFact.RUNNING
        and facts.held is not HeldFact.CLAIMED
        and facts.handed_at == LONG
        and still
    ):
        if facts.runner_row is RunnerRow.ABSENT and facts.unseen_since == FOUR:
            return "hung_runner"
        if facts.runner_row is RunnerRow.OFFLINE and facts.unseen_since == LONG and facts.still_since == LONG:
            return "hung_runner"
    return None
