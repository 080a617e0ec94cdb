"""`POST /api/internal/runners/dispatch`: a Pod asks for a job, and is held until there is one or its time is up. Plain ASGI."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any, Final

import msgspec
from prometheus_client import Counter

from paddock.base.logs import get_logger
from paddock.base.refusal_log import RefusalLog
from paddock.base.secrets import Secret
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.held_requests import HeldRequests
from paddock.runners.dispatch.identity import IdentityError, PodIdentity, Tokens, Unauthenticated
from paddock.runners.dispatch.metrics import DispatchMetrics
from paddock.runners.dispatch.pod_proof import TokenProof
from paddock.runners.dispatch.waiting_pods import PollAnswer, later

__all__ = ["PATH", "DispatchEndpoint", "bearer", "hold_wanted"]

PATH: Final = "/api/internal/runners/dispatch"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_LARGEST_BODY: Final = 4096
"""Clients send `{}`; nothing in it is read."""
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?(?=$|[,;\s])", re.IGNORECASE)

_NO_SECOND_TENANT: Final = frozenset({"committed", "spent", "shared"})
"""Answers to a Pod that would bring two tenants together."""
_TOO_LARGE: Final = PollAnswer(413, "too_large", "the body says nothing and may be empty")

log = get_logger("dispatch")


class DispatchEndpoint:
    """The ASGI application behind PATH."""

    def __init__(
        self, tokens: Tokens, requests: HeldRequests, settings: DispatchSettings, metrics: DispatchMetrics
    ) -> None:
        self._tokens = tokens
        self._requests = requests
        self._settings = settings
        self._metrics = metrics
        self._refusals = RefusalLog(log)
        self._counters: dict[tuple[str, str], Counter] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pool = ""
        try:
            headers = dict(scope["headers"])  # ASGI's names are in lower case
            refused = _too_large(headers) or await self._read_body(receive)
            if refused is not None:
                answer: PollAnswer | None = refused
                if refused.status in (408, 413):
                    self._refusals.refused("dispatch", refused.reason, sender=_sender(scope))
            else:
                pod, proof = await self._identify(_text(headers, b"authorization"))
                pool = pod.pool
                hold = hold_wanted(_text(headers, b"prefer"), self._settings)
                answer = await self._requests.wait_for_job(pod, proof, hold, partial(_disconnected, receive))
                if answer is not None and answer.outcome in _NO_SECOND_TENANT:
                    # Also what a Pod hears whose answer was lost, so it is no warning.
                    self._refusals.refused("dispatch", answer.reason, usual=True, pod=pod.name)
        except IdentityError as error:
            if error.status in (401, 403):
                self._refusals.refused("dispatch", str(error), sender=_sender(scope))
            answer = PollAnswer(
                error.status, error.outcome, str(error), retry_after=2.0 if error.status == 503 else 0.0
            )
        self._count(pool, answer.outcome if answer is not None else "hung_up")
        if answer is not None:
            await _send(answer, send)

    def _count(self, pool: str, outcome: str) -> None:
        counter = self._counters.get((pool, outcome))
        if counter is None:
            counter = self._counters[pool, outcome] = self._metrics.requests.labels(pool, outcome)
        counter.inc()

    async def _identify(self, authorization: str) -> tuple[PodIdentity, TokenProof]:
        token = bearer(authorization)
        if token is None:
            raise Unauthenticated("send the Pod's token: Authorization: Bearer …")
        pod = await self._tokens.waiting(token)
        return pod, TokenProof(self._tokens, pod, token)

    async def _read_body(self, receive: Receive) -> PollAnswer | None:
        size = 0
        try:
            async with asyncio.timeout(self._settings.body_timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return later("hung_up", "the client left")
                    size += len(message.get("body", b""))
                    if size > _LARGEST_BODY:
                        return _TOO_LARGE
                    if not message.get("more_body"):
                        return None
        except TimeoutError:
            return PollAnswer(408, "too_slow", "the request did not arrive in time")


def _too_large(headers: Mapping[bytes, bytes]) -> PollAnswer | None:
    """What is announced as too large is not waited for."""
    announced = _text(headers, b"content-length")
    return _TOO_LARGE if announced.isdecimal() and (len(announced) > 9 or int(announced) > _LARGEST_BODY) else None


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def hold_wanted(prefer: str, settings: DispatchSettings) -> float:
    """How long a request is held: what `Prefer: wait=N` asks for, never longer than we hold anybody."""
    found = _WAIT.search(prefer)
    return settings.hold_unasked if found is None else min(float(found.group(1)), settings.hold)


def bearer(authorization: str) -> Secret | None:
    """The token of an Authorization header, if it holds one."""
    scheme, _, token = authorization.partition(" ")
    return Secret(token.strip()) if scheme.lower() == "bearer" and token.strip() else None


def _sender(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")


async def _send(answer: PollAnswer, send: Send) -> None:
    headers = [(b"cache-control", b"no-store")]
    body = b""
    if answer.handed is not None:
        handed = answer.handed
        body = msgspec.json.encode(
            {
                "encoded_jit_config": handed.config.reveal(),
                "owner": handed.owner,
                "workflow_job_id": handed.job_id,
            }
        )
    elif answer.status != 204:
        body = msgspec.json.encode({"error": answer.outcome, "reason": answer.reason})
    if body:
        headers.append((b"content-type", b"application/json"))
    if answer.status != 204:
        headers.append((b"content-length", str(len(body)).encode()))
    if answer.retry_after:
        headers.append((b"retry-after", str(max(1, round(answer.retry_after))).encode()))
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    except OSError:
        # After a commit this is the lost answer: the Pod asks again and is told to exit.
        log.info("a client left before its answer", outcome=answer.outcome)
