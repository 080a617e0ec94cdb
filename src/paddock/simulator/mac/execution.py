"""A command that runs on a simulated Mac: a real process of a real shell, with the Mac's tools in front of it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from paddock.simulator.mac.disk import Disk

__all__ = ["CommandEnded", "CommandExecution", "ExecutionHost"]

_LOGIN_SHELL = "/bin/sh"  # not bash, and not the Mac's zsh: what runs here must not depend on it


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """`lost` says that the Mac went down under the command, so that the client learns no status."""

    status: int
    lost: bool = False


class ExecutionHost(Protocol):
    """What a command needs of the Mac that it runs on."""

    username: str
    running: "dict[str, CommandExecution]"

    @property
    def disk(self) -> Disk: ...

    async def environment(self, user: str, session: str) -> dict[str, str]: ...

    def new_session(self) -> str: ...

    def close_session(self, execution: "CommandExecution") -> None: ...

    def files_changed_by(self, session: str, user: str) -> None: ...


@dataclass(slots=True)
class CommandExecution:
    """One command in its own process group, so that a reboot ends it with everything it started."""

    mac: ExecutionHost
    session: str
    user: str
    process: asyncio.subprocess.Process
    denied: list[str] = field(default_factory=list)
    down: bool = False
    finished: bool = False

    @classmethod
    async def start(cls, mac: ExecutionHost, command: str | list[str], *, user: str) -> "CommandExecution":
        """Start a command line as the login shell would, or a program with its arguments."""
        # Known before the process exists, because its first call may be quicker than we are.
        session = mac.new_session()
        words = [_LOGIN_SHELL, "-c", command] if isinstance(command, str) else command
        environment = await mac.environment(user, session)
        # Cancelled while the process is being made, asyncio waits for ever for one that no code ends. So it is made whole
        # first, and ended then.
        making = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *words,
                env=environment,
                cwd=mac.disk.root / "Users" / mac.username,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        )
        try:
            process = await asyncio.shield(making)
        except asyncio.CancelledError:
            execution = cls(mac, session, user, await making)
            execution.kill()
            mac.close_session(execution)
            raise
        execution = cls(mac, session, user, process)
        mac.running[session] = execution
        return execution

    async def converse(
        self,
        fanout: AsyncIterator[bytes],
        to_stdout: Callable[[bytes], Awaitable[None] | None],
        to_stderr: Callable[[bytes], Awaitable[None] | None],
    ) -> CommandEnded:
        """Feed the input, pass both outputs on, and tell how it ended. Cancelling this ends the command."""
        feeding = asyncio.create_task(self._fanout(fanout))
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        try:
            await asyncio.gather(_pump(self.process.stdout, to_stdout), _pump(self.process.stderr, to_stderr))
            status = await self.process.wait()
            if not self.down:
                self.mac.files_changed_by(self.session, self.user)
                for line in self.denied:
                    await _passed(to_stderr, f"bash: {line}: Permission denied\n".encode())
                if self.denied and status == 0:
                    status = 1
            self.finished = True
        finally:
            feeding.cancel()
            self.kill()
            try:
                await asyncio.gather(feeding, self.process.wait(), return_exceptions=True)
            finally:
                self.mac.close_session(self)
        return CommandEnded(128 - status if status < 0 else status, lost=self.down)

    def kill(self, *, down: bool = False) -> None:
        """End the command and all it started, at once. With `down` the whole Mac goes, and the client hears nothing."""
        if self.finished:
            return  # its number may belong to another process by now
        self.down = self.down or down
        # The group outlives its leader while a child of it runs; afterwards there is nothing left to end.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def _fanout(self, fanout: AsyncIterator[bytes]) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        # A command may end without reading all of its input; then no process takes the rest.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            async for piece in fanout:
                stdin.write(piece)
                await stdin.drain()
        stdin.close()


async def _pump(reader: asyncio.StreamReader, to: Callable[[bytes], Awaitable[None] | None]) -> None:
    while data := await reader.read(64 * 1024):
        await _passed(to, data)


async def _passed(to: Callable[[bytes], Awaitable[None] | None], data: bytes) -> None:
    result = to(data)
    if result is not None:
        await result
