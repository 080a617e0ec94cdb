"""HTTP on loopback inside our own event loop: we own the signals, the order of stopping and the error messages."""

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvicorn
from starlette.concurrency import run_in_threadpool

from paddock.base.client_certificate import with_client_certificate
from paddock.base.clock import Clock
from paddock.base.connection_limits import ConnectionLimits, with_limits
from paddock.base.logs import get_logger
from paddock.base.strangers import Strangers

__all__ = ["PortInUseError", "Tls", "bind", "bind_unix", "listening", "serving_when_there"]

_STOP_WITHIN = 1.5
_BACKLOG = 2048
_ACCEPTED_AT_ONCE = 4
_PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_LOOK_EVERY = 5.0  # seconds between two looks at the files of a certificate
_KEPT_FREE = 256  # file descriptors for everything but connections

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


class _Refusals:
    """Says once a minute at most that connections were refused: a flood of them must not become a flood of lines."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._said_at: float | None = None

    def count(self, limit: str) -> None:
        self._counts[limit] = self._counts.get(limit, 0) + 1
        now = asyncio.get_running_loop().time()
        if self._said_at is None or now - self._said_at >= 60:
            _log.warning("connections were ended at a limit", **self._counts)
            self._counts, self._said_at = {}, now


def _default_limits() -> ConnectionLimits:
    """As many connections as this process may open files, less what it needs itself."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    default = ConnectionLimits()
    if soft == resource.RLIM_INFINITY:
        return default
    return replace(default, connections=max(64, min(default.connections, soft - _KEPT_FREE)))


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
    strangers: Strangers | None = None,
    date: bool = True,
) -> AsyncIterator[None]:
    """Serve an ASGI application on a bound socket for as long as the block runs.

    No connection costs more than its limits before a request is complete, whoever sends it. With `strangers` those of whom
    the application never says that they are `proven` come after the others. Without `date` the application dates its
    answers itself.
    """
    protocol: type[asyncio.Protocol] = with_limits(limits or _default_limits(), _Refusals().count, strangers)
    config = uvicorn.Config(
        app if strangers is None else strangers.answering(app),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
        ssl_certfile=str(tls.certificate) if tls else None,
        ssl_keyfile=str(tls.key) if tls else None,
        ssl_ca_certs=str(tls.clients) if tls and tls.clients else None,
        ssl_cert_reqs=ssl.CERT_OPTIONAL if tls and tls.clients else ssl.CERT_NONE,
        http=with_client_certificate(protocol) if tls and tls.clients else protocol,
        ws="none",  # nothing here speaks WebSocket; uvicorn would advise to install a library for it
        server_header=False,
        date_header=date,
        # For asyncio this is how many it accepts before it looks after those that are connected.
        backlog=_ACCEPTED_AT_ONCE,
    )
    config.load()
    # Loads what streamed answers need, which takes a tenth of a second: not when the first of them is asked for.
    await run_in_threadpool(bool)
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    renewing = asyncio.create_task(_renewed(config.ssl, tls)) if tls is not None and config.ssl is not None else None
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn offers a flag, not an event
            await asyncio.sleep(0.01)
        if task.done():
            task.result()
        sock.listen(_BACKLOG)  # the kernel's queue, which uvicorn has made as short as that
        yield
    finally:
        if renewing is not None:
            renewing.cancel()
        if strangers is not None:
            strangers.stop()
        server.should_exit = True
        done, _ = await asyncio.wait({task}, timeout=_STOP_WITHIN)
        if not done:
            server.force_exit = True
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        sock.close()


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
