"""A Pod's request for a job, held until there is one, its time is up, or it leaves; whoever asks for it proves the Pod first.

The request's own task waits for the client to leave, and the answer interrupts it. So ten thousand held requests are ten thousand
tasks and timers, and nothing polls.
"""

import asyncio
from collections.abc import Awaitable, Callable

from paddock.base.clock import Clock
from paddock.runners.dispatch.dispatcher import Dispatcher
from paddock.runners.dispatch.identity import PodIdentity
from paddock.runners.dispatch.pod_proof import PodProof
from paddock.runners.dispatch.waiting_pods import NOTHING, PollAnswer, Waiter

__all__ = ["HeldRequests", "Left"]

Left = Callable[[], Awaitable[None]]
"""Returns once the client of this request has left. It is cancelled and asked again."""


class HeldRequests:
    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        self._dispatcher = dispatcher
        self._clock = clock

    async def wait_for_job(self, pod: PodIdentity, proof: PodProof, hold: float, left: Left) -> PollAnswer | None:
        """The answer, held for `hold` seconds at most and for no longer than the proof lasts; None if the client left before.

        A job is in it only after its claim was committed and the proof was confirmed.
        """
        waiter = Waiter(pod, proof, self._clock.monotonic())
        self._dispatcher.enter(waiter)
        try:
            # A proof that ends while it waits would make a claim fail; the Pod asks again with its next one.
            await _until_answered(waiter, left, min(hold, proof.lasts()))
            if waiter.answer is None and not waiter.gone:
                if self._dispatcher.leave(waiter):
                    return NOTHING
                # A claim is being served for it, which takes seconds at most; hanging up now would waste it.
                await _until_answered(waiter, left, None)
            return waiter.answer
        finally:
            if waiter.answer is None:
                # The client hung up, or the server ends this task. Whoever serves it must notice before the next step.
                waiter.gone = True
                self._dispatcher.leave(waiter)


async def _until_answered(waiter: Waiter, left: Left, seconds: float | None) -> None:
    """Until there is an answer, the client left (`waiter.gone`), or the time is up."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds) as limit:

            def ring() -> None:
                if not limit.expired():
                    limit.reschedule(loop.time())

            waiter.waker = ring
            if waiter.answer is None:
                await left()
                waiter.gone = waiter.answer is None
    except TimeoutError:
        pass
    finally:
        waiter.waker = None
