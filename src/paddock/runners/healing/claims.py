"""Claims that nobody will finish: never minted, or of a job that is over. Asks the ledger alone."""

from datetime import datetime

from paddock.base.clock import Clock
from paddock.runners.healing.tally import Tally
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import HeldPod, Ledger
from paddock.runners.ledger.doubts import FinishedClaim
from paddock.runners.settings import HealingSettings
from paddock.runners.verdicts.claim import ClaimVerdict, ClaimView, judge

__all__ = ["LeftClaims"]

_OFTEN = 15.0
"""Costs two small reads, so that the claims of a dispatcher that died are free again within the minute."""


class LeftClaims:
    """Kinds `stale_claim` and `completed_claim`. Touches neither Pods nor GitHub, and no running claim by age.

    A stale claim's job waits again in the same transaction. Its dispatcher, if it lives after all, is refused when it
    confirms, so that the runner it minted is never handed out.
    """

    name = "claims"

    def __init__(self, ledger: Ledger, settings: HealingSettings, clock: Clock) -> None:
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self.every = min(settings.every, _OFTEN)

    async def heal(self) -> Report:
        settings, now = self._settings, self._clock.now()
        unminted = await self._ledger.recovery.stale(
            claimed_before=now - settings.claim_grace, silent_since=now - settings.silent_dispatcher
        )
        finished = await self._ledger.doubts.finished_claims()
        tally = Tally(settings)
        stale = {claim.generation for claim in unminted}
        for claim in (*unminted, *(one for one in finished if one.generation not in stale)):
            if tally.stopped:
                break
            tally.looked += 1
            verdict = judge(self._view(claim, silent=claim.generation in stale), settings)
            if verdict.release:
                with tally.item(f"claim of Pod {claim.pod_name}"):
                    await self._release(claim, verdict, tally)
        return tally.report()

    def _view(self, claim: HeldPod, *, silent: bool) -> ClaimView:
        now = self._clock.now()
        over = claim if isinstance(claim, FinishedClaim) else None
        return ClaimView(
            minted=claim.state != "claimed",
            age=now - claim.claimed_at,
            dispatcher_silent=silent,  # of a claim younger than the grace, silence is what the ledger listed it for
            over_for=None if over is None else now - over.recorded_at,
            executor_named=over is not None and over.executor is not None,
            busy_elsewhere=over is not None and over.busy_elsewhere,
        )

    async def _release(self, claim: HeldPod, verdict: ClaimVerdict, tally: Tally) -> None:
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
        if not tally.may(heal):
            return
        doubts = self._ledger.doubts
        release = doubts.release_unminted if verdict.kind == "stale_claim" else doubts.release_finished
        if await release(claim, by=f"healing/{self.name}", why=verdict.sentence) is None:
            tally.moved_on(heal)
        else:
            tally.done(heal)


def _since(claim: HeldPod) -> datetime:
    return claim.recorded_at if isinstance(claim, FinishedClaim) else claim.claimed_at
