"""What the tests of healing jobs say about GitHub, and a wrapper under which a process dies at any call that it makes."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final, LiteralString

from doubles.github import StubGitHub
from integration.runners.ledger.rig import ACME, START, Bench

from paddock.clients.github import GitHubRunner, HookDelivery, Installation
from paddock.runners.healing.pod_snapshot import PodSnapshot
from paddock.runners.ledger import Ledger

REPOSITORY = f"org{ACME}/app"
INSTALLATION = 1000 + ACME
ORGANISATION = f"orgs/org{ACME}"


class Died(BaseException):
    """The process is gone: nothing after this line runs, no clean-up of ours either."""


def stub_github() -> StubGitHub:
    """A GitHub that knows the account, its organisation without runners and its repository without jobs."""
    github = StubGitHub(Installation(INSTALLATION, ACME, "org1"), mints=False)
    github.waiting = {REPOSITORY: []}
    github.places = {ORGANISATION: []}
    return github


def runner(number: int | str, *, online: bool = False, busy: bool = False, name: str = "") -> GitHubRunner:
    """The runner that `Bench.running(number)` minted."""
    ident = number if isinstance(number, int) else 900 + len(number)
    return GitHubRunner(runner_id=ident, name=name or f"runner-{number}-mint", online=online, busy=busy)


def attempt(number: int, guid: str, status: int, *, ago: float = 60.0, event: str = "workflow_job") -> HookDelivery:
    return HookDelivery(
        delivery_id=number,
        guid=guid,
        delivered_at=START - timedelta(seconds=ago),
        redelivery=False,
        status_code=status,
        event=event,
        action="queued",
    )


class Cluster:
    """The Pods there are, by uid; counts how often it was asked."""

    def __init__(self, *alive: str, ended: Sequence[str] = ()) -> None:
        self.alive = set(alive)
        self.ended = set(ended)
        self.error: Exception | None = None
        self.reads = 0

    async def __call__(self) -> PodSnapshot:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return PodSnapshot(frozenset(self.alive), frozenset(self.ended))


EFFECTS: Final = frozenset(
    {
        "announce",
        "give_up",
        "put_back",
        "redeliver",
        "release_finished",
        "release_unminted",
        "remove_runner",
        "settle",
        "started",
    }
)


class Fate:
    """Dies at the n-th point of a life: there is one before every call that a worker makes, and one after every effect.

    Dying after a read is dying before the next call.
    """

    def __init__(self, at: int) -> None:
        self._left = at
        self.struck = False

    def point(self) -> None:
        if self._left == 0:
            self._left = -1
            self.struck = True
            raise Died
        self._left -= 1

    def over(self, function: Any) -> Callable[..., Awaitable[Any]]:
        async def fated(*words: Any, **more: Any) -> Any:
            self.point()
            answer = await function(*words, **more)
            if getattr(function, "__name__", "") in EFFECTS:
                self.point()
            return answer

        return fated

    def wrapped(self, target: Any) -> Any:
        return _Fated(target, self)

    def ledger(self, ledger: Ledger) -> Any:
        return _FatedParts(ledger, self)


class _Fated:
    def __init__(self, target: Any, fate: Fate) -> None:
        self._target = target
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        return self._fate.over(getattr(self._target, name))


class _FatedParts:
    def __init__(self, ledger: Ledger, fate: Fate) -> None:
        self._ledger = ledger
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        return _Fated(getattr(self._ledger, name), self._fate)


async def world(bench: Bench) -> list[Any]:
    """Everything that matters in the ledger, without what differs between two equal lives."""
    async with await bench.connect() as connection:
        return [await (await connection.execute(statement)).fetchall() for statement in _WORLD]


_WORLD: tuple[LiteralString, ...] = (
    "SELECT job_id, status, conclusion, pod_uid, runner_name FROM jobs ORDER BY 1",
    "SELECT pod_uid, state, job_id, runner_name FROM claims ORDER BY 1",
    "SELECT pod_uid, executed_job_id, ended_at FROM sessions ORDER BY 1",
    "SELECT job_id, conclusion FROM completions ORDER BY 1",
    (
        "SELECT subject, job_id, pod_uid, was, became FROM transitions WHERE subject <> 'limit'"
        " ORDER BY job_id, pod_uid, transition_id"
    ),
)
