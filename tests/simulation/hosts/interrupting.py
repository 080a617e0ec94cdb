"""Run a scenario again for every effect it has, and disturb it exactly there; then ask whether all came right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from simulation.branches import FROM_HERE, UNTIL_HERE, Cut, Kind, Scenario, branches_of
from simulation.hosts.invariants import Picture, unsafe, unsettled

from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.recovery import Tiers
from paddock.hosts.settings import HostSettings
from paddock.simulator.faults import Crash, EffectCall, Fail, Fault, FaultMoment, LoseAnswer
from paddock.simulator.fleet_world import POOL, FleetWorld
from paddock.simulator.process import World
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
    world.faults.announce(FROM_HERE)


def until_here(world: World) -> None:
    """What comes from here on is not interrupted any more: another test does that."""
    world.faults.announce(UNTIL_HERE)


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
        runs += len(branches_of(scenario, kinds, only=lambda call: bool(call.process) and only(call), seed=seed))
    assert runs, "nothing was interrupted"
    return runs // len(kinds)
