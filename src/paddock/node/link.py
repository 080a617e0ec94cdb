"""All that the agent knows of the outside: whom it reports to, and who answers."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from paddock.clients.dispatch import Drained, Refused, Served
from paddock.clients.gateway.messages import Answer, JobRequest, Report

__all__ = ["AwayError", "LinkError", "MacLink", "NodeTakenError", "NotKnownError"]


class LinkError(Exception):
    """A report was not answered. Nothing follows from that for any VM."""


class AwayError(LinkError):
    """Nobody answers: the same report is sent later."""


class NotKnownError(LinkError):
    """This Mac's identity is not accepted. It reports on, and creates nothing."""


class NodeTakenError(LinkError):
    """Another Mac reports under our Node's name: this agent stands down and touches nothing."""


class MacLink(Protocol):
    """The way from one Mac to whoever writes its Node and its Pods. Every method may be cancelled at any await."""

    async def run(self) -> None:
        """Do what the link does beside reports, until cancelled. Reports may be sent before."""
        ...

    async def report(self, report: Report, hold: float) -> Answer:
        """The answer to a report: once something about this Mac differs from the answer before, after `hold` seconds at most.

        Raises LinkError. Which of several reports was taken is known by `sequence`: a later one replaces the one before.
        """
        ...

    async def job(
        self,
        uid: str,
        request: Callable[[], JobRequest],
        hand_over: Callable[[Served], Awaitable[None]],
        reached: Callable[[], None],
    ) -> Drained | Refused | None:
        """Ask for one Pod's job until it is handed over (None), or there will be none. `reached`: there is none yet.

        An agent that dies between the answer and `hand_over` loses the answer: the next one asks anew and is told to go, the VM
        halts without having had a job, and dispatch puts the job back.
        """
        ...

    async def log(self, uid: str, first_byte: int, content: bytes = b"", *, ended: bool = False) -> int | None:
        """Post a piece of one Pod's log. The byte that is expected next; None where that cannot be known. Never raises."""
        ...
