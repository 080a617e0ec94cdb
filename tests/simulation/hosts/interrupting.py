"""Run a scenario again for every effect it has, and disturb it exactly there; then ask whether all came right."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from traceback import format_exception
from typing import Any

import pytest
from simulation.hosts.invariants import Picture, unsafe, unsettled
from watchdog import dies_with

from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.recovery import Tiers
from paddock.hosts.settings import HostSettings
from paddock.simulator.faults import Crash, EffectCall, Fail, Fault, FaultMoment, LoseAnswer
from paddock.simulator.fleet_world import POOL, FleetWorld
from paddock.simulator.process import World, simulate
from paddock.simulator.realwait import unguarded
from paddock.simulator.seeds import chosen_seeds

__all__ = [
    "CRASHES",
    "OTHERS",
    "Cut",
    "FleetInvariants",
    "Kind",
    "effects",
    "from_here",
    "interrupt_everywhere",
    "interrupted_by",
    "quick",
    "small_fleet",
    "until_here",
    "who_has_it",
]

Scenario = Callable[[World], Awaitable[Any]]


@dataclass(frozen=True)
class Cut:
    """A call gets this fault, and its process then reaches nobody for a while: a leader that is deposed and lives on."""

    fault: Fault
    seconds: float


Kind = Fault | Cut
# A process that dies behind one effect and one that dies before the next leave the same world: only reading lies between.
CRASHES: tuple[Fault, ...] = (Crash(FaultMoment.AFTER),)
OTHERS: tuple[Fault, ...] = (Crash(FaultMoment.BEFORE), LoseAnswer(), Fail())
# The process dies behind every effect in every run of the tests; the other interruptions are tried by `test-slow`.
interrupted_by = pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(CRASHES, id="a crash"),
        pytest.param(OTHERS, id="a crash before, a lost answer or an error", marks=pytest.mark.slow),
    ],
)
_FROM_HERE = "from here on calls are interrupted"
_UNTIL_HERE = "from here on calls are left alone"


def quick(**changes: Any) -> HostSettings:
    """The operator's flags with everything that waits made short, so that one run is a fraction of a second."""
    settings = HostSettings(
        default_adopt_pool_prefix=POOL,
        inventory_interval=10.0,
        reclaim_interval=900.0,
        tiers=Tiers(reboot_after=1, max_attempts=3, sealed_timeout=timedelta(seconds=120), retry_seconds=15.0),
        lease_duration=6.0,
        renew_deadline=4.0,
        request_timeout=2.0,
        workers=4,
    )
    return replace(settings, **changes)


def small_fleet(world: World, *, settings: HostSettings | None = None, **more: Any) -> FleetWorld:
    """A FleetWorld whose hardware is quick."""
    fleet = FleetWorld(world, settings=settings or quick(), **more)
    fleet.macs.seconds = 5.0
    fleet.cloud.behaviour.reinstall = (40.0, 50.0)
    fleet.cloud.behaviour.reboot = 10.0
    fleet.cloud.behaviour.order_of_another_image = 50.0
    return fleet


@dataclass
class FleetInvariants:
    """Watches over a fleet: `healthy` waits until it has settled, and refuses anything unsafe on the way."""

    fleet: FleetWorld
    elsewhere: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)

    def picture(self) -> Picture:
        fleet = self.fleet
        return Picture(
            fleet.cloud.hosts(),
            fleet.store.present(Host),
            fleet.store.present(Machine),
            fleet.wipes,
            fleet.macs,
            self.elsewhere,
            self.leaving,
        )

    def wrong(self) -> list[str]:
        """What is not as it should be in the end."""
        return unsettled(self.picture())

    def safe(self) -> None:
        wrong = unsafe(self.picture())
        assert not wrong, "\n".join(wrong)

    async def healthy(self, within: float = 900.0) -> None:
        fleet = self.fleet
        deadline = fleet.clock.monotonic() + within
        while wrong := self.wrong():
            self.safe()
            if fleet.clock.monotonic() > deadline:
                raise AssertionError(
                    f"not settled within {within:.0f} s:\n  " + "\n  ".join(wrong) + f"\n{await fleet.describe()}"
                )
            await fleet.clock.sleep(2.0)
        self.safe()


def from_here(world: World) -> None:
    """Only the calls from here on are interrupted: what happened so far was the preparation."""
    world.faults.announce(_FROM_HERE)


def until_here(world: World) -> None:
    """What comes from here on is not interrupted any more: another test does that."""
    world.faults.announce(_UNTIL_HERE)


def effects(call: EffectCall) -> bool:
    """What changes anything. Events are told, not relied upon; leases have tests of their own."""
    return call.method != "GET" and "/events" not in call.path and "/leases" not in call.path


def who_has_it(call: EffectCall) -> bool:
    """Effects on the cloud, and what a Host intends: who has it, and whether it is given back."""
    return effects(call) and ("/servers/" in call.path or call.path.rpartition("/")[0].endswith("siliconhosts"))


def interrupt_everywhere(
    scenario: Scenario,
    *,
    kinds: Sequence[Kind],
    only: Callable[[EffectCall], bool] = effects,
    seeds: int = 1,
) -> int:
    """Run the scenario undisturbed and, for each of its calls and each kind, once disturbed. The number of those calls.

    The scenario says where to begin (`from_here`) and asserts by itself that all came right. An error names the call, the kind and the seed.
    """
    runs = 0
    for seed in chosen_seeds(seeds):
        branches = _Branches(kinds, only)
        simulate(branches.disturbing(scenario), seed=seed)
        branches.finish()
        runs += branches.begun
    assert runs, "nothing was interrupted"
    return runs // len(kinds)


class _Branches:
    """The disturbed runs of one scenario, as forks of the undisturbed one.

    At each call the world is copied, once for each kind: the copy gets the fault, the original goes on. So a copy has
    the same past as the original by construction, and the past is computed once. Two copies run at a time.
    """

    AT_A_TIME = 2

    def __init__(self, kinds: Sequence[Kind], only: Callable[[EffectCall], bool]) -> None:
        self.begun = 0
        self._kinds = kinds
        self._only = only
        self._reached = False
        self._what = ""
        self._outlet: int | None = None
        self._running: list[tuple[int, int]] = []
        self._failures: list[str] = []

    def disturbing(self, scenario: Scenario) -> Scenario:
        """The scenario that branches; a branch ends its process when it has told how it went."""

        async def run(world: World) -> None:
            for kind in self._kinds:
                fault = kind.fault if isinstance(kind, Cut) else kind
                world.faults.inject(fault, where=partial(self._branch, world, kind))
            try:
                await scenario(world)
            except Exception as error:
                if self._outlet is None:
                    raise
                error.add_note("\n".join(world.trace.text().splitlines()[-25:]))
                self._tell("".join(format_exception(error)))
            self._tell("")

        return run

    def _branch(self, world: World, kind: Kind, call: EffectCall) -> bool:
        """Whether this process is the copy in which this call gets this fault."""
        self._reached = (self._reached or call.name == _FROM_HERE) and call.name != _UNTIL_HERE
        if self._outlet is not None or not self._reached or not call.process or not self._only(call):
            return False
        while len(self._running) >= self.AT_A_TIME:
            self._collect()
        inlet, outlet = os.pipe()
        self.begun += 1
        loop = asyncio.get_running_loop()
        original = os.getpid()
        with unguarded():
            pid = os.fork()
        if pid:
            os.close(outlet)
            self._running.append((pid, inlet))
            return False
        dies_with(original)
        asyncio._set_running_loop(loop)  # asyncio forgets it in a forked process, where it usually cannot run
        self._outlet = outlet
        if isinstance(kind, Cut):
            until = world.clock.monotonic() + kind.seconds
            later = lambda other: other.number > call.number  # noqa: E731 - a condition, no function
            world.faults.inject(Fail(), process=call.process, where=later, until=until)
        self._what = f"interrupted: {kind} at {call}, seed {world.seed}\n"
        return True

    def _tell(self, failure: str) -> None:
        """End a copy; the original goes on."""
        if self._outlet is None:
            return
        os.write(self._outlet, (self._what + failure).encode()[-60_000:] if failure else b"")
        os._exit(0)

    def _collect(self) -> None:
        pid, inlet = self._running.pop(0)
        with os.fdopen(inlet, "rb") as told:
            failure = told.read().decode()
        _, status = os.waitpid(pid, 0)
        if failure or status:
            self._failures.append(failure or f"a copy ended with status {status}")

    def finish(self) -> None:
        while self._running:
            self._collect()
        if failures := self._failures:
            where = "".join(f"  {failure.splitlines()[0]}\n" for failure in failures)
            raise AssertionError(
                f"{len(failures)} of {self.begun} interrupted runs failed:\n{where}the first one:\n{failures[0]}"
            )
