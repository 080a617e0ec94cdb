"""Mistakes that a verdict on Pods could have, each as a judge: the product's own, with one guard taken out.

Most mistakes overlook something. Such a judge is `judge` on facts, or under settings, in which what it overlooks is not there
to be seen. So a mistake does not depend on how the verdict is written down.
"""

from collections.abc import Callable
from dataclasses import replace as replace_settings
from datetime import timedelta
from typing import Any, Final

from msgspec.structs import replace
from unit.runners.healing.verdicts.pod_states import LONG

from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.verdicts.pod import HUNG_RUNNER, Reap, Verdict, Watch, judge
from paddock.runners.healing.verdicts.pod_facts import (
    ExecutorFact,
    HandedFact,
    HeldFact,
    JobFact,
    MovesFact,
    PodFacts,
    PollerFact,
    RunnerFact,
    RunnerRow,
    VmFact,
)

Judge = Callable[[PodFacts, HealingSettings], Verdict]
Sees = Callable[[PodFacts], dict[str, Any]]
"""What a mistaken judge takes for true instead, by field; nothing where it sees what is there."""

AT_ONCE: Final = timedelta(0)


def facts_seen(sees: Sees) -> Judge:
    """Judges what it takes for the facts."""

    def mistaken(facts: PodFacts, settings: HealingSettings) -> Verdict:
        wrong = sees(facts)
        return judge(replace(facts, **wrong) if wrong else facts, settings)

    return mistaken


def limits_seen(sees: Callable[[PodFacts, HealingSettings], dict[str, timedelta]]) -> Judge:
    """Judges by other limits."""

    def mistaken(facts: PodFacts, settings: HealingSettings) -> Verdict:
        wrong = sees(facts, settings)
        return judge(facts, replace_settings(settings, **wrong) if wrong else settings)

    return mistaken


def handed(facts: PodFacts) -> bool:
    return facts.handed is not HandedFact.NONE or facts.held in (HeldFact.RUNNING, HeldFact.DISPLACED)


def finished(facts: PodFacts) -> bool:
    return handed(facts) and facts.job is JobFact.COMPLETED and facts.executor is ExecutorFact.THIS


def _started(facts: PodFacts) -> bool:
    return facts.runner is RunnerFact.STARTED or facts.poller is PollerFact.TERMINATED


def _when(condition: Callable[[PodFacts], bool], **seen: Any) -> Judge:
    return facts_seen(lambda facts: seen if condition(facts) else {})


def _silent_since_unseen(facts: PodFacts) -> dict[str, Any]:
    """Neither when it was handed out nor when its claim ended counts."""
    unseen = facts.unseen_since
    if facts.moves is not MovesFact.UNKNOWN or unseen is None or finished(facts):
        return {}
    ended = facts.unclaimed_since
    return {
        "handed_at": unseen if facts.handed_at is not None else None,
        "unclaimed_since": ended and min(ended, unseen),
    }


def _keeps_silent_runners(facts: PodFacts, settings: HealingSettings) -> Verdict:
    verdict = judge(facts, settings)
    if isinstance(verdict, Reap) and verdict.kind == HUNG_RUNNER and facts.moves is MovesFact.UNKNOWN:
        return Watch("silent", "it says nothing")
    return verdict


MISTAKES: Final[dict[str, Judge]] = {
    # Signs of life
    "a claim being served is no sign of life": _when(lambda f: f.held is HeldFact.CLAIMED, held=HeldFact.NONE),
    "progress is no sign of life": _when(
        lambda f: f.moves is MovesFact.MOVING and f.listener_still_since is None, moves=MovesFact.UNKNOWN
    ),
    "movement is a sign of life whoever moves": _when(
        lambda f: f.moves is MovesFact.MOVING and f.listens, listens=False
    ),
    "a listener that retries is hung though GitHub's list was not read": _when(
        lambda f: f.moves is MovesFact.MOVING and f.listens and f.runner_row is RunnerRow.UNKNOWN,
        runner_row=RunnerRow.ABSENT,
        absent_since=LONG,
        unseen_since=LONG,
    ),
    "whatever moves in a runner that GitHub does not list is its listener": _when(
        lambda f: f.moves is MovesFact.MOVING and f.runner_row is RunnerRow.ABSENT, listens=True
    ),
    "in progress is no sign of life": _when(
        lambda f: f.job is JobFact.IN_PROGRESS and f.executor is not ExecutorFact.OTHER, executor=ExecutorFact.OTHER
    ),
    "a busy runner is no sign of life": _when(lambda f: f.runner_row is RunnerRow.BUSY, runner_row=RunnerRow.UNKNOWN),
    "a listening runner is no sign of life": _when(
        lambda f: f.runner_row is RunnerRow.IDLE, runner_row=RunnerRow.UNKNOWN
    ),
    "a session does not count as handed out": facts_seen(lambda _: {"handed": HandedFact.NONE}),
    "a session that ended does not count": _when(lambda f: f.handed is HandedFact.ENDED, handed=HandedFact.NONE),
    # Before the answer
    "an assignment is not needed": facts_seen(lambda _: {"assigned": True}),
    "the account label is not looked at": facts_seen(lambda _: {"committed": False}),
    "a reporting runner is not looked at": _when(
        lambda f: not handed(f) and f.moves is MovesFact.STILL, moves=MovesFact.UNKNOWN
    ),
    "a started runner on Linux is not looked at": _when(
        lambda f: not handed(f) and f.machine is not VmFact.MACOS and _started(f),
        runner=RunnerFact.WAITING,
        poller=PollerFact.RUNNING,
    ),
    "a poller that is done is not looked at": _when(
        lambda f: f.poller is PollerFact.TERMINATED, poller=PollerFact.RUNNING
    ),
    "a container that started counts on a Mac, too": _when(
        lambda f: not handed(f) and f.machine is VmFact.MACOS and _started(f), machine=VmFact.LINUX
    ),
    "a Mac needs no memory of its claim": facts_seen(
        lambda f: (
            {
                VmFact.LINUX: {},
                VmFact.UNKNOWN: {"machine": VmFact.LINUX},
                # Its container has been started since the boot, which says nothing.
                VmFact.MACOS: {"machine": VmFact.LINUX, "runner": RunnerFact.WAITING, "poller": PollerFact.NONE},
            }[f.machine]
            if not handed(f) and f.runner is not RunnerFact.TERMINATED and f.unclaimed_since is None
            else {}
        )
    ),
    "a claim that ended this moment is old enough": limits_seen(lambda *_: {"silent_dispatcher": AT_ONCE}),
    "a Pod stuck since this moment is old enough": facts_seen(
        lambda f: {"stuck_since": f.created_at} if f.stuck_since is not None and f.created_at is not None else {}
    ),
    "a leak on Linux is kept": _when(lambda f: f.machine is VmFact.LINUX, assigned=False),
    # The job is over
    "a job finished this moment is old enough": limits_seen(lambda *_: {"finished_grace": AT_ONCE}),
    "a job finished by another runner is this one's": _when(
        lambda f: f.job is JobFact.COMPLETED, executor=ExecutorFact.THIS
    ),
    "a finished runner may still be online": _when(
        lambda f: finished(f) and f.runner_row is RunnerRow.UNKNOWN, runner_row=RunnerRow.ABSENT
    ),
    "a short stillness is enough": limits_seen(lambda f, _: {"progress_grace": AT_ONCE} if finished(f) else {}),
    "silence counts as stillness at once": limits_seen(
        lambda f, _: {"lost_communication": AT_ONCE} if finished(f) else {}
    ),
    # The runner hangs
    "GitHub's silence about the job is proof": _when(lambda f: f.job is JobFact.UNKNOWN, job=JobFact.QUEUED),
    "GitHub's silence about the runner is proof": _when(
        lambda f: not finished(f) and f.runner_row is RunnerRow.UNKNOWN, runner_row=RunnerRow.OFFLINE
    ),
    "offline this moment is as good as gone": _when(
        lambda f: f.runner_row is RunnerRow.OFFLINE, runner_row=RunnerRow.ABSENT
    ),
    "a runner may not take its time to register": _when(
        lambda f: f.moves is MovesFact.STILL and f.handed_at is not None, handed_at=LONG
    ),
    "a silent runner is gone as soon as it is unseen": limits_seen(
        lambda f, limits: {} if finished(f) else {"lost_communication": limits.progress_grace}
    ),
    "a silent runner that was handed out this moment is old enough": facts_seen(_silent_since_unseen),
    "silent runners are kept": _keeps_silent_runners,
    "hung runners are kept": facts_seen(lambda _: {"handed_at": None}),
}
