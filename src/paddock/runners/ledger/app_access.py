"""What GitHub says of the App's access: given again, everything that waits for it is tried at once; taken away, it rests.

Neither is proof. A word may be late, repeated or replayed, so that a rest is never longer than the one after a failed mint,
and one that is ended for nothing costs one more refusal.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database
from paddock.runners.ledger.notifications import Notifications

__all__ = ["RATE_LIMITED", "AppAccess", "RepositoryName"]

RATE_LIMITED: Final = "GitHub's limit leaves no runner for this account"
"""How the reason of a rest begins that GitHub itself set the end of: no access that is given ends it sooner."""

_REST: Final = timedelta(minutes=15)
_FAILURES: Final = 8
"""As after so many failed mints in a row: if the mint after the rest fails, too, the next rest is as long."""
_WITHDRAWN: Final = "the GitHub App has no access to it any more: add the repository to the App's installation again, and its jobs go on"

_NAMES = """
-- A repository is known by its number; what rests does so under the name that its jobs were announced with.
WITH names AS (
    SELECT name FROM unnest(%(names)s::text[]) AS said (name)
    UNION SELECT j.repository FROM jobs j WHERE j.account_id = %(account_id)s AND j.status = 'queued'
      AND j.repository_id = ANY (%(numbers)s::bigint[])
)"""
LIFT = f"""
-- lift_setbacks: the account's own, and those of its repositories, or of some of them. One that somebody writes at this
-- moment is ended by a mint that succeeded, or is of a mint that failed just now. Not those that GitHub's limit set.
{_NAMES}, free AS MATERIALIZED (
    SELECT s.account_id, s.repository FROM setbacks s WHERE s.account_id = %(account_id)s AND NOT starts_with(s.why, %(limited)s)
      AND (%(all)s OR s.repository = '' OR lower(s.repository) IN (SELECT lower(name) FROM names))
    ORDER BY s.repository FOR UPDATE SKIP LOCKED
)
DELETE FROM setbacks s USING free WHERE s.account_id = free.account_id AND s.repository = free.repository
"""
WAKE = f"""
-- wake_resting_jobs: as above; one that is being taken or spoken of at this moment does not rest
{_NAMES}, free AS MATERIALIZED (
    SELECT job_id FROM jobs j WHERE j.account_id = %(account_id)s AND j.status = 'queued' AND j.not_before > %(now)s
      AND (%(all)s OR lower(j.repository) IN (SELECT lower(name) FROM names))
    ORDER BY job_id FOR UPDATE SKIP LOCKED
)
UPDATE jobs SET not_before = NULL FROM free WHERE free.job_id = jobs.job_id
"""
RETRY_SOURCES = """
-- retry_refused_sources: whoever has the lease begins anew, because `since` is not the one that it knows
UPDATE scale_set_sources SET state = 'Starting', sentence = %(why)s, since = %(now)s
WHERE account_id = %(account_id)s AND state = 'Refused'
"""
WITHDRAW = f"""
-- rest_repositories: no shorter than they rest already
{_NAMES}
INSERT INTO setbacks (account_id, repository, failures, not_before, why)
SELECT %(account_id)s, name, %(failures)s, %(until)s, %(why)s FROM names WHERE name <> '' ORDER BY name
ON CONFLICT (account_id, repository) DO UPDATE SET failures = greatest(setbacks.failures, excluded.failures),
    not_before = greatest(setbacks.not_before, excluded.not_before), why = excluded.why
"""
POOLS = """
-- pools_of_access: where jobs of the account wait
SELECT DISTINCT pool FROM jobs WHERE status = 'queued' AND account_id = %s
"""


class RepositoryName(NamedTuple):
    """A repository as GitHub names it now; the number is what it is known by."""

    repository_id: int
    name: str


class AppAccess:
    def __init__(self, database: Database, clock: Clock, notifications: Notifications) -> None:
        self._database = database
        self._clock = clock
        self._notifications = notifications

    async def restored(self, account_id: int, repositories: Sequence[RepositoryName] | None = None, *, why: str) -> int:
        """The App may act again for the account, or for these repositories: what rested goes at once. Gives how many rests
        ended. Repeatable: a second word finds nothing that rests. A rest that GitHub's rate limit asked for stays.
        """
        params = self._params(account_id, repositories or ()) | {"all": repositories is None, "why": why}
        async with self._database.transaction() as connection:
            lifted = (await connection.execute(LIFT, params)).rowcount
            woken = (await connection.execute(WAKE, params)).rowcount
            retried = (await connection.execute(RETRY_SOURCES, params)).rowcount
            pools = await (await connection.execute(POOLS, [account_id])).fetchall()
        # Dying here costs the two seconds until dispatch looks by itself.
        await self._notifications.hint(*(pool for (pool,) in pools))
        return lifted + woken + retried

    async def withdrawn(self, account_id: int, repositories: Sequence[RepositoryName]) -> int:
        """The App may not act for these repositories: their jobs rest, and say so. Gives how many rest."""
        params = self._params(account_id, repositories)
        params |= {"until": self._clock.now() + _REST, "failures": _FAILURES, "why": _WITHDRAWN}
        return await self._database.run(WITHDRAW, params)

    def _params(self, account_id: int, repositories: Sequence[RepositoryName]) -> dict[str, object]:
        return {
            "account_id": account_id,
            "numbers": [one.repository_id for one in repositories],
            "names": [one.name for one in repositories],
            "now": self._clock.now(),
            "limited": RATE_LIMITED,
        }
