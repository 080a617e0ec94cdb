"""A day of many Macs on virtual time, with faults: no job is lost, by GitHub's own view, and memory stays what it was.

`make bench soak`; SOAK_MACS, SOAK_HOURS and SOAK_JOBS choose another size than 1,000 Macs, 24 hours and 250,000 jobs, which
takes four to five hours of real time on a quiet machine. Progress is told on stderr every five simulated minutes. Whoever has seen
enough sends SIGTERM: no more jobs are submitted, and what ran until then is judged.
"""

import asyncio
import gc
import os
import random
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event
from time import perf_counter

import psutil

from paddock.base.clock import SystemClock
from paddock.runners.ledger.database import prepare
from paddock.simulator.github import SimulatedJob
from paddock.simulator.instant_postgres import pools_closed_at_the_end
from paddock.simulator.pods import Hang
from paddock.simulator.process import World, simulate

from .scratch_postgres import scratch_postgres
from .soak_world import LABEL, SoakWorld
from .table import Row, amount

__all__ = ["Size", "Soaked", "judged", "soak", "soaked"]

HOUR = 3600.0
_SHORTEST, _LONGEST = 120.0, 840.0
_MISHAPS = 0.01
"""Of all jobs: so many runners go wrong."""
_JOB_LIMIT = 6 * HOUR - 60
_LOOK_EVERY = 60.0
_COLLECT_EVERY = 300.0
_A_MOMENT = 100.0
_LARGE = 100
"""Macs, from which on an idle hour costs more than a person would wait for."""
_FLAT = 1.15
"""Memory after the last hour, against that after the second: what a day may add."""


@dataclass(frozen=True, slots=True)
class Size:
    macs: int = 1_000
    hours: float = 24.0
    jobs: int = 250_000

    @classmethod
    def asked(cls, quick: bool) -> "Size":
        usual = cls(20, 0.5, 100) if quick else cls()
        return cls(
            int(os.environ.get("SOAK_MACS", usual.macs)),
            float(os.environ.get("SOAK_HOURS", usual.hours)),
            int(os.environ.get("SOAK_JOBS", usual.jobs)),
        )


@dataclass(slots=True)
class Soaked:
    """What GitHub saw, what was done to us, and what it cost."""

    jobs: int = 0
    hours: float = 0.0
    """Simulated, from the first job to the last."""
    ended: int = 0
    by_runner: int = 0
    """Jobs whose runner went away in the middle."""
    twice: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)
    cancelled: int = 0
    by_faults: int = 0
    """Jobs whose runner the faults took away: at most so many may be missing."""
    mishaps: int = 0
    power_cuts: int = 0
    kills_of_us: int = 0
    restarts: int = 0
    kills: float = 0.0
    left: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    """Megabytes after each hour, the first entry at the beginning; all simulators are in the same process."""
    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds of CPU from the first job on, without Postgres."""

    @property
    def lost(self) -> int:
        """Jobs that ended otherwise than they would have alone, the faults' own victims apart."""
        return len(self.wrong) + len(self.never) + len(self.twice) + max(0, self.by_runner - self.by_faults)


def soak(quick: bool) -> Iterator[Row]:
    size = Size.asked(quick)
    found = asyncio.run(_with_postgres(size))
    what = f"soak: {found.hours:.1f} h, {size.macs:,} Macs, {found.jobs:,} jobs"
    done = f"{found.mishaps} runners went wrong, {found.power_cuts} Macs lost power, {found.kills_of_us} processes were killed and {found.restarts} restarted, {found.cancelled} cancelled"
    goal = Size()
    reached = size.macs >= goal.macs and found.jobs >= goal.jobs and size.hours >= goal.hours
    missed = "" if reached else "smaller than the goal of 24 h, 1,000 Macs, 250,000 jobs; "
    cost = f"{found.jobs / found.seconds:.1f} jobs/s, {1000 * found.cpu / max(1, found.jobs):.0f} ms of CPU a job"
    yield Row("soak", what, amount(found.seconds), "s of real time", f"{missed}{cost}")
    yield Row("soak", "  jobs lost, by GitHub's view", str(found.lost), "", f"goal 0; {done}; {_troubles(found)}")
    each = ", ".join(f"{mb:.0f}" for mb in found.memory)
    grown = found.memory[-1] / found.memory[min(2, len(found.memory) - 1)]
    yield Row(
        "soak", "  memory, last hour", amount(found.memory[-1]), "MB", f"{grown:.2f}× the second; hour by hour {each}"
    )
    if problems := judged(found):
        raise SystemExit("; ".join(problems))


def _troubles(found: Soaked) -> str:
    return "; ".join([*found.wrong[:5], *found.never[:5], *found.left[:5]]) or "nothing is left behind"


def judged(found: Soaked) -> list[str]:
    """What a good soak has none of."""
    problems = [f"{found.lost} jobs were lost: {_troubles(found)}"] if found.lost else []
    if found.left:
        problems.append(f"left behind: {found.left[:5]}")
    if len(found.memory) > 4 and found.memory[-1] > _FLAT * found.memory[2]:
        problems.append(f"memory grew from {found.memory[2]:.0f} MB to {found.memory[-1]:.0f} MB")
    return problems


async def _with_postgres(size: Size) -> Soaked:
    enough = Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, enough.set)
    async with scratch_postgres() as server:
        await prepare(server.dsn, schema="soak", clock=SystemClock())
        return await asyncio.to_thread(soaked, server.dsn, "soak", size, enough)


def soaked(dsn: str, schema: str, size: Size, enough: Event, *, seed: int = 1) -> Soaked:
    """Run it on a prepared, empty schema, until all jobs are submitted or it is `enough`."""

    async def scenario(world: World) -> Soaked:
        return await _Soak(world, SoakWorld(world, dsn, schema, macs=size.macs), size, enough).run()

    with pools_closed_at_the_end():
        return simulate(scenario, seed=seed, limit=(size.hours + 12) * HOUR).result


def _stood_still(job: SimulatedJob) -> bool:
    """Its runner went on without ever getting on: nobody ends it under the job, so GitHub did, after its six hours."""
    ran = job.completed_at - job.started_at if job.completed_at and job.started_at else None
    return job.conclusion == "cancelled" and ran is not None and ran.total_seconds() >= _JOB_LIMIT


class _Soak:
    def __init__(self, world: World, cluster: SoakWorld, size: Size, enough: Event) -> None:
        self._cluster, self._size, self._enough = cluster, size, enough
        self._rng: random.Random = world.rng("soak")
        self._open: dict[int, SimulatedJob] = {}
        self._found = Soaked()
        self._cancelled: set[int] = set()
        """By somebody: at once where the job still waits, of which GitHub keeps no other trace."""
        self._waited: dict[str, float] = {}
        """Pods by uid, and when they were last seen to wait."""
        self._cuts: list[asyncio.Task[None]] = []
        self._process = psutil.Process()
        self._began = perf_counter()

    async def run(self) -> Soaked:
        cluster, found = self._cluster, self._found
        await cluster.begin()
        await cluster.eventually("every place has a Pod that waits", self._all_wait, within=2 * HOUR)
        self._tell("every place has a Pod that waits")
        before = self._cpu()
        behaviour = cluster.github.behaviour
        behaviour.unsent, behaviour.undelivered, behaviour.repeated = 0.001, 0.003, 0.005
        behaviour.delayed, behaviour.overtaken, behaviour.slow = 0.01, 0.005, 0.002
        behaviour.server_error, behaviour.lost_answer = 0.005, 0.001
        # What GitHub and the cluster keep of the past is bounded, but a small fleet needs days to fill it: so it is less here.
        an_hour = 1 + int(self._size.jobs / self._size.hours)
        behaviour.jobs_kept, behaviour.deliveries_kept = max(100, 2 * an_hour), max(300, 4 * an_hour)
        self._weigh()
        helpers = [asyncio.create_task(each) for each in (self._weather(), self._looking(), self._weighing())]
        await self._submitting()
        helpers[0].cancel()
        await asyncio.gather(*self._cuts)
        self._tell("the last job is submitted")
        await cluster.eventually("every job has ended", self._all_ended, within=10 * HOUR, every=_LOOK_EVERY)
        await cluster.eventually("every place has a Pod that waits again", self._all_wait, within=HOUR, every=30.0)
        for task in helpers:
            task.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        found.never += [f"job {job.id} is {job.status}" for job in self._open.values()]
        found.left = await self._left()
        self._count_faults()
        found.kills = cluster.live_kills()
        self._weigh()
        found.seconds, found.cpu = perf_counter() - self._began, self._cpu() - before
        return found

    def _count_faults(self) -> None:
        kubelets = self._cluster.kubelets
        done = kubelets.faults.done
        self._found.by_faults = kubelets.cut_off + done[Hang.DIES_IN_JOB] + done[Hang.STANDS_STILL]
        self._found.mishaps = sum(done.values())

    def _all_wait(self) -> bool:
        """Each Pod was seen to wait a moment ago. Of thousands some are always between two requests, for a tenth of a second."""
        if (service := self._cluster.service) is None:
            return False
        now, lives = self._cluster.clock.monotonic(), self._cluster.kubelets.lives
        self._waited.update((waiter.pod.uid, now) for waiter in service.dispatch.waiting)
        self._waited = {uid: at for uid, at in self._waited.items() if now - at <= _A_MOMENT and uid in lives}
        return len(self._waited) >= 2 * self._size.macs

    def _all_ended(self) -> bool:
        self._look()
        return not self._open

    # What happens

    async def _submitting(self) -> None:
        mean, began = self._size.hours * HOUR / self._size.jobs, self._cluster.clock.monotonic()
        for number in range(self._size.jobs):
            if self._enough.is_set():
                break
            seconds = self._rng.uniform(_SHORTEST, _LONGEST)
            job = self._cluster.github.submit(
                self._rng.choice(self._cluster.repositories), labels=(LABEL,), duration=seconds, name=f"job {number}"
            )
            self._open[job.id] = job
            self._found.jobs += 1
            if self._rng.random() < _MISHAPS:
                self._cluster.kubelets.faults.next.append(self._rng.choice(self._mishaps(number)))
            if self._rng.random() < _MISHAPS / 2:
                self._cancel_one()
            await self._cluster.clock.sleep(self._rng.expovariate(1.0 / mean))
            self._found.hours = (self._cluster.clock.monotonic() - began) / HOUR

    def _mishaps(self, number: int) -> list[Hang]:
        """What may go wrong with a runner now. One that stands still does so until GitHub's limit of six hours. Of a large fleet
        only the first quarter of the jobs can meet one: else as many hours of an idle fleet would follow the last job.
        """
        endless = self._size.macs >= _LARGE and number > self._size.jobs / 4
        return [kind for kind in Hang if not (endless and kind is Hang.STANDS_STILL)]

    def _cancel_one(self) -> None:
        chosen = self._open[self._rng.choice(list(self._open))]
        if chosen.status != "completed" and chosen.cancelled_at is None:
            self._found.cancelled += 1
            self._cancelled.add(chosen.id)
            self._cluster.github.cancel(chosen.id)

    async def _weather(self) -> None:
        """Every hour a Mac loses its power and a process is restarted, dispatch and the operator in turn; every sixth time it is
        killed instead. (What a killed process had in memory stays there: the simulator never takes its tasks apart.)
        """
        cluster, turn = self._cluster, 0
        while True:
            await cluster.clock.sleep(HOUR / 2)
            process = (cluster.dispatch, cluster.operator)[turn % 2]
            if turn % 12 in (0, 7):
                process.crash()
                self._found.kills_of_us += 1
            else:
                await process.stop()
                process.start()
                self._found.restarts += 1
            await cluster.clock.sleep(HOUR / 2)
            turn += 1
            self._found.power_cuts += 1
            cut = cluster.kubelets.power_cut(f"mac-{self._rng.randrange(self._size.macs)}")
            self._cuts.append(asyncio.create_task(cut))

    # Who judges

    async def _looking(self) -> None:
        while True:
            await self._cluster.clock.sleep(_LOOK_EVERY)
            self._look()

    def _look(self) -> None:
        """What has ended is judged and forgotten: GitHub keeps the newest twenty thousand jobs only."""
        self._cluster.github.tick()
        found = self._found
        for job in [job for job in self._open.values() if job.status == "completed"]:
            del self._open[job.id]
            found.ended += 1
            if job.starts > 1:
                found.twice.append(job.id)
            if job.id in self._cancelled:
                self._cancelled.discard(job.id)
                continue
            if job.lost_since is not None or _stood_still(job):
                found.by_runner += 1
            elif job.conclusion != job.planned:
                found.wrong.append(f"job {job.id} ended as {job.conclusion}")

    async def _weighing(self) -> None:
        began = last = self._cluster.clock.monotonic()
        while True:
            await self._cluster.clock.sleep(_COLLECT_EVERY)
            gc.collect()  # a simulated run has no collector of its own
            now = self._cluster.clock.monotonic()
            if now - last >= HOUR - 1:
                last = now
                self._weigh()
            self._tell(f"{(now - began) / HOUR:.2f} h")

    def _cpu(self) -> float:
        used = self._process.cpu_times()
        return used.user + used.system

    def _tell(self, when: str) -> None:
        """A line for who watches a run of hours."""
        found = self._found
        self._count_faults()
        memory = f"{self._process.memory_info().rss / 1e6:.0f} MB"
        print(
            f"soak: {when}: {found.jobs:,} jobs submitted, {found.ended:,} ended, {len(self._open)} open, {found.lost} lost; "
            f"{memory}; {perf_counter() - self._began:.0f} s of real time, {self._cpu():.0f} s of CPU",
            file=sys.stderr,
            flush=True,
        )

    def _weigh(self) -> None:
        gc.collect()
        self._found.memory.append(self._process.memory_info().rss / 1e6)

    async def _left(self) -> list[str]:
        """What the ledger still holds though no job runs."""
        ledger = self._cluster.ledger
        left = [f"a claim of Pod {claim.pod_name}" for claim in await ledger.claims.all()]
        return left + [f"a session of Pod {session.pod_uid}" for session in await ledger.sessions.open()]
