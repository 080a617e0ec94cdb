"""Where our runners are registered at GitHub, and by which names they are ours.

GitHub lists a runner at the place where it was minted and nowhere else, so that place is kept with the session. A name tells
our runners from those of others only by this installation's mark, six hex digits that are drawn once and kept here; a name
without it is ours only if a session or a claim knows it.
"""

import random
import re
from datetime import datetime
from typing import Final

from msgspec import Struct

from paddock.runners.ledger.database import Database

__all__ = ["Registration", "Registrations", "is_marked", "runner_name"]

_LONGEST_NAME: Final = 64
"""GitHub refuses longer ones (422)."""

OF_RUNNER = """
-- registration_of_runner: by its session, or, where none is known, by the account alone
SELECT a.account_id, a.login, a.installation_id, %(name)s AS runner_name,
       coalesce(nullif(s.repository, ''), %(repository)s) AS repository, s.place
FROM accounts a LEFT JOIN sessions s ON s.account_id = a.account_id AND s.runner_name = %(name)s
WHERE a.account_id = %(account_id)s AND a.installation_id IS NOT NULL
"""
OTHERS_AT_WORK = """
-- others_at_work: whether another runner is known to execute a job that this place must list, or may
SELECT EXISTS (
    SELECT FROM claims c LEFT JOIN sessions s ON s.pod_uid = c.pod_uid
    WHERE c.account_id = %(account_id)s AND c.executing_since IS NOT NULL AND c.runner_name IS DISTINCT FROM %(runner_name)s
      AND (s.place IS NULL OR %(place)s::text IS NULL OR s.place = %(place)s)
)
"""
SINCE = """
-- registrations_since: one for each place and repository where a runner was minted since then, or may have been
SELECT DISTINCT a.account_id, a.login, a.installation_id, '' AS runner_name, seen.repository, seen.place FROM (
    SELECT account_id, repository, place FROM sessions WHERE started_at > %(since)s
    UNION SELECT account_id, repository, NULL FROM jobs WHERE status IN ('queued', 'waiting', 'unserved', 'running')
) seen JOIN accounts a USING (account_id)
WHERE a.installation_id IS NOT NULL AND seen.repository LIKE '%%/%%' AND seen.repository NOT LIKE '%%/(unknown)'
ORDER BY a.installation_id, seen.repository, seen.place
"""
DRAW_MARK = """
-- draw_mark: the first that is drawn stays
INSERT INTO runner_mark (mark) VALUES (%s) ON CONFLICT DO NOTHING
"""
MARK = """
-- runner_mark
SELECT mark FROM runner_mark
"""


class Registration(Struct, frozen=True, kw_only=True):
    """A runner as GitHub must be asked about it. `place` is None where it was not kept: then it may be at the organisation
    or at the repository.
    """

    account_id: int
    login: str
    installation_id: int
    runner_name: str
    repository: str
    place: str | None


class Registrations:
    def __init__(self, database: Database, rng: random.Random) -> None:
        self._database = database
        self._rng = rng
        self._mark = ""

    async def of_runner(self, account_id: int, runner_name: str, repository: str) -> Registration | None:
        """Where this runner is registered; `repository` counts where no session knows it. None: nobody to ask GitHub as."""
        given = {"account_id": account_id, "name": runner_name, "repository": repository}
        return await self._database.row(Registration, OF_RUNNER, given)

    async def others_at_work(self, registration: Registration) -> bool:
        """Whether the ledger knows of another runner at a job that the list of the same place must show."""
        given = {
            "account_id": registration.account_id,
            "runner_name": registration.runner_name,
            "place": registration.place,
        }
        return await self._database.value(OTHERS_AT_WORK, given)

    async def since(self, moment: datetime) -> list[Registration]:
        """Where runners were minted since then, and where they may have been for jobs that wait or run. Without names."""
        return await self._database.rows(Registration, SINCE, {"since": moment})

    async def mark(self) -> str:
        """This installation's mark, drawn by whoever asks first."""
        if not self._mark:
            found = await self._database.value(MARK)
            if found is None:
                await self._database.run(DRAW_MARK, [f"{self._rng.getrandbits(24):06x}"])
                found = await self._database.value(MARK)
            self._mark = found
        return self._mark


def runner_name(pod_name: str, mark: str, rng: random.Random) -> str:
    """The Pod's name, shortened, the installation's mark, and eight hex digits that are new for every mint.

    GitHub reserves a name when it mints, also if the answer was lost; a second mint under it would fail for good. So a name is
    drawn for each mint and never kept for another try.
    """
    suffix = f"-{mark}-{rng.getrandbits(32):08x}"
    return pod_name[: _LONGEST_NAME - len(suffix)].rstrip("-.") + suffix


def is_marked(name: str, mark: str) -> bool:
    """Whether a runner's name is one that this installation gives."""
    return re.search(f"-{mark}-[0-9a-f]{{8}}$", name) is not None
