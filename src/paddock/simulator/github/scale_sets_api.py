"""The service behind runner scale sets: registration, sets, sessions, the held poll, and runners of a set."""

import base64
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec

from paddock.base.clock import Clock
from paddock.base.rng import new_uuid
from paddock.simulator.github import problems, wire
from paddock.simulator.github.access import GitHubCall, permitted, repository_of
from paddock.simulator.github.job_queue import JobQueue
from paddock.simulator.github.requests import GitHubApiRequest, json_answer
from paddock.simulator.github.scale_sets import ScaleSetQueue
from paddock.simulator.github.state import ServiceToken, SimulatedAccount, SimulatedRunner, SimulatedScaleSet
from paddock.simulator.service.pause import pause
from paddock.simulator.service.response import ServiceResponse

__all__ = ["ScaleSetsApi"]

_REGISTRATION_LIFE = timedelta(hours=1)
_NAMESPACE = "GitHub.Actions.Runtime.WebApi"


class _RefusedError(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        kind = f"{_NAMESPACE}.{kind}, {_NAMESPACE}"  # as .NET names a type: with its assembly
        self.answer = json_answer(status, {"$id": "1", "typeName": kind, "message": message})


_SHORTEST_HOLD = 1.0
_JWT_HEAD = base64.urlsafe_b64encode(b'{"typ":"JWT","alg":"RS256"}').decode().rstrip("=")
"""GitHub's own: official clients read the token for its end, and refuse one that names no algorithm."""


class ScaleSetsApi:
    def __init__(self, queue: JobQueue, sets: ScaleSetQueue, clock: Clock, rng: random.Random) -> None:
        self._queue = queue
        self._state = queue.state
        self._sets = sets
        self._clock = clock
        self._rng = rng
        self._serving: dict[str, Callable[[GitHubApiRequest, dict[str, str], str, datetime], ServiceResponse]] = {
            "find_groups": self._groups,
            "find_scale_sets": self._find,
            "create_scale_set": self._create,
            "get_scale_set": self._get,
            "update_scale_set": self._update,
            "delete_scale_set": self._delete,
            "open_queue_session": self._open,
            "renew_queue_session": self._renew,
            "close_queue_session": self._close,
            "acquire_jobs": self._acquire,
            "mint_in_scale_set": self._mint,
            "find_agents": self._find_agents,
            "get_agent": self._get_agent,
            "delete_agent": self._delete_agent,
        }

    def handlers(self) -> dict[str, Callable[[GitHubCall], ServiceResponse]]:
        """What an installation's token is good for."""
        return {"registration_token": self._registration_token}

    async def hold(self, request: GitHubApiRequest, parts: dict[str, str]) -> None:
        """Wait until there is a message for the session, its end, or the end of GitHub's patience."""
        behaviour = self._state.behaviour
        if behaviour.empty_polls:
            return await self._clock.sleep(0.1 / behaviour.speed)
        # Never at once, however fast its hours pass: our listener lives in real seconds, and would take that for a failure.
        deadline = self._clock.monotonic() + max(_SHORTEST_HOLD, behaviour.poll_hold / behaviour.speed)
        while True:
            now = self._queue.settle()
            scale_set = self._of_session(parts["session_id"])
            if scale_set is None or not self._token(request, "queue", now):
                return None
            scale_set.session_seen_at = now
            self._sets.gate(scale_set, _number(request.headers.get("x-scalesetmaxcapacity", ""), 10**6), now)
            left = deadline - self._clock.monotonic()
            if left <= 0 or self._has_message(scale_set, _number(request.query.get("lastMessageId", ""), 0)):
                return None
            woken = self._sets.woken(scale_set.id)
            woken.clear()
            await pause(self._clock, woken, left)

    def answer(
        self, request: GitHubApiRequest, operation: str, parts: dict[str, str], now: datetime
    ) -> ServiceResponse:
        try:
            if operation == "runner_registration":
                return self._register(request, now)
            if operation in ("poll_messages", "delete_message"):
                return self._queue_call(request, operation, parts, now)
            kind = "queue" if operation == "acquire_jobs" else "admin"
            if not (token := self._token(request, kind, now)):
                return ServiceResponse(status=401)
            return self._serving[operation](request, parts, token.place, now)
        except _RefusedError as refused:
            return refused.answer

    # Registration

    def _registration_token(self, call: GitHubCall) -> ServiceResponse:
        if "org" in call.parts:
            account = call.account
            if account is None or account.login.lower() != call.parts["org"].lower() or account.kind != "Organization":
                raise problems.missing()
            permitted(call, "organization_self_hosted_runners", "write")
            place = f"orgs/{account.login}"
        else:
            repository = repository_of(self._state, call)
            permitted(call, "administration", "write")
            place = f"repos/{repository.full_name}"
        token = self._grant("registration", place, call.now + _REGISTRATION_LIFE)
        expires = (call.now + _REGISTRATION_LIFE).isoformat()
        return json_answer(201, {"token": token, "expires_at": expires}, effect=True)

    def _register(self, request: GitHubApiRequest, now: datetime) -> ServiceResponse:
        token = self._token(request, "registration", now)
        fields = request.fields() or {}
        fresh = timedelta(seconds=self._state.behaviour.fresh_token_refused)
        if token is None or now < token.expires_at - _REGISTRATION_LIFE + fresh:
            return json_answer(401, {"message": "Bad credentials"})
        path = urlsplit(str(fields.get("url", ""))).path.strip("/")
        named = f"repos/{path}" if "/" in path else f"orgs/{path}"
        if named.lower() != token.place.lower():
            return json_answer(403, {"message": "the token is of another place"})
        ends = now + timedelta(seconds=self._state.behaviour.admin_token_life)
        admin = self._grant("admin", token.place, ends)
        return json_answer(200, {"url": f"{request.base_url}/broker/rest", "token": admin})

    # Sets

    def _groups(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        del parts, now
        wanted = request.query.get("groupName", "").lower()
        shown = [
            {"id": group.id, "name": group.name, "isDefaultGroup": group.id == 1}
            for group in self._account(place).groups
            if group.name.lower() == wanted
        ]
        return json_answer(200, {"count": len(shown), "value": shown})

    def _find(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        del parts, now
        group = _number(request.query.get("runnerGroupId", ""), 1)
        found = self._sets.find(place, group, request.query.get("name", ""))
        shown = [] if found is None else [self._shown(found, request)]
        return json_answer(200, {"count": len(shown), "value": shown})

    def _create(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        del parts
        fields = request.fields() or {}
        name, group = str(fields.get("name", "")), int(fields.get("runnerGroupId", 1))
        if self._account(place).group(group) is None:
            raise _RefusedError(404, "RunnerGroupNotFoundException", f"No runner group {group}")
        if self._sets.find(place, group, name) is not None:
            raise _RefusedError(400, "RunnerScaleSetExistsException", f"The runner scale set {name} already exists.")
        labels = {label["name"]: label.get("type", "System") for label in fields.get("labels", [])}
        made = self._sets.create(place, name, group, labels)
        made.created_on, made.setting = now, dict(fields.get("RunnerSetting") or {})
        made.label_types = labels
        self._sets.adopt_waiting(now)
        return json_answer(200, self._shown(made, request), effect=True)

    def _get(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        del now
        return json_answer(200, self._shown(self._set(parts, place), request))

    def _update(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        scale_set, fields = self._set(parts, place), request.fields() or {}
        group = fields.get("runnerGroupId")
        if group is not None and group != scale_set.group_id:
            if self._account(place).group(group) is None:
                raise _RefusedError(404, "RunnerGroupNotFoundException", f"No runner group {group}")
            if self._sets.find(place, group, scale_set.name) is not None:
                taken = f"The runner scale set {scale_set.name} already exists."
                raise _RefusedError(400, "RunnerScaleSetExistsException", taken)
        labels = [label["name"] for label in fields["labels"]] if "labels" in fields else None
        self._sets.update(scale_set, group, labels, now)
        scale_set.label_types |= {label["name"]: label.get("type", "System") for label in fields.get("labels", [])}
        scale_set.setting |= fields.get("RunnerSetting") or {}
        return json_answer(200, self._shown(scale_set, request), effect=True)

    def _delete(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        del request
        self._sets.delete(self._set(parts, place), now)
        return ServiceResponse(status=204, effect=True)

    # Sessions

    def _open(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        scale_set = self._set(parts, place)
        if self._sets.session_lives(scale_set, now):
            message = (
                f"The runner scale set {scale_set.name} already has an active session for owner {scale_set.owner}."
            )
            raise _RefusedError(409, "RunnerScaleSetSessionConflictException", message)
        scale_set.session = new_uuid(self._rng)
        scale_set.owner = str((request.fields() or {}).get("ownerName", ""))
        scale_set.session_seen_at = now
        return self._session_answer(request, scale_set, now)

    def _renew(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        scale_set = self._set(parts, place)
        if scale_set.session != parts["session_id"]:
            raise _RefusedError(404, "RunnerScaleSetSessionNotFoundException", "The session does not exist.")
        scale_set.session_seen_at = now
        return self._session_answer(request, scale_set, now)

    def _close(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        del request, now
        scale_set = self._set(parts, place)
        if scale_set.session != parts["session_id"]:
            raise _RefusedError(400, "RunnerScaleSetSessionExpiredException", "The session has expired.")
        scale_set.session = ""
        self._sets.wake(scale_set.id)
        return ServiceResponse(status=204, effect=True)

    def _session_answer(
        self, request: GitHubApiRequest, scale_set: SimulatedScaleSet, now: datetime
    ) -> ServiceResponse:
        behaviour = self._state.behaviour
        ends = now + timedelta(seconds=behaviour.queue_token_life)
        url = f"{request.base_url}/broker/queue/{scale_set.session}?tenant=simulated"
        if behaviour.queueless_sessions > 0:
            behaviour.queueless_sessions, url = behaviour.queueless_sessions - 1, ""
        body = {
            "sessionId": scale_set.session,
            "ownerName": scale_set.owner,
            "messageQueueUrl": url,
            "messageQueueAccessToken": self._grant("queue", scale_set.place, ends),
            "statistics": self._sets.statistics(scale_set),
            "runnerScaleSet": self._shown(scale_set, request),
        }
        return json_answer(200, body, effect=True)

    # The queue

    def _queue_call(
        self, request: GitHubApiRequest, operation: str, parts: dict[str, str], now: datetime
    ) -> ServiceResponse:
        if not self._token(request, "queue", now):
            return ServiceResponse(status=401)
        scale_set = self._of_session(parts["session_id"])
        if scale_set is None:
            raise _RefusedError(404, "RunnerScaleSetSessionNotFoundException", "The session does not exist.")
        scale_set.session_seen_at = now
        if operation == "delete_message":
            number = int(parts["message_id"])
            kept = [message for message in scale_set.messages if message.id != number]
            gone = len(kept) < len(scale_set.messages)
            scale_set.messages = kept
            return ServiceResponse(status=204 if gone else 404, effect=gone)
        if self._state.behaviour.empty_polls:
            return ServiceResponse(status=200)
        after = _number(request.query.get("lastMessageId", ""), 0)
        message = self._sets.next_message(scale_set, after)
        if message is None:
            return ServiceResponse(status=202)
        body = {
            "messageId": message.id,
            "messageType": "RunnerScaleSetJobMessages",
            "body": message.raw or msgspec.json.encode(message.entries).decode(),
            "statistics": self._sets.statistics(scale_set),
        } | message.odd
        return ServiceResponse(200, b"\xef\xbb\xbf" + msgspec.json.encode(body), effect=True)

    def _has_message(self, scale_set: SimulatedScaleSet, after: int) -> bool:
        if after >= scale_set.next_message:
            after = 0
        return bool(scale_set.said) or any(message.id > after for message in scale_set.messages)

    def _acquire(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        scale_set = self._set(parts, place)
        if not self._state.behaviour.acquire_flow:
            raise _RefusedError(404, "ResourceNotFoundException", "Not found")
        won = self._sets.acquire(scale_set, msgspec.json.decode(request.body, type=list[int]), now)
        return json_answer(200, {"count": len(won), "value": won}, effect=True)

    # Runners

    def _mint(self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime) -> ServiceResponse:
        scale_set = self._set(parts, place)
        name = str((request.fields() or {}).get("name", ""))
        if name.lower() in self._state.names.get(place, {}):
            raise _RefusedError(409, "AgentExistsException", f"A runner exists with the same name {name}.")
        runner = self._queue.mint(place, name, list(scale_set.labels), now, scale_set.group_id)
        runner.scale_set_id = scale_set.id
        return json_answer(
            200, {"runner": _agent(runner), "encodedJITConfig": wire.encoded_jit_config(runner)}, effect=True
        )

    def _find_agents(
        self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime
    ) -> ServiceResponse:
        del parts, now
        name = request.query.get("agentName", "").lower()
        found = [
            _agent(each)
            for each in self._state.runners.values()
            if each.place == place and not each.removed and name in ("", each.name.lower())
        ]
        return json_answer(200, {"count": len(found), "value": found})

    def _get_agent(
        self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime
    ) -> ServiceResponse:
        del request, now
        return json_answer(200, _agent(self._runner(parts, place)))

    def _delete_agent(
        self, request: GitHubApiRequest, parts: dict[str, str], place: str, now: datetime
    ) -> ServiceResponse:
        del request
        runner = self._runner(parts, place)
        if runner.busy:
            raise _RefusedError(400, "JobStillRunningException", f"The runner {runner.name} is running a job.")
        self._queue.remove(runner, now)
        return ServiceResponse(status=204, effect=True)

    # Tokens

    def _grant(self, kind: str, place: str, until: datetime) -> str:
        body = msgspec.json.encode({"exp": int(until.timestamp()), "jti": new_uuid(self._rng), "kind": kind})
        text = base64.urlsafe_b64encode(body).decode().rstrip("=")
        token = f"{_JWT_HEAD}.{text}.none"
        self._state.service_tokens[token] = ServiceToken(kind=kind, place=place, expires_at=until)
        return token

    def _token(self, request: GitHubApiRequest, kind: str, now: datetime) -> ServiceToken | None:
        scheme, _, credential = request.authorization.partition(" ")
        token = self._state.service_tokens.get(credential)
        wanted = "remoteauth" if kind == "registration" else "bearer"
        if token is None or token.kind != kind or scheme.lower() != wanted:
            return None
        if token.expires_at <= now:
            del self._state.service_tokens[credential]
            return None
        return token

    # Finding

    def _runner(self, parts: dict[str, str], place: str) -> SimulatedRunner:
        found = self._state.runners.get(int(parts["runner_id"]))
        if found is None or found.removed or found.place != place:
            raise _RefusedError(404, "AgentNotFoundException", "No such runner.")
        return found

    def _set(self, parts: dict[str, str], place: str) -> SimulatedScaleSet:
        found = self._state.scale_sets.get(int(parts["scale_set_id"]))
        if found is None or found.place != place:
            number = parts["scale_set_id"]
            raise _RefusedError(404, "RunnerScaleSetNotFoundException", f"No runner scale set found with {number}.")
        return found

    def _account(self, place: str) -> SimulatedAccount:
        account = self._state.account(place.split("/")[1])
        assert account is not None  # a token is of a place that there is
        return account

    def _of_session(self, session_id: str) -> SimulatedScaleSet | None:
        return next((s for s in self._state.scale_sets.values() if s.session == session_id), None)

    def _shown(self, scale_set: SimulatedScaleSet, request: GitHubApiRequest) -> dict[str, Any]:
        group = self._account(scale_set.place).group(scale_set.group_id)
        sets = f"{request.base_url}/broker/rest/_apis/runtime/runnerscalesets"
        return {
            "id": scale_set.id,
            "name": scale_set.name,
            "runnerGroupId": scale_set.group_id,
            "runnerGroupName": group.name if group is not None else "",
            "labels": [
                {"id": n, "name": label, "type": scale_set.label_types.get(label, "System")}
                for n, label in enumerate(scale_set.labels, 1)
            ],
            "RunnerSetting": scale_set.setting,
            "createdOn": scale_set.created_on.isoformat() if scale_set.created_on is not None else None,
            "runnerJitConfigUrl": f"{sets}/{scale_set.id}/generatejitconfig",
            "statistics": self._sets.statistics(scale_set),
        }


def _agent(runner: SimulatedRunner) -> dict[str, Any]:
    return {"id": runner.id, "name": runner.name, "runnerScaleSetId": runner.scale_set_id}


def _number(text: str, default: int) -> int:
    return int(text) if text.isdigit() else default
