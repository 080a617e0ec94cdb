"""The request for a job, held by the agent in the name of a Pod whose VM is ready, and the marks of the job's progress."""

import random
from collections.abc import Awaitable, Callable
from typing import Final

import httpx2

from paddock.base.clock import Clock
from paddock.base.tasks import TaskStack
from paddock.clients.dispatch import Drained, HoldTime, PollClient, ProgressClient, Refused, Served
from paddock.node.tokens import PodToken

__all__ = ["JobSeeker", "MarkReporter"]

_FRESH: Final = 30.0
"""A token that was minted this short ago is not refused for its age."""
_MOVED_EVERY: Final = 5.0
_STILL_EVERY: Final = 30.0


class JobSeeker:
    """Asks dispatch for one Pod's job until there is one, or until the Pod is told to go.

    The answer and the hand-over are two steps. An agent that dies between them loses the answer: the next one asks again, is
    told to go, and the VM halts without having had a job, while dispatch puts the job back.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        url: str,
        token: PodToken,
        hand_over: Callable[[Served], Awaitable[None]],
        *,
        clock: Clock,
        rng: random.Random,
        hold: HoldTime,
        reached: Callable[[], None] | None = None,
    ) -> None:
        self._token = token
        self._hand_over = hand_over
        self._poll = PollClient(http, url, token.current, clock=clock, rng=rng, hold=hold, reached=reached)

    async def seek(self) -> Drained | Refused | None:
        """None once a job was handed over; otherwise why there will be none."""
        await self._token.renew()
        while True:
            answer = await self._poll.next()
            if isinstance(answer, Served):
                await self._hand_over(answer)
                return None
            if isinstance(answer, Drained) or self._token.age < _FRESH:
                return answer
            # After an outage the token may have run out: only a refusal of a fresh one is believed.
            await self._token.renew()


class MarkReporter:
    """Posts a job's marks: soon after each move, and now and then while nothing moves, so that silence means us, not it."""

    def __init__(self, http: httpx2.AsyncClient, url: str, token: PodToken, *, clock: Clock) -> None:
        self._client = ProgressClient(http, url, token.current)
        self._token = token
        self._clock = clock
        self.latest = ""

    async def run(self) -> None:
        """Post until cancelled. A mark that is lost is made up for by the next."""
        await self._token.renew()
        sent, sent_at = "", float("-inf")
        async with TaskStack() as tasks:
            tasks.start(self._token.keep_fresh())
            while True:
                waited = self._clock.monotonic() - sent_at
                if self.latest and waited >= (_MOVED_EVERY if self.latest != sent else _STILL_EVERY):
                    sent, sent_at = self.latest, self._clock.monotonic()
                    await self._client.post(sent)
                await self._clock.sleep(1.0)
