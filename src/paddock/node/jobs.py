"""What is asked and posted at dispatch in one Pod's name: the request for its job, the marks of its progress, its log."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import httpx2

from paddock.base.clock import Clock
from paddock.base.supervise import keep_running
from paddock.base.tasks import TaskStack
from paddock.base.tasks import end as end_task
from paddock.clients.dispatch import Drained, HoldTime, PollClient, ProgressClient, Refused, Served
from paddock.clients.dispatch.log_client import LogClient
from paddock.clients.gateway.messages import PodReport, PodState
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.node.settings import AgentSettings
from paddock.node.tokens import PodToken

__all__ = ["JobsByPod", "PodJobs"]

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
        self.over = False

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


class JobsByPod:
    """The conversations of one Mac's Pods. `pods` are those that the API server shows."""

    def __init__(
        self,
        client: Client,
        pods: Mapping[str, Pod],
        dispatch: Callable[[], httpx2.AsyncClient],
        settings: AgentSettings,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._pods = pods
        self._dispatch = dispatch
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._hold = HoldTime(clock)
        self._jobs: dict[str, PodJobs] = {}
        self._marks: dict[str, asyncio.Task[None]] = {}

    def of(self, uid: str) -> PodJobs | None:
        """None where the Pod was never shown: its token cannot be asked for."""
        if uid not in self._jobs and (pod := self._pods.get(uid)) is not None:
            self._jobs[uid] = PodJobs(
                self._client, pod, self._dispatch, self._settings, clock=self._clock, rng=self._rng, hold=self._hold
            )
        return self._jobs.get(uid)

    def pass_on(self, uid: str, report: PodReport) -> None:
        """The Pod's mark goes to dispatch while its job runs."""
        if report.state in (PodState.ENDED, PodState.CLEARED):
            self._end_marks(uid)
            if uid in self._jobs:
                self._jobs[uid].over = True
        elif report.mark and (jobs := self.of(uid)) is not None:
            jobs.mark = report.mark
            if uid not in self._marks:
                work = keep_running(f"marks of Pod {uid}", jobs.post_marks, self._clock, self._rng)
                self._marks[uid] = asyncio.create_task(work, name=f"marks of Pod {uid}")

    @property
    def token_age(self) -> float:
        """Of the oldest token in use; zero where there is none."""
        ages = [each.token_age for each in self._jobs.values() if not each.over]
        return max((age for age in ages if age != float("inf")), default=0.0)

    def forget(self, uid: str) -> None:
        self._jobs.pop(uid, None)
        self._end_marks(uid)

    def _end_marks(self, uid: str) -> None:
        if (posting := self._marks.pop(uid, None)) is not None:
            posting.cancel()

    async def close(self) -> None:
        """No mark is posted any more."""
        for posting in self._marks.values():
            await end_task(posting)
        self._marks.clear()
