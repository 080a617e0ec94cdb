"""Runner scale sets over HTTP: registration, admin connection, queue.

Three tokens stand between the App and a queue: a registration token (REST, an hour), an admin token (a JWT of minutes, whose
answer also says where the service is) and the session's own. Each is fetched when it is needed, kept until shortly before its
end, and fetched again once when GitHub does not accept it. Only the first costs the installation's REST budget.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.base.tls import default_tls
from paddock.clients.github.connection import GitHubConnection
from paddock.clients.github.contract import MintedRunner, Priority, RunnerPlace
from paddock.clients.github.errors import Forbidden, GitHubError, NotFound, Unauthenticated, Unavailable
from paddock.clients.github.messages import Bearer, GitHubRequest
from paddock.clients.github.refusals import advice, server_time
from paddock.clients.github.scaleset import QueueMessage, QueueSession, ScaleSet
from paddock.clients.github.scaleset_wire import (
    AcquiredJobs,
    AdminConnection,
    GroupList,
    MintedAnswer,
    RegistrationToken,
    WireScaleSet,
    WireScaleSets,
    WireSession,
    decoded,
    expiry_of,
    message_of,
    scale_set_of,
    scale_set_refusal,
    session_of,
)
from paddock.clients.github.settings import GitHubSettings

__all__ = ["LONGEST_POLL", "ScaleSetClient", "web_url"]

LONGEST_POLL = 55.0
"""GitHub answers a poll within fifty seconds; one that takes longer is lost."""

_API = {"api-version": "6.0-preview"}
_SETS = "_apis/runtime/runnerscalesets"
_MARGIN = 60.0
_REGISTRATION_KEPT = 3000.0
_FRESH = 60.0
_ADMIN_KEPT = 600.0  # where the token does not say when it ends
_LONGEST_NAME = 64


class _Admin(Struct, frozen=True):
    url: str
    token: Secret
    until: float


class ScaleSetClient:
    """Keeps the contract of `ScaleSets`. It belongs to a `GitHubClient`, which closes it."""

    def __init__(
        self,
        settings: GitHubSettings,
        connection: GitHubConnection,
        clock: Clock,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = settings
        self._connection = connection
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

    # Sets

    async def group(self, place: RunnerPlace, name: str) -> int | None:
        path = "_apis/runtime/runnergroups/"
        groups = await self._ask(place, "GET", path, GroupList, params={"groupName": name})
        return next((group.id for group in groups.value if group.name.lower() == name.lower()), None)

    async def find(self, place: RunnerPlace, group_id: int, name: str) -> ScaleSet | None:
        params = {"runnerGroupId": str(group_id), "name": name}
        found = (await self._ask(place, "GET", _SETS, WireScaleSets, params=params)).value
        return next((scale_set_of(wire) for wire in found if wire.name.lower() == name.lower()), None)

    async def get(self, place: RunnerPlace, scale_set_id: int) -> ScaleSet:
        return scale_set_of(await self._ask(place, "GET", f"{_SETS}/{scale_set_id}", WireScaleSet))

    async def create(self, place: RunnerPlace, *, name: str, group_id: int, labels: Sequence[str]) -> ScaleSet:
        body = {
            "name": name,
            "runnerGroupId": group_id,
            "labels": _labels(labels),
            "RunnerSetting": {"disableUpdate": True},
        }
        return scale_set_of(await self._ask(place, "POST", _SETS, WireScaleSet, body=body))

    async def update(
        self,
        place: RunnerPlace,
        scale_set_id: int,
        *,
        group_id: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        # What is not named stays as it is. What a change of labels does is not documented: the caller reads the set again.
        body: dict[str, Any] = {} if group_id is None else {"runnerGroupId": group_id}
        if labels is not None:
            body["labels"] = _labels(labels)
        await self._admin(place, "PATCH", f"{_SETS}/{scale_set_id}", None, body, None)

    async def delete(self, place: RunnerPlace, scale_set_id: int) -> None:
        await self._end(place, f"{_SETS}/{scale_set_id}")

    # Sessions

    async def open_session(self, place: RunnerPlace, scale_set_id: int, owner: str) -> QueueSession:
        path = f"{_SETS}/{scale_set_id}/sessions"
        wire = await self._ask(place, "POST", path, WireSession, body={"ownerName": owner})
        try:
            return self._usable(wire, f"POST {path}")
        except Unavailable:
            # It stands, only we know its id, and GitHub refuses the next one for as long as it stands.
            with suppress(GitHubError):
                await self.close_session(place, scale_set_id, wire.session_id)
            raise

    async def renew_session(self, place: RunnerPlace, scale_set_id: int, session_id: str) -> QueueSession:
        path = f"{_SETS}/{scale_set_id}/sessions/{session_id}"
        wire = await self._ask(place, "PATCH", path, WireSession, hidden=session_id)
        return self._usable(wire, f"PATCH {_SETS}/{scale_set_id}/sessions/***")

    async def close_session(self, place: RunnerPlace, scale_set_id: int, session_id: str) -> None:
        # That a session may be closed by another process than the one that opened it is not documented: where it may
        # not, GitHub gives the session up by itself after a while.
        await self._end(place, f"{_SETS}/{scale_set_id}/sessions/{session_id}", hidden=session_id)

    def _usable(self, wire: WireSession, where: str) -> QueueSession:
        session = session_of(wire)
        if session is None:
            raise Unavailable(f"{where}: GitHub gave a session without a queue", effect_unknown=True)
        self._trusted(session.url, where)
        return session

    # The queue

    async def poll(self, session: QueueSession, *, after: int, capacity: int) -> QueueMessage | None:
        headers = {"X-ScaleSetMaxCapacity": str(capacity), "Accept": "application/json; api-version=6.0-preview"}
        params = {"lastMessageId": str(after)} if after > 0 else {}
        where = "GET message queue"
        response = await self._send("GET", session.url, session.token, where, LONGEST_POLL, params, headers=headers)
        if response.status_code == 202 or (response.is_success and not response.content.strip()):
            return None
        self._judge(where, response, mutation=False, hidden=session.session_id)
        return message_of(where, response.status_code, response.content, session.statistics)

    async def acknowledge(self, session: QueueSession, message_id: int) -> None:
        where = "DELETE message"
        url = httpx2.URL(session.url)
        url = url.copy_with(path=f"{url.path.rstrip('/')}/{message_id}")
        response = await self._send("DELETE", str(url), session.token, where, self._settings.request_timeout, {})
        if response.status_code not in (404, 410):
            self._judge(where, response, mutation=True, hidden=session.session_id)

    async def acquire(
        self, place: RunnerPlace, scale_set_id: int, session: QueueSession, request_ids: Sequence[int]
    ) -> tuple[int, ...]:
        path = f"{_SETS}/{scale_set_id}/acquirejobs"
        won = await self._ask(place, "POST", path, AcquiredJobs, body=list(request_ids), token=session.token)
        return tuple(won.value)

    # Runners

    async def mint(self, place: RunnerPlace, scale_set_id: int, *, name: str, work_folder: str) -> MintedRunner:
        assert 0 < len(name) <= _LONGEST_NAME  # the caller draws it to measure
        path = f"{_SETS}/{scale_set_id}/generatejitconfig"
        minted = await self._ask(place, "POST", path, MintedAnswer, body={"name": name, "workFolder": work_folder})
        return MintedRunner(minted.runner.id, minted.runner.name or name, place, minted.config)

    async def remove_runner(self, place: RunnerPlace, runner_id: int) -> None:
        await self._end(place, f"_apis/distributedtask/pools/0/agents/{runner_id}")

    # Sending

    async def _ask(
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
        response = await self._admin(place, method, path, params, body, token, hidden=hidden)
        where = _shown(method, path, hidden)
        return decoded(where, response.status_code, response.content, shape, mutation=method != "GET")

    async def _end(self, place: RunnerPlace, path: str, *, hidden: str = "") -> None:
        try:
            await self._admin(place, "DELETE", path, None, None, None, hidden=hidden)
        except NotFound:
            return

    async def _admin(
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
            response = await self._send(
                method, url, token or admin.token, where, timeout, {**_API, **(params or {})}, body=body
            )
            if response.status_code == 401 and token is None and attempt == 1:
                self._admins.pop(place, None)
                continue
            self._judge(where, response, mutation=method != "GET", hidden=hidden)
            return response
        raise AssertionError("the second attempt returns or raises")

    async def _connected(self, place: RunnerPlace) -> _Admin:
        held = self._admins.get(place)
        if held is not None and held.until > self._clock.monotonic():
            return held
        async with self._turns.setdefault(place, asyncio.Lock()):
            held = self._admins.get(place)
            if held is None or held.until <= self._clock.monotonic():
                held = self._admins[place] = await self._connect(place)
            return held

    async def _connect(self, place: RunnerPlace) -> _Admin:
        where = "POST /actions/runner-registration"
        body = {"url": web_url(self._settings.api_url, place), "runner_event": "register"}
        url = f"{self._settings.api_url}/actions/runner-registration"
        registration = await self._registration(place)
        timeout = self._settings.request_timeout
        response = await self._send("POST", url, registration, where, timeout, {}, body=body, scheme="RemoteAuth")
        try:
            self._judge(where, response, mutation=False)
        except (Unauthenticated, Forbidden) as error:
            # A fresh token may be refused for a moment, and a new one would be fresh again; an older one was withdrawn.
            if self._clock.monotonic() >= self._registrations[place][1] - _REGISTRATION_KEPT + _FRESH:
                del self._registrations[place]
            raise Unavailable(f"{error.message}; it is asked again", status=error.status) from None
        found = decoded(where, response.status_code, response.content, AdminConnection, mutation=False)
        self._trusted(found.url, where)
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
        answer = await self._connection.mutate(call, self._connection.deadline())
        token = answer.shaped(RegistrationToken).token
        self._registrations[place] = (token, self._clock.monotonic() + _REGISTRATION_KEPT)
        return token

    def _trusted(self, url: str, where: str) -> None:
        """The service is where GitHub says, but never over plain HTTP, unless all of GitHub is on this machine."""
        parts = urlsplit(url)
        if not parts.hostname or (parts.scheme != "https" and not self._settings.is_loopback):
            raise Unavailable(f"{where}: GitHub names no address that can be used")

    async def _send(
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

    def _judge(self, where: str, response: httpx2.Response, *, mutation: bool, hidden: str = "") -> None:
        if response.is_success:
            return
        wait, status = advice(response.headers, self._clock.now()), response.status_code
        raise scale_set_refusal(where, status, response.content, retry_after=wait, mutation=mutation, hidden=hidden)


def web_url(api_url: str, place: RunnerPlace) -> str:
    """The address of the organisation or repository for people, which is how the service is told of it."""
    parts = urlsplit(api_url)
    host = parts.netloc
    if host.startswith("api."):
        host = host.removeprefix("api.")
    path = f"{place.owner}/{place.repository}" if place.repository else place.owner
    return f"{parts.scheme}://{host}/{path}"


def _shown(method: str, path: str, hidden: str) -> str:
    return f"{method} {path.replace(hidden, '***') if hidden else path}"


def _labels(labels: Sequence[str]) -> list[dict[str, str]]:
    return [{"type": "System", "name": label} for label in labels]
