"""Runner scale sets over HTTP: sets, sessions, the queue, runners."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import httpx2

from paddock.base.clock import Clock
from paddock.clients.github.connection import GitHubConnection
from paddock.clients.github.contract import MintedRunner, RunnerPlace
from paddock.clients.github.errors import GitHubError, Unavailable
from paddock.clients.github.scaleset import QueueMessage, QueueSession, ScaleSet
from paddock.clients.github.scaleset_connection import ScaleSetConnection
from paddock.clients.github.scaleset_wire import (
    AcquiredJobs,
    GroupList,
    MintedAnswer,
    WireScaleSet,
    WireScaleSets,
    WireSession,
    message_of,
    scale_set_of,
    session_of,
)
from paddock.clients.github.settings import GitHubSettings

__all__ = ["LONGEST_POLL", "ScaleSetClient"]

LONGEST_POLL = 55.0
"""GitHub answers a poll within fifty seconds; one that takes longer is lost."""

_SETS = "_apis/runtime/runnerscalesets"
_LONGEST_NAME = 64


class ScaleSetClient:
    """Keeps the contract of `ScaleSets`. It belongs to a `GitHubClient`, which closes it."""

    def __init__(
        self,
        settings: GitHubSettings,
        connection: GitHubConnection,
        clock: Clock,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._request_timeout = settings.request_timeout
        self._connection = ScaleSetConnection(settings, connection, clock, transport)

    async def aclose(self) -> None:
        await self._connection.aclose()

    # Sets

    async def group(self, place: RunnerPlace, name: str) -> int | None:
        path = "_apis/runtime/runnergroups/"
        groups = await self._connection.ask(place, "GET", path, GroupList, params={"groupName": name})
        return next((group.id for group in groups.value if group.name.lower() == name.lower()), None)

    async def find(self, place: RunnerPlace, group_id: int, name: str) -> ScaleSet | None:
        params = {"runnerGroupId": str(group_id), "name": name}
        found = (await self._connection.ask(place, "GET", _SETS, WireScaleSets, params=params)).value
        return next((scale_set_of(wire) for wire in found if wire.name.lower() == name.lower()), None)

    async def get(self, place: RunnerPlace, scale_set_id: int) -> ScaleSet:
        return scale_set_of(await self._connection.ask(place, "GET", f"{_SETS}/{scale_set_id}", WireScaleSet))

    async def create(self, place: RunnerPlace, *, name: str, group_id: int, labels: Sequence[str]) -> ScaleSet:
        body = {
            "name": name,
            "runnerGroupId": group_id,
            "labels": _labels(labels),
            "RunnerSetting": {"disableUpdate": True},
        }
        return scale_set_of(await self._connection.ask(place, "POST", _SETS, WireScaleSet, body=body))

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
        await self._connection.call(place, "PATCH", f"{_SETS}/{scale_set_id}", None, body, None)

    async def delete(self, place: RunnerPlace, scale_set_id: int) -> None:
        await self._connection.delete(place, f"{_SETS}/{scale_set_id}")

    # Sessions

    async def open_session(self, place: RunnerPlace, scale_set_id: int, owner: str) -> QueueSession:
        path = f"{_SETS}/{scale_set_id}/sessions"
        wire = await self._connection.ask(place, "POST", path, WireSession, body={"ownerName": owner})
        try:
            return self._usable(wire, f"POST {path}")
        except Unavailable:
            # It stands, only we know its id, and GitHub refuses the next one for as long as it stands.
            with suppress(GitHubError):
                await self.close_session(place, scale_set_id, wire.session_id)
            raise

    async def renew_session(self, place: RunnerPlace, scale_set_id: int, session_id: str) -> QueueSession:
        path = f"{_SETS}/{scale_set_id}/sessions/{session_id}"
        wire = await self._connection.ask(place, "PATCH", path, WireSession, hidden=session_id)
        return self._usable(wire, f"PATCH {_SETS}/{scale_set_id}/sessions/***")

    async def close_session(self, place: RunnerPlace, scale_set_id: int, session_id: str) -> None:
        # That a session may be closed by another process than the one that opened it is not documented: where it may
        # not, GitHub gives the session up by itself after a while.
        await self._connection.delete(place, f"{_SETS}/{scale_set_id}/sessions/{session_id}", hidden=session_id)

    def _usable(self, wire: WireSession, where: str) -> QueueSession:
        session = session_of(wire)
        if session is None:
            raise Unavailable(f"{where}: GitHub gave a session without a queue", effect_unknown=True)
        self._connection.trusted(session.url, where)
        return session

    # The queue

    async def poll(self, session: QueueSession, *, after: int, capacity: int) -> QueueMessage | None:
        headers = {"X-ScaleSetMaxCapacity": str(capacity), "Accept": "application/json; api-version=6.0-preview"}
        params = {"lastMessageId": str(after)} if after > 0 else {}
        where = "GET message queue"
        response = await self._connection.send(
            "GET", session.url, session.token, where, LONGEST_POLL, params, headers=headers
        )
        if response.status_code == 202 or (response.is_success and not response.content.strip()):
            return None
        self._connection.judge(where, response, mutation=False, hidden=session.session_id)
        return message_of(where, response.status_code, response.content, session.statistics)

    async def acknowledge(self, session: QueueSession, message_id: int) -> None:
        where = "DELETE message"
        url = httpx2.URL(session.url)
        url = url.copy_with(path=f"{url.path.rstrip('/')}/{message_id}")
        response = await self._connection.send("DELETE", str(url), session.token, where, self._request_timeout, {})
        if response.status_code not in (404, 410):
            self._connection.judge(where, response, mutation=True, hidden=session.session_id)

    async def acquire(
        self, place: RunnerPlace, scale_set_id: int, session: QueueSession, request_ids: Sequence[int]
    ) -> tuple[int, ...]:
        path = f"{_SETS}/{scale_set_id}/acquirejobs"
        won = await self._connection.ask(place, "POST", path, AcquiredJobs, body=list(request_ids), token=session.token)
        return tuple(won.value)

    # Runners

    async def mint(self, place: RunnerPlace, scale_set_id: int, *, name: str, work_folder: str) -> MintedRunner:
        assert 0 < len(name) <= _LONGEST_NAME  # the caller draws it to measure
        path = f"{_SETS}/{scale_set_id}/generatejitconfig"
        minted = await self._connection.ask(
            place, "POST", path, MintedAnswer, body={"name": name, "workFolder": work_folder}
        )
        return MintedRunner(minted.runner.id, minted.runner.name or name, place, minted.config)

    async def remove_runner(self, place: RunnerPlace, runner_id: int) -> None:
        await self._connection.delete(place, f"_apis/distributedtask/pools/0/agents/{runner_id}")


def _labels(labels: Sequence[str]) -> list[dict[str, str]]:
    return [{"type": "System", "name": label} for label in labels]
