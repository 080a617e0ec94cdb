"""What this process still has to give back: claims whose release could not be written, and claims that it may have won.

The database went away at the wrong moment. Healing would free such claims after five minutes, because this process lives
on; it knows better and sooner, so it tries again until the ledger answers.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.dispatch.metrics import DispatchMetrics
from paddock.runners.ledger import Claim, HeldPod, Ledger, LedgerError, LedgerUnavailableError, Scope, StaleClaimError

__all__ = ["BY", "PendingReleases", "Release"]

BY = "dispatch"
_BACKOFF = Backoff(base=0.2, cap=10.0)

log = get_logger("dispatch")


@dataclass(frozen=True, slots=True)
class Release:
    """How a claim is given back: with `scope` because minting failed, otherwise without anybody having to rest."""

    claim: Claim
    why: str
    scope: Scope | None = None
    retry_after: float | None = None


class PendingReleases:
    """`mine` says whether a dispatcher number is one of this process; `held` whether a Pod is being served by it now."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        rng: random.Random,
        metrics: DispatchMetrics,
        *,
        mine: Callable[[int | None], bool],
        held: Callable[[str], bool],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._mine = mine
        self._held = held
        self._releases: dict[int, Release] = {}
        self._unconfirmed: dict[str, None] = {}
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._releases) + len(self._unconfirmed)

    async def pay(self, release: Release) -> None:
        """Give the claim back now, or as soon as the ledger can be reached. Never fails."""
        if not await self._pay(release):
            self._releases[release.claim.generation] = release
            self._owing()

    def doubt(self, uid: str) -> None:
        """A claim for this Pod was asked for and the answer was lost: if it was won, give it back."""
        self._unconfirmed[uid] = None
        self._owing()

    async def look_after(self, held: HeldPod) -> bool:
        """Free a claim of ours that is not served: its answer was lost on the way. False if it is not such a one."""
        if held.state != "claimed" or not self._mine(held.dispatcher_id) or self._held(held.pod_uid):
            return False
        # Only if it still is unminted: what was read may be older than a commit, and that Pod has its runner.
        await self._ledger.unconfirmed.release_unminted(held, by=BY, why="the answer to this claim was lost")
        return True

    async def settle(self) -> bool:
        """Try everything that is owed once; True if nothing is left."""
        for generation, release in list(self._releases.items()):
            if not await self._pay(release):
                return False
            self._releases.pop(generation, None)
        for uid in list(self._unconfirmed):
            try:
                held = await self._ledger.claims.of_pod(uid)
                if held is not None:
                    await self.look_after(held)
            except LedgerError as error:
                log.info("a lost claim cannot be looked for yet", error=str(error))
                return False
            self._unconfirmed.pop(uid, None)
        self._metrics.owed.set(len(self))
        return not len(self)

    async def run(self) -> None:
        """Settle for ever. Started again after it failed, it goes on with what is owed, and waits for nothing new."""
        failures = 0
        if len(self):
            self._some.set()
        while True:
            await self._some.wait()
            self._some.clear()
            while not await self.settle():
                failures += 1
                await self._clock.sleep(_BACKOFF.delay(failures, self._rng))
            failures = 0

    async def _pay(self, release: Release) -> bool:
        claims = self._ledger.claims
        try:
            if release.scope is None:
                await claims.release(release.claim, by=BY, why=release.why)
            else:
                await claims.mint_failed(
                    release.claim, by=BY, why=release.why, scope=release.scope, retry_after=release.retry_after
                )
        except StaleClaimError:
            return True  # given back before, by us or by healing
        except LedgerUnavailableError as error:
            log.warning("a claim could not be given back yet", pod=release.claim.pod_name, error=str(error))
            return False
        return True

    def _owing(self) -> None:
        self._metrics.owed.set(len(self))
        self._some.set()
