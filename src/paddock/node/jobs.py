"""What is asked and posted at dispatch in one Pod's name: the request for its job, the marks of its progress, its log."""

import random
from collections.abc import Awaitable, Callable
from typing import Final

import httpx2

from paddock.base.clock import Clock
from paddock.base.tasks import TaskStack
from paddock.clients.dispatch import Drained, HoldTime, PollClient, ProgressClient, Refused, Served
from paddock.clients.dispatch.log_client import LogClient
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.node.settings import AgentSettings
from paddock.node.tokens import PodToken

__all__ = ["PodJobs"]

_FRESH: Final = 30.0
"""A token that was minted this short ago is not refused for its age."""
_MOVED_EVERY: Final = 5.0
_STILL_EVERY: Final = 30.0


class PodJobs:
    """One Pod at dispatch, with the Pod's own token. `mark` is the newest mark of its job."""

    def __init__(
        self,
        client: Client,
        pod: Pod,
        dispatch: Callable[[], httpx2.AsyncClient],
        settings: AgentSettings,
        *,
        clock: Clock,
        rng: random.Random,
        hold: HoldTime,
    ) -> None:
        self._dispatch = dispatch
        self._url = settings.dispatch_url
        self._clock = clock
        self._rng = rng
        self._hold = hold
        self._token = PodToken(
            client, pod, clock=clock, rng=rng, seconds=settings.token_seconds, every=settings.token_every
        )
        self._http: httpx2.AsyncClient | None = None
        self.mark = ""

    @property
    def token_age(self) -> float:
        return self._token.age

    async def job(
        self, hand_over: Callable[[Served], Awaitable[None]], reached: Callable[[], None]
    ) -> Drained | Refused | None:
        """None once a job was handed over; otherwise why there will be none."""
        async with self._dispatch() as http, TaskStack() as tasks:
            poll = PollClient(
                http,
                self._url,
                self._token.current,
                clock=self._clock,
                rng=self._rng,
                hold=self._hold,
                reached=reached,
            )
            tasks.start(self._token.keep_fresh())
            await self._token.renew()
            while True:
                answer = await poll.next()
                if isinstance(answer, Served):
                    await hand_over(answer)
                    return None
                if isinstance(answer, Drained) or self._token.age < _FRESH:
                    return answer
                # After an outage the token may have run out: only a refusal of a fresh one is believed.
                await self._token.renew()

    async def post_marks(self) -> None:
        """Post until cancelled: soon after each move, and now and then while nothing moves, so that silence means us, not it.

        A mark that is lost is made up for by the next.
        """
        await self._token.renew()
        sent, sent_at = "", float("-inf")
        async with self._dispatch() as http, TaskStack() as tasks:
            client = ProgressClient(http, self._url, self._token.current)
            tasks.start(self._token.keep_fresh())
            self._http = http
            while True:
                waited = self._clock.monotonic() - sent_at
                if self.mark and waited >= (_MOVED_EVERY if self.mark != sent else _STILL_EVERY):
                    sent, sent_at = self.mark, self._clock.monotonic()
                    await client.post(sent)
                await self._clock.sleep(1.0)

    async def post_log(self, first_byte: int, content: bytes = b"", *, ended: bool = False) -> int | None:
        """The byte that dispatch expects next; None where it cannot be told, for whatever reason. Never raises."""
        if not await self._token.at_hand():
            return None
        if (http := self._http) is not None and not http.is_closed:
            return await LogClient(http, self._url, self._token.current).post(first_byte, content, ended=ended)
        async with self._dispatch() as http:
            return await LogClient(http, self._url, self._token.current).post(first_byte, content, ended=ended)
