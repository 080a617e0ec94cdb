"""Fences: the reaper's hold on a Pod, under the same key as a claim.

A Pod has a claim or a fence or neither, never both: whoever inserts first wins, and the other is told. So between the
moment a fence stands and the moment its Pod is deleted, the Pod wins no claim, and since a session needs a live claim, it
gets no session either. What is read about the Pod after the fence was raised therefore stays true.
"""

from datetime import datetime

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, columns
from paddock.runners.ledger.rows import Fence, HeldPod, Pod

__all__ = ["Fences"]

RAISE = """
-- raise_fence: a claim under way is waited for, and then wins
WITH raised AS (
    INSERT INTO claims (pod_uid, pod_name, state, claimed_at, by, why)
    VALUES (%(uid)s, %(name)s, 'fenced', %(now)s, %(by)s, %(why)s)
    ON CONFLICT DO NOTHING
    RETURNING pod_uid, pod_name, generation, claimed_at AS raised_at, by, why
), logged AS (
    INSERT INTO transitions (at, subject, pod_uid, pod_name, generation, was, became, by, why)
    SELECT %(now)s, 'fence', pod_uid, pod_name, generation, '', 'fenced', by, why FROM raised
)
SELECT * FROM raised
"""
OF_POD = """
-- fence_of_pod
SELECT pod_uid, pod_name, generation, claimed_at AS raised_at, by, why FROM claims
WHERE pod_uid = %s AND state = 'fenced'
"""
CLAIM_OF_POD = f"""
-- claim_of_pod
SELECT {columns(HeldPod)}
FROM claims WHERE pod_uid = %s AND state <> 'fenced'
"""
LIFT = """
-- lift_fence
WITH lifted AS (
    DELETE FROM claims WHERE pod_uid = %(uid)s AND generation = %(generation)s AND state = 'fenced' RETURNING *
), logged AS (
    INSERT INTO transitions (at, subject, pod_uid, pod_name, generation, was, became, by, why)
    SELECT %(now)s, 'fence', pod_uid, pod_name, generation, 'fenced', 'lifted', %(by)s, %(why)s FROM lifted
)
SELECT count(*) FROM lifted
"""
STANDING = """
-- standing_fences
SELECT pod_uid, pod_name, generation, claimed_at AS raised_at, by, why FROM claims
WHERE state = 'fenced' AND claimed_at <= %s ORDER BY claimed_at, pod_uid
"""


class Fences:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def raise_fence(self, pod: Pod, *, by: str, why: str) -> Fence | HeldPod:
        """Keep the Pod from winning a claim; a HeldPod in answer means that it has one: leave it alone.

        A fence that stands already is given as it is, so a reaper that died resumes. Once it stands, read the Pod's
        session again before deleting: it cannot change any more.
        """
        params = {"uid": pod.uid, "name": pod.name, "now": self._clock.now(), "by": by, "why": why}
        while True:
            if (raised := await self._database.row(Fence, RAISE, params)) is not None:
                return raised
            if (standing := await self._database.row(Fence, OF_POD, [pod.uid])) is not None:
                return standing
            if (held := await self._database.row(HeldPod, CLAIM_OF_POD, [pod.uid])) is not None:
                return held
            # What was in the way went away between the statements: the Pod is free to be fenced now.

    async def of_pod(self, pod_uid: str) -> Fence | None:
        return await self._database.row(Fence, OF_POD, [pod_uid])

    async def lift(self, fence: Fence, *, by: str, why: str) -> bool:
        """Take a fence down: the Pod is gone, or proved to be healthy. False if it was gone already."""
        params = {
            "uid": fence.pod_uid,
            "generation": fence.generation,
            "now": self._clock.now(),
            "by": by,
            "why": why,
        }
        return await self._database.value(LIFT, params) == 1

    async def standing(self, raised_before: datetime | None = None) -> list[Fence]:
        """Fences that stand, oldest first: reaps that are under way, or were interrupted."""
        return await self._database.rows(Fence, STANDING, [raised_before or self._clock.now()])
