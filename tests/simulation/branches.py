"""Copies of a running simulation, one for each effect and each way to disturb it: the past is computed once.

What a scenario knows must lie in this process's memory: no database, no file, no connection survives the copy.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from traceback import format_exception
from typing import Any

from watchdog import dies_with

from paddock.simulator.faults import Crash, EffectCall, Fail, Fault
from paddock.simulator.interruptions import Interruption
from paddock.simulator.process import World, simulate
from paddock.simulator.realwait import unguarded

__all__ = ["FROM_HERE", "UNTIL_HERE", "Cut", "Kind", "Scenario", "branches_of", "interrupted_calls"]

Scenario = Callable[[World], Awaitable[Any]]
FROM_HERE = "from here on calls are interrupted"
UNTIL_HERE = "from here on calls are left alone"


@dataclass(frozen=True)
class Cut:
    """A call gets this fault, and its process then reaches nobody for a while: a leader that is deposed and lives on."""

    fault: Fault
    seconds: float


Kind = Fault | Cut


def branches_of(
    scenario: Scenario,
    kinds: Sequence[Kind],
    *,
    only: Callable[[EffectCall], bool],
    seed: int | str = 0,
    reached: bool = False,
) -> list[tuple[EffectCall, Kind]]:
    """Run the scenario undisturbed and, for each of its calls and each kind, a copy of it disturbed there.

    The scenario asserts by itself that all came right; it announces FROM_HERE unless its first call is `reached` already.
    An error names the call, the kind and the seed.
    """
    branches = _Branches(kinds, only, reached=reached)
    try:
        simulate(branches.disturbing(scenario), seed=seed)
    except BaseException as error:
        branches.end_of_a_copy(error)  # else it would go on with the tests that come next
        raise
    branches.finish()
    return branches.begun


def interrupted_calls(
    scenario: Scenario,
    *,
    kinds: Sequence[Interruption] = tuple(Interruption),
    only: Callable[[EffectCall], bool] = lambda _: True,
    seed: int | str = 0,
) -> list[EffectCall]:
    """As `interruptions`, from the first call on: the calls that were interrupted, each as often as it was."""
    begun = branches_of(scenario, [kind.fault for kind in kinds], only=only, seed=seed, reached=True)
    return [call for call, _ in begun]


class _Branches:
    """The disturbed runs of one scenario, as forks of the undisturbed one.

    At each call the world is copied, once for each kind: the copy gets the fault, the original goes on. So a copy has
    the same past as the original by construction, and the past is computed once. Two copies run at a time.
    """

    AT_A_TIME = 2

    def __init__(self, kinds: Sequence[Kind], only: Callable[[EffectCall], bool], *, reached: bool) -> None:
        self.begun: list[tuple[EffectCall, Kind]] = []
        self._kinds = kinds
        self._only = only
        self._reached = reached
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
        self._reached = (self._reached or call.name == FROM_HERE) and call.name != UNTIL_HERE
        if self._outlet is not None or not self._reached or not self._only(call):
            return False
        if isinstance(kind, Crash) and not call.process:
            return False  # nobody is there to die
        while len(self._running) >= self.AT_A_TIME:
            self._collect()
        inlet, outlet = os.pipe()
        self.begun.append((call, kind))
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

    def end_of_a_copy(self, error: BaseException) -> None:
        """The simulation itself has failed, say by its limit of time: here, if this is a copy, its process ends."""
        self._tell("".join(format_exception(error)))

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
                f"{len(failures)} of {len(self.begun)} interrupted runs failed:\n{where}the first one:\n{failures[0]}"
            )
