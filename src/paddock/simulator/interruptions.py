"""Prove by interruption: run a scenario again for every effect it has, and disturb it exactly there."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from paddock.simulator.errors import NotRepeatableError
from paddock.simulator.faults import Crash, EffectCall, Fail, Fault, FaultMoment, LoseAnswer
from paddock.simulator.loop import DAY
from paddock.simulator.process import ProcessOutcome, World, simulate

__all__ = ["Interrupted", "Interruption", "interruptions"]

T = TypeVar("T")


class Interruption(Enum):
    """What can happen at an effect."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    LOSE_ANSWER = "lose the answer of"
    FAIL_BEFORE = "fail before"

    @property
    def needs_process(self) -> bool:
        return self in {Interruption.CRASH_BEFORE, Interruption.CRASH_AFTER}

    @property
    def fault(self) -> Fault:
        match self:
            case Interruption.CRASH_BEFORE:
                return Crash(FaultMoment.BEFORE)
            case Interruption.CRASH_AFTER:
                return Crash(FaultMoment.AFTER)
            case Interruption.LOSE_ANSWER:
                return LoseAnswer()
            case Interruption.FAIL_BEFORE:
                return Fail()


@dataclass(frozen=True)
class Interrupted(Generic[T]):
    """One run of the scenario: what was done to it, where, and what came of it."""

    call: EffectCall
    kind: Interruption
    outcome: ProcessOutcome[T]


def interruptions(
    scenario: Callable[[World], Awaitable[T]],
    *,
    seed: int | str = 0,
    kinds: Sequence[Interruption] = tuple(Interruption),
    only: Callable[[EffectCall], bool] | None = None,
    limit: float = DAY,
) -> list[Interrupted[T]]:
    """Run the scenario undisturbed, then once for each of its calls and each kind of interruption, with one seed.

    The scenario builds its processes in the world it is given, waits until all has come right, and asserts that it has;
    processes that are to survive a crash need `restart_after`. Calls made outside every process cannot crash one, so
    they get the other kinds only. `only` narrows the calls. An error of the scenario carries a note that names the call
    and the kind. Raises `NotRepeatableError` if a run does not make the same calls up to its interruption.
    """
    calm = simulate(scenario, seed=seed, limit=limit)
    calls = [call for call in calm.world.faults.calls if only is None or only(call)]
    return [
        Interrupted(call, kind, _interrupted(scenario, call, kind, seed=seed, limit=limit))
        for call in calls
        for kind in kinds
        if call.process or not kind.needs_process
    ]


def _interrupted(
    scenario: Callable[[World], Awaitable[T]], target: EffectCall, kind: Interruption, *, seed: int | str, limit: float
) -> ProcessOutcome[T]:
    async def disturbed(world: World) -> T:
        rule = world.faults.inject(kind.fault, where=lambda call: call.number == target.number)
        result = await scenario(world)
        made = next((call for call in world.faults.calls if call.number == target.number), None)
        if made != target or rule.fired != 1:
            raise NotRepeatableError(f"undisturbed, the scenario made {target}; run again, it made {made}")
        return result

    try:
        return simulate(disturbed, seed=seed, limit=limit)
    except Exception as error:
        error.add_note(f"interrupted: {kind.value} {target}")
        raise
