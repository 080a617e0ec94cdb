"""Looking at who else works on a Pod's Mac, after the Pod's claim is committed and before its runner is minted."""

import random
from typing import Final

from paddock.base.logs import get_logger
from paddock.kube.errors import KubeError
from paddock.runners.api import RunnerPool
from paddock.runners.dispatch.cluster import Observations
from paddock.runners.dispatch.mac_seats import LATELY, SEATS, crowded
from paddock.runners.dispatch.neighbours import Neighbour, ended, kept_apart, shares_macs, stranger
from paddock.runners.dispatch.pod_proof import AskingMac
from paddock.runners.ledger import Claim, Ledger, LedgerError

__all__ = ["NeighbourCheck"]

_AGAIN: Final = 2.0
_UNBOUND: Final = 5.0

log = get_logger("dispatch")


class NeighbourCheck:
    """Reads and nothing else: whatever is cut off here is looked at anew with the next claim."""

    def __init__(self, ledger: Ledger, observations: Observations, rng: random.Random) -> None:
        self._claims = ledger.claims
        self._observations = observations
        self._rng = rng

    async def crowded(self, claim: Claim, mac: AskingMac | None) -> Neighbour | None:
        """Why the Mac that asks gets no job now. Its claim is counted from before this looks, so of two that ask at once for a last
        place the one that is counted later finds the other; both may, and come back at different times.
        """
        if mac is None:
            return None
        node = ""
        try:
            at_work, lately = await self._claims.work_of_mac(claim, mac.uid, LATELY)
            alive: set[str] = set()
            if len(at_work) >= SEATS:
                node = await self._observations.mac_of(claim.pod_name, claim.pod_uid)
                alive = {each.metadata.uid for each in await self._observations.neighbours(node) if not ended(each)}
        except (KubeError, LedgerError) as error:
            log.warning("what a Mac was given cannot be read", pod=claim.pod_name, error=str(error))
            return Neighbour(
                "what the Mac was given cannot be read, so it is given nothing now", _AGAIN, "ledger", "unreachable"
            )
        return crowded(node, at_work, alive, lately)

    async def look(self, claim: Claim, pool: RunnerPool, mac: AskingMac | None = None) -> Neighbour | None:
        """Why this claim must be given back; None where no two accounts meet.

        Call it once the claim is committed: every rival that looks later finds it (`neighbours` says why that is enough).
        What cannot be read gives the claim back: not knowing must not let two tenants meet. A pool of Linux and a Mac with
        Softnet cost nothing here, an install with one account one statement.

        The Node's label is the watch's, a moment old: an agent without Softnet says `false` from its first beat on, before a
        VM of its own could be ready, and another says `true` only while every VM of its Mac is behind Softnet. A Node that
        the watch does not show has no label, and is looked at.
        """
        seen = self._observations.from_cache(claim.pod_name, claim.pod_uid)
        if kept_apart(pool, self._observations.node_of(seen)) and (mac is None or mac.softnet or not shares_macs(pool)):
            return None
        try:
            if await self._claims.alone(claim.account_id):
                return None
            node = await self._observations.mac_of(claim.pod_name, claim.pod_uid)
            if not node:
                # Whom it will be beside cannot be seen. An agent asks for Pods alone that are bound to its Mac.
                why = "the Pod is bound to no Mac yet, so it cannot be seen who else works there: it asks again in seconds"
                return Neighbour(why, _UNBOUND)
            pods = [pod for pod in await self._observations.neighbours(node) if not ended(pod)]
            tenants = await self._claims.tenants([pod.metadata.uid for pod in pods])
        except KubeError as error:
            log.warning("the neighbours of a Pod cannot be read", pod=claim.pod_name, error=str(error))
            why = "the API server cannot be asked who else works on the Pod's Mac, which is not known to run Softnet"
            return Neighbour(why, _AGAIN, "cluster", "unreachable")
        except LedgerError as error:
            log.warning("the neighbours of a Pod cannot be read", pod=claim.pod_name, error=str(error))
            why = "the ledger cannot be asked who else works on the Pod's Mac, which is not known to run Softnet"
            return Neighbour(why, _AGAIN, "ledger", "unreachable")
        return stranger(claim, node, pods, tenants, self._rng)
