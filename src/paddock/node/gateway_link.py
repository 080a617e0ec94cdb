"""A Mac's link over the gateway: one outbound connection, one key, three messages."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.clients.dispatch import Drained, HoldTime, Refused, Served
from paddock.clients.gateway.mac_client import Away, MacClient, Rejected, StandDown, Taken, Unauthorized
from paddock.clients.gateway.messages import Answer, JobRequest, Report
from paddock.node.link import AwayError, LinkError, NodeTakenError, NotKnownError
from paddock.node.metrics import AgentMetrics

__all__ = ["GatewayLink"]

log = get_logger("gateway link")
_NOT_KNOWN: Final = 30.0


class GatewayLink:
    """Satisfies MacLink. It keeps nothing but what the last answer was called: every report is whole."""

    def __init__(self, client: MacClient, *, clock: Clock, rng: random.Random, metrics: AgentMetrics) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._hold = HoldTime(clock)
        self._seen = ""

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await self._client.aclose()

    async def report(self, report: Report, hold: float) -> Answer:
        match await self._client.report(replace(report, seen=self._seen), hold):
            case Answer() as answer:
                self._seen = answer.version
                self._metrics.heartbeat.set(self._clock.now().timestamp())
                return answer
            case Away(why=why, rest=rest):
                if rest:
                    await self._clock.sleep(rest)
                raise AwayError(why)
            case Unauthorized(why=why) | StandDown(why=why):
                raise NotKnownError(why)
            case Taken(why=why):
                raise NodeTakenError(why)
            case Rejected(status=status, why=why):
                raise LinkError(f"the gateway does not understand this agent (HTTP {status}): {why}")

    async def job(
        self,
        uid: str,
        request: Callable[[], JobRequest],
        hand_over: Callable[[Served], Awaitable[None]],
        reached: Callable[[], None],
    ) -> Drained | Refused | None:
        poll = self._client.poll(uid, lambda: request().softnet, rng=self._rng, hold=self._hold, reached=reached)
        while True:
            match await poll.next():
                case Served() as served:
                    await hand_over(served)
                    return None
                case Refused(status=401, reason=why):
                    # No word about this Pod: whether the Mac's keys are good is found out by its reports.
                    log.warning("the gateway does not take this Mac's key for a job", uid=uid, why=why)
                    await self._clock.sleep(_NOT_KNOWN)
                case answer:
                    return answer

    async def log(self, uid: str, first_byte: int, content: bytes = b"", *, ended: bool = False) -> int | None:
        return await self._client.log(uid).post(first_byte, content, ended=ended)
