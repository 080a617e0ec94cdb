"""The way from Paddock to its simulated world: the control API, and transports for the clients of the real services."""

import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx2
import msgspec

from paddock.base.clock import Clock
from paddock.clients.ssh import AsyncSsh, Ssh
from paddock.clients.ssh.client import tcp_connection
from paddock.simulator.world.folder import Sockets
from paddock.simulator.world.messages import Attachment, FaultOrder, PoolOrder, Route, WorldView

__all__ = ["WorldAwayError", "WorldClient", "over"]

M = TypeVar("M")
_TIMEOUT: Final = 10.0


class WorldAwayError(Exception):
    """The simulated world does not answer: it is starting, or it has ended; Paddock starts it again."""


def over(path: Callable[[], str]) -> httpx2.AsyncBaseTransport:
    """HTTP over the unix socket that is at `path` at the time of each connection: a world that was started again has another
    one, perhaps, and the client need not know.
    """
    return _UnixTransport(path)


class _UnixTransport(httpx2.AsyncBaseTransport):
    def __init__(self, path: Callable[[], str]) -> None:
        self._path = path
        self._at = ""
        self._inner: httpx2.AsyncHTTPTransport | None = None
        self._former: list[httpx2.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path = self._path()
        if self._inner is None or path != self._at:
            if self._inner is not None:
                self._former.append(self._inner)  # answers may still be on their way through it
            # Without the authorities of the web, which cost megabytes and are for nobody here.
            limits = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=60.0)
            self._inner = httpx2.AsyncHTTPTransport(uds=path, verify=False, trust_env=False, limits=limits)
            self._at = path
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        for each in [*self._former, *([self._inner] if self._inner is not None else [])]:
            await each.aclose()


class WorldClient:
    """Calls the control API. `sockets` says where it is now; WorldAwayError where nobody answers."""

    def __init__(self, sockets: Callable[[], Sockets], clock: Clock) -> None:
        self._sockets = sockets
        self._clock = clock
        self._http = httpx2.AsyncClient(
            base_url="http://127.0.0.1", transport=over(lambda: str(sockets().control)), timeout=_TIMEOUT
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    def scaleway(self) -> httpx2.AsyncBaseTransport:
        return over(lambda: str(self._sockets().scaleway))

    def github(self) -> httpx2.AsyncBaseTransport:
        return over(lambda: str(self._sockets().github))

    def ssh(self) -> Ssh:
        """The real client; the world says which port of loopback stands for a Mac's address."""
        return AsyncSsh(dial=self.dial)

    async def view(self) -> WorldView:
        return await self._call("GET", "/", WorldView)

    async def attach(self, where: Attachment) -> None:
        await self._call("PUT", "/paddock", None, where)

    async def detach(self) -> None:
        await self._call("DELETE", "/paddock", None)

    async def pool(self, order: PoolOrder) -> None:
        await self._call("PUT", "/pool", None, order)

    async def fault(self, order: FaultOrder) -> None:
        await self._call("POST", "/faults", None, order)

    async def stop(self) -> None:
        await self._call("DELETE", "/", None)

    async def dial(self, address: str, port: int) -> socket.socket:
        """A connection to the sshd of the Mac at a public address; fails as the operating system would."""
        del port  # a Mac has one SSH port in public, and another one on loopback
        try:
            route = await self._call("GET", "/route", Route, params={"address": address})
        except WorldAwayError as error:
            raise ConnectionRefusedError(str(error)) from error
        if not route.port:
            await self._clock.sleep(route.silence)
            raise TimeoutError
        return await tcp_connection("127.0.0.1", route.port)

    async def _call(
        self, method: str, path: str, kind: type[M] | None, body: Any = None, params: dict[str, str] | None = None
    ) -> M:
        try:
            response = await self._http.request(
                method, path, params=params, content=None if body is None else msgspec.json.encode(body)
            )
        except (httpx2.TransportError, OSError) as error:
            raise WorldAwayError(f"the simulated world does not answer ({type(error).__name__})") from error
        if not response.is_success:
            raise WorldAwayError(f"the simulated world refused {method} {path}: {response.status_code} {response.text}")
        return msgspec.json.decode(response.content, type=kind) if kind is not None else None  # pyright: ignore[reportReturnType]
