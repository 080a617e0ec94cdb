"""Who goes before whom: weights and priorities of accounts and repositories, by GitHub's numbers.

Ranking reads them in the statement that claims (`migrations/0014_precedence.sql`), so that every release that uses this database
keeps to them. They decide the order alone: no limit is exceeded for either, and nothing that runs ends. A change and its line in
`account_changes` are one transaction.
"""

from datetime import datetime
from typing import Final

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, columns
from paddock.runners.ledger.rows import STEP_SECONDS

__all__ = ["LARGEST_WEIGHT", "PRIORITIES", "Precedence", "PrecedenceList", "level_of"]

LARGEST_WEIGHT: Final = 100
PRIORITIES: Final = (-10, 10)


class Precedence(Struct, frozen=True):
    """What was said of an account (`repository_id` 0) or a repository; None is not said."""

    account_id: int
    repository_id: int
    name: str
    weight: int | None
    priority: int | None
    changed_at: datetime
    changed_by: str
    changed_why: str


_SAID = "concat_ws(', ', 'weight ' || {0}.weight, 'priority ' || {0}.priority)"
SET = f"""
-- set_precedence: what is not given stays as it is; neither a line nor its audit where nothing changes
WITH before AS (
    SELECT weight, priority FROM precedence WHERE account_id = %(account_id)s AND repository_id = %(repository_id)s
), written AS (
    INSERT INTO precedence AS p (account_id, repository_id, weight, priority, name, changed_at, changed_by, changed_why)
    VALUES (%(account_id)s, %(repository_id)s, %(weight)s, %(priority)s, %(name)s, %(now)s, %(by)s, %(why)s)
    ON CONFLICT (account_id, repository_id) DO UPDATE
        SET weight = coalesce(excluded.weight, p.weight), priority = coalesce(excluded.priority, p.priority),
            name = excluded.name, changed_at = excluded.changed_at, changed_by = excluded.changed_by,
            changed_why = excluded.changed_why
        WHERE coalesce(excluded.weight, p.weight) IS DISTINCT FROM p.weight
           OR coalesce(excluded.priority, p.priority) IS DISTINCT FROM p.priority
    RETURNING weight, priority
)
INSERT INTO account_changes (at, account_id, repository_id, name, subject, was, became, by, why)
SELECT %(now)s, %(account_id)s, %(repository_id)s, %(name)s, 'precedence',
       coalesce((SELECT {_SAID.format("before")} FROM before), ''), {_SAID.format("w")}, %(by)s, %(why)s
FROM written w
"""
CLEAR = f"""
-- clear_precedence
WITH gone AS (
    DELETE FROM precedence WHERE account_id = %(account_id)s AND repository_id = %(repository_id)s
    RETURNING name, weight, priority
)
INSERT INTO account_changes (at, account_id, repository_id, name, subject, was, became, by, why)
SELECT %(now)s, %(account_id)s, %(repository_id)s, gone.name, 'precedence', {_SAID.format("gone")},
       'no precedence of its own', %(by)s, %(why)s
FROM gone
"""
ALL = f"""
-- precedence: each account before its repositories
SELECT {columns(Precedence)} FROM precedence ORDER BY account_id, repository_id
"""


def level_of(priority: int, since: datetime, now: datetime, top: int) -> int:
    """The priority that counts now, as the function of that name in the database: with what age adds, up to the highest that waits."""
    steps = max(0, int((now - since).total_seconds() // STEP_SECONDS))
    return min(top, priority + steps)


class PrecedenceList:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def all(self) -> list[Precedence]:
        return await self._database.rows(Precedence, ALL)

    async def of(self, account_id: int, repository_id: int = 0) -> Precedence | None:
        """What was said of exactly this account or repository."""
        found = (one for one in await self.all() if (one.account_id, one.repository_id) == (account_id, repository_id))
        return next(found, None)

    async def set(
        self,
        account_id: int,
        name: str,
        *,
        repository_id: int = 0,
        weight: int | None = None,
        priority: int | None = None,
        by: str,
        why: str,
    ) -> bool:
        """At least one of the two, within its range; the other stays. False: it was so before."""
        said = {"name": name, "weight": weight, "priority": priority}
        return await self._database.run(SET, self._change(account_id, repository_id, by, why) | said) > 0

    async def clear(self, account_id: int, *, repository_id: int = 0, by: str, why: str) -> bool:
        """It goes as everybody goes. False: nothing had been said of it."""
        return await self._database.run(CLEAR, self._change(account_id, repository_id, by, why)) > 0

    def _change(self, account_id: int, repository_id: int, by: str, why: str) -> dict[str, object]:
        now = self._clock.now()
        return {"account_id": account_id, "repository_id": repository_id, "by": by, "why": why, "now": now}
