"""The waiting side of dispatch: what a runner Pod does until it is given a job, or told to go.

`paddock poll` is this in a Linux Pod's init container; on a Mac the node agent asks in the name of its Pods. It re-reads its
token before every request (whoever holds it renews it), spreads its requests, and backs off when the service is in trouble.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import msgspec

from paddock.base.backoff import Backoff, retry_after
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.secrets import Secret
from paddock.clients.dispatch.hold_time import HoldTime

__all__ = ["PATH", "Drained", "PollClient", "Refused", "Served"]

PATH: Final = "/api/internal/runners/dispatch"
_TIMEOUT: Final = 10.0
"""How much longer than the hold an answer may take: a job that was claimed at its end is still being minted."""
_BACKOFF: Final = Backoff(base=1.0, cap=30.0)
_LONGEST_REST: Final = 60.0
"""Dispatch asks for half of that at most. A page of what stands between may ask for a day, long after dispatch is back."""
_NEIGHBOUR: Final = "neighbour"
_OF_OTHERS: Final = frozenset({408, 502, 504})
"""What stands between says these of a request that took too long for it; dispatch itself never says the last two."""
log = get_logger("poll")


@dataclass(frozen=True, slots=True)
class Served:
    """A job: hand the config to the runner, and nothing else to anybody."""

    config: Secret
    owner: str
    job_id: int


@dataclass(frozen=True, slots=True)
class Drained:
    """Exit with success: the Pod is to be replaced."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Exit with failure: the token is not accepted, and asking again would not change that."""

    status: int
    reason: str


class PollClient:
    """Asks until it is served, drained or refused. Never gives up on a service that is away.

    `reached` is called whenever dispatch has said "no job yet", also because of another account's work on the Mac. Who gives it
    learns at once whether dispatch can be reached: the first request, and the first after one that failed, does not wait for a
    job, because one that is held looks like one that is lost.

    At the gateway `path` names the Pod, `body` goes with each request, and the hold stands in the query. `refused` is called with each
    token that is not accepted: whoever holds several gives another one then.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        url: str,
        token: Callable[[], Secret],
        *,
        clock: Clock,
        rng: random.Random,
        hold: HoldTime | None = None,
        reached: Callable[[], None] | None = None,
        path: str = PATH,
        body: Callable[[], object] = dict,
        hold_in_query: bool = False,
        refused: Callable[[Secret], None] | None = None,
    ) -> None:
        self._http = http
        self._url = url.rstrip("/").removesuffix(PATH) + path
        self._token = token
        self._body = body
        self._hold_in_query = hold_in_query
        self._refused = refused
        self._clock = clock
        self._rng = rng
        self._hold = hold or HoldTime(clock)
        self._reached = reached
        self._introduced = reached is None

    async def next(self) -> Served | Drained | Refused:
        failures = refusals = 0
        while True:
            answer = await self._ask()
            if isinstance(answer, str):
                failures += 1
                await self._pause(failures, answer, None)
                continue
            if answer.status_code in (401, 403):
                # Once more with a token that is read anew: the file may have been replaced under us.
                refusals += 1
                if refusals > 1:
                    return Refused(answer.status_code, _reason(answer))
                await self._clock.sleep(1.0 + self._rng.random())
                continue
            refusals = 0
            if answer.status_code == 410:
                return Drained(_reason(answer))
            if answer.status_code == 200 and (served := _served(answer)) is not None:
                return served
            if answer.status_code == 204:
                failures = 0
                self._introduced = True
                if self._reached is not None:
                    self._reached()
                # A restarted service is not asked by everybody in the same instant.
                await self._clock.sleep(self._rng.uniform(0.0, 0.2 if self._hold.seconds else 2.0))
                continue
            if answer.status_code == 503 and _body(answer).get("error") == _NEIGHBOUR:
                # Dispatch was reached, and decided: another account works on this Mac. That may last as long as a job does.
                failures = 0
                self._introduced = True
                if self._reached is not None:
                    self._reached()
            else:
                # The request before may have been held for long: the next one is answered at once, so that who counts our
                # silence hears of it in time.
                self._introduced = self._reached is None
            failures += 1
            # A 200 without a job is none of dispatch's: a page of what stands between, or half an answer.
            why = f"HTTP {answer.status_code}" if answer.status_code != 503 else _reason(answer)
            asked = retry_after(answer.headers.get("Retry-After"), self._clock.now())
            await self._pause(failures, why, None if asked is None else min(asked, _LONGEST_REST))

    async def _ask(self) -> httpx2.Response | str:
        wait = self._hold.seconds if self._introduced else 0.0
        token = self._token()
        headers = {"Authorization": f"Bearer {token.reveal()}", "Content-Type": "application/json"}
        params = {"hold": f"{wait:g}"} if self._hold_in_query else {}
        if not self._hold_in_query:
            headers["Prefer"] = f"wait={wait:g}"
        content = msgspec.json.encode(self._body())
        began = self._clock.monotonic()
        try:
            answer = await self._http.post(
                self._url, params=params, content=content, headers=headers, timeout=wait + _TIMEOUT
            )
        except httpx2.HTTPError as error:
            self._failed(wait, began)
            return type(error).__name__
        if answer.status_code == 401 and self._refused is not None:
            self._refused(token)
        if answer.status_code in _OF_OTHERS:
            self._failed(wait, began)
        elif answer.status_code == 204:
            self._hold.answered(wait)
        return answer

    def _failed(self, wait: float, began: float) -> None:
        self._hold.failed(wait, self._clock.monotonic() - began)
        self._introduced = self._reached is None

    async def _pause(self, failures: int, why: str, rest: float | None) -> None:
        # A service that stops tells everybody who waits the same: later by up to half of that, so that not all come at once.
        asked_for = None if rest is None else rest * (1.0 + 0.5 * self._rng.random())
        seconds = _BACKOFF.delay(failures, self._rng, asked_for)
        log.info("dispatch does not answer; asking again", why=why, in_seconds=round(seconds, 1), failures=failures)
        await self._clock.sleep(seconds)


def _served(answer: httpx2.Response) -> Served | None:
    """What was handed over; None where the body is not what it should be: ask again later, the ledger knows the rest."""
    body = _body(answer)
    config = body.get("encoded_jit_config")
    if not isinstance(config, str) or not config:
        return None
    job_id = body.get("workflow_job_id")
    return Served(Secret(config), str(body.get("owner", "")), job_id if isinstance(job_id, int) else 0)


def _body(answer: httpx2.Response) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(answer.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _reason(answer: httpx2.Response) -> str:
    body = _body(answer)
    return str(body.get("reason") or body.get("error") or f"HTTP {answer.status_code}")
