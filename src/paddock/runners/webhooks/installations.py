"""Whose job it is, and what GitHub says of the App's installations: installed, suspended, permitted, given repositories.

Every word may be late, repeated or replayed. None of them ends what runs, moves a limit or lets anybody in.
"""

from collections.abc import Iterable
from typing import Final

from paddock.base.clock import Clock
from paddock.runners.ledger import Account, InvalidEntryError, Ledger
from paddock.runners.ledger.app_access import RepositoryName
from paddock.runners.webhooks import payload
from paddock.runners.webhooks.payload import (
    InstallationEvent,
    Installed,
    JobEvent,
    Owner,
    RenamedEvent,
    RepositoriesEvent,
    ShortRepository,
    storable,
)

__all__ = ["EVENTS", "NOTHING_DONE", "Tenants", "tell"]

EVENTS: Final = frozenset({"installation", "installation_repositories", "installation_target"})
NOTHING_DONE: Final = frozenset({"no_account", "unknown_installation", "unknown_action"})
_NOTED: Final = 30.0
"""Seconds for which an account's unchanged login and installation are not looked up again. Where another process took the
installation away meanwhile, on a word that was late, a job gives it back that much later."""
_MOST_NOTED: Final = 10_000
_AGAIN: Final = "somebody changed the App's access at GitHub: it is asked again"


async def tell(event: str, body: bytes, tenants: "Tenants") -> str:
    """What came of one of `EVENTS`, in a word. MalformedError; every LedgerError is the caller's. Repeatable."""
    action = payload.action_of(body)
    if event == "installation_target":
        return await tenants.renamed(payload.decode_renamed(body)) if action == "renamed" else "unknown_action"
    if event == "installation_repositories":
        if action not in payload.REPOSITORIES_ACTIONS:
            return "unknown_action"
        moved = payload.decode_repositories(body)
        return await (tenants.given(moved) if action == "added" else tenants.taken(moved))
    if action not in payload.INSTALLATION_ACTIONS:
        return "unknown_action"
    said = payload.decode_installation(body)
    if action == "new_permissions_accepted":
        return await tenants.permitted(said)
    return await (tenants.installed(said) if action in ("created", "unsuspend") else tenants.removed(said))


class Tenants:
    """Whose job it is: the account of the number that GitHub gives for the repository's owner, and no other.

    A login decides nothing. One that was given up and taken by somebody else brings nothing of the old owner's along, and an
    account that changed its login keeps its limits, its line on the list and its history; the new login is noted here.
    Enrolling is bookkeeping: whether its jobs may run is the allow list's to say.
    """

    def __init__(self, ledger: Ledger, clock: Clock, *, enrol: bool) -> None:
        self._accounts = ledger.accounts
        self._access = ledger.app_access
        self._enrol = enrol
        self._clock = clock
        self._noted: dict[int, tuple[str, int | None, float]] = {}
        """Login and installation of accounts, as they were said and are known to the ledger, and until when that counts."""

    async def known(self, event: JobEvent) -> Account | None:
        """The account, if it is enrolled. Changes nothing."""
        return await self._accounts.get(event.repository.owner.id)

    async def of(self, event: JobEvent) -> Account | None:
        """The account, enrolled now if it must be and may be; None where it may not. A newer installation is noted."""
        return await self._admit(event.repository.owner, event.installation_id)

    async def admits(self, event: JobEvent) -> bool:
        """Whether the account is enrolled, as by `of`; of whom the same was said a moment ago is not looked up again."""
        owner, installation_id, now = event.repository.owner, event.installation_id, self._clock.monotonic()
        login, installation, until = self._noted.get(owner.id, ("", None, 0.0))
        if (login, installation) == (owner.login, installation_id) and now < until:
            return True
        if await self._admit(owner, installation_id) is None:
            return False
        if len(self._noted) >= _MOST_NOTED:
            self._noted.clear()
        self._noted[owner.id] = (owner.login, installation_id, now + _NOTED)
        return True

    def forget(self, account_id: int) -> None:
        """Look the account up the next time: the ledger does not know it any more, as after a restore of the database."""
        self._noted.pop(account_id, None)

    async def installed(self, event: InstallationEvent) -> str:
        """The App was installed for an account, or may act there again: what waited for that goes at once."""
        account = await self._admit(event.installation.account, event.installation.id)
        if account is None:
            return "no_account"
        await self._access.restored(account.account_id, why=_AGAIN)
        return "enrolled"

    async def permitted(self, event: InstallationEvent) -> str:
        """Somebody accepted what the App asks for. It says nothing of who may run jobs, and enrols nobody."""
        account = await self._acted_for(event.installation)
        if account is None:
            return "unknown_installation"
        await self._access.restored(account.account_id, why=_AGAIN)
        return "permitted"

    async def given(self, event: RepositoriesEvent) -> str:
        """The App may act for these repositories, perhaps again: their jobs go at once. Enrols nobody.

        GitHub names none where all of the account's were chosen: then every rest ends.
        """
        account = await self._acted_for(event.installation)
        if account is None:
            return "unknown_installation"
        await self._access.restored(account.account_id, _named(event.repositories_added) or None, why=_AGAIN)
        return "repositories_added"

    async def taken(self, event: RepositoriesEvent) -> str:
        """The App may not act for these repositories: no runner can be made for their jobs, which rest and say so. What runs
        goes on.
        """
        account = await self._acted_for(event.installation)
        if account is None:
            return "unknown_installation"
        await self._access.withdrawn(account.account_id, _named(event.repositories_removed))
        return "repositories_removed"

    async def removed(self, event: InstallationEvent) -> str:
        """The App may not act for the account any more; its limits and history stay.

        A word about an installation that was replaced since changes nothing. Said late, after the App was allowed again,
        it costs until the next delivery about a job, which names the installation.
        """
        account = await self._accounts.of_installation(event.installation.id)
        if account is None:
            return "unknown_installation"
        await self._accounts.enrol(account.account_id, account.login, None)
        self.forget(account.account_id)
        return "removed"

    async def renamed(self, event: RenamedEvent) -> str:
        """The account has another login. It is noted at once, and not only with its next job; nobody is enrolled for it."""
        account = await self._accounts.get(event.account.id)
        if account is None:
            return "unknown_installation"
        await self._admit(event.account, event.installation.id)
        return "renamed"

    async def _acted_for(self, installation: Installed) -> Account | None:
        """The account of that installation; None for a stranger's, for one that was replaced since, and while it is suspended.

        It is known by the account's number. Where the installation was taken away here, it stays so until GitHub says
        otherwise: a late word about a repository does not bring it back.
        """
        account = await self._accounts.get(installation.account.id)
        if account is None or installation.suspended_at is not None:
            return None
        return None if (account.installation_id or 0) > installation.id else account

    async def _admit(self, owner: Owner, installation_id: int | None) -> Account | None:
        account = await self._accounts.get(owner.id)
        login = storable(owner.login)
        if account is None:
            return await self._enrolled(owner.id, login, installation_id) if self._enrol else None
        # Numbers of installations grow: a late word about an older one does not bring it back.
        newest = max(account.installation_id or 0, installation_id or 0) or None
        if newest != account.installation_id or login != account.login:
            return await self._enrolled(account.account_id, login, newest)
        return account

    async def _enrolled(self, account_id: int, login: str, installation_id: int | None) -> Account:
        try:
            return await self._accounts.enrol(account_id, login, installation_id)
        except InvalidEntryError:
            # Of several first words at once one writes the installation, and the others may stumble over it: by now the
            # account is to be found.
            account = await self._accounts.get(account_id)
            if account is None:
                raise
            return account


def _named(repositories: Iterable[ShortRepository]) -> list[RepositoryName]:
    return [RepositoryName(one.id, storable(one.full_name)) for one in repositories]
