"""The Mac's side of every request to the gateway: which key, which authorities, and what each answer means."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, Protocol

import httpx2
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from paddock.base.backoff import retry_after
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.readable import shown
from paddock.base.secrets import Secret
from paddock.clients.dispatch.hold_time import HoldTime
from paddock.clients.dispatch.log_client import LogClient
from paddock.clients.dispatch.poll_client import PollClient
from paddock.clients.gateway.authorities import Authorities, GatewayTransport
from paddock.clients.gateway.messages import REPORT, Answer, JobRequest, Report, job_path, log_path

__all__ = ["Away", "HeldKeys", "KeyHolder", "MacClient", "Rejected", "StandDown", "Taken", "Unauthorized"]

_TIMEOUT: Final = 10.0
_LONGEST_REST: Final = 60.0
_AGAIN: Final = 60.0
"""After a refusal of the newest key the one before is tried first for so long."""

log = get_logger("gateway client")


class Away(Struct, frozen=True):
    """Nothing is known: the gateway was not reached, or does not know either. `rest` is what it asked for, in seconds."""

    why: str
    rest: float | None = None


class Rejected(Struct, frozen=True):
    """The gateway reads no such report, however often it comes: this agent, or the gateway, is of another release."""

    status: int
    why: str


class Unauthorized(Struct, frozen=True):
    """Every key that this Mac holds was refused just now. Its VMs go on; only the operator can bring another key."""

    why: str


class Taken(Struct, frozen=True):
    """Another agent speaks with this Mac's key, or under its name: this one stands down and touches nothing."""

    why: str


class StandDown(Struct, frozen=True):
    """This Mac is none of this cluster's any more."""

    why: str


class HeldKeys(Protocol):
    @property
    def to_try(self) -> tuple[str, ...]: ...
    @property
    def proven(self) -> str: ...


class KeyHolder(Protocol):
    """Where the Mac's keys are. A key that came over SSH is there at the next `read`."""

    def read(self) -> HeldKeys: ...

    def answered(self, key: str) -> None:
        """The gateway took a request with this key. Raises OSError where the disk does not take that."""
        ...


class MacClient:
    """One a Mac, for all its requests. `owner` is `NAMESPACE/NAME` of its Machine; close it with `aclose`."""

    def __init__(
        self,
        url: str,
        owner: str,
        keys: KeyHolder,
        authorities: Authorities,
        *,
        clock: Clock,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._url, self._owner = url.rstrip("/"), owner
        self._keys, self._authorities, self._clock = keys, authorities, clock
        self._refused_at: dict[str, float] = {}
        self._http = httpx2.AsyncClient(
            transport=transport or GatewayTransport(authorities),
            headers={"Accept-Encoding": "identity", "User-Agent": "paddock-node-agent"},
            follow_redirects=False,
            trust_env=False,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def report(
        self, report: Report, hold: float = 0.0
    ) -> Answer | Away | Rejected | Unauthorized | Taken | StandDown:
        """Send the report with the newest key, at a refusal with the one before; never raises. Its `proven` is set here.

        A report is sent with another `sequence` each time: one whose answer was lost counts already.
        """
        found: Answer | Away | Rejected | Unauthorized | Taken | StandDown
        found = Unauthorized("this Mac has no key: the operator brings one over SSH")
        held = self._keys.read()
        for key in self._in_order(held):
            found = await self._send(key, replace(report, proven=key == held.proven), hold)
            if not isinstance(found, Unauthorized):
                break
            self._refused_at[key] = self._clock.monotonic()
        if isinstance(found, Answer):
            self._keep(found)
        return found

    def poll(
        self,
        uid: str,
        softnet: Callable[[], bool],
        *,
        rng: random.Random,
        hold: HoldTime | None = None,
        reached: Callable[[], None] | None = None,
    ) -> PollClient:
        """Asks for the Pod's job. `softnet` is asked at each request: the Node's label lags the VMs."""
        return PollClient(
            self._http,
            self._url,
            self.bearer,
            clock=self._clock,
            rng=rng,
            hold=hold,
            reached=reached,
            path=job_path(uid),
            body=lambda: JobRequest(softnet()),
            hold_in_query=True,
            refused=self.refused,
        )

    def log(self, uid: str) -> LogClient:
        return LogClient(self._http, self._url, self.bearer, path=log_path(uid), refused=self.refused)

    def bearer(self) -> Secret:
        """What the next request shows: the newest key, but for a minute after its refusal the one before."""
        in_order = self._in_order(self._keys.read())
        return self._shown(in_order[0] if in_order else "")

    def refused(self, bearer: Secret) -> None:
        """The gateway answered 401 to it; nothing else follows from that here. Only a report finds out whether all are refused."""
        for key in self._keys.read().to_try:
            if self._shown(key) == bearer:
                self._refused_at[key] = self._clock.monotonic()

    def _in_order(self, held: HeldKeys) -> list[str]:
        now = self._clock.monotonic()
        recent = {key: at for key, at in self._refused_at.items() if key in held.to_try and now - at < _AGAIN}
        self._refused_at = recent
        # The one whose refusal is longest ago comes first, and those that were not refused before it, in their own order.
        return sorted(held.to_try, key=lambda key: recent.get(key, float("-inf")))

    def _shown(self, key: str) -> Secret:
        return Secret(f"{self._owner}:{key}")

    async def _send(
        self, key: str, report: Report, hold: float
    ) -> Answer | Away | Rejected | Unauthorized | Taken | StandDown:
        headers = {"Authorization": f"Bearer {self._shown(key).reveal()}", "Content-Type": "application/json"}
        content = msgspec.json.encode(report)
        try:
            # The limit of httpx2 is one for each read; an answer that trickles ends here.
            async with asyncio.timeout(hold + 2 * _TIMEOUT):
                answer = await self._http.post(
                    f"{self._url}{REPORT}",
                    params={"hold": f"{hold:g}"},
                    content=content,
                    headers=headers,
                    timeout=hold + _TIMEOUT,
                )
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            return Away(f"{type(error).__name__}: {shown(str(error))[:200]}")
        status = answer.status_code
        if status == 200:
            return self._taken(key, answer.content)
        why = _reason(answer)
        if status == 401:
            return Unauthorized(why)
        if status == 409:
            return Taken(why)
        if status == 410:
            return StandDown(why)
        if status in {400, 404, 405, 413, 415, 422, 426}:
            return Rejected(status, why)
        asked = retry_after(answer.headers.get("Retry-After"), self._clock.now())
        return Away(why, None if asked is None else min(asked, _LONGEST_REST))

    def _taken(self, key: str, content: bytes) -> Answer | Away:
        try:
            answer = msgspec.json.decode(content, type=Answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
            return Away("the gateway's answer cannot be read")
        self._refused_at.pop(key, None)
        try:
            self._keys.answered(key)
        except OSError as error:
            # The key before stays, and the gateway hears of this one as unproven: both stay good until the disk takes it.
            log.warning("it cannot be noted that a key is good", why=str(error))
        return answer

    def _keep(self, answer: Answer) -> None:
        try:
            if self._authorities.store(answer.authorities):
                log.info("the gateway's authorities changed and are stored", authorities=len(answer.authorities))
        except OSError as error:
            log.warning("the gateway's authorities cannot be stored; the next answer names them again", why=str(error))


def _reason(answer: httpx2.Response) -> str:
    """The sentence of the gateway, made safe to log; whatever else is there is only its status."""
    try:
        body: Any = msgspec.json.decode(answer.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        body = None
    text = (body.get("reason") or body.get("error")) if isinstance(body, dict) else None
    return shown(text)[:300] if isinstance(text, str) else f"HTTP {answer.status_code}"
