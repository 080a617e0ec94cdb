"""How the newest jobs of each Mac ended: whether the Mac did its part, as far as the ends themselves tell."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, columns

__all__ = ["AT_ONCE", "EndOnMac", "MacEnds"]

AT_ONCE: Final = timedelta(minutes=2)
"""A job that fails so soon after its start failed at once."""
_LOOKED_BACK: Final = timedelta(hours=12)
"""Longer than any job that says something about its Mac now takes."""
_NEWEST: Final = 32


class EndOnMac(Struct, frozen=True):
    """One runner that ended. `succeeded` proves that its Mac reaches GitHub; what is neither proves nothing.

    `failed_at_once`: its job failed, or its Pod ended in it, within two minutes of the job's start. `never_began`: the runner never had
    a job, so that nobody's workflow is to blame: it ended by itself within two minutes, or healing proved that it hangs.
    """

    node: str
    account_id: int
    pod: str
    started_at: datetime
    at: datetime
    result: Literal["succeeded", "failed_at_once", "never_began", "other"]


ENDS = f"""
-- ends_on_macs: of each Node its newest runners; a job that another runner had says nothing about this one
WITH newest AS (
    SELECT n.name AS node, s.* FROM unnest(%(nodes)s::text[]) AS n (name)
    CROSS JOIN LATERAL (
        SELECT * FROM sessions one WHERE one.node_name = n.name AND one.started_at > %(since)s
        ORDER BY one.started_at DESC LIMIT %(newest)s) s
), judged AS (
    SELECT s.node, s.account_id, s.pod_name AS pod, s.started_at, least(s.ended_at, c.completed_at, hung.done_at) AS at,
           CASE WHEN c.conclusion = 'success' THEN 'succeeded'
                WHEN hung.done_at IS NOT NULL THEN 'never_began'
                WHEN c.conclusion IN ('failure', 'startup_failure')
                 AND least(s.ended_at, c.completed_at) - coalesce(s.job_started_at, s.started_at) <= %(at_once)s::interval
                    THEN 'failed_at_once'
                WHEN s.executed_job_id IS NULL AND s.ended_at - s.started_at <= %(at_once)s::interval
                 AND s.end_reason LIKE 'the Pod ended with exit code%%' AND s.end_reason NOT LIKE 'the Pod ended with exit code 0%%'
                 AND s.end_reason NOT LIKE 'the Pod ended with exit code 7 (%%'  -- too old for GitHub, on every Mac
                    THEN 'never_began'
                ELSE 'other' END AS result
    FROM newest s
    LEFT JOIN completions c ON c.job_id = coalesce(s.executed_job_id, s.job_id) AND c.runner_name = s.runner_name
    LEFT JOIN LATERAL (
        -- One whose job went elsewhere was unregistered by us, and may hang for that.
        SELECT min(h.done_at) FILTER (WHERE h.kind = 'hung_runner') AS done_at FROM heals h
        WHERE h.pod_uid = s.pod_uid AND h.pod_uid <> '' AND s.executed_job_id IS NULL
        HAVING NOT bool_or(h.kind = 'displaced_claim')) hung ON true
)
SELECT {columns(EndOnMac)} FROM judged WHERE at IS NOT NULL ORDER BY node, at DESC, pod
"""


class MacEnds:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def on(self, nodes: Sequence[str]) -> list[EndOnMac]:
        """How the newest runners of these Nodes ended, the newest of each Node first; those that have not ended are left out."""
        given = {
            "nodes": list(nodes),
            "since": self._clock.now() - _LOOKED_BACK,
            "newest": _NEWEST,
            "at_once": AT_ONCE,
        }
        return await self._database.rows(EndOnMac, ENDS, given) if nodes else []
