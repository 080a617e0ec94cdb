"""`tart` of a simulated Mac: what it promises and what it is known to do instead."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from paddock.base.clock import Clock
from paddock.node.machines import (
    Download,
    Liveness,
    PullError,
    Resources,
    Run,
    TartError,
    Vm,
    VmMissingError,
    VmRunningError,
)
from paddock.simulator.faults import FaultError, Faults
from paddock.simulator.process_life import ProcessLife, current_life, require_alive
from paddock.simulator.tart.disk import SimulatedDisk
from paddock.simulator.tart.guest import GuestPace, GuestProgram, Mishap, RunnerProgram, Sharing
from paddock.simulator.tart.host import SimulatedHost

__all__ = ["SimulatedTart", "TartPace"]

T = TypeVar("T")
_GB = 10**9
_SETTLED = 3600.0
_LOOK = 30.0
"""A pull writes at least so often."""


@dataclass(frozen=True, slots=True)
class TartPace:
    """How long Tart's commands take, in seconds."""

    pull: float = 120.0
    clone: float = 0.8
    configure: float = 0.2
    query: float = 0.05
    stop: float = 2.0
    delete: float = 0.3


@dataclass(slots=True)
class _Machine:
    name: str
    source: str
    task: asyncio.Task[None] | None = None
    guest: GuestProgram | None = None
    runs: int = 0
    flushed: bool = False
    spoiled: bool = False
    """A power cut left holes in its disk: it does not boot, nor does a clone of it."""
    resources: Resources = field(default_factory=Resources)
    identity: int = 0

    @property
    def running(self) -> bool:
        return self.task is not None and not self.task.done()


@dataclass(slots=True)
class Ledger:
    """What happened on this Mac, for whoever judges it."""

    runs: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    pulls: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    killed_jobs: list[str] = field(default_factory=list)


class SimulatedTart:
    """The VMs of one Mac. Two may run at once. `runner_faults` are taken by the next VMs that start, one each."""

    def __init__(
        self,
        disk: SimulatedDisk,
        host: SimulatedHost,
        runner: RunnerProgram,
        *,
        clock: Clock,
        rng: random.Random,
        faults: Faults | None = None,
        pace: TartPace | None = None,
        guest_pace: GuestPace | None = None,
        guest_agent: bool = True,
    ) -> None:
        self._disk = disk
        self._host = host
        self._runner = runner
        self._clock = clock
        self._rng = rng
        self._faults = faults
        self._pace = pace or TartPace()
        self._guest_pace = guest_pace or GuestPace()
        self._guest_agent = guest_agent
        self._life = ProcessLife("mac")
        self.vms: dict[str, _Machine] = {}
        self.cache: set[str] = set()
        self.pulled_at: dict[str, float] = {}
        self.spoiled: set[str] = set()
        self.runner_faults: list[Mishap | None] = []
        self.pull_problems: dict[str, list[str]] = {}
        """By image: what the next pulls complain about: at once, after a third of the way (`breaks off`), or never (`stall`)."""
        self._parts: dict[str, int] = {}
        self._pulled_now: set[str] = set()
        self.its_version = "2.35.0"
        self.limit = 2
        self.leaked_slots = 0
        self.leaks_at_end = 0
        """So many of the next VMs to end do not give their seat back, as under macOS 26.3 (openai/tart#1217)."""
        self.blind = False
        """Every probe of a VM's life fails."""
        self.wrong_state = False
        """`list` shows running VMs as stopped, as it was seen to."""
        self.image_bytes = 60 * _GB
        self.ledger = Ledger()

    # Queries

    async def version(self) -> str:
        return self.its_version

    async def machines(self) -> tuple[Vm, ...]:
        require_alive()
        await self._clock.sleep(self._pace.query)
        require_alive()
        # What a pull left that was killed or broke off is cleared away by the next command.
        self._parts = {image: part for image, part in self._parts.items() if image in self._pulled_now}
        local = [Vm(each.name, "local", each.running and not self.wrong_state) for each in self.vms.values()]
        return (*local, *(Vm(name, "OCI") for name in sorted(self.cache)))

    async def liveness(self, name: str, folder: Path) -> Liveness:
        del folder
        require_alive()
        if self.blind:
            return Liveness.UNKNOWN
        vm = self.vms.get(name)
        return Liveness.ALIVE if vm is not None and vm.running else Liveness.GONE

    async def began(self, name: str, run: Run) -> bool:
        del name
        return await self._disk.exists(run.folder / f"run.{run.attempt}")

    # Effects

    async def pull(self, image: str) -> None:
        async def act() -> None:
            self.ledger.pulls.append(image)
            problems = self.pull_problems.get(image, [])
            problem = problems.pop(0) if problems else ""
            if problem and problem not in ("stall", "breaks off"):
                await self._clock.sleep(self._pace.query)
                raise PullError(f"{image}: {problem}")
            while image in self._pulled_now:
                await self._clock.sleep(self._pace.query)  # one at a time
            if image in self.cache:
                return
            self._pulled_now.add(image)
            try:
                await self._download(image, 3 if problem else 1)
                if problem == "stall":
                    await self._clock.sleep(float("inf"))
                if problem:
                    raise PullError(f"{image}: connection reset")
            finally:
                self._pulled_now.discard(image)
            if self._host.disk_free < self.image_bytes:
                raise PullError(f"{image}: no space left on device")
            self._host.disk_free -= self.image_bytes
            del self._parts[image]
            self.cache.add(image)
            self.pulled_at[image] = self._clock.monotonic()

        await self._effect(f"tart pull {image}", act, killed=True)

    async def _download(self, image: str, share: int) -> None:
        """Go on where a pull before this one stopped, up to one `share`-th of the image."""
        aim = self.image_bytes // share
        steps = max(1, round(self._pace.pull / _LOOK))
        self._parts.setdefault(image, 0)
        while self._parts[image] < aim:
            await self._clock.sleep(self._pace.pull / steps)
            self._parts[image] = min(aim, self._parts[image] + self.image_bytes // steps + 1)

    async def downloads(self) -> dict[str, Download]:
        require_alive()
        return {image: Download(part, self.image_bytes) for image, part in self._parts.items()}

    async def clone(self, source: str, name: str) -> None:
        async def act() -> None:
            if source not in self.vms and source not in self.cache:
                raise VmMissingError(f'the specified VM "{source}" does not exist')
            if name in self.vms and self.vms[name].running:
                # The real one replaces it without a word, and the VM loses its disk.
                self.ledger.overlaps.append(f"{name} was cloned over while it ran")
            await self._clock.sleep(self._pace.clone)
            holes = source in self.spoiled or (source in self.vms and self.vms[source].spoiled)
            self.vms[name] = _Machine(name, source, spoiled=holes)

        await self._effect(f"tart clone {name}", act)

    async def flush(self, name: str) -> None:
        async def act() -> None:
            self._there(name).flushed = True

        await self._effect(f"flush {name}", act)

    async def configure(self, name: str, resources: Resources) -> None:
        async def act() -> None:
            vm = self._there(name)
            if vm.running:
                # The real one does not mind, and changes the VM under its guest.
                self.ledger.overlaps.append(f"{name} was configured while it ran")
            await self._clock.sleep(self._pace.configure)
            vm.resources, vm.identity = resources, self._rng.getrandbits(48)

        await self._effect(f"tart set {name}", act)

    async def run(self, name: str, run: Run) -> None:
        async def act() -> None:
            vm = self._there(name)
            # The wrapper's mkdir: one attempt is begun once, whoever asks for it again.
            if not self._disk.make(run.folder / f"run.{run.attempt}"):
                return
            if vm.running:
                self.ledger.overlaps.append(f"{name} was started while it ran")
                raise VmRunningError(f'VM "{name}" is already running')
            if vm.runs:
                self.ledger.overlaps.append(f"{name} ran twice on one clone")
            vm.runs += 1
            self.ledger.runs.append(name)
            context = self._life.context()
            vm.task = asyncio.get_running_loop().create_task(
                self._wrapper(vm, run), name=f"tart run {name}", context=context
            )

        await self._effect(f"tart run {name}", act)

    async def execute(self, name: str, command: tuple[str, ...]) -> int:
        assert command, "a command is needed"

        async def act() -> int:
            await self._clock.sleep(self._pace.query)
            vm = self.vms.get(name)
            if vm is None or not vm.running or vm.guest is None or not vm.guest.booted or not self._guest_agent:
                raise TartError(f'failed to connect to the guest agent of "{name}"')
            vm.guest.started = True
            return 0

        return await self._effect(f"tart exec {name}", act)

    async def stop(self, name: str) -> None:
        async def act() -> None:
            await self._clock.sleep(self._pace.stop)
            vm = self.vms.get(name)
            if vm is None or not vm.running:
                return
            self.ledger.stopped.append(name)
            if vm.guest is not None and vm.guest.stage == "running":
                self.ledger.killed_jobs.append(name)
            assert vm.task is not None
            vm.task.cancel()
            await asyncio.wait([vm.task])

        await self._effect(f"tart stop {name}", act)

    async def delete(self, name: str) -> None:
        async def act() -> None:
            vm = self.vms.get(name)
            if vm is not None and vm.running:
                raise VmRunningError(f'VM "{name}" is running')
            await self._clock.sleep(self._pace.delete)
            if vm is not None:
                del self.vms[name]
                self.ledger.deleted.append(name)
                if vm.source in self.cache or "golden" in name:
                    self._free_space(vm.source)
            elif name in self.cache:
                self.cache.discard(name)
                self.spoiled.discard(name)
                self._free_space(name)

        await self._effect(f"tart delete {name}", act)

    # Power

    def power_off(self) -> None:
        """Every VM and every wrapper is gone without a word; the disk stays, but for what it did not have for long."""
        now = self._clock.monotonic()
        self.spoiled |= {image for image, at in self.pulled_at.items() if image in self.cache and now - at < _SETTLED}
        for vm in self.vms.values():
            vm.spoiled = vm.spoiled or (vm.source in self.spoiled and not vm.flushed)
        self._life.end()
        self._pulled_now.clear()
        for vm in self.vms.values():
            if vm.task is not None:
                vm.task.cancel()  # on an ordinary loop, which knows nothing of lives
            vm.task, vm.guest = None, None

    def power_on(self) -> None:
        self._life = ProcessLife("mac")
        self.leaked_slots = 0
        self._host.reboot()

    def running(self) -> list[str]:
        return sorted(vm.name for vm in self.vms.values() if vm.running)

    def crash(self, name: str) -> None:
        """The guest panics: Tart ends with 0 and says nothing."""
        vm = self.vms[name]
        if vm.task is not None:
            vm.task.cancel()

    # Inside

    async def _wrapper(self, vm: _Machine, run: Run) -> None:
        """What our sh does around `tart run`: it writes the code and the time when Tart ends, however it ends."""
        code, said = 0, ""
        mishap = self.runner_faults.pop(0) if self.runner_faults else None
        others = sum(each.running for each in self.vms.values() if each is not vm)
        try:
            if others + self.leaked_slots >= self.limit:
                await self._clock.sleep(0.3)
                code, said = 1, "Error: The number of VMs exceeds the system limit"
            elif self._host.no_session:
                await self._clock.sleep(0.5)
                code, said = 1, "Error Domain=VZErrorDomain Code=-9"
            elif vm.spoiled:
                await self._clock.sleep(float("inf"))
            elif mishap is Mishap.DIES_AT_ONCE:
                await self._clock.sleep(2.0)
            else:
                vm.guest = GuestProgram(
                    self._disk,
                    Sharing(run.env, run.status),
                    self._runner,
                    clock=self._clock,
                    rng=self._rng,
                    pace=self._guest_pace,
                    mishap=mishap,
                    starts_itself=not self._guest_agent,
                )
                await vm.guest.run()
        finally:
            if vm.guest is not None and self.leaks_at_end:
                self.leaks_at_end -= 1
                self.leaked_slots += 1
            if self._life.alive:
                if said:
                    self._disk.put(run.folder / "console.log", f"{said}\n".encode())
                self._disk.put(run.folder / "exit", f"{code} {int(self._clock.now().timestamp())}\n".encode())

    def _there(self, name: str) -> _Machine:
        if name not in self.vms:
            raise VmMissingError(f'the specified VM "{name}" does not exist')
        return self.vms[name]

    def _free_space(self, source: str) -> None:
        # A golden and its cached image share their blocks: the last of them frees them.
        if source not in self.cache and not any(vm.source == source for vm in self.vms.values()):
            self._host.disk_free = min(self._host.disk_total, self._host.disk_free + self.image_bytes)

    async def _effect(self, name: str, act: Callable[[], Awaitable[T]], *, killed: bool = False) -> T:
        require_alive()
        # A command of Tart's is a process of its own: once begun it ends its work, even if the agent dies meanwhile.
        if self._faults is None:
            return await self._outliving(act, killed=killed)
        return await self._faults.call(name, lambda: self._outliving(act, killed=killed), error=_as_tart_error)

    async def _outliving(self, act: Callable[[], Awaitable[T]], *, killed: bool) -> T:
        """With `killed` a living agent that gives the command up kills it."""

        async def run() -> T:
            return await act()

        context = self._life.context() if self._life.alive else Context()
        task = asyncio.get_running_loop().create_task(run(), context=context)
        # Whoever asked may be dead by then, and then no process hears how the command ended.
        task.add_done_callback(lambda done: done.cancelled() or done.exception(), context=Context())
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            if killed and ((life := current_life()) is None or life.alive):
                task.cancel()
            raise
        return task.result()


def _as_tart_error(error: FaultError) -> TartError:
    return TartError(str(error))
