"""The SSH server of a simulated Mac: a real one, on a real port of loopback, with the bad habits of the real one.

The listening socket is ours and each accepted connection is handed to asyncssh with the Mac's present host key, so that a
reinstall changes the key at once and a wedged sshd is a state of the socket, not of a library:

- `hang`: the kernel accepts connections and no process ever reads from them;
- `refuse`: the port is bound and not listened on;
- `timeout`: the backlog is full, so the kernel answers no more connection attempts.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal, Protocol

from paddock.clients.ssh import KeyPair
from paddock.simulator.mac.execution import CommandExecution, ExecutionHost

if TYPE_CHECKING:
    import asyncssh

__all__ = ["Sshd", "SshdHost", "SshdMode"]

SshdMode = Literal["up", "hang", "refuse", "timeout"]

_BACKLOG = 128
_STARTUPS = 10  # sshd's own MaxStartups: more logins than these at once are dropped without a word


class SshdHost(ExecutionHost, Protocol):
    """What sshd needs of its Mac."""

    commands: list[str]

    @property
    def host_key_pair(self) -> KeyPair: ...

    def admits(self, username: str, public_key: str) -> bool: ...


class Sshd:
    """Listens from `start` to `stop`. Mode changes are immediate and keep the port."""

    def __init__(self, mac: SshdHost) -> None:
        self._mac = mac
        self._mode: SshdMode = "up"
        self._listener: socket.socket | None = None
        self._fillers: list[socket.socket] = []
        self._accepting: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._starting_up = 0
        self.port = 0
        self.accepted = 0
        self.logins = 0
        self.peak_startups = 0

    @property
    def mode(self) -> SshdMode:
        return self._mode

    @property
    def started(self) -> bool:
        return self._listener is not None

    def start(self) -> None:
        if self._listener is None:
            self._open()

    def stop(self) -> None:
        self.drop_connections()
        self._close()

    async def stopped(self) -> None:
        """Wait until every task of the server has ended."""
        await asyncio.gather(*self._serving, return_exceptions=True)

    def become(self, mode: SshdMode) -> None:
        """Change how the port behaves; connections that are open stay open."""
        if mode == self._mode:
            return
        self._mode = mode
        if self._listener is not None:
            self._close()
            self._open()

    def drop_connections(self) -> None:
        for connection in list(self._connections):
            connection.abort()
        for task in self._serving:
            task.cancel()

    # The socket

    def _open(self) -> None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._listener = listener
        if self._mode == "up":
            listener.listen(_BACKLOG)
            self._accepting = asyncio.get_running_loop().create_task(self._accept(listener))
        elif self._mode == "hang":
            listener.listen(_BACKLOG)
        elif self._mode == "timeout":
            listener.listen(0)
            self._fillers = [self._filler() for _ in range(2)]

    def _filler(self) -> socket.socket:
        filler = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        filler.setblocking(False)
        filler.connect_ex(("127.0.0.1", self.port))
        return filler

    def _close(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for filler in self._fillers:
            filler.close()
        self._fillers = []

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listener)
            self.accepted += 1
            if self._starting_up >= _STARTUPS:
                connection.close()
                continue
            task = loop.create_task(self._serve(connection))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    # A connection

    async def _serve(self, raw: socket.socket) -> None:
        import asyncssh

        self._starting_up += 1
        self.peak_startups = max(self.peak_startups, self._starting_up)
        try:
            connection = await asyncssh.run_server(
                raw,
                config=None,
                server_factory=lambda: _login(self._mac),
                server_host_keys=[asyncssh.import_private_key(self._mac.host_key_pair.private.reveal())],
                process_factory=self._run,
                encoding=None,
                public_key_auth=True,
                password_auth=False,
                kbdint_auth=False,
                gss_host=None,
                login_timeout=120,
            )
        except (OSError, asyncssh.Error):
            raw.close()  # the client went away, showed no key that fits, or only looked at our host key
            return
        except BaseException:
            raw.close()
            raise
        finally:
            self._starting_up -= 1
        self.logins += 1
        self._connections.add(connection)
        try:
            await connection.wait_closed()
        finally:
            self._connections.discard(connection)

    async def _run(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        command = process.command
        if command is None:
            process.stderr.write(b"only commands run here\n")
            process.exit(1)
            return
        self._mac.commands.append(command)
        execution = await CommandExecution.start(self._mac, command, user=self._mac.username)
        conversation = asyncio.ensure_future(
            execution.converse(_received(process, execution), _writer(process.stdout), _writer(process.stderr))
        )
        gone = asyncio.ensure_future(process.wait_closed())
        try:
            await asyncio.wait({conversation, gone}, return_when=asyncio.FIRST_COMPLETED)
            if conversation.done():
                ended = conversation.result()
                if not ended.lost:
                    process.exit(ended.status)
        finally:
            conversation.cancel()
            gone.cancel()
            await asyncio.gather(conversation, gone, return_exceptions=True)


def _writer(stream: Any) -> Any:
    async def write(data: bytes) -> None:
        # The client may have gone; the command then goes on without a reader until it is ended.
        with contextlib.suppress(OSError):
            stream.write(data)
            await stream.drain()

    return write


async def _received(process: "asyncssh.SSHServerProcess[bytes]", execution: CommandExecution) -> AsyncIterator[bytes]:
    import asyncssh

    try:
        while data := await process.stdin.read(64 * 1024):
            yield data
    except (asyncssh.SignalReceived, asyncssh.BreakReceived):
        execution.kill()
    except (OSError, asyncssh.Error):
        return


def _login(mac: SshdHost) -> Any:
    import asyncssh

    class Login(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            del username
            return True

        def public_key_auth_supported(self) -> bool:
            return True

        def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
            return mac.admits(username, key.export_public_key().decode())

    return Login()
