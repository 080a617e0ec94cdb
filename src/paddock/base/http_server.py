"""HTTP on loopback inside our own event loop: we own the signals, the order of stopping and the error messages."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.concurrency import run_in_threadpool

from paddock.base.clock import Clock
from paddock.base.connection_budget import ConnectionBudget, of_this_process
from paddock.base.connection_limits import ConnectionLimits, within_limits
from paddock.base.listener import Listener
from paddock.base.logs import get_logger
from paddock.base.tasks import end

__all__ = ["PortInUseError", "Tls", "bind", "bind_unix", "listening", "serving_when_there"]

_STOP_WITHIN = 1.5
_BACKLOG = 2048
_PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_LOOK_EVERY = 5.0  # seconds between two looks at the files of a certificate

_log = get_logger("http")


class PortInUseError(OSError):
    """Something else listens on the port: stop it, or choose another port."""


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: Path
    key: Path
    clients: Path | None = None
    """The authority of client certificates. Clients may show one; one of another authority, or one that has expired, ends
    the handshake."""

    def there(self) -> bool:
        """Whether certificate and key can be read and belong together."""
        return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the program's business, not the listener's."""
        yield


def bind(port: int, option: str, host: str = "127.0.0.1") -> socket.socket:
    """A socket that listens; PortInUseError names the option that chooses another port. Port 0 takes any free one."""
    # Named as TCP, or asyncio leaves Nagle's algorithm on, and every answer waits 40 ms for the client's delayed ACK.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _notice_the_dead(sock)
    try:
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise PortInUseError(
            f"cannot listen on {host}:{port} ({error.strerror}): choose another port with {option}"
        ) from error
    sock.setblocking(False)
    return sock


def _notice_the_dead(sock: socket.socket) -> None:
    """Connections that are accepted here end within a minute when the other machine is gone. A request that is held has
    nothing to send, so nobody else would notice.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def bind_unix(path: Path) -> socket.socket:
    """A unix socket that listens, for its owner alone; what an earlier process left under this name goes."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        path.chmod(0o600)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


@asynccontextmanager
async def listening(
    app: Any,
    sock: socket.socket,
    tls: Tls | None = None,
    limits: ConnectionLimits | None = None,
    *,
    budget: ConnectionBudget | None = None,
    date: bool = True,
) -> AsyncIterator[None]:
    """Serve an ASGI application on a bound socket for as long as the block runs.

    No connection costs more than its limits, whoever comes, and all of them together no more than the budget. Nobody comes
    before anybody else: a crowd at this listener makes it slow for all who come here, and no other. Without `date` the
    application dates its answers itself.
    """
    limits = limits or ConnectionLimits()
    config = uvicorn.Config(
        within_limits(app),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=limits.idle_seconds,  # pyright: ignore[reportArgumentType] - the loop takes fractions
        timeout_graceful_shutdown=1,
        http="h11",
        h11_max_incomplete_event_size=limits.head_bytes,
        ws="none",  # nothing here speaks WebSocket; uvicorn would advise to install a library for it
        server_header=False,
        date_header=date,
    )
    config.load()
    # Loads what streamed answers need, which takes a tenth of a second: not when the first of them is asked for.
    await run_in_threadpool(bool)
    context = None if tls is None else _context(tls)
    server = _Server(config)
    listener = Listener(server, sock, context, limits, budget or of_this_process())
    serving = asyncio.create_task(server.serve(sockets=[]))  # it keeps what its connections share, and ends them
    tasks: list[asyncio.Task[None]] = []
    try:
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn offers a flag, not an event
            await asyncio.sleep(0.01)
        if serving.done():
            serving.result()
        tasks.append(asyncio.create_task(listener.accept()))
        if tls is not None and context is not None:
            tasks.append(asyncio.create_task(_renewed(context, tls)))
        yield
    finally:
        for task in tasks:
            await end(task)
        sock.close()
        server.should_exit = True
        done, _ = await asyncio.wait({serving}, timeout=_STOP_WITHIN)
        if not done:
            server.force_exit = True
            await end(serving)
        listener.abort()


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    if tls.clients is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(tls.clients)
    return context


async def serving_when_there(app: Any, sock: socket.socket, tls: Tls, clock: Clock) -> None:
    """Serve until cancelled, from the moment on at which there is a certificate. Until then the socket takes connections and
    answers none: whoever asks waits, or gives up, and asks again.
    """
    said = False
    while not tls.there():
        if not said:
            _log.warning("there is no certificate yet; it is waited for", file=str(tls.certificate))
            said = True
        await clock.sleep(1.0)
    async with listening(app, sock, tls):
        await asyncio.Event().wait()


async def _renewed(context: ssl.SSLContext, tls: Tls) -> None:
    """Show the certificate that is in the files now: connections that begin later get a renewed one, and nothing restarts."""
    shown = _content(tls)
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        found = _content(tls)
        # Tried on another context first: one that was given half of a new pair would serve nobody.
        if found is not None and found != shown and tls.there() and _loaded(context, tls):
            shown = found
            _log.info("a renewed certificate is shown", file=str(tls.certificate))


def _content(tls: Tls) -> bytes | None:
    try:
        return tls.certificate.read_bytes() + tls.key.read_bytes()
    except OSError:
        return None


def _loaded(context: ssl.SSLContext, tls: Tls) -> bool:
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:  # ssl.SSLError among them
        _log.debug("the certificate cannot be used", file=str(tls.certificate), error=type(error).__name__)
        return False
    return True
