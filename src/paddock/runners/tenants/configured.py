"""The first accounts and repositories that may run jobs, named in the settings. Afterwards the list is the ledger's.

Each name is bound once to what it means at GitHub, and allowed if the list says nothing of it yet. So what a person denies
stays denied, a login that changes hands brings nothing along, and taking a name out of the settings changes nothing: that is
`paddock accounts deny`.

Dying after the binding: the next start finds it and allows it then. Dying after that: nothing is left to do.
"""

from collections.abc import Sequence
from typing import Final

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.clients.github import GitHub, GitHubError
from paddock.runners.ledger import Ledger, LedgerError
from paddock.runners.tenants.names import UnknownNameError, resolve

__all__ = ["ConfiguredAccounts"]

_EVERY: Final = 15.0
_WHY: Final = "the settings name it"
_log = get_logger("accounts")


class ConfiguredAccounts:
    """Any number of processes may run one with the same settings: whoever comes second finds nothing to do."""

    def __init__(self, ledger: Ledger, github: GitHub, names: Sequence[str], clock: Clock) -> None:
        self._ledger = ledger
        self._github = github
        self._names = tuple(dict.fromkeys(names))
        self._clock = clock
        self._told: dict[str, str] = {}
        self._open = set(self._names)

    async def run(self) -> None:
        """Until every name has its meaning; then there is nothing to do until cancelled."""
        while True:
            if self._open:
                await self.look()
            await self._clock.sleep(_EVERY)

    async def look(self) -> int:
        """Allow what is named and not decided yet; gives how many names still have no meaning."""
        for name in sorted(self._open):
            try:
                await self._allow(name)
                self._open.discard(name)
            except (UnknownNameError, GitHubError, LedgerError) as error:
                # Once a reason, and not every few seconds.
                if self._told.get(name) != str(error):
                    self._told[name] = str(error)
                    _log.warning("an account of the settings is not allowed yet", account=name, why=str(error))
        return len(self._open)

    async def _allow(self, name: str) -> None:
        bound = await self._ledger.allow_list.bound(name)
        shown = name
        if bound is None:
            named = await resolve(name, self._ledger, self._github)
            shown = named.name
            bound = await self._ledger.allow_list.bind(name, named.account_id, named.repository_id)
        if not await self._ledger.allow_list.standing(bound.account_id, bound.repository_id):
            await self._ledger.allow_list.allow(
                bound.account_id, shown, repository_id=bound.repository_id, by="settings", why=_WHY
            )
            _log.info("an account of the settings may run jobs", account=shown, account_id=bound.account_id)
