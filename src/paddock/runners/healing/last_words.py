"""What the runner of a Pod that has ended printed last, as Kubernetes has it: for runners whose log nobody posts.

On a Mac the agent posts the log. A Linux Pod has no agent of ours, and its log goes with it; so it is read between the report of
its end and its delete.
"""

import asyncio
from datetime import datetime
from typing import Final

from paddock.base.clock import Clock
from paddock.base.readable import shown
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.kube.errors import KubeError, TransportError
from paddock.runners.healing.evidence import printed
from paddock.runners.ledger import Pod as LedgerPod

__all__ = ["LastWords"]

_TIMEOUT: Final = 2.0
_PAUSE: Final = 60.0


class LastWords:
    """Called with a Pod that has ended; gives its runner's last lines, few, short and redacted, or nothing. Never fails.

    Whoever reports the end waits for it: a Node that is gone with its logs keeps nobody for longer than two seconds, and then
    nobody for a minute.
    """

    def __init__(self, client: Client, clock: Clock, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._failed_at: datetime | None = None

    async def __call__(self, pod: LedgerPod) -> str:
        # Either way round: after a clock was set back the pause would last as long as it was ahead.
        if self._failed_at is not None and abs((self._clock.now() - self._failed_at).total_seconds()) < _PAUSE:
            return ""
        try:
            # One deadline over both: each request alone may take as long, and its timeout counts anew for each part of it.
            async with asyncio.timeout(_TIMEOUT):
                found = await self._client.get(Pod, pod.name, self._namespace, timeout=_TIMEOUT)
                if found.metadata.uid != pod.uid:
                    return ""  # a namesake's words are not its own
                lines = await printed(self._client, found, timeout=_TIMEOUT)
        except (TransportError, TimeoutError):
            self._failed_at = self._clock.now()
            return ""
        except KubeError:
            return ""  # refused, or gone: an answer, which holds nobody up
        return "\n".join(shown(line) for line in lines)
