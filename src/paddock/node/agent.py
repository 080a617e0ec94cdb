"""The agent as a whole: everything it needs is handed in, so that the same code runs on a Mac and in a simulation.

It may be killed at any await. It never ends a VM because it ends: VMs live in sessions of their own, and the next agent
adopts them.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import NoReturn

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock, rfc3339
from paddock.base.logs import get_logger
from paddock.base.supervise import keep_running
from paddock.base.tasks import TaskStack
from paddock.clients.gateway.messages import Reason
from paddock.node.context import Context
from paddock.node.files import Files
from paddock.node.golden_book import GoldenBook
from paddock.node.goldens import PRESSURE, Goldens
from paddock.node.guest_logs import JournalLog, JournalLogs
from paddock.node.health import OTHER_CLUSTER_VMS, Health, stated
from paddock.node.host import Host
from paddock.node.journal import Journal, Stage
from paddock.node.keeper import Keeper
from paddock.node.link import LinkError, MacLink, NodeTakenError
from paddock.node.machines import Tart, TartError
from paddock.node.metrics import AgentMetrics
from paddock.node.names import golden_name
from paddock.node.report import is_recorded
from paddock.node.reporter import Reporter
from paddock.node.seat_leaks import SeatLeaks
from paddock.node.settings import AgentSettings
from paddock.node.sweep import Sweep

__all__ = ["Agent", "World"]

log = get_logger("node agent")
_BACKOFF = Backoff(base=1.0, cap=30.0)
_SKEW = 30.0
_SKEW_OVER = 20.0
_SKEWED = (
    "the Mac's clock and the API server's are more than 30 s apart, so that GitHub may refuse its runners: "
    "set it with `sudo sntp -sS time.apple.com`, and look at paddock_node_clock_skew_seconds"
)


@dataclass(frozen=True, slots=True)
class World:
    """What an agent acts on."""

    link: MacLink
    tart: Tart
    host: Host
    files: Files
    clock: Clock
    rng: random.Random


class Agent:
    """One agent of one Mac. `run` works until cancelled; the caller holds the lock against a second one."""

    def __init__(self, world: World, settings: AgentSettings, *, metrics: AgentMetrics | None = None) -> None:
        self._world = world
        self._settings = settings
        self.metrics = metrics or AgentMetrics()
        self._keepers: dict[str, tuple[Keeper, asyncio.Task[None]]] = {}
        self._context: Context | None = None
        self._clock_is_wrong = False
        self._other_cluster_said = False
        self._taken = asyncio.Event()
        self.standing_down = ""
        """Why this agent does nothing, where another Mac has its name."""

    @property
    def context(self) -> Context:
        assert self._context is not None, "the agent has not started"
        return self._context

    async def run(self) -> None:
        """Work until cancelled. Raises NodeTakenError where another Mac reports under this name."""
        world, settings = self._world, self._settings
        journal = Journal(world.files, settings.data / "vms")
        await journal.load()
        host, tart_version = await world.host.facts(), await self._tart_version()
        leaks = SeatLeaks(world.files, settings.data / "leaks.json", world.clock, host)
        await leaks.load()
        book = GoldenBook(
            world.files, settings.data / "goldens.json", world.clock, boot_id=host.boot_id, tart=tart_version
        )
        goldens = Goldens(
            world.tart,
            world.host,
            book,
            clock=world.clock,
            rng=world.rng,
            metrics=self.metrics,
            in_use=self._images_in_use,
        )
        context = self._context = Context(
            settings=settings,
            link=world.link,
            tart=world.tart,
            files=world.files,
            journal=journal,
            goldens=goldens,
            host=host,
            metrics=self.metrics,
            clock=world.clock,
            rng=world.rng,
            leaks=leaks,
        )
        reporter = Reporter(context, tart_version, self._ask_health, self._keep)
        goldens.changed = self._wake_all
        try:
            # Before anything is touched: another Mac may have this one's name.
            await reporter.once(hold=0.0)
        except NodeTakenError as error:
            self._stand_down(error)
        except (LinkError, OSError) as error:
            # Not knowing is no reason to stand down: VMs of ours may run.
            log.warning("the first report was not answered", why=str(error))
        adopted = [entry for entry in journal.entries() if entry.stage in (Stage.STARTING, Stage.RUNNING)]
        self.metrics.adopted.inc(len(adopted))
        try:
            await self._work(reporter, goldens)
        except NodeTakenError as error:
            self._stand_down(error)
        finally:
            await book.close()

    def _stand_down(self, why: NodeTakenError) -> NoReturn:
        self.standing_down = (
            f"another Mac reports as Node {self._settings.node_name}: this agent stands down; "
            "stop one of the two, or give one another name"
        )
        log.error(self.standing_down)
        raise NodeTakenError(self.standing_down) from why

    async def _work(self, reporter: Reporter, goldens: Goldens) -> None:
        world, context = self._world, self.context
        async with TaskStack() as tasks:
            try:
                for entry in context.journal.entries():
                    self._keep(entry.uid)
                work = {
                    "link": world.link.run,
                    "reports": lambda: self._report(reporter),
                    "sweep": lambda: self._sweep(Sweep(context)),
                    "goldens": goldens.run,
                }
                for name, run in work.items():
                    tasks.start(keep_running(name, run, world.clock, world.rng))
                await self._taken.wait()
                raise NodeTakenError(self._settings.node_name)
            finally:
                # The keepers end, their VMs do not.
                for _, task in self._keepers.values():
                    task.cancel()
                await asyncio.gather(*(task for _, task in self._keepers.values()), return_exceptions=True)

    # Pods

    def _keep(self, uid: str) -> None:
        running = self._keepers.get(uid)
        if running is not None and not running[1].done():
            running[0].wake()
            return
        keeper = Keeper(self.context, uid)
        task = asyncio.create_task(
            keep_running(f"keeper {uid}", keeper.run, self._world.clock, self._world.rng, _BACKOFF, until_done=True),
            name=f"keeper {uid}",
        )
        self._keepers[uid] = (keeper, task)
        task.add_done_callback(lambda done: self._kept(uid, done))

    def _kept(self, uid: str, done: asyncio.Task[None]) -> None:
        running = self._keepers.get(uid)
        if running is not None and running[1] is done:
            del self._keepers[uid]
            if not done.cancelled() and uid in self.context.pods and self.context.journal.get(uid) is not None:
                self._keep(uid)

    def _wake_all(self) -> None:
        for keeper, _ in self._keepers.values():
            keeper.wake()

    def _images_in_use(self) -> tuple[frozenset[str], frozenset[str]]:
        """The goldens that Pods name which have not ended, and those under VMs that may run."""
        context = self.context
        entries = context.journal.entries()
        named = {golden_name(entry.image) for entry in entries if not entry.over}
        over = {entry.uid for entry in entries if entry.over}
        for uid, pod in context.pods.items():
            if uid not in over and not is_recorded(pod):
                named.add(golden_name(pod.image))
        return frozenset(named), frozenset(golden_name(each.image) for each in entries if each.holds_seat)

    def find(self, namespace: str, pod: str) -> JournalLog | None:
        """The log of a Pod's guest, also after the VM's end."""
        return JournalLogs(self._context).find(namespace, pod) if self._context is not None else None

    # The Node

    async def _report(self, reporter: Reporter) -> None:
        try:
            await reporter.run()
        except NodeTakenError:
            self._taken.set()

    async def _ask_health(self) -> Health:
        """What is wrong with the Mac now. A job of another cluster is an event, once."""
        health = await self._read_health()
        if health.other_cluster and not self._other_cluster_said:
            said = stated(health)[OTHER_CLUSTER_VMS]
            self.context.event(Reason(OTHER_CLUSTER_VMS, said.message))
        self._other_cluster_said = bool(health.other_cluster)
        self._count()
        return health

    async def _start_problem(self) -> Reason | None:
        """Why no VM may start on this Mac; as before where that cannot be told."""
        host = self._world.host
        try:
            if said := await host.session_problem():
                return Reason("NoSession", said)
            if said := await host.egress_problem(self.context.clock.now()):
                return Reason("EgressOpen", said)
        except OSError:
            return self.context.start_problem
        return None

    async def _read_health(self) -> Health:
        context = self.context
        problem = await self._start_problem()
        if problem != context.start_problem:
            context.start_problem = problem
            self._wake_all()
        disk = context.goldens.disk
        short = disk is not None and disk.free_share < PRESSURE
        days = (context.clock.now() - context.host.booted_at).total_seconds() / 86400
        long = days >= self._settings.long_uptime_days
        wrong = _wrong(context.clock_skew, already=self._clock_is_wrong)
        if wrong and not self._clock_is_wrong:
            log.warning("the clock is off", seconds=round(context.clock_skew or 0.0), remedy=_SKEWED)
        self._clock_is_wrong = wrong
        return Health(
            not_ready=problem,
            disk_pressure=f"{context.pressure}: no Pod is taken until space is free" if short else "",
            slots_leaked=context.leaks.now(),
            slots_leak_often=context.leaks.often(),
            long_uptime=f"the Mac is up for {days:.0f} days: reboot it when it is idle" if long else "",
            clock_skew=_SKEWED if self._clock_is_wrong else "",
            journal_unreadable=context.journal.complaint,
            other_cluster=tuple(
                f"{each.namespace}/{each.name} (VM {each.vm}, since {rfc3339(each.handed_at or each.accepted_at)})"
                for each in context.other_cluster_work
            ),
        )

    async def _sweep(self, sweep: Sweep) -> None:
        while True:
            await self.context.journal.keep_ballast()
            await sweep.once()
            for entry in self.context.journal.entries():
                self._keep(entry.uid)
            for uid in list(self.context.pods):
                self._keep(uid)  # a watch event that was missed must not leave a Pod Pending for hours
            await self._world.clock.sleep(self._settings.sweep_every)

    def _count(self) -> None:
        entries = self.context.journal.entries()
        for stage in Stage:
            self.metrics.vms.labels(stage.value).set(sum(entry.stage is stage for entry in entries))

    async def _tart_version(self) -> str:
        try:
            return await self._world.tart.version()
        except TartError as error:
            log.warning("tart does not tell its version", why=str(error))
            return "unknown"


def _wrong(skew: float | None, *, already: bool) -> bool:
    """Whether the clock is wrong. Two thresholds, so that a clock near one of them does not flap."""
    if skew is None:
        return already
    return abs(skew) > (_SKEW_OVER if already else _SKEW)
