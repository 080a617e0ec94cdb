"""A listener in virtual time: the real client and listener, the simulated GitHub, and a ledger in memory that outlives processes.

Every call to GitHub and every write of the ledger is an effect that a test can interrupt. Serving is played in a few lines: a
queued row is minted in its set and handed to a Mac outside the process, because dispatch has interruption tests of its own.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from prometheus_client import CollectorRegistry

from paddock.clients.github import GitHubClient, GitHubError, RunnerPlace
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec
from paddock.runners.ledger import LedgerUnavailableError
from paddock.runners.ledger.assignments import NAMELESS, AssignedJob, OpenAssignment
from paddock.runners.ledger.scale_sets import LeaseLostError, Room, Source, SourceState
from paddock.runners.scale_sets.listener import Listener, ListenerContext
from paddock.runners.scale_sets.messages import Entry, assignment_of, conclusion_of, moment
from paddock.runners.scale_sets.metrics import ScaleSetMetrics
from paddock.simulator.github import SimulatedGitHub, SimulatedJob
from paddock.simulator.github.app_keys import throwaway_app_key
from paddock.simulator.github.sessions import RunnerGoneError, RunnerRefusedError
from paddock.simulator.github.state import SimulatedScaleSet
from paddock.simulator.process import World

T = TypeVar("T")
LABEL = "macos-26"
SILENT = 30.0
_KEY = throwaway_app_key()


def pool(**changes: object) -> RunnerPool:
    spec: dict[str, object] = {
        "image": "runner:1",
        "fleet_selector": "macs",
        "dispatch_label": LABEL,
        "runner_labels": ("self-hosted", "macOS"),
        "replicas": 2,
        "job_source": "ScaleSet",
    }
    return RunnerPool(metadata=ObjectMeta(name="macos"), spec=RunnerPoolSpec(**{**spec, **changes}))  # pyright: ignore[reportArgumentType]


@dataclass
class Row:
    """A job as the ledger in memory has it."""

    job_id: int
    key: str
    assigned_at: datetime
    status: str = "queued"
    runner: str = ""
    started_at: datetime | None = None
    conclusion: str = ""
    nameless: bool = False
    in_vain_at: datetime | None = None


@dataclass
class MemoryBook:
    """Keeps `JobBook`, and who holds the lease. It is the database: no process takes it along."""

    world: World
    source: Source
    room_: Room
    rows: dict[str, Row] = field(default_factory=dict)
    states: list[tuple[float, str, str]] = field(default_factory=list)
    quarantined: dict[str, str] = field(default_factory=dict)
    beats: dict[int, float] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    made: int = 0
    held_by: str | None = None
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    async def _write(self, name: str, act: Callable[[], T]) -> T:
        async def done() -> T:
            return act()

        return await self.world.faults.call(
            f"ledger {name}", done, error=lambda fault: LedgerUnavailableError(str(fault)), timeout=1.0
        )

    def _current(self, source: Source) -> None:
        if source.epoch != self.source.epoch:
            raise LeaseLostError(f"epoch {source.epoch} is over")

    def take(self, dispatcher: int) -> Source | None:
        now = self.world.clock.monotonic()
        holder = self.source.dispatcher_id
        if holder not in (None, dispatcher) and now - self.beats.get(holder, -SILENT) < SILENT:
            return None
        self._set(epoch=self.source.epoch + 1, dispatcher_id=dispatcher)
        return self.source

    def _set(self, **changes: object) -> None:
        values = {name: getattr(self.source, name) for name in Source.__struct_fields__}
        self.source = Source(**{**values, **changes})  # pyright: ignore[reportArgumentType]

    async def owner(self) -> str:
        return "this-ledger"

    async def note(
        self,
        source: Source,
        state: SourceState,
        sentence: str = "",
        *,
        heard: bool = False,
        advertised: int | None = None,
        assigned: int | None = None,
        running: int | None = None,
    ) -> None:
        del running

        def act() -> None:
            self._current(source)
            self._set(state=state, sentence=sentence)
            if heard:
                self._set(heard_at=self.world.clock.now())
            if assigned is not None:
                self._set(assigned=assigned)
            if advertised is not None:
                self.asked.append(advertised)
            if not self.states or self.states[-1][1] != state:
                self.states.append((self.world.clock.monotonic(), state, sentence))

        await self._write("note", act)

    async def record(self, source: Source) -> None:
        fields = ("scale_set_id", "session_id", "asked_labels", "asked_group", "replacing_since", "session_since")

        def act() -> None:
            self._current(source)
            self._set(**{name: getattr(source, name) for name in fields})

        await self._write("record", act)

    async def holder(self, source: Source, scale_set_id: int) -> str | None:
        del source, scale_set_id
        return self.held_by

    async def inherit(self, source: Source, scale_set_id: int) -> Source:
        raise NotImplementedError

    async def give_back(self, source: Source) -> None:
        def act() -> None:
            if source.epoch == self.source.epoch:
                self._set(dispatcher_id=None, session_id=source.session_id)

        await self._write("give back", act)

    async def room(self, source: Source, platform: str) -> Room | None:
        del source, platform
        return self.room_

    async def apply(self, source: Source, entry: Entry, pool: RunnerPool) -> str:
        del source, pool
        return await self._write(f"apply {entry.message_type}", lambda: self._apply(entry))

    def _apply(self, entry: Entry) -> str:
        if entry.message_type not in ("JobAssigned", "JobStarted", "JobCompleted"):
            return "nothing"
        assignment = assignment_of(entry, self.world.clock.now())
        assert assignment is not None
        row = self.rows.get(assignment.key) or self._named(entry, assignment.key, assignment.assigned_at)
        if row is None:
            row = self.rows[assignment.key] = Row(next(self.numbers), assignment.key, assignment.assigned_at)
        if entry.message_type == "JobStarted" and row.status != "over":
            row.status, row.runner, row.started_at = "running", entry.runner_name or "", self.world.clock.now()
        if entry.message_type == "JobCompleted" and row.status != "over":
            row.status, row.conclusion = "over", conclusion_of(entry.result)
        return row.status

    def _named(self, entry: Entry, key: str, assigned_at: datetime) -> Row | None:
        """As `ledger.nameless` chooses: the runner's own row, else one of a time at which the job waited."""
        nameless = [row for row in self.rows.values() if row.nameless and row.status in ("queued", "handed")]
        taken_at = moment(entry.runner_assign_time) if entry.runner_name else None
        fitting = [
            row
            for row in nameless
            if (row.runner and row.runner == entry.runner_name)
            or (row.assigned_at >= assigned_at and (taken_at is None or taken_at >= row.assigned_at))
        ]
        best = min(fitting, key=lambda row: (row.runner != entry.runner_name, row.status, row.job_id), default=None)
        if best is not None:
            del self.rows[best.key]
            best.key, best.assigned_at, best.nameless = key, assigned_at, False
            self.rows[key] = best
        return best

    async def make_nameless(self, source: Source, pool: RunnerPool, *, make: int, at_most: int) -> int:
        del pool

        def act() -> int:
            self._current(source)
            there = sum(row.status in ("queued", "handed") for row in self.rows.values())
            numbers = [next(self.numbers) for _ in range(max(0, min(make, at_most - there)))]
            for number in numbers:
                key = f"nameless/{number}"
                self.rows[key] = Row(number, key, self.world.clock.now(), nameless=True)
            self.made += len(numbers)
            return len(numbers)

        return await self._write("make nameless", act)

    async def in_vain(self, source: Source, since: datetime) -> int:
        del source
        return sum(row.in_vain_at is not None and row.in_vain_at > since for row in self.rows.values())

    async def open(self, source: Source) -> list[OpenAssignment]:
        del source
        return [
            OpenAssignment(
                job_id=row.job_id,
                source_id=1,
                assignment=row.key,
                workflow_run_id=0,
                assigned_at=row.assigned_at,
                runner_name=row.runner or None,
                started_at=row.started_at,
                finished_at=None,
                result=None,
                forge_job_id=None,
                job_guid=NAMELESS if row.nameless else "guid",
                handed_at=row.assigned_at if row.status != "queued" else None,
            )
            for row in self.rows.values()
            if row.status != "over"
        ]

    async def close_ghost(self, row: AssignedJob, account_id: int, why: str, *, in_vain: bool = False) -> None:
        del account_id, why

        def act() -> None:
            closed = self.rows[row.assignment]
            closed.status, closed.conclusion = "over", "cancelled"
            closed.in_vain_at = self.world.clock.now() if in_vain else None

        await self._write("close", act)

    async def quarantine(self, source: Source, *, message_id: int, digest: str, why: str, body: str) -> None:
        del source, message_id, body

        def act() -> None:
            self.quarantined[digest] = why

        await self._write("quarantine", act)


class QueueWorld:
    """GitHub with one organisation, Macs that take what they are handed, and dispatch processes that listen and serve."""

    def __init__(self, world: World, *, room: Room | None = None, serve: bool = True) -> None:
        self.world = world
        self.github = SimulatedGitHub(world.clock, world.rng("github"), app_key=_KEY)
        self.account = self.github.add_organization("acme", "app")
        self.place = RunnerPlace(self.account.installation_id, "acme")
        self.pool: RunnerPool | None = pool()
        self.clash: str | None = None
        self.serve = serve
        allowed = room or Room(vcpus=12, memory_mb=28_672, elsewhere_vcpus=0, elsewhere_memory_mb=0, rivals=0)
        self.book = MemoryBook(
            world,
            Source(
                source_id=1,
                pool="macos",
                account_id=1,
                repository="",
                scale_set_id=None,
                session_id="",
                epoch=0,
                dispatcher_id=None,
                state="Starting",
                sentence="",
                since=world.clock.now(),
                heard_at=None,
                assigned=0,
                running=0,
                advertised=0,
            ),
            allowed,
        )
        self.jobs: list[SimulatedJob] = []
        self._dispatchers = itertools.count(1)
        self._names = itertools.count(1)
        self._configs: asyncio.Queue[str] = asyncio.Queue()
        self._outside = [asyncio.create_task(self.github.run()), asyncio.create_task(self._macs())]

    def start(self, name: str = "dispatch", *, restart_after: float | None = 5.0) -> None:
        self.world.process(name, self._dispatch, restart_after=restart_after)

    def submit(
        self, count: int = 1, *, seconds: float = 60.0, labels: tuple[str, ...] = (LABEL,)
    ) -> list[SimulatedJob]:
        new = [
            self.github.submit("acme/app", labels=labels, duration=seconds, name=f"job {len(self.jobs) + n}")
            for n in range(count)
        ]
        self.jobs += new
        return new

    @property
    def scale_set(self) -> SimulatedScaleSet:
        (found,) = self.github.state.scale_sets.values()
        return found

    async def until(self, what: str, true: Callable[[], object], *, within: float = 3600.0) -> None:
        deadline = self.world.clock.monotonic() + within
        while not true():
            assert self.world.clock.monotonic() < deadline, f"not within {within:.0f} s: {what}; {self.said()}"
            await self.world.clock.sleep(1.0)

    def said(self) -> str:
        jobs = [(job.status, job.conclusion, job.starts, job.assignments) for job in self.jobs]
        return f"{jobs} {list(self.book.rows.values())} {self.book.states[-3:]}"

    def settled(self) -> bool:
        """Every job is over at GitHub and in the ledger, and no message is left."""
        over = all(self.github.job(job.id).status == "completed" for job in self.jobs)
        rows = all(row.status == "over" for row in self.book.rows.values())
        left = any(s.messages or s.said for s in self.github.state.scale_sets.values())
        return over and rows and not left

    async def end(self) -> None:
        """The outside world stops, too."""
        for task in self._outside:
            task.cancel()
        await asyncio.gather(*self._outside, return_exceptions=True)

    async def _dispatch(self) -> None:
        dispatcher = next(self._dispatchers)
        github = GitHubClient(
            self.github.settings(),
            self.world.clock,
            self.world.rng(f"client {dispatcher}"),
            self.world.transport(self.github.app),
        )
        context = ListenerContext(
            github=github.scale_sets,
            book=self.book,
            clock=self.world.clock,
            metrics=ScaleSetMetrics(CollectorRegistry()),
            name=f"dispatch-{dispatcher}",
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat(dispatcher))
            group.create_task(self._listen(dispatcher, context))
            if self.serve:
                group.create_task(self._serve(github))

    async def _beat(self, dispatcher: int) -> None:
        while True:
            self.book.beats[dispatcher] = self.world.clock.monotonic()
            await self.world.clock.sleep(5.0)

    async def _listen(self, dispatcher: int, context: ListenerContext) -> None:
        while True:
            source = self.book.take(dispatcher)
            if source is not None:
                with suppress(LeaseLostError, LedgerUnavailableError):
                    await Listener(context, source, self.place, lambda: self.pool, lambda _: self.clash).run()
            await self.world.clock.sleep(5.0)

    async def _serve(self, github: GitHubClient) -> None:
        """Mint for each row that waits, in the set that is recorded; a name is never used twice."""
        while True:
            number = self.book.source.scale_set_id
            waiting = [row for row in self.book.rows.values() if row.status == "queued"]
            if number is not None and self.book.source.state == "Listening":
                for row in waiting:
                    name = f"macos-{next(self._names)}"
                    try:
                        minted = await github.scale_sets.mint(self.place, number, name=name, work_folder="w")
                    except GitHubError:
                        continue
                    if row.status == "queued":
                        row.status, row.runner = "handed", name
                        self._configs.put_nowait(minted.config.reveal())
            await self.world.clock.sleep(1.0)

    async def _macs(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._run_one(await self._configs.get()))

    async def _run_one(self, config: str) -> None:
        try:
            session = self.github.connect(config)
            job = await session.next_job(300.0)
        except (RunnerRefusedError, RunnerGoneError):
            return
        if job is None:
            session.disconnect()
            return
        await self.world.clock.sleep(job.duration)
        session.finish()


def scenario(act: Callable[[QueueWorld], Awaitable[None]], **options: object) -> Callable[[World], Awaitable[None]]:
    async def run(world: World) -> None:
        queue = QueueWorld(world, **options)  # pyright: ignore[reportArgumentType]
        try:
            await act(queue)
        finally:
            await queue.end()

    return run
