"""What is noted of Pods that were handed a runner, their account's number foremost: after the answer, and after the answers of others.

No decision waits for this label: whoever reads it reads the assignment label or the ledger beside it (`sessions` knows for
good that a Pod is spent). So it gives way to jobs that are being handed over, five seconds at most. A process that dies
before it has written them leaves Pods without the label, as one did that died between the answer and the label.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from paddock.base.clock import Clock
from paddock.runners.dispatch.assignment import Assignments
from paddock.runners.dispatch.identity import PodIdentity
from paddock.runners.ledger import Claim

__all__ = ["AccountLabels"]

_LATEST: Final = 5.0
"""However many jobs are being handed over, a label waits no longer than this for its turn."""
_AT_ONCE: Final = 8
_SETTLE: Final = 5.0


class AccountLabels:
    """`serving` brackets every hand-over, `after` leaves a label to be written once none is under way; `settle` at the end."""

    def __init__(
        self, assignments: Assignments, clock: Clock, place: Callable[[PodIdentity], Awaitable[None]] | None = None
    ) -> None:
        """`place` writes down on which Mac a Pod is; it never fails."""
        self._assignments = assignments
        self._place = place
        self._clock = clock
        self._due: deque[tuple[float, PodIdentity, Claim]] = deque()
        self._serving = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._writing: asyncio.Task[None] | None = None

    @contextmanager
    def serving(self) -> Iterator[None]:
        self._serving += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._serving -= 1
            if not self._serving:
                self._quiet.set()

    def after(self, pod: PodIdentity, claim: Claim) -> None:
        self._due.append((self._clock.monotonic() + _LATEST, pod, claim))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="account labels")

    async def settle(self) -> None:
        """Until all are written; what takes longer than seconds is left out, which is nobody's trouble. Repeatable."""
        if self._writing is not None and not self._writing.done():
            _, late = await asyncio.wait({self._writing}, timeout=_SETTLE)
            for task in late:
                task.cancel()

    async def _write(self) -> None:
        while self._due:
            await self._turn(self._due[0][0] - self._clock.monotonic())
            some = [self._due.popleft() for _ in range(min(_AT_ONCE, len(self._due)))]
            await asyncio.gather(*(self._note(pod, claim) for _, pod, claim in some))

    async def _note(self, pod: PodIdentity, claim: Claim) -> None:
        await self._assignments.name_account(pod, claim)
        if self._place is not None:
            await self._place(pod)

    async def _turn(self, at_most: float) -> None:
        if at_most <= 0 or self._quiet.is_set():
            return
        try:
            async with asyncio.timeout(at_most):
                await self._quiet.wait()
        except TimeoutError:
            pass
