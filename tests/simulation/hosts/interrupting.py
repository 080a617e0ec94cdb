"""Run a scenario again for every effect it has, and disturb it exactly there; then ask whether all came right."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from multiprocessing import get_context
from traceback import format_exception
from typing import Any

from simulation.hosts.invariants import Picture, unsafe, unsettled

from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.recovery import Tiers
from paddock.hosts.settings import HostSettings
from paddock.simulator.fleet_world import POOL, FleetWorld
from paddock.simulator.faults import Call, Crash, Fail, Fault, LoseAnswer, Moment
from paddock.simulator.process import World, simulate
from paddock.simulator.seeds import chosen_seeds

__all__ = ["INTERRUPTIONS", "Ward", "effects", "from_here", "interrupt_everywhere", "quick", "small_fleet"]

Scenario = Callable[[World], Awaitable[Any]]
INTERRUPTIONS: tuple[Fault, ...] = (Crash(Moment.BEFORE), Crash(Moment.AFTER), LoseAnswer(), Fail())
_FROM_HERE = "the part that is interrupted"


def quick(**changes: Any) -> HostSettings:
    """The operator's flags with everything that waits made short, so that one run is a fraction of a second."""
    settings = HostSettings(
        default_adopt_pool_prefix=POOL,
        inventory_interval=10.0,
        reclaim_interval=25.0,
        tiers=Tiers(reboot_after=1, max_attempts=2, sealed_patience=timedelta(seconds=120), retry_seconds=15.0),
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
    return fleet


@dataclass
class Ward:
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

    def safe(self) -> None:
        wrong = unsafe(self.picture())
        assert not wrong, "\n".join(wrong)

    async def healthy(self, within: float = 900.0) -> None:
        fleet = self.fleet
        deadline = fleet.clock.monotonic() + within
        while wrong := unsettled(self.picture()):
            self.safe()
            if fleet.clock.monotonic() > deadline:
                raise AssertionError(
                    f"not settled within {within:.0f} s:\n  " + "\n  ".join(wrong) + f"\n{await fleet.describe()}"
                )
            await fleet.clock.sleep(2.0)
        self.safe()


def from_here(world: World) -> None:
    """What happened so far was the preparation: only the calls from here on are interrupted."""
    world.faults.announce(_FROM_HERE)


def effects(call: Call) -> bool:
    """What changes anything. Events are told, not relied upon; leases have tests of their own."""
    return call.method != "GET" and "/events" not in call.path and "/leases" not in call.path


def interrupt_everywhere(
    scenario: Scenario,
    *,
    kinds: Sequence[Fault] = INTERRUPTIONS,
    only: Callable[[Call], bool] = effects,
    seeds: int = 1,
) -> int:
    """Run the scenario undisturbed, then once for each of its calls and each kind. The number of disturbed runs.

    The scenario asserts by itself that all came right. An error names the call, the kind and the seed. The runs are
    spread over two processes: each is a world of its own.
    """
    plans = [
        Plan(scenario, call, kind, seed)
        for seed in chosen_seeds(seeds)
        for call in _targets(simulate(scenario, seed=seed).world.faults.calls, only)
        for kind in kinds
    ]
    assert plans, "nothing was interrupted"
    _PLANS[:] = plans
    with get_context("fork").Pool(2) as pool:
        failures = [failure for failure in pool.imap_unordered(_carry_out, range(len(plans)), chunksize=4) if failure]
    assert not failures, f"{len(failures)} of {len(plans)} interrupted runs failed; the first:\n{failures[0]}"
    return len(plans)


@dataclass(frozen=True)
class Plan:
    """One disturbed run: this kind of interruption, at this call."""

    scenario: Scenario
    target: Call
    kind: Fault
    seed: int


# Scenarios are closures, which cannot be sent to another process; a forked one has them already.
_PLANS: list[Plan] = []


def _carry_out(number: int) -> str:
    """Why the plan failed; empty when all came right."""
    try:
        _interrupted(_PLANS[number])
    except Exception as error:  # noqa: BLE001 - it crosses a process boundary as text
        return "".join(format_exception(error))
    return ""


def _targets(calls: Iterable[Call], only: Callable[[Call], bool]) -> list[Call]:
    made = list(calls)
    start = next((at for at, call in enumerate(made) if call.name == _FROM_HERE), -1)
    return [call for call in made[start + 1 :] if call.process and only(call)]


def _interrupted(plan: Plan) -> None:
    target = plan.target

    async def disturbed(world: World) -> None:
        rule = world.faults.inject(plan.kind, where=lambda call: call.number == target.number)
        await plan.scenario(world)
        made = world.faults.calls[target.number - 1]
        assert made == target, f"undisturbed, the scenario made {target}; run again, it made {made}"
        assert rule.fired == 1

    try:
        simulate(disturbed, seed=plan.seed)
    except Exception as error:
        error.add_note(f"interrupted: {plan.kind} at {target}, seed {plan.seed}")
        raise
