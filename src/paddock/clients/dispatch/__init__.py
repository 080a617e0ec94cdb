"""The dispatch service as a Pod, or the node agent for its Pods, sees it: ask for a job, tell how far the job is."""

from paddock.clients.dispatch.hold_time import LONGEST_HOLD, HoldTime
from paddock.clients.dispatch.poll_client import PATH, Drained, PollClient, Refused, Served
from paddock.clients.dispatch.progress import LONGEST_MARK, ProgressClient

__all__ = [
    "LONGEST_HOLD",
    "LONGEST_MARK",
    "PATH",
    "Drained",
    "HoldTime",
    "PollClient",
    "ProgressClient",
    "Refused",
    "Served",
]
