"""The one way a request leaves this package: budget, deadline, typed errors, and retries only where they are safe."""

import asyncio
import random
from typing import Any, TypeVar

import httpx2
import msgspec

from paddock.base.backoff import retry_after
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.tls import default_tls
from paddock.clients.scaleway.budget import RequestBudget
from paddock.clients.scaleway.errors import (
    RateLimited,
    ScalewayError,
    Unavailable,
    error_of_answer,
)
from paddock.clients.scaleway.settings import ScalewaySettings

__all__ = ["Params", "ScalewayConnection", "shaped"]

T = TypeVar("T")
Params = dict[str, str | int]

# A 429 without a Retry-After still pauses everyone for a moment; one that names hours must not freeze the process:
# beyond the cap each caller is told `retry_after` and decides for itself.
_HOLD_WITHOUT_ADVICE = 1.0
_LONGEST_HOLD = 60.0

_log = get_logger("scaleway")


class ScalewayConnection:
    """Sends requests to one API with one key.

    Reads are repeated with jitter after 5xx, 429, broken connections and passed deadlines. Mutations are sent at most
    once: a rename is last-write-wins, so that a blind repeat could undo what another client did in between. A mutation is
    over, in one way or another, within `request_timeout` of the call, the wait for the budget included.
    """

    def __init__(
        self,
        settings: ScalewaySettings,
        clock: Clock,
        rng: random.Random,
        transport: httpx2.AsyncBaseTransport | None = None,
        budget: RequestBudget | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._budget = budget or RequestBudget(
            clock, rate=settings.requests_per_second, burst=settings.burst, queue=settings.queue
        )
        self._http = httpx2.AsyncClient(
            base_url=settings.api_url,
            verify=default_tls() if transport is None else False,
            transport=transport,
            timeout=httpx2.Timeout(settings.request_timeout, connect=settings.connect_timeout),
            headers={"Accept": "application/json", "User-Agent": "paddock"},
            trust_env=not settings.is_loopback,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def read(self, path: str, params: Params | None = None) -> Any:
        """The JSON of a GET, with null fields left out; repeated while that can help, then the last error."""
        failures = 0
        while True:
            try:
                await self._budget.take()
                return await self._send("GET", path, params, None)
            except (Unavailable, RateLimited) as error:
                failures += 1
                longest = 2 * self._settings.backoff.cap
                hopeless = (error.retry_after or 0.0) > longest or (isinstance(error, RateLimited) and error.local)
                if failures >= self._settings.read_attempts or hopeless:
                    raise
                pause = self._settings.backoff.delay(failures, self._rng, error.retry_after)
                _log.debug("read_repeated", path=path, failures=failures, pause=round(pause, 3), error=error.message)
                await self._clock.sleep(pause)

    async def mutate(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        """The JSON that a mutation answers, or None for an empty answer. Sent once at most; errors say what is known."""
        sent = False
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                await self._budget.take()
                sent = True
                return await self._send(method, path, None, body)
        except TimeoutError:
            if not sent:
                raise RateLimited("no turn in the request budget in time; nothing was sent", local=True) from None
            raise Unavailable(f"{method} {path}: no answer in time", effect_unknown=True) from None

    async def _send(self, method: str, path: str, params: Params | None, body: dict[str, Any] | None) -> Any:
        mutation = method != "GET"
        # The key goes into each request rather than into the client's defaults, so that no repr or redirect carries it.
        headers = {"X-Auth-Token": self._settings.secret_key.reveal()}
        content = None if body is None else msgspec.json.encode(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                answer = await self._http.request(method, path, params=params, content=content, headers=headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            # The connection never stood, so that nothing can have happened.
            raise Unavailable(f"{method} {path}: {_reason(error)}", effect_unknown=False) from error
        except httpx2.TransportError as error:
            raise Unavailable(f"{method} {path}: {_reason(error)}", effect_unknown=mutation) from error
        except TimeoutError:
            raise Unavailable(f"{method} {path}: no answer in time", effect_unknown=mutation) from None
        if answer.is_success:
            return self._decoded(method, path, answer)
        raise self._refusal(answer, mutation=mutation)

    def _refusal(self, answer: httpx2.Response, *, mutation: bool) -> ScalewayError:
        advice = retry_after(answer.headers.get("Retry-After"), self._clock.now())
        error = error_of_answer(answer.status_code, answer.content, retry_after=advice, effect_possible=mutation)
        if isinstance(error, RateLimited):
            self._budget.hold(min(advice or _HOLD_WITHOUT_ADVICE, _LONGEST_HOLD))
        return error

    @staticmethod
    def _decoded(method: str, path: str, answer: httpx2.Response) -> Any:
        if answer.status_code == 204 or not answer.content:
            return None
        try:
            return _without_nulls(msgspec.json.decode(answer.content))
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Unavailable(
                f"{method} {path}: the answer is not JSON", effect_unknown=method != "GET", status=answer.status_code
            ) from None


def shaped(data: Any, shape: type[T], *, after_mutation: bool = False) -> T:
    """The value as the given type; an answer of another shape is not the API's, so it counts as unavailable."""
    try:
        return msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        # The text names the field and the expected type, never the value.
        raise Unavailable(f"the answer is not a {shape.__name__}: {error}", effect_unknown=after_mutation) from None


def _without_nulls(data: Any) -> Any:
    """The API writes an absent field as null or leaves it out; here it is always left out."""
    if isinstance(data, dict):
        return {key: _without_nulls(value) for key, value in data.items() if value is not None}
    if isinstance(data, list):
        return [_without_nulls(value) for value in data]
    return data


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
