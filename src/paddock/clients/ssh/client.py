"""The adapter on asyncssh. It is imported only when the first connection is made, because it takes half a second.

A login has three parts that fail for different reasons, so they are done one by one: the TCP connection (refused, no
answer), the SSH handshake (a wedged sshd accepts and says nothing), the key (refused). Nothing is read from the files or
the agent of the account that runs the program.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock.base.secrets import Secret
from paddock.clients.ssh.capture import Head, Tail
from paddock.clients.ssh.contract import Completed, Shell, Target, Upload
from paddock.clients.ssh.errors import (
    AuthRefused,
    CommandTimedOut,
    ConnectionLost,
    Hanging,
    HostKeyChanged,
    HostKeyUnpinned,
    KeyUnusable,
    Refused,
    SshError,
    TimedOut,
)
from paddock.clients.ssh.framing import command_line, input_of
from paddock.clients.ssh.redaction import Redactor

if TYPE_CHECKING:
    import asyncssh

__all__ = ["AsyncSsh", "Dial", "SshLimits", "tcp_connection"]

Dial = Callable[[str, int], Awaitable[socket.socket]]
"""Opens the TCP connection to an address and a port; raises OSError as the operating system does."""

# In this order always, so that a host with several host keys shows us the same one each time.
_HOST_KEY_ALGORITHMS = ["ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256"]


@dataclass(frozen=True, slots=True)
class SshLimits:
    """What is kept of outputs (bytes), and how a silent connection is noticed (seconds, unanswered probes)."""

    stdout: int = 256 * 1024
    stderr: int = 64 * 1024
    keepalive: float = 15.0
    keepalives: int = 3


async def tcp_connection(address: str, port: int) -> socket.socket:
    """A connected, non-blocking socket; every address a name stands for is tried in turn."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for family, kind, protocol, _, where in await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, where)
        except OSError as error:
            connection.close()
            failure = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise failure or OSError(f"{address} stands for no address")


class AsyncSsh:
    """Keeps the contract of `Ssh` over real connections. One object serves any number of hosts and tasks."""

    def __init__(self, *, dial: Dial = tcp_connection, limits: SshLimits | None = None) -> None:
        self._dial = dial
        self._limits = limits or SshLimits()

    def connect(self, target: Target, *, timeout: float = 15.0) -> AbstractAsyncContextManager[Shell]:
        return self._logged_in(target, timeout)

    @asynccontextmanager
    async def _logged_in(self, target: Target, timeout: float) -> AsyncIterator[Shell]:
        import asyncssh

        try:
            key = asyncssh.import_private_key(target.private_key.reveal())
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError):
            # The parser's message may quote the text it could not read.
            raise KeyUnusable("the private key is not an OpenSSH private key without a passphrase") from None
        connection, seen = await self._handshake(
            target.address, target.port, target.username, [key], target.host_key, timeout
        )
        try:
            yield _Shell(connection, seen, self._limits)
        finally:
            connection.abort()  # A graceful close would wait for the other side, which may be gone.
            with contextlib.suppress(OSError, asyncssh.Error):
                await connection.wait_closed()

    async def host_key(self, address: str, port: int, *, timeout: float = 15.0) -> str:
        try:
            connection, seen = await self._handshake(address, port, "nobody", [], _NEVER, timeout)
        except HostKeyChanged as shown:
            return shown.seen
        connection.abort()
        return seen

    async def _handshake(
        self,
        address: str,
        port: int,
        username: str,
        keys: list["asyncssh.SSHKey"],
        pinned: str | None,
        timeout: float,
    ) -> tuple["asyncssh.SSHClientConnection", str]:
        import asyncssh

        raw = await self._dialed(address, port, timeout)
        witness = _witness(pinned)
        try:
            connection = await asyncio.wait_for(
                asyncssh.connect(
                    address,
                    port,
                    sock=raw,
                    config=None,
                    options=None,
                    username=username,
                    client_keys=keys,
                    agent_path=None,
                    known_hosts=([], [], []),
                    client_factory=lambda: witness,
                    preferred_auth="publickey",
                    public_key_auth=bool(keys),
                    password_auth=False,
                    kbdint_auth=False,
                    host_based_auth=False,
                    gss_auth=False,
                    gss_kex=False,
                    server_host_key_algs=_HOST_KEY_ALGORITHMS,
                    x509_trusted_certs=None,
                    connect_timeout=timeout,
                    login_timeout=timeout,
                    keepalive_interval=self._limits.keepalive,
                    keepalive_count_max=self._limits.keepalives,
                    encoding=None,
                ),
                timeout,
            )
        except (OSError, asyncssh.Error) as error:  # TimeoutError is an OSError
            raw.close()
            raise _translated(error, address, port, username, witness, timeout) from error
        except BaseException:
            raw.close()
            raise
        if witness.seen is None:
            connection.abort()
            raise HostKeyUnpinned(f"{address} port {port} shows no host key")
        return connection, witness.seen

    async def _dialed(self, address: str, port: int, timeout: float) -> socket.socket:
        try:
            return await asyncio.wait_for(self._dial(address, port), timeout)
        except ConnectionRefusedError as error:
            raise Refused(address, port) from error
        except TimeoutError as error:
            raise TimedOut(address, port, timeout) from error
        except OSError as error:
            # No route, network down, reset during the connection: the host does not answer.
            raise TimedOut(address, port, timeout) from error


_NEVER = "SHA256:"  # A fingerprint that no key has: the handshake ends where the host has shown its key.


def _witness(pinned: str | None) -> Any:
    """The client side of one connection: it looks at the host key before anything else is sent."""
    import asyncssh

    class Witness(asyncssh.SSHClient):
        seen: str | None = None

        def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
            del host, addr, port
            self.seen = key.get_fingerprint("sha256")
            self.expected = pinned
            return pinned is None or pinned == self.seen

    return Witness()


def _translated(
    error: Exception,
    address: str,
    port: int,
    username: str,
    witness: Any,
    timeout: float,
) -> SshError:
    """One of our classes for what asyncssh raised while logging in."""
    import asyncssh

    if isinstance(error, asyncssh.HostKeyNotVerifiable) and witness.seen is not None:
        return HostKeyChanged(address, expected=witness.expected or "", seen=witness.seen)
    if isinstance(error, asyncssh.PermissionDenied):
        return AuthRefused(address, username)
    if isinstance(error, TimeoutError) or (
        isinstance(error, asyncssh.ConnectionLost) and "timeout" in str(error).lower()
    ):
        return Hanging(address, port, timeout)
    if isinstance(error, ConnectionRefusedError):
        return Refused(address, port)
    return ConnectionLost(f"{address} port {port} broke the connection during the handshake: {type(error).__name__}")


class _Shell:
    """One connection that is logged in."""

    def __init__(self, connection: "asyncssh.SSHClientConnection", host_key: str, limits: SshLimits) -> None:
        self._connection = connection
        self._host_key = host_key
        self._limits = limits

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
        import asyncssh

        hidden = [*secrets, upload] if isinstance(upload, Secret) else list(secrets)
        redact = Redactor(hidden)
        stdout, stderr = Head(self._limits.stdout), Tail(self._limits.stderr)
        command, fanout = command_line(arguments), input_of(script, secrets, upload)
        try:
            async with asyncio.timeout(timeout):
                process = await self._connection.create_process(command, encoding=None)
                try:
                    await _conversation(process, fanout, stdout, stderr)
                except (TimeoutError, asyncio.CancelledError):
                    process.terminate()  # Closing the channel alone would let it run on.
                    raise
                finally:
                    process.close()
        except TimeoutError as error:
            tail = Completed(-1, "", redact(stderr.text())).stderr_tail()
            raise CommandTimedOut(timeout, stderr=tail) from error
        except (OSError, asyncssh.Error) as error:
            raise ConnectionLost(f"the connection broke while a command ran: {type(error).__name__}") from error
        status = _status(process)
        if status is None:
            raise ConnectionLost("the connection broke before the command told how it ended")
        texts = redact(stdout.text()), redact(stderr.text())
        return Completed(status, *texts, truncated=stdout.truncated or stderr.truncated)


async def _conversation(process: Any, fanout: AsyncIterator[bytes], stdout: Head, stderr: Tail) -> None:
    """Feed the input while both outputs are read, so that neither side can wait for the other for ever."""
    feeding = asyncio.create_task(_fed(process, fanout))
    reading = [
        asyncio.create_task(_drained(process.stdout, stdout)),
        asyncio.create_task(_drained(process.stderr, stderr)),
    ]
    try:
        await asyncio.gather(*reading)
        await process.wait_closed()
    finally:
        # A command may end without reading all of its input; what is left of it is of no use to anyone.
        for task in (feeding, *reading):
            task.cancel()
        await asyncio.gather(feeding, *reading, return_exceptions=True)


async def _fed(process: Any, fanout: AsyncIterator[bytes]) -> None:
    # A broken pipe here means that the command has ended: how it ended is what counts, and the readers learn that.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        async for piece in fanout:
            process.stdin.write(piece)
            await process.stdin.drain()
        process.stdin.write_eof()


async def _drained(reader: Any, keep: Head | Tail) -> None:
    while data := await reader.read(64 * 1024):
        keep.add(data)


def _status(process: Any) -> int | None:
    if process.exit_signal is not None:
        import signal

        number = getattr(signal, f"SIG{process.exit_signal[0]}", 0)
        return 128 + int(number)
    return process.exit_status
