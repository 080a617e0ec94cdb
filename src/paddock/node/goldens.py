"""Goldens: one local VM for each image, made once and never run, of which Pods' VMs are clones.

One pull at a time, beside running VMs. A pull that fails is tried again later and later, and keeps nobody else waiting
meanwhile. When the disk runs short, goldens go in a fixed order; none goes from under a VM that may run. A golden is held once
its disk is flushed, and as long as the book trusts it.
"""

import asyncio
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.clients.gateway.messages import Reason
from paddock.node.golden_book import GoldenBook
from paddock.node.host import Disk, Host
from paddock.node.machines import Tart, TartError, Vm
from paddock.node.metrics import AgentMetrics
from paddock.node.names import golden_name, is_golden
from paddock.node.pulling import Progress, pull_beside_vms

__all__ = ["LOW", "PRESSURE", "Goldens", "reclaim_order"]

log = get_logger("goldens")
LOW: Final = 0.15
"""Below this share of free space goldens are reclaimed."""
PRESSURE: Final = 0.10
"""Below this share of free space the Node has DiskPressure and no pull begins."""
KEPT_FOR: Final = timedelta(hours=24)
_BACKOFF: Final = Backoff(base=10.0, cap=300.0)
_LOOK_EVERY: Final = 300.0


class _Failure(msgspec.Struct, frozen=True):
    count: int
    why: str
    next_at: float


class Goldens:
    """The goldens of one Mac. `run` works until cancelled; `waiting` says why an image is not there yet."""

    def __init__(
        self,
        tart: Tart,
        host: Host,
        book: GoldenBook,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: AgentMetrics,
        in_use: Callable[[], tuple[frozenset[str], frozenset[str]]],
    ) -> None:
        self._tart = tart
        self._host = host
        self._book = book
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._in_use = in_use
        self._held: frozenset[str] | None = None
        self._wanted: dict[str, None] = {}
        self._failures: dict[str, _Failure] = {}
        self._pulling: str | None = None
        self._progress = Progress()
        self._wake = asyncio.Event()
        self.changed: Callable[[], None] = lambda: None
        self.disk: Disk | None = None

    # What is there

    @property
    def held(self) -> frozenset[str] | None:
        """The hashes of the images that are held; None before the first complete look. A failing look changes nothing."""
        if self._held is None:
            return None
        return frozenset(name.rpartition("-")[2] for name in self._held)

    def waiting(self, image: str) -> Reason | None:
        """None where a Pod can be cloned; otherwise what it waits for. Asking is wanting: the pull follows."""
        name = golden_name(image)
        if self._held is not None and name in self._held:
            return None
        if image not in self._wanted:
            self._wanted[image] = None
            self._wake.set()
        failure = self._failures.get(image)
        if failure is not None and image != self._pulling:
            wait = max(0.0, failure.next_at - self._clock.monotonic())
            return Reason(
                "ErrImagePull", f"{image}: {failure.why}; attempt {failure.count + 1} follows in {wait:.0f} s"
            )
        if self._pulling not in (None, image):
            return Reason("ImagePulling", f"{image} waits until {self._pulling} is pulled")
        so_far = f": {self._progress}" if self._progress.size else ""
        return Reason("ImagePulling", f"{image} is pulled{so_far}")

    async def used(self, image: str) -> None:
        """A Pod was cloned from this image just now."""
        await self._book.used(image)

    # The work

    async def run(self) -> None:
        await self._book.load()
        next_look = 0.0
        while True:
            if self._clock.monotonic() >= next_look:
                await self.collect()
                next_look = self._clock.monotonic() + _LOOK_EVERY
            if (image := self._next()) is not None:
                await self._fetch(image)
                continue
            self._wake.clear()
            pauses = [each.next_at for image, each in self._failures.items() if image in self._wanted]
            pause = max(0.05, min([next_look, *pauses]) - self._clock.monotonic())
            # A timer, not a timeout: a cancelled wait is always ours.
            timer = asyncio.get_running_loop().call_later(pause, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()

    async def refresh(self) -> tuple[Vm, ...]:
        """Look which goldens are there, and can be used."""
        machines = await self._tart.machines()
        there = [vm.name for vm in machines if vm.source == "local" and is_golden(vm.name)]
        for name in there:
            if name not in self._book:
                await self._tart.flush(name)
                self._book.found(name)
        held = frozenset(name for name in there if self._book.usable(name))
        if held != self._held:
            self._held = held
            self.changed()
        return machines

    def _next(self) -> str | None:
        now, (needed, _) = self._clock.monotonic(), self._in_use()
        for image in list(self._wanted):
            name = golden_name(image)
            # Whoever comes back to an image asks for it again, and waits for no failure of before.
            if name not in needed or (self._held is not None and name in self._held):
                del self._wanted[image]
                self._failures.pop(image, None)
            elif (failure := self._failures.get(image)) is None or failure.next_at <= now:
                return image
        return None

    async def _fetch(self, image: str) -> None:
        self._pulling = image
        began = self._clock.monotonic()
        try:
            if (name := golden_name(image)) in self._book.distrusted:
                await self._drop(name)
            await self._make_room()
            # Each can be repeated: a pull finds its parts again, and a clone that died replaces itself. Dying before the end
            # leaves a golden that is not whole: the same boot makes it again, another one fetches it anew.
            await self._book.begin(image)
            await pull_beside_vms(self._tart, image, self._look, self._clock, self._note_progress)
            await self._tart.clone(image, name)
            await self._tart.flush(name)
            # At once: whoever looks the golden through before its first Pod would not know what it holds.
            await self._book.finish(image)
            await self.refresh()
        except (TartError, OSError) as error:
            count = self._failures[image].count + 1 if image in self._failures else 1
            wait = _BACKOFF.delay(count, self._rng)
            self._failures[image] = _Failure(count, str(error), self._clock.monotonic() + wait)
            self._metrics.pulls.labels("failed").inc()
            log.warning("an image cannot be pulled", image=image, why=str(error), again_in=round(wait))
        else:
            self._failures.pop(image, None)
            self._wanted.pop(image, None)
            self._metrics.pulls.labels("done").inc()
            self._metrics.pull_seconds.observe(self._clock.monotonic() - began)
        finally:
            self._pulling, self._progress = None, Progress()
            self.changed()

    def _note_progress(self, progress: Progress) -> None:
        self._progress = progress

    async def _make_room(self) -> None:
        disk = await self._look()
        if disk.free_share < LOW:
            disk = await self._reclaim(await self._tart.machines(), disk)
        if disk.free_share < PRESSURE:
            raise OSError(f"the disk has {disk.free_share:.0%} free, and a pull needs {PRESSURE:.0%}: free some space")

    async def collect(self) -> None:
        """Let go of goldens that nobody used for a day, and of more while the disk is short."""
        try:
            for name, why in dict(self._book.distrusted).items():
                log.warning("an image is fetched anew", name=name, image=self._book.image_of(name), why=why)
                await self._drop(name)
            await self.refresh()
            await self._book.settle()
            disk = await self._look()
            needed, _ = self._in_use()
            for name in self._book.names - needed:
                if self._clock.now() - self._book.since(name) > KEPT_FOR:
                    await self._drop(name)
            if disk.free_share < LOW:
                await self._reclaim(await self._tart.machines(), disk)
            await self.refresh()
        except (TartError, OSError) as error:
            log.warning("the goldens could not be looked through", why=str(error))

    async def _reclaim(self, machines: tuple[Vm, ...], disk: Disk) -> Disk:
        needed, running = self._in_use()
        for name in reclaim_order(machines, needed, running, self._book.since):
            if disk.free_share >= LOW:
                break
            await self._drop(name)
            disk = await self._look()
        return disk

    async def _drop(self, name: str) -> None:
        log.info("an image is let go", name=name)
        await self._tart.delete(name)
        if self._held is not None and name in self._held:
            # At once: the next complete look may be a pull away, and nobody can be cloned from it until then.
            self._held -= {name}
            self.changed()
        # A golden shares its blocks with the cached image: only both together free anything.
        if image := self._book.image_of(name):
            await self._tart.delete(image)
        await self._book.forget(name)

    async def _look(self) -> Disk:
        self.disk = await self._host.disk()
        self._metrics.disk_free.set(self.disk.free)
        return self.disk


def reclaim_order(
    machines: tuple[Vm, ...],
    needed: frozenset[str],
    running: frozenset[str],
    since: Callable[[str], datetime],
) -> list[str]:
    """What goes first when the disk is short: cached images, goldens that no Pod names, then idle ones that one does.

    Never a golden under a VM that may run, and never the last golden.
    """
    cached = [vm.name for vm in machines if vm.source != "local"]
    goldens = sorted((vm.name for vm in machines if vm.source == "local" and is_golden(vm.name)), key=since)
    unneeded = [name for name in goldens if name not in needed and name not in running]
    idle = [name for name in goldens if name in needed and name not in running]
    droppable = [*unneeded, *idle]
    if goldens and len(droppable) == len(goldens):
        droppable = droppable[:-1]
    return [*cached, *droppable]
