"""Accepting: each connection counts from then on, before TLS has said a word, and is counted down when it is over."""

import asyncio
import socket
import ssl
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from paddock.base.connection_budget import ConnectionBudget
from paddock.base.connection_limits import ConnectionLimits, LimitedConnection
from paddock.base.logs import get_logger
from paddock.base.refusal_log import RefusalLog

__all__ = ["Listener"]

_ACCEPTED_AT_ONCE: Final = 4
_HANDSHAKES_AT_ONCE: Final = 64
_FULL_FOR: Final = 0.05
"""Seconds until it is seen that there is room."""
_NO_FILES_FOR: Final = 1.0

_log = get_logger("http")


class Listener:
    """One listening socket. What is beyond the budget waits in the kernel; of TLS, who is silent waits outside, and so many
    shake hands at once: a thousand that all begin in one moment cost one turn of the loop no more than these.
    """

    def __init__(
        self,
        server: uvicorn.Server,
        sock: socket.socket,
        context: ssl.SSLContext | None,
        limits: ConnectionLimits,
        budget: ConnectionBudget,
    ) -> None:
        self._server, self._sock, self._context, self._limits, self._budget = server, sock, context, limits, budget
        self._refusals = RefusalLog(_log, every=60.0)
        self._handshakes = asyncio.Semaphore(_HANDSHAKES_AT_ONCE)
        self._opening: set[asyncio.Task[None]] = set()
        self._connections: set[LimitedConnection] = set()
        self._budget.open(self)

    async def accept(self) -> None:
        """Until cancelled. Connections that are open then stay so; those that are not open yet end."""
        try:
            while True:
                for _ in range(_ACCEPTED_AT_ONCE):
                    await self._accept_one()
                # While connections wait in the kernel, accepting never yields by itself.
                await asyncio.sleep(0)
        finally:
            for task in self._opening:
                task.cancel()
            await asyncio.gather(*self._opening, return_exceptions=True)

    def abort(self) -> None:
        """End what is still open."""
        for connection in list(self._connections):
            connection.abort()
        self._budget.close(self)

    async def _accept_one(self) -> None:
        if not self._budget.has_room(self):
            await asyncio.sleep(_FULL_FOR)
            return
        loop = asyncio.get_running_loop()
        try:
            sock, address = await loop.sock_accept(self._sock)
        except ConnectionError:
            return  # it left before its turn came
        except OSError as error:
            self._refused(f"none can be accepted: {error.strerror}", "")
            await asyncio.sleep(_NO_FILES_FOR)
            return
        self._budget.accepted(self)
        task = loop.create_task(self._open(sock, str(address[0]) if isinstance(address, tuple) else ""))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, sock: socket.socket, sender: str) -> None:
        def refused(why: str) -> None:
            self._refused(why, sender)

        connection = LimitedConnection(self._http, self._limits, refused, self._left)
        self._connections.add(connection)
        seconds = self._limits.handshake_seconds
        try:
            if self._context is None:
                await _connect(sock, connection, None)
            else:
                async with asyncio.timeout(seconds):
                    await self._shake_hands(sock, connection, self._context)
        # Without a handshake nobody calls `connection_lost`.
        except TimeoutError:
            self._left(connection)
            refused(f"no TLS handshake within {seconds:g} s")
        except OSError:  # ssl.SSLError among them
            self._left(connection)
            self._refused("no TLS handshake", sender, usual=True)
        except BaseException:
            self._left(connection)
            raise

    async def _shake_hands(self, sock: socket.socket, connection: LimitedConnection, context: ssl.SSLContext) -> None:
        try:
            await _first_byte(sock)
            await self._handshakes.acquire()
        except BaseException:
            sock.close()
            raise
        try:
            await _connect(sock, connection, context)
        finally:
            self._handshakes.release()

    def _http(self, state: dict[str, Any]) -> asyncio.Protocol:
        return H11Protocol(self._server.config, self._server.server_state, state)

    def _refused(self, why: str, sender: str, *, usual: bool = False) -> None:
        self._refusals.refused("connection", why, usual=usual, sender=sender)

    def _left(self, connection: LimitedConnection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._budget.ended(self)


async def _connect(sock: socket.socket, connection: LimitedConnection, context: ssl.SSLContext | None) -> None:
    loop = asyncio.get_running_loop()
    await loop.connect_accepted_socket(lambda: connection, sock, ssl=context)


async def _first_byte(sock: socket.socket) -> None:
    """Until there is something to read, or the end of the connection."""
    loop = asyncio.get_running_loop()
    there = loop.create_future()

    def found() -> None:
        if not there.done():
            there.set_result(None)

    loop.add_reader(sock, found)
    try:
        await there
    finally:
        loop.remove_reader(sock)
