"""SSH to simulated Macs without a wire: the contract of `Ssh`, kept by calling the Mac directly.

A login here costs microseconds in place of a key exchange, so a hundred Macs fit in one process. The script still runs
in a real bash, and the errors are those that the real client raises in the same situation.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from paddock.base.secrets import Secret
from paddock.clients.ssh import (
    AuthRefused,
    CommandTimedOut,
    Completed,
    ConnectionLost,
    Hanging,
    HostKeyChanged,
    Redactor,
    Refused,
    Shell,
    SshLimits,
    Target,
    TimedOut,
    Upload,
    public_key_of,
)
from paddock.clients.ssh.capture import Head, Tail
from paddock.clients.ssh.framing import command_line, input_of
from paddock.simulator.mac.execution import CommandExecution
from paddock.simulator.mac.interface import Mac

__all__ = ["InProcessSsh"]


class InProcessSsh:
    """`find` gives the Mac at an address, or None where no Mac answers; then `wait` lets the timeout pass."""

    def __init__(
        self,
        find: Callable[[str, int], Mac | None],
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._find = find
        self._wait = wait

    def connect(self, target: Target, *, timeout: float = 15.0) -> AbstractAsyncContextManager[Shell]:
        return self._connected(target, timeout)

    @asynccontextmanager
    async def _connected(self, target: Target, timeout: float) -> AsyncIterator[Shell]:
        mac = await self._answering(target.address, target.port, timeout)
        public_key = public_key_of(target.private_key)
        if target.host_key is not None and target.host_key != mac.host_key:
            raise HostKeyChanged(target.address, expected=target.host_key, seen=mac.host_key)
        if not mac.admits(target.username, public_key):
            raise AuthRefused(target.address, target.username)
        await mac.pause(mac.pace.of("login"))
        mac.sshd.logins += 1
        yield _InProcessShell(mac, mac.boots)

    async def host_key(self, address: str, port: int, *, timeout: float = 15.0) -> str:
        return (await self._answering(address, port, timeout)).host_key

    async def _answering(self, address: str, port: int, timeout: float) -> Mac:
        mac = self._find(address, port)
        if mac is None:
            await self._wait(timeout)
            raise TimedOut(address, port, timeout)
        mode = mac.sshd.mode if mac.powered else "timeout"
        if mode == "refuse":
            raise Refused(address, port)
        if mode == "up":
            mac.sshd.accepted += 1
            _ = mac.disk
            return mac
        await mac.clock.sleep(timeout / mac.pace.speed)
        raise (Hanging if mode == "hang" else TimedOut)(address, port, timeout)


class _InProcessShell:
    def __init__(self, mac: Mac, boot: int) -> None:
        self._mac = mac
        self._boot = boot
        self._host_key = mac.host_key
        self._limits = SshLimits()

    @property
    def host_key(self) -> str:
        return self._host_key

    async def run(
        self,
        script: str,
        *,
        arguments: Sequence[str] = (),
        secrets: Sequence[Secret] = (),
        upload: Upload | None = None,
        timeout: float,
    ) -> Completed:
        if self._mac.boots != self._boot or not self._mac.powered:
            raise ConnectionLost("the connection broke while a command ran: the host went down")
        redact = Redactor([*secrets, upload] if isinstance(upload, Secret) else secrets)
        stdout, stderr = Head(self._limits.stdout), Tail(self._limits.stderr)
        command, fanout = command_line(arguments), input_of(script, secrets, upload)
        self._mac.commands.append(command)
        try:
            async with asyncio.timeout(timeout):
                execution = await CommandExecution.start(self._mac, command, user=self._mac.username)
                ended = await execution.converse(fanout, stdout.add, stderr.add)
        except TimeoutError as error:
            tail = Completed(-1, "", redact(stderr.text())).stderr_tail()
            raise CommandTimedOut(timeout, stderr=tail) from error
        if ended.lost:
            raise ConnectionLost("the connection broke before the command told how it ended")
        texts = redact(stdout.text()), redact(stderr.text())
        return Completed(ended.status, *texts, truncated=stdout.truncated or stderr.truncated)
