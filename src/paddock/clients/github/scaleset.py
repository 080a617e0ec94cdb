"""The contract for runner scale sets: a queue at GitHub that announces jobs to whoever asks.

`ScaleSetClient` keeps it; the simulated GitHub keeps it through the same client. Promises:

- every method may raise any `GitHubError`, and returns or raises within its timeout;
- NotFound, Conflict and Forbidden come from GitHub itself, never from a proxy's page;
- NotFound is about what was asked for; where GitHub does not show the App the organisation or repository at all, it is OutOfReach;
- tokens exist only inside the client and inside `QueueSession.token`, a Secret; no error shows a session's id or its queue's address.

GitHub publishes no specification of the wire; `docs/design/scale-sets.md` says what is relied on.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, field

from paddock.base.secrets import Secret
from paddock.clients.github.contract import MintedRunner, RunnerPlace

__all__ = ["QueueMessage", "QueueSession", "ScaleSet", "ScaleSetStatistics", "ScaleSets"]


class ScaleSetStatistics(Struct, frozen=True, rename="camel"):
    """What GitHub counts for a set. `total_assigned_jobs` are those that wait for a runner of it and those that run."""

    total_available_jobs: int = 0
    total_acquired_jobs: int = 0
    total_assigned_jobs: int = 0
    total_running_jobs: int = 0
    total_registered_runners: int = 0
    total_busy_runners: int = 0
    total_idle_runners: int = 0


class ScaleSet(Struct, frozen=True, kw_only=True):
    """A scale set as GitHub shows it now."""

    scale_set_id: int
    name: str
    group_id: int
    labels: tuple[str, ...] = ()
    statistics: ScaleSetStatistics = ScaleSetStatistics()


class QueueSession(Struct, frozen=True, kw_only=True):
    """The right to read one set's queue; GitHub grants it to one reader at a time."""

    session_id: str
    url: str
    token: Secret
    statistics: ScaleSetStatistics = ScaleSetStatistics()

    def __repr__(self) -> str:
        return "QueueSession(session_id=***, url=***, token=***)"


class QueueMessage(Struct, frozen=True, kw_only=True):
    """One message. `body` is what GitHub wrote, not yet looked at; `message_id` counts within a sequence of GitHub's.

    Where the envelope is odd, `body` is the whole of it. Statistics that it lacks are the session's, never zeros: those would say
    that no job is assigned.
    """

    message_id: int
    body: bytes
    kind: str = ""
    statistics: ScaleSetStatistics = field(default_factory=ScaleSetStatistics)


class ScaleSets(Protocol):
    """Scale sets of organisations and repositories, their queues and their runners."""

    async def group(self, place: RunnerPlace, name: str) -> int | None:
        """The number of the runner group of that name; None where there is none that the App may see."""
        ...

    async def find(self, place: RunnerPlace, group_id: int, name: str) -> ScaleSet | None:
        """The set of that name in the group, or None."""
        ...

    async def get(self, place: RunnerPlace, scale_set_id: int) -> ScaleSet:
        """The set with its present statistics. NotFound where it was deleted."""
        ...

    async def create(self, place: RunnerPlace, *, name: str, group_id: int, labels: Sequence[str]) -> ScaleSet:
        """A new set; compare its labels, GitHub may drop some. Conflict where the name is taken in the group."""
        ...

    async def update(
        self,
        place: RunnerPlace,
        scale_set_id: int,
        *,
        group_id: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Change what is given. Read the set afterwards: GitHub may accept a change and not make it.

        Conflict where the group has a set of that name already, Invalid where GitHub does not change this at all.
        """
        ...

    async def delete(self, place: RunnerPlace, scale_set_id: int) -> None:
        """Delete the set; one that is gone already is no error."""
        ...

    async def open_session(self, place: RunnerPlace, scale_set_id: int, owner: str) -> QueueSession:
        """Begin to read the queue. Conflict while another session stands, NotFound where the set is gone."""
        ...

    async def renew_session(self, place: RunnerPlace, scale_set_id: int, session_id: str) -> QueueSession:
        """The same session with a new token. NotFound where GitHub has given it up."""
        ...

    async def close_session(self, place: RunnerPlace, scale_set_id: int, session_id: str) -> None:
        """End a session, also another process's; one that is gone already is no error."""
        ...

    async def poll(self, session: QueueSession, *, after: int, capacity: int) -> QueueMessage | None:
        """The next message, or None after some fifty seconds without one. `capacity` is the most that may be assigned.

        Unauthenticated: the session's token has ended, renew it. NotFound: the session is gone, open another.
        """
        ...

    async def acknowledge(self, session: QueueSession, message_id: int) -> None:
        """Delete a message, so that it does not come again; one that is gone already is no error."""
        ...

    async def acquire(
        self, place: RunnerPlace, scale_set_id: int, session: QueueSession, request_ids: Sequence[int]
    ) -> tuple[int, ...]:
        """Ask for jobs that were offered (GHES); gives those that were won. NotFound where GitHub assigns by itself."""
        ...

    async def mint(self, place: RunnerPlace, scale_set_id: int, *, name: str, work_folder: str) -> MintedRunner:
        """A new single-job runner of the set. Conflict where the name was used, NotFound where the set is gone."""
        ...

    async def remove_runner(self, place: RunnerPlace, runner_id: int) -> None:
        """Unregister a runner; one that is gone already is no error. Conflict while it is busy."""
        ...
