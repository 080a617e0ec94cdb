"""Claims that no dispatcher will finish: never minted, of a job that is over, or of a runner that was left without one."""

from datetime import datetime

from paddock.base.clock import Clock
from paddock.clients.github import GitHub
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.dismissal import Dismissed, dismiss_claim
from paddock.runners.healing.inquiry import Inquiry, Questions
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.verdicts.claim import ClaimVerdict, ClaimView, judge
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import HeldPod, Ledger
from paddock.runners.ledger.unconfirmed import FinishedClaim

__all__ = ["LeftClaims"]

_OFTEN = 15.0
"""Costs two small reads, so that the claims of a dispatcher that died are free again within the minute."""


class LeftClaims:
    """Kinds `stale_claim`, `completed_claim` and `displaced_claim`. Touches no Pod, and no running claim by age.

    A stale claim's job waits again in the same transaction. Its dispatcher, if it lives after all, is refused when it
    confirms, so that the runner it minted is never handed out. The claim of a runner that did not execute its job itself
    ends only once GitHub has no such runner any more: GitHub refuses to unregister one that is busy, so a slot is never
    freed under a job that has just begun.
    """

    name = "claims"

    def __init__(self, ledger: Ledger, github: GitHub, settings: HealingSettings, clock: Clock) -> None:
        self._ledger = ledger
        self._github = github
        self._inquiry = Inquiry(github, ledger, clock)
        self._settings = settings
        self._clock = clock
        self.every = min(settings.every, _OFTEN)

    async def heal(self) -> Report:
        settings, now = self._settings, self._clock.now()
        unminted = await self._ledger.recovery.stale(
            claimed_before=now - settings.claim_grace, silent_since=now - settings.silent_dispatcher
        )
        finished = await self._ledger.unconfirmed.finished_claims()
        displaced = await self._ledger.unconfirmed.displaced(since_before=now - settings.displaced_grace)
        pass_report = PassReport(settings)
        questions = self._inquiry.begin(pass_report, ())
        stale = {claim.generation for claim in unminted}
        for claim in (*unminted, *(one for one in finished if one.generation not in stale), *displaced):
            if pass_report.stopped:
                break
            pass_report.looked += 1
            verdict = judge(self._view(claim, silent=claim.generation in stale), settings)
            if verdict.release:
                with pass_report.item(f"claim of Pod {claim.pod_name}"):
                    await self._release(claim, verdict, questions, pass_report)
        return pass_report.report()

    def _view(self, claim: HeldPod, *, silent: bool) -> ClaimView:
        now = self._clock.now()
        over = claim if isinstance(claim, FinishedClaim) else None
        return ClaimView(
            minted=claim.state != "claimed",
            age=now - claim.claimed_at,
            dispatcher_silent=silent,  # of a claim younger than the grace, silence is what the ledger listed it for
            displaced_for=now - _since(claim) if claim.state == "running" and claim.job_id is None else None,
            over_for=None if over is None else now - over.recorded_at,
            executor_named=over is not None and over.executor is not None,
            executed_it=over is not None and over.executor is not None and over.executor == over.runner_name,
            busy_elsewhere=over is not None and over.busy_elsewhere,
        )

    async def _release(
        self, claim: HeldPod, verdict: ClaimVerdict, questions: Questions, pass_report: PassReport
    ) -> None:
        heal = Healed(
            kind=verdict.kind,
            subject=f"Pod {claim.pod_name}",
            sentence=f"claim {claim.generation} of Pod {claim.pod_name} for job {claim.job_id} was let go: {verdict.sentence}",
            evidence={
                "job_id": claim.job_id,
                "pod_uid": claim.pod_uid,
                "generation": claim.generation,
                "state": claim.state,
                "claimed_at": claim.claimed_at.isoformat(),
                "dispatcher_id": claim.dispatcher_id,
                **({"conclusion": claim.conclusion} if isinstance(claim, FinishedClaim) else {}),
            },
            seconds=(self._clock.now() - _since(claim)).total_seconds(),
        )
        if not pass_report.may(heal):
            return
        if verdict.unregister and not await self._is_gone(claim, questions, pass_report):
            pass_report.nothing()
            return
        unconfirmed = self._ledger.unconfirmed
        release = {
            "stale_claim": unconfirmed.release_unminted,
            "completed_claim": unconfirmed.release_finished,
            "displaced_claim": unconfirmed.release_displaced,
        }[verdict.kind]
        if await release(claim, by=f"healing/{self.name}", why=verdict.sentence) is None:
            pass_report.moved_on(heal)
        else:
            pass_report.done(heal)

    async def _is_gone(self, claim: HeldPod, questions: Questions, pass_report: PassReport) -> bool:
        """Whether GitHub has no runner of this claim any more, or takes it away now."""
        dismissed = await dismiss_claim(claim, self._github, questions, pass_report)
        return dismissed is Dismissed.GONE


def _since(claim: HeldPod) -> datetime:
    if isinstance(claim, FinishedClaim):
        return claim.recorded_at
    return claim.displaced_at or claim.claimed_at
