"""Limits that the settings name: kept in the ledger for as long as the process runs, for accounts as they appear.

The ledger has the limits that count; these are what its rows are brought back to. An account that is not named keeps what it
has, which is the default it was enrolled with.
"""

import re
from collections.abc import Sequence
from typing import Final, get_args

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.api import Platform
from paddock.runners.api.settings import ConfiguredLimit
from paddock.runners.ledger import Ledger, LedgerError

__all__ = ["ConfiguredLimits", "limit_of"]

_EVERY: Final = 15.0
_FORM: Final = re.compile(r"(?P<login>[A-Za-z0-9][A-Za-z0-9-]*)/(?P<platform>[a-z]+)=(?P<vcpus>\d+),(?P<memory_mb>\d+)")
_log = get_logger("limits")


def limit_of(text: str) -> ConfiguredLimit:
    """`acme/macos=12,28672` as a value; ValueError says what is wrong with it."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a limit such as acme/macos=12,28672 (account/platform=vCPUs,memory in MB)")
    if found["platform"] not in get_args(Platform):
        raise ValueError(
            f"{text!r}: the platform is {found['platform']}, and must be one of {', '.join(get_args(Platform))}"
        )
    vcpus, memory_mb = int(found["vcpus"]), int(found["memory_mb"])
    if vcpus < 1 or memory_mb < 1:
        raise ValueError(
            f"{text!r}: a limit of nothing would hold every job back; take the App off the account instead"
        )
    return ConfiguredLimit(found["login"], "macos" if found["platform"] == "macos" else "linux", vcpus, memory_mb)


class ConfiguredLimits:
    """Any number of processes may run one with the same settings: whoever comes second finds nothing to do."""

    def __init__(self, ledger: Ledger, limits: Sequence[ConfiguredLimit], clock: Clock) -> None:
        self._ledger = ledger
        self._limits = tuple(limits)
        self._clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.keep()
            except LedgerError as error:
                _log.warning("limits could not be looked at", error=str(error))
            await self._clock.sleep(_EVERY)

    async def keep(self) -> int:
        """Bring the ledger's limits to what the settings say; gives how many had to be changed."""
        changed = 0
        for wanted in self._limits:
            account_id = await self._account_of(wanted.login)
            if account_id is None:
                continue  # not heard of yet: its first job enrols it
            held = {usage.platform: usage for usage in await self._ledger.limits.usage(account_id)}
            now = held.get(wanted.platform)
            if now is not None and (now.vcpus, now.memory_mb) == (wanted.vcpus, wanted.memory_mb):
                continue
            await self._ledger.limits.set(
                account_id,
                wanted.platform,
                vcpus=wanted.vcpus,
                memory_mb=wanted.memory_mb,
                by="settings",
                why="the settings name this limit",
            )
            changed += 1
        return changed

    async def _account_of(self, login: str) -> int | None:
        """The account that the login was first found to mean: whoever takes the login later inherits no limit, and an
        account that changes its login keeps it.
        """
        names = self._ledger.allow_list
        bound = await names.bound(login) or await names.bound(f"limit {login}")
        if bound is None:
            account = await self._ledger.accounts.of_login(login)
            if account is None:
                return None
            # Under a name of its own: what the ledger last heard is good enough for a limit, and not for being allowed.
            bound = await names.bind(f"limit {login}", account.account_id)
        return bound.account_id
