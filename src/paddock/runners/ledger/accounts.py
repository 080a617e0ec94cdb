"""Who may run jobs."""

from collections.abc import Sequence

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, fetch_one
from paddock.runners.ledger.group_commit import GroupCommit
from paddock.runners.ledger.limits import DEFAULTS
from paddock.runners.ledger.rows import Account

__all__ = ["Accounts"]

_MOST_AT_ONCE = 256

ENROL = """
-- enrol: the account and both of its limits in one statement, so that no account is ever without them;
-- limits that a person has set are left as they are. The list shows an account under the login that it has now.
WITH account AS (
    INSERT INTO accounts (account_id, login, installation_id, enrolled_at)
    VALUES (%(account_id)s, %(login)s, %(installation_id)s, %(now)s)
    ON CONFLICT (account_id) DO UPDATE SET login = excluded.login, installation_id = excluded.installation_id
    RETURNING *
), given AS (
    INSERT INTO limits (account_id, platform, vcpus, memory_mb, changed_at)
    SELECT account.account_id, d.platform, d.vcpus, d.memory_mb, %(now)s
    FROM account, unnest(%(platforms)s::text[], %(vcpus)s::integer[], %(memory)s::integer[]) AS d (platform, vcpus, memory_mb)
    ON CONFLICT DO NOTHING
), renamed AS (
    UPDATE allow_list SET name = account.login FROM account
    WHERE allow_list.account_id = account.account_id AND repository_id = 0 AND name <> account.login
)
SELECT account_id, login, installation_id, enrolled_at FROM account
"""
FREE_INSTALLATION = """
-- free_installation: of whoever else was given it
UPDATE accounts SET installation_id = NULL WHERE installation_id = %s AND account_id <> %s
"""
BY_ID = """
-- accounts_by_id
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE account_id = ANY (%s::bigint[])
"""
BY_INSTALLATION = """
-- accounts_by_installation
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE installation_id = ANY (%s::bigint[])
"""
BY_LOGIN = """
-- account_by_login: GitHub's logins do not differ by case alone
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE lower(login) = lower(%s)
ORDER BY account_id LIMIT 1
"""


class Accounts:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._by_id = GroupCommit(self._of_ids, most=_MOST_AT_ONCE)
        self._by_installation = GroupCommit(self._of_installations, most=_MOST_AT_ONCE)

    async def enrol(self, account_id: int, login: str, installation_id: int | None = None) -> Account:
        """Make the account known, or bring its names up to date. A new one starts with the default limits."""
        async with self._database.transaction() as connection:
            if installation_id is not None:
                # An installation is one account's. A row of another that has it was made by the login alone, once.
                await connection.execute(FREE_INSTALLATION, [installation_id, account_id])
            account = await fetch_one(
                connection,
                Account,
                ENROL,
                {
                    "account_id": account_id,
                    "login": login,
                    "installation_id": installation_id,
                    "now": self._clock.now(),
                    "platforms": list(DEFAULTS),
                    "vcpus": [vcpus for vcpus, _ in DEFAULTS.values()],
                    "memory": [memory_mb for _, memory_mb in DEFAULTS.values()],
                },
            )
        assert account is not None  # an upsert with RETURNING gives its row
        return account

    async def get(self, account_id: int) -> Account | None:
        return await self._by_id.ask(account_id)

    async def of_installation(self, installation_id: int) -> Account | None:
        """The account behind a GitHub App installation: the authoritative way to find it."""
        return await self._by_installation.ask(installation_id)

    async def of_login(self, login: str) -> Account | None:
        """An account that bore that login when it was last heard of: for people, and never to decide whose a job is."""
        return await self._database.row(Account, BY_LOGIN, [login])

    async def _of_ids(self, account_ids: Sequence[int]) -> list[Account | None]:
        rows = await self._database.rows(Account, BY_ID, [list(account_ids)])
        found = {account.account_id: account for account in rows}
        return [found.get(number) for number in account_ids]

    async def _of_installations(self, installation_ids: Sequence[int]) -> list[Account | None]:
        rows = await self._database.rows(Account, BY_INSTALLATION, [list(installation_ids)])
        found = {account.installation_id: account for account in rows}
        return [found.get(number) for number in installation_ids]
