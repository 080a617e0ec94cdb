"""The way to the service of runner scale sets: three tokens between the App and a queue.

A registration token (REST, an hour), an admin token (a JWT of minutes, whose answer also says where the service is) and the
session's own. Each is fetched when it is needed, kept until shortly before its end, and fetched again once when GitHub
does not accept it. Only the first costs the installation's REST budget.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.base.tls import default_tls
from paddock.clients.github.connection import GitHubConnection
from paddock.clients.github.contract import Priority, RunnerPlace
from paddock.clients.github.errors import Forbidden, NotFound, OutOfReach, Unauthenticated, Unavailable
from paddock.clients.github.messages import Bearer, GitHubRequest
from paddock.clients.github.refusals import advice, server_time
from paddock.clients.github.scaleset_wire import (
    AdminConnection,
    RegistrationToken,
    decoded,
    expiry_of,
    scale_set_refusal,
)
from paddock.clients.github.settings import GitHubSettings

__all__ = ["ScaleSetConnection"]

_API = {"api-version": "6.0-preview"}
_MARGIN = 60.0
_REGISTRATION_KEPT = 3000.0
_FRESH = 60.0
_ADMIN_KEPT = 600.0  # where the token does not say when it ends


class _Admin(Struct, frozen=True):
    url: str
    token: Secret
    until: float


class ScaleSetConnection:
    """Sends, with the token that is due, and gives what came, or the refusal in our own words."""

    def __init__(
        self,
        settings: GitHubSettings,
        rest: GitHubConnection,
        clock: Clock,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = settings
        self._rest = rest
        self._clock = clock
        self._registrations: dict[RunnerPlace, tuple[Secret, float]] = {}
        self._admins: dict[RunnerPlace, _Admin] = {}
        self._turns: dict[RunnerPlace, asyncio.Lock] = {}
        self._http = httpx2.AsyncClient(
            verify=default_tls() if transport is None else False,
            transport=transport,
            timeout=httpx2.Timeout(settings.request_timeout, connect=settings.connect_timeout, read=None),
            headers={"User-Agent": "paddock"},
            # Each set holds one connection for its poll, for as long as it is listened to.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=50),
            trust_env=not settings.is_loopback,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        place: RunnerPlace,
        method: str,
        path: str,
        shape: type[Any],
        *,
        params: dict[str, str] | None = None,
        body: Any = None,
        token: Secret | None = None,
        hidden: str = "",
    ) -> Any:
        """One call, and its answer in that shape."""
        response = await self.call(place, method, path, params, body, token, hidden=hidden)
        where = _shown(method, path, hidden)
        return decoded(where, response.status_code, response.content, shape, mutation=method != "GET")

    async def delete(self, place: RunnerPlace, path: str, *, hidden: str = "") -> None:
        """Nothing happens where it is gone already."""
        try:
            await self.call(place, "DELETE", path, None, None, None, hidden=hidden)
        except NotFound:
            return

    async def call(
        self,
        place: RunnerPlace,
        method: str,
        path: str,
        params: dict[str, str] | None,
        body: Any,
        token: Secret | None,
        *,
        hidden: str = "",
    ) -> httpx2.Response:
        """One call, once more with a new admin connection where the one at hand is not accepted: a 401 had no effect.

        `hidden` is a part of the path that no error may show: a session's id is all that it takes to end the session.
        """
        where = _shown(method, path, hidden)
        for attempt in (1, 2):
            admin = await self._connected(place)
            url = f"{admin.url}/{path}"
            timeout = self._settings.request_timeout
            response = await self.send(
                method, url, token or admin.token, where, timeout, {**_API, **(params or {})}, body=body
            )
            if response.status_code == 401 and token is None and attempt == 1:
                self._admins.pop(place, None)
                continue
            self.judge(where, response, mutation=method != "GET", hidden=hidden)
            return response
        raise AssertionError("the second attempt returns or raises")

    async def _connected(self, place: RunnerPlace) -> _Admin:
        held = self._admins.get(place)
        if held is not None and held.until > self._clock.monotonic():
            return held
        async with self._turns.setdefault(place, asyncio.Lock()):
            held = self._admins.get(place)
            if held is None or held.until <= self._clock.monotonic():
                try:
                    held = self._admins[place] = await self._connect(place)
                except NotFound as error:
                    raise OutOfReach(error.message, status=error.status) from None
            return held

    async def _connect(self, place: RunnerPlace) -> _Admin:
        where = "POST /actions/runner-registration"
        body = {"url": _web_url(self._settings.api_url, place), "runner_event": "register"}
        url = f"{self._settings.api_url}/actions/runner-registration"
        registration = await self._registration(place)
        timeout = self._settings.request_timeout
        response = await self.send("POST", url, registration, where, timeout, {}, body=body, scheme="RemoteAuth")
        try:
            self.judge(where, response, mutation=False)
        except (Unauthenticated, Forbidden) as error:
            # A fresh token may be refused for a moment, and a new one would be fresh again; an older one was withdrawn.
            if self._clock.monotonic() >= self._registrations[place][1] - _REGISTRATION_KEPT + _FRESH:
                del self._registrations[place]
            raise Unavailable(f"{error.message}; it is asked again", status=error.status) from None
        found = decoded(where, response.status_code, response.content, AdminConnection, mutation=False)
        self.trusted(found.url, where)
        now = server_time(response.headers, self._clock.now()).timestamp()
        ends = expiry_of(found.token)
        lifetime = _ADMIN_KEPT if ends is None else ends - now
        usable = max(lifetime - _MARGIN, lifetime / 2)
        return _Admin(found.url.rstrip("/"), found.token, self._clock.monotonic() + usable)

    async def _registration(self, place: RunnerPlace) -> Secret:
        token, until = self._registrations.get(place, (None, 0.0))
        if token is not None and until > self._clock.monotonic():
            return token
        call = GitHubRequest(
            installation_id=place.installation_id,
            priority=Priority.MINT,  # without it no job is heard of and no runner is minted
            method="POST",
            path=f"/{place.path}/actions/runners/registration-token",
            body={},
            harmless=True,
        )
        answer = await self._rest.mutate(call, self._rest.deadline())
        token = answer.shaped(RegistrationToken).token
        self._registrations[place] = (token, self._clock.monotonic() + _REGISTRATION_KEPT)
        return token

    def trusted(self, url: str, where: str) -> None:
        """The service is where GitHub says, but never over plain HTTP, unless all of GitHub is on this machine."""
        parts = urlsplit(url)
        if not parts.hostname or (parts.scheme != "https" and not self._settings.is_loopback):
            raise Unavailable(f"{where}: GitHub names no address that can be used")

    async def send(
        self,
        method: str,
        url: str,
        token: Secret,
        where: str,
        timeout: float,
        params: dict[str, str],
        *,
        body: Any = None,
        headers: dict[str, str] | None = None,
        scheme: str = "Bearer",
    ) -> httpx2.Response:
        """One request, whatever it is answered; Unavailable where there is no answer."""
        mutation = method != "GET"
        target = httpx2.URL(url)
        if params:
            target = target.copy_merge_params(params)
        sent = {"Accept": "application/json", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(timeout):
                return await self._http.request(
                    method,
                    target,
                    content=None if body is None else msgspec.json.encode(body),
                    headers=sent,
                    auth=Bearer(token, scheme),
                )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise Unavailable(f"{where}: {type(error).__name__}") from None
        except httpx2.RequestError as error:
            # Not the error's own text: it may show the queue's address, which is as good as a token.
            raise Unavailable(f"{where}: {type(error).__name__}", effect_unknown=mutation) from None
        except TimeoutError:
            raise Unavailable(f"{where}: no answer within {timeout:.0f} s", effect_unknown=mutation) from None

    def judge(self, where: str, response: httpx2.Response, *, mutation: bool, hidden: str = "") -> None:
        """A GitHubError for every answer that is no success."""
        if response.is_success:
            return
        wait, status = advice(response.headers, self._clock.now()), response.status_code
        raise scale_set_refusal(where, status, response.content, retry_after=wait, mutation=mutation, hidden=hidden)


def _web_url(api_url: str, place: RunnerPlace) -> str:
    """The address of the organisation or repository for people, which is how the service is told of it."""
    parts = urlsplit(api_url)
    host = parts.netloc
    if host.startswith("api."):
        host = host.removeprefix("api.")
    path = f"{place.owner}/{place.repository}" if place.repository else place.owner
    return f"{parts.scheme}://{host}/{path}"


def _shown(method: str, path: str, hidden: str) -> str:
    return f"{method} {path.replace(hidden, '***') if hidden else path}"
