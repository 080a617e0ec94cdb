"""The simulated world's process: found or started, attended, and ended in order.

Between any two steps Paddock may be killed. A world that was started and never told where Paddock is ends by itself; the
next start finds it by its lock before that, and takes it.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Final

from paddock.all_in_one.world_client import WorldAwayError, WorldClient
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.supervise import keep_running
from paddock.base.tasks import end
from paddock.simulator.world.folder import COMMAND, Sockets, WorldFolder
from paddock.simulator.world.messages import Attachment, WorldOptions, WorldView, version

__all__ = ["WorldError", "WorldProcess", "end_world_now"]

log = get_logger("simulated world")
_START_WITHIN: Final = 60.0
_STOP_WITHIN: Final = 10.0
_LOOK_EVERY: Final = 0.05
_ATTEND_EVERY: Final = 2.0


class WorldError(Exception):
    """The simulated world did not come up: its log says why."""


def end_world_now(folder: WorldFolder) -> None:
    """Ask the world to end, and wait for nothing: for somebody who pressed Ctrl-C twice."""
    if pid := folder.holder():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


class WorldProcess:
    """The one world of a data folder. `start` begins, `ready` waits, `attend` keeps it, `stop` ends it."""

    def __init__(self, folder: WorldFolder, options: WorldOptions, *, clock: Clock, rng: random.Random) -> None:
        self._folder = folder
        self._options = options
        self._clock = clock
        self._rng = rng
        self._version = version()
        self._started: subprocess.Popen[bytes] | None = None
        self._ours = False
        """Whether we took or started it: the world of another Paddock on this folder is not ours to end."""
        self._attending: asyncio.Task[None] | None = None
        self.client = WorldClient(self._sockets, clock)

    def _sockets(self) -> Sockets:
        return self._folder.sockets() or Sockets(self._folder.root / "run")

    # Beginning

    def begin(self) -> None:
        """Start a world where there is none, before anything is known: it gets ready while Postgres does."""
        self._folder.make()
        if not self._folder.taken():
            self._spawn()

    async def start(self) -> None:
        """Take the world that is there if it is ours; else end it and start one. Does not wait for the new one."""
        if self._started is not None:
            return
        if (there := await self._there()) is not None:
            if there.version == self._version and there.options == self._options:
                log.info("the simulated world went on meanwhile", pid=there.pid)
                self._ours = True
                return
            changed = self._options.differs(there.options) if there.version == self._version else "the version"
            log.warning(
                "the simulated world of before is another one: it is ended, and a new one starts", differs=changed
            )
            await self._end(there.pid)
        elif (pid := self._folder.holder()) is not None:
            log.warning("the simulated world of before does not answer: it is killed, and a new one starts", pid=pid)
            await self._kill(pid)
        self._spawn()

    async def ready(self) -> WorldView:
        """The world, once it answers; WorldError if that takes too long, or if it ended instead."""
        deadline = self._clock.monotonic() + _START_WITHIN
        while True:
            try:
                return await self.client.view()
            except WorldAwayError as error:
                ended = self._started is not None and self._started.poll() is not None
                if ended or self._clock.monotonic() > deadline:
                    raise WorldError(f"{error}: its log in {self._folder.log} says why") from error
            await self._clock.sleep(_LOOK_EVERY)

    async def _there(self) -> WorldView | None:
        """The world that runs already; one that holds its lock and has just begun is given time to answer."""
        deadline = self._clock.monotonic() + _STOP_WITHIN
        while self._folder.taken():
            try:
                return await self.client.view()
            except WorldAwayError:
                if self._clock.monotonic() > deadline:
                    return None
            await self._clock.sleep(_LOOK_EVERY)
        return None

    def _spawn(self) -> None:
        options = self._options
        arguments = [sys.executable, "-m", "paddock", COMMAND, "--data", str(self._folder.data.resolve())]
        arguments += ["--hosts", str(options.hosts), "--speed", str(options.speed), "--jobs", str(options.jobs)]
        arguments += ["--linger", str(options.linger)]
        if options.seed is not None:
            arguments += ["--seed", str(options.seed)]
        # A session of its own: neither Ctrl-C at our terminal nor our own death reaches it.
        self._ours = True
        with self._folder.log.open("ab") as output:
            self._started = subprocess.Popen(  # noqa: S603 - our own program
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    # While it lasts

    async def attend(self, where: Attachment) -> None:
        """Tell the world where Paddock is, from now on again and again; a world that died is started anew."""
        await self.client.attach(where)
        self._attending = asyncio.create_task(
            keep_running("attending the simulated world", lambda: self._attend(where), self._clock, self._rng)
        )

    async def _attend(self, where: Attachment) -> None:
        while True:
            try:
                await self.client.attach(where)
            except WorldAwayError as error:
                if not self._folder.taken():
                    log.warning(
                        "the simulated world has ended: it is started again, and its Macs come up as after a power cut",
                        log=str(self._folder.log),
                    )
                    if self._started is not None:
                        self._started.poll()
                    self._spawn()
                    await self.ready()
                    continue
                log.info("the simulated world is late", why=str(error))
            await self._clock.sleep(_ATTEND_EVERY)

    # End

    async def detach(self) -> None:
        """Before Paddock stops: the world ends what talks to Paddock, so that nothing is cut off in the middle."""
        if self._attending is not None:
            await end(self._attending)
        with suppress(WorldAwayError):
            await self.client.detach()

    async def begin_to_stop(self) -> None:
        """Once nobody here needs it any more: it ends while the rest of Paddock does."""
        if self._ours:
            with suppress(WorldAwayError):
                await self.client.stop()

    async def stop(self) -> None:
        """End the world and wait until it is gone; killed if it does not go."""
        if self._ours:
            with suppress(WorldAwayError):
                await self.client.stop()
            if self._started is not None and not self._folder.taken():
                self._started.terminate()  # it may not even have begun: then no lock says that it is there
            if not await self._gone():
                await self._kill(self._folder.holder() or 0)
        async with self.client:
            pass

    async def _end(self, pid: int) -> None:
        with suppress(WorldAwayError):
            await self.client.stop()
        if not await self._gone():
            await self._kill(pid)

    async def _kill(self, pid: int) -> None:
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not await self._gone():
            raise WorldError(
                f"the simulated world of before does not end: end process {pid or 'that holds'} {self._folder.root}"
            )

    async def _gone(self) -> bool:
        deadline = self._clock.monotonic() + _STOP_WITHIN
        while self._folder.taken():
            if self._clock.monotonic() > deadline:
                return False
            await self._clock.sleep(_LOOK_EVERY)
        if self._started is not None:
            await asyncio.to_thread(self._started.wait)
        return True
