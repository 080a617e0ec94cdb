"""How much an account may hold at once, for each platform in vCPU and memory."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database
from paddock.runners.ledger.rows import Limit, Platform, Usage

__all__ = ["DEFAULTS", "Limits"]

DEFAULTS: Final[Mapping[Platform, tuple[int, int]]] = MappingProxyType({"linux": (32, 65_536), "macos": (12, 28_672)})
"""vCPU and MB of memory that a new account may hold."""

SET_LIMIT = """
-- set_limit: waits for an admission under way; what is admitted already stays, even above a lowered limit
WITH before AS (
    SELECT vcpus, memory_mb FROM limits WHERE account_id = %(account_id)s AND platform = %(platform)s
), written AS (
    INSERT INTO limits (account_id, platform, vcpus, memory_mb, changed_at)
    VALUES (%(account_id)s, %(platform)s, %(vcpus)s, %(memory_mb)s, %(now)s)
    ON CONFLICT (account_id, platform) DO UPDATE
        SET vcpus = excluded.vcpus, memory_mb = excluded.memory_mb, changed_at = excluded.changed_at
    RETURNING *
), logged AS (
    INSERT INTO transitions (at, subject, account_id, was, became, by, why)
    SELECT %(now)s, 'limit', %(account_id)s,
           coalesce((SELECT format('%%s %%s vCPU %%s MB', %(platform)s, before.vcpus, before.memory_mb) FROM before), ''),
           format('%%s %%s vCPU %%s MB', w.platform, w.vcpus, w.memory_mb), %(by)s, %(why)s
    FROM written w
), audited AS (
    INSERT INTO account_changes (at, account_id, name, subject, was, became, by, why)
    SELECT %(now)s, w.account_id, a.login, 'limit',
           coalesce((SELECT format('%%s %%s vCPU %%s MB', %(platform)s, before.vcpus, before.memory_mb) FROM before), ''),
           format('%%s %%s vCPU %%s MB', w.platform, w.vcpus, w.memory_mb), %(by)s, %(why)s
    FROM written w JOIN accounts a USING (account_id)
)
SELECT account_id, platform, vcpus, memory_mb FROM written
"""
USAGE = """
-- usage: what is held under each limit, as admission counts it
SELECT l.account_id, l.platform, l.vcpus, l.memory_mb, coalesce(sum(c.vcpus), 0)::integer AS used_vcpus,
       coalesce(sum(c.memory_mb), 0)::integer AS used_memory_mb, count(c.pod_uid)::integer AS claims
FROM limits l LEFT JOIN claims c ON c.limit_id = l.limit_id
WHERE %(account_id)s::bigint IS NULL OR l.account_id = %(account_id)s
GROUP BY l.limit_id, l.account_id, l.platform, l.vcpus, l.memory_mb
ORDER BY l.account_id, l.platform
"""


class Limits:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def set(self, account_id: int, platform: Platform, *, vcpus: int, memory_mb: int, by: str, why: str) -> Limit:
        """Change a limit. Lowering it ends nothing: the account waits until it is below."""
        limit = await self._database.row(
            Limit,
            SET_LIMIT,
            {
                "account_id": account_id,
                "platform": platform,
                "vcpus": vcpus,
                "memory_mb": memory_mb,
                "by": by,
                "why": why,
                "now": self._clock.now(),
            },
        )
        assert limit is not None  # an upsert with RETURNING gives its row
        return limit

    async def usage(self, account_id: int | None = None) -> list[Usage]:
        """Every limit beside what is held under it, of one account or of all."""
        return await self._database.rows(Usage, USAGE, {"account_id": account_id})
