"""Who we are to GitHub: the App itself by a short-lived JWT, an installation by a token that lasts an hour."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from email.utils import parsedate_to_datetime

import jwt
from msgspec import Struct

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.secrets import Secret
from paddock.clients.github.settings import GitHubSettings, signing_key

__all__ = ["APP", "AppAuth", "GrantedToken"]

APP = 0
"""The number under which the App itself goes, where an installation's is expected."""

_LIFE = timedelta(minutes=10)  # the most that GitHub accepts
_BACKDATED = timedelta(minutes=1)  # so that a clock of ours that is ahead does not make a JWT from the future
_REUSED_FOR = 300.0
_MARGIN = 300.0  # a token is replaced this long before its end: no call that is under way outlives it
_OUTDATED_AFTER = 60.0
_CLOCKS_AGREE = timedelta(seconds=30)  # the header counts whole seconds, and its way takes some
_log = get_logger("github")


class GrantedToken(Struct, frozen=True):
    """An installation token, and for how many seconds from now GitHub will accept it."""

    token: Secret
    lifetime: float


class _Held(Struct, frozen=True):
    token: Secret
    since: float
    until: float


class AppAuth:
    """Credentials, each fetched at most once at a time, and kept until shortly before they end.

    `grant` asks GitHub for an installation's token. Callers that want the same one wait for the same request, and share
    its failure; a caller that is cancelled takes nothing from the others.
    """

    def __init__(self, settings: GitHubSettings, clock: Clock, grant: Callable[[int], Awaitable[GrantedToken]]) -> None:
        self._app_id = settings.app_id
        self._key = signing_key(settings.private_key, checked=True)  # by the settings
        self._clock = clock
        self._grant = grant
        self._held: dict[int, _Held] = {}
        self._asked: dict[int, asyncio.Task[Secret]] = {}
        self._ahead = timedelta()

    async def credential(self, installation_id: int) -> Secret:
        """What to authorise a call with: the App's JWT for `APP`, else the installation's token."""
        held = self._held.get(installation_id)
        if held is not None and held.until > self._clock.monotonic():
            return held.token
        if installation_id == APP:
            return self._signed()
        task = self._asked.get(installation_id)
        if task is None:
            task = asyncio.create_task(self._ask(installation_id))
            self._asked[installation_id] = task
            task.add_done_callback(lambda done: self._answered(installation_id, done))
        return await asyncio.shield(task)

    def refused(self, installation_id: int, credential: Secret) -> None:
        """GitHub answered 401 to it: the next call gets another. One that was replaced meanwhile stays."""
        held = self._held.get(installation_id)
        if held is not None and held.token == credential:
            del self._held[installation_id]

    def outdated(self, installation_id: int, credential: Secret) -> None:
        """GitHub answered 403: a token keeps the permissions of its birth, so that one of some age is replaced."""
        held = self._held.get(installation_id)
        if held is not None and self._clock.monotonic() - held.since > _OUTDATED_AFTER:
            self.refused(installation_id, credential)

    async def aclose(self) -> None:
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def refused_at(self, date: str | None) -> None:
        """GitHub answered 401 to the App itself, at this moment by its own clock: where ours is off, its clock counts.

        A machine whose clock is a minute ahead signs from the future, and would be refused until somebody sets the clock.
        """
        if date is None:
            return
        try:
            said = parsedate_to_datetime(date)
        except ValueError:
            return
        ahead = self._clock.now() - said
        off = timedelta() if abs(ahead) < _CLOCKS_AGREE else ahead
        if off and not self._ahead:
            _log.warning(
                "this machine's clock is off: JWTs are signed by GitHub's; set the clock",
                seconds_ahead=round(off.total_seconds()),
            )
        self._ahead = off

    def _signed(self) -> Secret:
        born = self._clock.now() - self._ahead - _BACKDATED
        claims = {"iat": int(born.timestamp()), "exp": int((born + _LIFE).timestamp()), "iss": self._app_id}
        token = Secret(jwt.encode(claims, self._key, algorithm="RS256"))
        now = self._clock.monotonic()
        self._held[APP] = _Held(token, since=now, until=now + _REUSED_FOR)
        return token

    async def _ask(self, installation_id: int) -> Secret:
        granted = await self._grant(installation_id)
        now = self._clock.monotonic()
        # A token that lives no longer than the margin is still of some use.
        usable = max(granted.lifetime - _MARGIN, granted.lifetime / 2)
        self._held[installation_id] = _Held(granted.token, since=now, until=now + usable)
        return granted.token

    def _answered(self, installation_id: int, task: asyncio.Task[Secret]) -> None:
        if self._asked.get(installation_id) is task:
            del self._asked[installation_id]
        if not task.cancelled():
            task.exception()  # looked at, for the case that everyone who waited for it is gone
