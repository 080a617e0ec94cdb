"""Is this claim a leak? Pure, and total: every claim gets exactly one verdict, with its reason.

A claim that was never minted may end by age or by the silence of its dispatcher: no Pod was handed a runner under it, and a
mint that comes late is refused. A claim that runs ends on proof alone, never by age: a build may run for hours, and its
slot given away too early takes the account over its limit.
"""

from dataclasses import dataclass
from datetime import timedelta

from paddock.base.explanation import span
from paddock.runners.api.settings import HealingSettings

__all__ = ["ClaimVerdict", "ClaimView", "judge"]


@dataclass(frozen=True, slots=True)
class ClaimView:
    """What the ledger says about a claim, at one moment."""

    minted: bool
    age: timedelta
    """Since it was made."""
    dispatcher_silent: bool = False
    """Its dispatcher has not been heard for longer than `HealingSettings.silent_dispatcher`."""
    over_for: timedelta | None = None
    """Since when the completion of its job is recorded; None: the job is not over."""
    executor_named: bool = False
    """The completion names the runner that executed the job."""
    executed_it: bool = False
    """And it is this claim's own runner: a runner of one job, which takes no other."""
    displaced_for: timedelta | None = None
    """Since when its job has been with another runner, and no other job was heard of on its own; None: it has a job."""
    busy_elsewhere: bool = False
    """Its runner is known to execute another job, which is not over."""


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """Whether the claim may end, as which kind of heal, and why (not).

    `unregister`: only once its runner is gone from GitHub. It never executed the job, so that it may stand there idle, and
    would be given another one under a slot that is another job's by then.
    """

    release: bool
    kind: str
    sentence: str
    unregister: bool = False


def judge(claim: ClaimView, settings: HealingSettings) -> ClaimVerdict:
    if not claim.minted:
        return _unminted(claim, settings)
    if claim.displaced_for is not None:
        if claim.busy_elsewhere:
            return ClaimVerdict(False, "", "its job went to another runner, and its own executes another one")
        if claim.displaced_for < settings.displaced_grace:
            return ClaimVerdict(False, "", "its job went to another runner just now: it may be given any other")
        return ClaimVerdict(
            True,
            "displaced_claim",
            f"its job went to another runner {span(claim.displaced_for)} ago, and it was given no other",
            unregister=True,
        )
    if claim.over_for is None:
        return ClaimVerdict(False, "", "it was minted, and nothing says that its job is over: age alone frees nothing")
    if claim.busy_elsewhere:
        return ClaimVerdict(False, "", "its job is over, but its runner executes another one that is not")
    if claim.age < settings.claim_grace:
        return ClaimVerdict(False, "", f"its job is over, but the claim is younger than {span(settings.claim_grace)}")
    if not claim.executor_named and claim.over_for < settings.finished_grace:
        # Cancelled while it waited: GitHub may be giving a sibling to the idle runner this very moment.
        return ClaimVerdict(False, "", f"its job ended without a runner less than {span(settings.finished_grace)} ago")
    return ClaimVerdict(
        True,
        "completed_claim",
        f"its job has been over for {span(claim.over_for)} and no other job runs under it",
        unregister=not claim.executed_it,
    )


def _unminted(claim: ClaimView, settings: HealingSettings) -> ClaimVerdict:
    if claim.age >= settings.claim_grace:
        return ClaimVerdict(True, "stale_claim", f"claimed {span(claim.age)} ago and never minted")
    if claim.dispatcher_silent and claim.age >= settings.silent_dispatcher:
        return ClaimVerdict(
            True,
            "stale_claim",
            f"claimed {span(claim.age)} ago, and its dispatcher has been silent for {span(settings.silent_dispatcher)}",
        )
    return ClaimVerdict(False, "", "its dispatcher is alive and may still mint")
