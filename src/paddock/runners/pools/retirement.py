"""What the pool controller asks of the ledger: the contract between the operator's process and the dispatch process.

The controller sees Pods, the ledger sees claims; neither alone knows that a Pod is idle. So the controller never deletes
a Pod that could still win a claim: it asks for a fence first, and deletes what was fenced. `paddock up` asks the
ledger itself (`LedgerRetirementApi`); `paddock operator` asks the dispatch process over HTTP (`http/retirement_client.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.readable import readable, selected
from paddock.base.tasks import end
from paddock.runners.ledger import GivenUp, HeldPod, Ledger, LedgerError, Pod, PoolSignals
from paddock.runners.ledger.mac_ends import EndOnMac

_LAST_LINES = 20
_LAST_BYTES = 8192

__all__ = ["LastWords", "LedgerRetirementApi", "Recheck", "RetirementApi", "RetirementUnavailableError"]

Recheck = Callable[[Sequence[int], str], Awaitable[object]]
"""`recheck(job_ids, pod_uid)`: these jobs ran on a Pod that ended; ask GitHub about them."""

LastWords = Callable[[Pod], Awaitable[str]]
"""`last_words(pod)`: the end of the log of a Pod that has ended and that nobody posted; empty where there is none. Never fails."""

_BY = "operator"
_log = get_logger("retirement")


class RetirementUnavailableError(Exception):
    """The ledger could not be asked. Nothing changed: keep every Pod and every replica count, and ask again."""


class RetirementApi(Protocol):
    async def signals(self, pool: str) -> PoolSignals:
        """The pool's load, as the autoscaler needs it. Zeros for a pool that the ledger does not know."""
        ...

    async def retire(self, pods: Sequence[Pod], *, why: str) -> frozenset[str]:
        """Fence these Pods; gives the uids that hold no claim and can win none any more, so that they may be deleted.

        A Pod that holds a claim, or was handed a runner and has not ended, is not among them. Repeatable.
        """
        ...

    async def at_work(self, pod_uids: Sequence[str]) -> Mapping[str, str]:
        """Which of these Pods hold a claim, or were handed a runner and have not ended: uid → the account's login."""
        ...

    async def killed(self, kills: Sequence[GivenUp]) -> None:
        """Write these jobs down as ended by us. Repeatable: each is one row, however often it is reported."""
        ...

    async def ends_on(self, nodes: Sequence[str]) -> Sequence[EndOnMac]:
        """How the newest runners of these Macs ended."""
        ...

    async def stopped(self, pod: Pod, ended_at: datetime, *, why: str, ended: bool = True) -> None:
        """The Pod has ended, or is gone: its session, claim and fence end with it.

        Report an ended Pod before its delete, and a retired one only when it is gone: until then the fence is what keeps
        it from winning a job. Repeatable, and harmless for Pods that the ledger does not know.
        Not `ended`: it is gone and was not seen to end. Its runner may live on, so that its claim is left to healing.
        """
        ...


class LedgerRetirementApi:
    """`RetirementApi` over a ledger. Every failure of the ledger is RetirementUnavailableError; everything may be repeated."""

    def __init__(self, ledger: Ledger, clock: Clock, *, recheck: Recheck, last_words: LastWords | None = None) -> None:
        self._ledger = ledger
        self._last_words = last_words
        self._clock = clock
        self._recheck = recheck
        self._checks: set[asyncio.Task[None]] = set()

    async def signals(self, pool: str) -> PoolSignals:
        try:
            return await self._ledger.signals.of_pool(pool)
        except LedgerError as error:
            raise RetirementUnavailableError(f"the load of pool {pool} is not known: {error}") from error

    async def retire(self, pods: Sequence[Pod], *, why: str) -> frozenset[str]:
        """As `RetirementApi.retire`. Interrupted midway, some fences stand: asked again, they are found and count."""
        try:
            return frozenset([pod.uid for pod in pods if await self._retired(pod, why)])
        except LedgerError as error:
            raise RetirementUnavailableError(f"which Pods are idle is not known: {error}") from error

    async def _retired(self, pod: Pod, why: str) -> bool:
        session = await self._ledger.sessions.of_pod(pod.uid)
        if session is not None:
            # It was handed a runner, so it wins no second claim, fence or not. Ended, and nothing is held for it: go.
            return session.ended_at is not None and await self._ledger.claims.of_pod(pod.uid) is None
        fence = await self._ledger.fences.raise_fence(pod, by=_BY, why=why)
        if isinstance(fence, HeldPod) or fence.by != _BY:
            # Another hand's fence is no ground to delete on: healing takes its own down again when it spares the Pod, which
            # could then win a job between our answer and the delete.
            return False
        # Before the fence stood, the Pod may have been claimed, handed a runner, and its claim may have ended with its
        # job: then it is tearing down. Now that the fence stands the answer is final.
        session = await self._ledger.sessions.of_pod(pod.uid)
        if session is None or session.ended_at is not None:
            return True
        await self._ledger.fences.lift(fence, by=_BY, why="the Pod was handed a runner and has not ended")
        return False

    async def at_work(self, pod_uids: Sequence[str]) -> Mapping[str, str]:
        try:
            return await self._ledger.claims.at_work(pod_uids)
        except LedgerError as error:
            raise RetirementUnavailableError(f"which Pods work is not known: {error}") from error

    async def killed(self, kills: Sequence[GivenUp]) -> None:
        try:
            await self._ledger.kills.record(kills)
        except LedgerError as error:
            raise RetirementUnavailableError(f"that jobs were ended was not recorded: {error}") from error

    async def ends_on(self, nodes: Sequence[str]) -> Sequence[EndOnMac]:
        try:
            return await self._ledger.mac_ends.on(nodes)
        except LedgerError as error:
            raise RetirementUnavailableError(f"how jobs ended is not known: {error}") from error

    async def stopped(self, pod: Pod, ended_at: datetime, *, why: str, ended: bool = True) -> None:
        """As `RetirementApi.stopped`. The jobs that ran on the Pod are checked in the background.

        Only for Pods that have ended or are gone: the fence falls here, and a retired Pod that still lived could then win
        a job, which its delete would kill.
        """
        try:
            # A clock that is ahead of ours must not bill the future.
            at = min(ended_at, self._clock.now())
            left = await self._ledger.recovery.pod_stopped(pod.uid, at, by=_BY, why=why, minted=ended)
            fence = await self._ledger.fences.of_pod(pod.uid)
            if fence is not None:
                await self._ledger.fences.lift(fence, by=_BY, why=why)
            if left.unsettled:
                await self._keep_last_lines(pod, ended=ended)
        except LedgerError as error:
            raise RetirementUnavailableError(f"the end of Pod {pod.name} was not recorded: {error}") from error
        if left.unsettled:
            check = asyncio.create_task(self._check([job.job_id for job in left.unsettled], pod))
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)

    async def close(self) -> None:
        """End the checks that are under way; the sweep comes by their jobs later."""
        for check in list(self._checks):
            await end(check)

    async def _keep_last_lines(self, pod: Pod, *, ended: bool) -> None:
        """The Pod ended, and its job had not: what its runner printed last may say why. Logs are forgotten after a week."""
        log = await self._ledger.runner_logs.read(pod.uid)
        if log is not None and log.pieces:
            text = readable(b"".join(piece.content for piece in log.pieces[-2:])[-_LAST_BYTES:])
        elif ended and self._last_words is not None:
            text = await self._last_words(pod)
        else:
            return
        if lines := selected(text, tail_lines=_LAST_LINES):
            await self._ledger.sessions.keep_last_lines(pod.uid, lines)

    async def _check(self, job_ids: Sequence[int], pod: Pod) -> None:
        try:
            await self._recheck(job_ids, pod.uid)
        except Exception:  # noqa: BLE001 - whatever it is, the report is recorded, and the sweep finds these jobs
            _log.exception("the jobs of a stopped Pod could not be checked", pod=pod.name, jobs=list(job_ids))
