"""Who may run jobs."""

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database
from paddock.runners.ledger.limits import DEFAULTS
from paddock.runners.ledger.rows import Account

__all__ = ["Accounts"]

ENROL = """
-- enrol: the account and both of its limits in one statement, so that no account is ever without them;
-- limits that somebody has set are left as they are.
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
)
SELECT account_id, login, installation_id, enrolled_at FROM account
"""
BY_ID = """
-- account_by_id
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE account_id = %s
"""
BY_INSTALLATION = """
-- account_by_installation
SELECT account_id, login, installation_id, enrolled_at FROM accounts WHERE installation_id = %s
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

    async def enrol(self, account_id: int, login: str, installation_id: int | None = None) -> Account:
        """Make the account known, or bring its names up to date. A new one starts with the default limits."""
        account = await self._database.row(
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
        return await self._database.row(Account, BY_ID, [account_id])

    async def of_installation(self, installation_id: int) -> Account | None:
        """The account behind a GitHub App installation: the authoritative way to find it."""
        return await self._database.row(Account, BY_INSTALLATION, [installation_id])

    async def of_login(self, login: str) -> Account | None:
        """The account of that name, for deliveries of installations that are not enrolled."""
        return await self._database.row(Account, BY_LOGIN, [login])
