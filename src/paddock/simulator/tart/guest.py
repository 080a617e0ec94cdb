"""The guest of a simulated VM: boots, runs what our guest script does, and gives the job's config to a runner."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from paddock.base.clock import Clock
from paddock.simulator.tart.disk import SimulatedDisk

__all__ = ["GuestPace", "GuestProgram", "Mishap", "RunnerProgram", "Sharing"]


class Mishap(StrEnum):
    """What can go wrong with a VM, each as a VM in the field did."""

    DIES_AT_ONCE = "dies in 2 s"
    NEVER_BOOTS = "never boots"
    NEVER_READY = "boots without getting ready"
    IGNORES_HALT = "ignores halt"
    CRASHES_IN_JOB = "crashes in its job"
    SAYS_NOTHING = "ends without a code"


@dataclass(frozen=True, slots=True)
class GuestPace:
    """Seconds, before chance: clone to address about 9 s, to ready about 30 on a mini."""

    boot: float = 9.0
    ready: float = 5.0
    halt: float = 3.0
    mark: float = 5.0


@dataclass(frozen=True, slots=True)
class Sharing:
    """The two shares as the guest finds them."""

    env: Path
    status: Path


RunnerProgram = Callable[[str, Callable[[str], None]], Awaitable[int]]
"""The runner: takes the JIT config and a way to say which stage it is in; gives its exit code."""


class GuestProgram:
    """One boot of one guest. `run` returns when the guest has halted; cancelling it is pulling the plug."""

    def __init__(
        self,
        disk: SimulatedDisk,
        sharing: Sharing,
        runner: RunnerProgram,
        *,
        clock: Clock,
        rng: random.Random,
        pace: GuestPace,
        mishap: Mishap | None,
        starts_itself: bool,
    ) -> None:
        self._disk = disk
        self._sharing = sharing
        self._runner = runner
        self._clock = clock
        self._rng = rng
        self._pace = pace
        self.mishap = mishap
        self._starts_itself = starts_itself
        self.booted = False
        self.started = False
        self.stage = "waiting"
        self.jobs = 0
        """How many jobs this guest was given; more than one is a bug."""

    async def run(self) -> None:
        await self._clock.sleep(self._pace.boot * self._rng.uniform(0.8, 1.2))
        if self.mishap is Mishap.NEVER_BOOTS:
            await self._clock.sleep(float("inf"))
        self.booted = True
        disk, env, status = self._disk, self._sharing.env, self._sharing.status
        if not (disk.others_may(5, env) and disk.others_may(7, status) and disk.others_may(4, env / "guest.sh")):
            await self._clock.sleep(float("inf"))  # the guest's user has another number than the host's
        if self._starts_itself:
            self.started = True
        while not self.started:
            await self._clock.sleep(0.5)
        self._say("state", "booted")
        if self.mishap is Mishap.NEVER_READY:
            await self._clock.sleep(float("inf"))
        await self._clock.sleep(self._pace.ready * self._rng.uniform(0.8, 1.2))
        self._say("state", "ready")
        self._mark("waiting")
        await self._disk.until(lambda: self._there("job") or self._halt_wanted())
        if self._halt_wanted():
            await self._halt(143)
            return
        await self._job()

    async def _job(self) -> None:
        self.jobs += 1
        config = self._disk.files[self._sharing.env / "job"].decode().strip()
        self._say("state", "job")
        self._mark("starting")
        if self.mishap is Mishap.CRASHES_IN_JOB:
            await self._clock.sleep(5.0)
            return
        code = await self._runner(config, self._mark)
        self._mark("finishing")
        self._append_log(f"runner ended with {code}\n")
        await self._halt(code)

    async def _halt(self, code: int) -> None:
        if self.mishap is not Mishap.SAYS_NOTHING:
            self._say("rc", str(code))
        self._say("state", "done")
        if self.mishap is Mishap.IGNORES_HALT:
            await self._clock.sleep(float("inf"))
        await self._clock.sleep(self._pace.halt)

    def _there(self, name: str) -> bool:
        path = self._sharing.env / name
        return path in self._disk.files and self._disk.others_may(4, path)

    def _halt_wanted(self) -> bool:
        return self.mishap is not Mishap.IGNORES_HALT and self._there("stop")

    def _say(self, name: str, text: str) -> None:
        self._disk.put(self._sharing.status / name, f"{text}\n".encode())

    def _mark(self, stage: str) -> None:
        self.stage = stage
        self._say("mark", f"{int(self._clock.now().timestamp())} {stage}")
        self._append_log(f"{stage}\n")

    def _append_log(self, text: str) -> None:
        path = self._sharing.status / "log"
        self._disk.put(path, (self._disk.files.get(path, b"") + text.encode())[-65536:])
