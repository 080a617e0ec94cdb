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

from paddock.base.client_certificate import with_client_certificate

__all__ = ["PortInUseError", "Tls", "bind", "bind_unix", "listening"]

_STOP_WITHIN = 1.5
_BACKLOG = 2048


class PortInUseError(OSError):
    """Something else listens on the port: stop it, or choose another port."""


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: Path
    key: Path
    clients: Path | None = None
    """The authority of client certificates. Clients may show one; one of another authority, or one that has expired, ends
    the handshake."""


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
async def listening(app: Any, sock: socket.socket, tls: Tls | None = None, *, date: bool = True) -> AsyncIterator[None]:
    """Serve an ASGI application on a bound socket for as long as the block runs. Without `date` the application dates its
    answers itself.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
        ssl_certfile=str(tls.certificate) if tls else None,
        ssl_keyfile=str(tls.key) if tls else None,
        ssl_ca_certs=str(tls.clients) if tls and tls.clients else None,
        ssl_cert_reqs=ssl.CERT_OPTIONAL if tls and tls.clients else ssl.CERT_NONE,
        h11_max_incomplete_event_size=64 * 1024,
        server_header=False,
        date_header=date,
    )
    config.load()
    if tls and tls.clients:
        config.http_protocol_class = with_client_certificate(config.http_protocol_class)
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn offers a flag, not an event
            await asyncio.sleep(0.01)
        if task.done():
            task.result()
        yield
    finally:
        server.should_exit = True
        done, _ = await asyncio.wait({task}, timeout=_STOP_WITHIN)
        if not done:
            server.force_exit = True
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        sock.close()
