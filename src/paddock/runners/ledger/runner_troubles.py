"""What goes wrong with runners again and again: each case is healed by itself, and many of them have a cause that is not.

One runner that hangs is put right and forgotten. Several in a quarter of an hour, and more than a tenth of all, are an image,
a network or a GitHub that does not let them work: somebody has to know. Read only, and cut off after three seconds.
"""

from datetime import datetime, timedelta

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, fetch_all
from paddock.runners.ledger.views import RunnerTrouble

__all__ = ["RunnerTroubles"]

_WINDOW = timedelta(minutes=15)
_STILL = timedelta(minutes=10)
_HEARD = timedelta(minutes=5)
_TOLD = timedelta(minutes=1)
"""GitHub's word that a job is over may come so long after its Pod has ended."""
_LONGEST_JOB = timedelta(hours=12)
"""Sessions that began before are not looked through: their index is by age."""
_USED = timedelta(days=1)
_FEW = 3
_SHARE = 10

TROUBLES = """
-- runner_troubles: by the heals of the last minutes, by Pods that ended before their jobs, by marks that stand still
WITH young AS (
    SELECT * FROM sessions WHERE started_at > %(longest)s
), cases AS (
    SELECT kind, subject AS pod, at, '' AS said FROM heals
    WHERE at > %(since)s AND kind IN ('hung_runner', 'finished_job_pod') AND done_at IS NOT NULL
    UNION ALL
    SELECT 'died_in_job', pod_name, ended_at, coalesce(end_reason, '') FROM young
    WHERE ended_at > %(since)s AND executed_job_id IS NOT NULL AND end_reason LIKE 'the Pod ended with exit code%%'
      AND end_reason NOT LIKE 'the Pod ended with exit code 0%%'
      AND CASE WHEN job_ended_at IS NULL THEN ended_at < %(told)s ELSE job_ended_at > ended_at END
    UNION ALL
    SELECT 'runner_too_old', pod_name, ended_at, '' FROM young
    WHERE ended_at > %(since)s AND executed_job_id IS NULL AND end_reason LIKE 'the Pod ended with exit code 7 (%%'
    UNION ALL
    SELECT 'still_in_job', s.pod_name, p.changed_at, '' FROM progress p JOIN sessions s USING (pod_uid)
    WHERE p.seen_at > %(heard)s AND p.changed_at < %(still)s AND p.mark LIKE '%% running'
      AND s.ended_at IS NULL AND s.executed_job_id IS NOT NULL
)
SELECT kind, count(DISTINCT pod)::integer AS pods, (array_agg(pod ORDER BY at DESC))[1] AS pod, min(at) AS since,
       (array_agg(split_part(said, E'\\n', 1) ORDER BY at DESC))[1] AS said,
       (SELECT count(*) FROM young WHERE started_at > %(since)s OR ended_at IS NULL)::integer AS handed
FROM cases GROUP BY kind ORDER BY kind
"""
NOT_INSTALLED = """
-- not_installed: accounts that GitHub has taken away from us, and that used us a little while ago
SELECT a.login FROM accounts a WHERE a.installation_id IS NULL
  AND EXISTS (SELECT FROM sessions s WHERE s.account_id = a.account_id AND s.started_at > %s) ORDER BY a.login LIMIT 20
"""


class RunnerTroubles:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def now(self) -> list[RunnerTrouble]:
        """The kinds of which there are several, and not a few among many."""
        now = self._clock.now()
        moments: dict[str, datetime] = {
            "since": now - _WINDOW,
            "still": now - _STILL,
            "heard": now - _HEARD,
            "told": now - _TOLD,
            "longest": now - _LONGEST_JOB,
        }
        async with self._database.looking() as connection:
            found = await fetch_all(connection, RunnerTrouble, TROUBLES, moments)
        return [one for one in found if one.pods >= _FEW and one.pods * _SHARE >= one.handed]

    async def not_installed(self) -> list[str]:
        """Logins of accounts whose jobs are not heard of any more: suspended, or the App was taken away from them."""
        async with self._database.connection() as connection:
            rows = await (await connection.execute(NOT_INSTALLED, [self._clock.now() - _USED])).fetchall()
        return [login for (login,) in rows]
