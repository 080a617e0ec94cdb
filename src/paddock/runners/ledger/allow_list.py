"""Who may run jobs: accounts and single repositories, by GitHub's numbers. Nobody but who is named here.

A repository's own line counts more than its account's, and whoever has no line may not. Admission reads the list in the
statement that claims (`migrations/0008_tenants.sql`), so that every release that uses this database keeps to it. A change and
its line in `account_changes` are one transaction. The hint that follows may be lost: dispatch looks by itself every two
seconds, so an allowed job waits that long at most.
"""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, columns
from paddock.runners.ledger.notifications import Notifications
from paddock.runners.ledger.rows import Platform

__all__ = ["AccountChange", "AllowList", "BoundName", "ListEntry", "RepositoryLimit", "Standing"]

Standing = Literal["allowed", "denied", ""]
"""What the list says of an account or a repository; empty where it says nothing, which is as good as denied."""


class ListEntry(Struct, frozen=True):
    """One line of the list: an account (`repository_id` 0), or one of its repositories."""

    account_id: int
    repository_id: int
    allowed: bool
    name: str
    changed_at: datetime
    changed_by: str
    changed_why: str


class AccountChange(Struct, frozen=True):
    """Who changed the list or a limit, when, from what to what, and why."""

    change_id: int
    at: datetime
    account_id: int
    repository_id: int
    name: str
    subject: str
    was: str
    became: str
    by: str
    why: str


class RepositoryLimit(Struct, frozen=True):
    """What a repository may hold at once, beside what it holds."""

    account_id: int
    repository_id: int
    platform: str
    name: str
    vcpus: int
    memory_mb: int
    used_vcpus: int
    used_memory_mb: int


class BoundName(Struct, frozen=True):
    """What a name in the settings was first found to mean, and means since."""

    name: str
    account_id: int
    repository_id: int


SET = """
-- set_list_entry: a line and its audit, or neither where nothing changes
WITH before AS (
    SELECT allowed FROM allow_list WHERE account_id = %(account_id)s AND repository_id = %(repository_id)s
), written AS (
    INSERT INTO allow_list AS e (account_id, repository_id, allowed, name, changed_at, changed_by, changed_why)
    VALUES (%(account_id)s, %(repository_id)s, %(allowed)s, %(name)s, %(now)s, %(by)s, %(why)s)
    ON CONFLICT (account_id, repository_id) DO UPDATE
        SET allowed = excluded.allowed, name = excluded.name, changed_at = excluded.changed_at,
            changed_by = excluded.changed_by, changed_why = excluded.changed_why
        WHERE e.allowed <> excluded.allowed
    RETURNING allowed
)
INSERT INTO account_changes (at, account_id, repository_id, name, subject, was, became, by, why)
SELECT %(now)s, %(account_id)s, %(repository_id)s, %(name)s, 'list',
       coalesce((SELECT CASE WHEN before.allowed THEN 'allowed' ELSE 'denied' END FROM before), ''),
       CASE WHEN written.allowed THEN 'allowed' ELSE 'denied' END, %(by)s, %(why)s
FROM written
"""
ENTRIES = f"""
-- list_entries: each account before its repositories
SELECT {columns(ListEntry)} FROM allow_list WHERE %(account_id)s::bigint IS NULL OR account_id = %(account_id)s
ORDER BY account_id, repository_id
"""
CHANGES = f"""
-- account_changes: newest first
SELECT {columns(AccountChange)} FROM account_changes
WHERE %(account_id)s::bigint IS NULL OR account_id = %(account_id)s ORDER BY change_id DESC LIMIT %(limit)s
"""
POOLS_OF = """
-- pools_of_account: where jobs of it wait
SELECT DISTINCT pool FROM jobs WHERE status = 'queued' AND account_id = %s
"""
MAY_RUN = """
-- may_run: by the rule of admission
SELECT is_allowed(%s, %s, %s)
"""
AFFECTED = """
-- affected: how many of its jobs wait, and how many are held for it
SELECT (SELECT count(*) FROM jobs j WHERE j.status = 'queued' AND j.account_id = %(account_id)s
        AND (%(repository_id)s = 0 OR j.repository_id = %(repository_id)s)),
       (SELECT count(*) FROM claims c WHERE c.account_id = %(account_id)s AND c.state <> 'fenced'
        AND (%(repository_id)s = 0 OR c.repository_id = %(repository_id)s))
"""
BIND = f"""
-- bind_name: the first to say so is right for good
WITH new AS (
    INSERT INTO settings_names (name, account_id, repository_id, bound_at)
    VALUES (lower(%(name)s), %(account_id)s, %(repository_id)s, %(now)s) ON CONFLICT DO NOTHING
    RETURNING {columns(BoundName)}
)
SELECT {columns(BoundName)} FROM new
UNION ALL SELECT {columns(BoundName)} FROM settings_names WHERE name = lower(%(name)s)
LIMIT 1
"""
BOUND = f"""
-- bound_name
SELECT {columns(BoundName)} FROM settings_names WHERE name = lower(%s)
"""
REPOSITORY_LIMIT = """
-- set_repository_limit: what is admitted already stays, even above a lowered limit
WITH before AS (
    SELECT vcpus, memory_mb FROM repository_limits
    WHERE account_id = %(account_id)s AND repository_id = %(repository_id)s AND platform = %(platform)s
), written AS (
    INSERT INTO repository_limits (account_id, repository_id, platform, name, vcpus, memory_mb, changed_at)
    VALUES (%(account_id)s, %(repository_id)s, %(platform)s, %(name)s, %(vcpus)s, %(memory_mb)s, %(now)s)
    ON CONFLICT (account_id, repository_id, platform) DO UPDATE
        SET name = excluded.name, vcpus = excluded.vcpus, memory_mb = excluded.memory_mb, changed_at = excluded.changed_at
    RETURNING vcpus, memory_mb
)
INSERT INTO account_changes (at, account_id, repository_id, name, subject, was, became, by, why)
SELECT %(now)s, %(account_id)s, %(repository_id)s, %(name)s, 'limit',
       coalesce((SELECT format('%%s %%s vCPU %%s MB', %(platform)s, before.vcpus, before.memory_mb) FROM before), ''),
       format('%%s %%s vCPU %%s MB', %(platform)s, w.vcpus, w.memory_mb), %(by)s, %(why)s
FROM written w
"""
UNLIMIT = """
-- lift_repository_limit: it may hold as much as its account from now on
WITH gone AS (
    DELETE FROM repository_limits
    WHERE account_id = %(account_id)s AND repository_id = %(repository_id)s AND platform = %(platform)s
    RETURNING name, vcpus, memory_mb
)
INSERT INTO account_changes (at, account_id, repository_id, name, subject, was, became, by, why)
SELECT %(now)s, %(account_id)s, %(repository_id)s, gone.name, 'limit',
       format('%%s %%s vCPU %%s MB', %(platform)s, gone.vcpus, gone.memory_mb),
       format('%%s no limit of its own', %(platform)s), %(by)s, %(why)s
FROM gone
"""
REPOSITORY_LIMITS = """
-- repository_limits: beside what is held under them
SELECT r.account_id, r.repository_id, r.platform, r.name, r.vcpus, r.memory_mb,
       (r.vcpus - room.vcpus)::integer AS used_vcpus, (r.memory_mb - room.memory_mb)::integer AS used_memory_mb
FROM repository_limits r CROSS JOIN LATERAL repository_room(r.account_id, r.repository_id, r.platform) room
ORDER BY r.account_id, r.repository_id, r.platform
"""


class AllowList:
    def __init__(self, database: Database, clock: Clock, notifications: Notifications) -> None:
        self._database = database
        self._clock = clock
        self._notifications = notifications

    async def allow(self, account_id: int, name: str, *, repository_id: int = 0, by: str, why: str) -> bool:
        """Jobs of the account, or of the repository, may run from now on; those that wait go at once. False: they might."""
        return await self._set(account_id, repository_id, name, allowed=True, by=by, why=why)

    async def deny(self, account_id: int, name: str, *, repository_id: int = 0, by: str, why: str) -> bool:
        """No new job of it is handed out. What is claimed or runs goes on to its end. False: it was denied before."""
        return await self._set(account_id, repository_id, name, allowed=False, by=by, why=why)

    async def entries(self, account_id: int | None = None) -> list[ListEntry]:
        return await self._database.rows(ListEntry, ENTRIES, {"account_id": account_id})

    async def standing(self, account_id: int, repository_id: int = 0) -> Standing:
        """What the list says of exactly this account or repository."""
        for entry in await self.entries(account_id):
            if entry.repository_id == repository_id:
                return "allowed" if entry.allowed else "denied"
        return ""

    async def may_run(self, account_id: int, repository_id: int, repository: str) -> bool:
        """Whether jobs of the repository may run: by its own line, else its account's, else not."""
        return bool(await self._database.value(MAY_RUN, [account_id, repository_id, repository]))

    async def changes(self, limit: int = 100, *, account_id: int | None = None) -> list[AccountChange]:
        """Changes of the list and of limits, newest first."""
        return await self._database.rows(AccountChange, CHANGES, {"limit": limit, "account_id": account_id})

    async def affected(self, account_id: int, repository_id: int = 0) -> tuple[int, int]:
        """How many of its jobs wait, and how many run or are being handed over."""
        async with self._database.connection() as connection:
            params = {"account_id": account_id, "repository_id": repository_id}
            row = await (await connection.execute(AFFECTED, params)).fetchone()
        return (0, 0) if row is None else (row[0], row[1])

    async def bind(self, name: str, account_id: int, repository_id: int = 0) -> BoundName:
        """What a name of the settings means from now on; where it meant something before, that."""
        params = {"name": name, "account_id": account_id, "repository_id": repository_id, "now": self._clock.now()}
        bound = await self._database.row(BoundName, BIND, params) or await self.bound(name)
        assert bound is not None  # two that bind at once: by now the winner's row is to be seen
        return bound

    async def bound(self, name: str) -> BoundName | None:
        return await self._database.row(BoundName, BOUND, [name])

    async def repository_limits(self) -> list[RepositoryLimit]:
        return await self._database.rows(RepositoryLimit, REPOSITORY_LIMITS)

    async def limit_repository(
        self,
        account_id: int,
        repository_id: int,
        name: str,
        platform: Platform,
        *,
        vcpus: int,
        memory_mb: int,
        by: str,
        why: str,
    ) -> None:
        """What the repository may hold at once, within what its account may. Lowering it ends nothing."""
        params = self._change(account_id, repository_id, by, why)
        params |= {"platform": platform, "name": name, "vcpus": vcpus, "memory_mb": memory_mb}
        await self._database.run(REPOSITORY_LIMIT, params)
        await self.hint(account_id)

    async def lift_repository_limit(
        self, account_id: int, repository_id: int, platform: Platform, *, by: str, why: str
    ) -> bool:
        """The repository may hold as much as its account again. False: it had no limit of its own."""
        params = self._change(account_id, repository_id, by, why) | {"platform": platform}
        lifted = await self._database.run(UNLIMIT, params) > 0
        await self.hint(account_id)
        return lifted

    async def _set(self, account_id: int, repository_id: int, name: str, *, allowed: bool, by: str, why: str) -> bool:
        params = self._change(account_id, repository_id, by, why) | {"name": name, "allowed": allowed}
        changed = await self._database.run(SET, params) > 0
        # Dying here costs the two seconds until dispatch looks by itself.
        if allowed:
            await self.hint(account_id)
        return changed

    def _change(self, account_id: int, repository_id: int, by: str, why: str) -> dict[str, object]:
        return {
            "account_id": account_id,
            "repository_id": repository_id,
            "by": by,
            "why": why,
            "now": self._clock.now(),
        }

    async def hint(self, account_id: int) -> None:
        """More of the account's jobs may run than before: dispatch looks now at the pools in which they wait."""
        async with self._database.connection() as connection:
            pools = await (await connection.execute(POOLS_OF, [account_id])).fetchall()
        await self._notifications.hint(*(pool for (pool,) in pools))
