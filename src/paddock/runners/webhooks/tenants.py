"""Whose job it is: the account behind a delivery.

The installation is authoritative. The owner's login is the fallback, for accounts that were enrolled by name and for
installations that were made anew; a login that changed hands does not bring the old owner's account along, because an
account that has an installation and another id than the owner's is somebody else.
"""

from paddock.runners.ledger import Account, InvalidEntryError, Ledger
from paddock.runners.webhooks.payload import InstallationEvent, JobEvent, Owner, storable

__all__ = ["Tenants"]


class Tenants:
    def __init__(self, ledger: Ledger, *, enrol: bool) -> None:
        self._accounts = ledger.accounts
        self._enrol = enrol

    async def known(self, event: JobEvent) -> Account | None:
        """The account, if it is enrolled. Changes nothing."""
        return await self._find(event.repository.owner, event.installation_id)

    async def of(self, event: JobEvent) -> Account | None:
        """The account, enrolled now if it must be and may be; None where it may not. A newer installation is noted."""
        return await self._admit(event.repository.owner, event.installation_id)

    async def installed(self, event: InstallationEvent) -> str:
        """The App was installed for an account, or may act there again."""
        account = await self._admit(event.installation.account, event.installation.id)
        return "no_account" if account is None else "enrolled"

    async def removed(self, event: InstallationEvent) -> str:
        """The App may not act for the account any more; its limits and history stay.

        A word about an installation that was replaced since changes nothing. Said late, after the App was allowed again,
        it costs until the next delivery about a job, which names the installation.
        """
        account = await self._accounts.of_installation(event.installation.id)
        if account is None:
            return "unknown_installation"
        await self._accounts.enrol(account.account_id, account.login, None)
        return "removed"

    async def _find(self, owner: Owner, installation_id: int | None) -> Account | None:
        if installation_id is not None:
            account = await self._accounts.of_installation(installation_id)
            if account is not None:
                return account
        account = await self._accounts.of_login(storable(owner.login))
        if account is None or account.account_id == owner.id:
            return account
        return account if account.installation_id is None or installation_id is None else None

    async def _admit(self, owner: Owner, installation_id: int | None) -> Account | None:
        account = await self._find(owner, installation_id)
        if account is None:
            if not self._enrol:
                return None
            return await self._enrolled(owner.id, storable(owner.login), owner, installation_id)
        # Numbers of installations grow: a late word about an older one does not bring it back.
        if installation_id is not None and (account.installation_id or 0) < installation_id:
            return await self._enrolled(account.account_id, account.login, owner, installation_id)
        return account

    async def _enrolled(self, account_id: int, login: str, owner: Owner, installation_id: int | None) -> Account:
        try:
            return await self._accounts.enrol(account_id, login, installation_id)
        except InvalidEntryError:
            # Of several first words at once one writes the installation, and the others may stumble over it: by now the
            # account is to be found.
            account = await self._find(owner, installation_id)
            if account is None:
                raise
            return account
