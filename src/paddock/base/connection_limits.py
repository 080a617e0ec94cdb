"""What one connection may cost: seconds for each part of a request, bytes of head, and its end after a refusal.

Uvicorn's h11 parser bounds the head and takes one request at a time, but no client that has begun to speak is too slow for it. So
our protocol holds uvicorn's, and the application is called through `within_limits`: that a request has begun, that its body has
ended and that it is answered comes from there, so nothing inside uvicorn is patched.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from h11 import LocalProtocolError

__all__ = ["ConnectionLimits", "LimitedConnection", "within_limits"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[Any]]

_KEY: Final = "paddock.connection"
_CLOSE: Final = (b"connection", b"close")
_ENDING: Final = frozenset({400, 401, 403, 413})
"""Refusals after which the connection ends: who guesses, or sends too much, begins each time anew."""
_DRAINED_BYTES: Final = 256 * 1024
_DRAINED_SECONDS: Final = 2.0
_ABORTED_AFTER: Final = 2.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """A request may be held, and its answer may last, as long as the application likes: its seconds end with its body."""

    handshake_seconds: float = 10.0
    head_seconds: float = 10.0
    head_bytes: int = 64 * 1024
    """Request line and headers; what comes in one read with the end of the head may be more."""
    body_seconds: float = 60.0
    idle_seconds: float = 75.0
    """Between two requests."""


class _Filter(logging.Filter):
    """Uvicorn writes a line for each request that is none, or that asks for another protocol: whoever sends rubbish would decide
    how much is logged. And a trace for each that a stop cuts short, which would be the last that somebody sees of us.
    """

    _SAID_ELSEWHERE = (
        "Invalid HTTP request received",
        "Cancel %s running task(s)",
        "Unsupported upgrade request",
        "No supported WebSocket library",
    )

    def filter(self, record: logging.LogRecord) -> bool:
        stopped = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
        return not stopped and not str(record.msg).startswith(self._SAID_ELSEWHERE)


logging.getLogger("uvicorn.error").addFilter(_Filter())


class LimitedConnection(asyncio.Protocol):
    """One connection. `http` makes uvicorn's protocol for it from the state that each of its requests carries, `refused` is
    called with the reason when a limit ends it, `left` once when it is over.
    """

    def __init__(
        self,
        http: Callable[[dict[str, Any]], asyncio.Protocol],
        limits: ConnectionLimits,
        refused: Callable[[str], None],
        left: Callable[["LimitedConnection"], None],
    ) -> None:
        self._make_http, self._limits, self._refused, self._left = http, limits, refused, left
        self._transport: asyncio.Transport | None = None
        self._http: asyncio.Protocol | None = None
        self._in_request = False
        """From the moment at which the application has the request until its answer is complete."""
        self._silent = True
        self._deadline: asyncio.Handle | None = None
        self.cut = False
        """Whether a limit has ended it, or what came was no HTTP."""
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        state: dict[str, Any] = {_KEY: self}
        secured = transport.get_extra_info("ssl_object")
        shown = secured.getpeercert(binary_form=True) if secured is not None else None
        if shown:
            # DER. TLS has proved that the client holds the key; what it says is for the application to read.
            state["client_certificate"] = shown
        self._http = self._make_http(state)
        self._http.connection_made(transport)
        self._limit("head", self._limits.head_seconds)

    def data_received(self, data: bytes) -> None:
        if self._http is None or self._transport is None or self._transport.is_closing():
            return  # what was on its way when we refused
        self._silent = False
        if not self._in_request and self._deadline is None:
            self._limit("head", self._limits.head_seconds)
        try:
            self._http.data_received(data)
        except LocalProtocolError:
            self._transport.abort()  # no HTTP in the midst of an answer: uvicorn has no words for it
        if self._transport.is_closing():
            self._end("this is no HTTP, or its head is too long")

    def eof_received(self) -> bool | None:
        return None if self._http is None else self._http.eof_received()

    def pause_writing(self) -> None:
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        if self._http is not None:
            self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._no_limit()
        if self._http is not None:
            self._http.connection_lost(exc)
            self._http = None  # it refers to us: apart, both end at once
        if not self._gone.done():
            self._gone.set_result(None)
        self._left(self)

    # What the application's calls tell

    def request_began(self) -> None:
        self._no_limit()
        self._in_request = True

    def body_awaited(self) -> None:
        if self._deadline is None:
            self._limit("body", self._limits.body_seconds)

    def body_ended(self) -> None:
        self._no_limit()

    def answered(self) -> None:
        self._no_limit()
        self._in_request = False

    async def over(self) -> None:
        """Until the transport is gone: uvicorn takes an answer on a connection that we cut for a fault of the application."""
        await asyncio.shield(self._gone)

    # Limits

    def _limit(self, part: str, seconds: float) -> None:
        self._no_limit()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._overdue, part, seconds)

    def _no_limit(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _overdue(self, part: str, seconds: float) -> None:
        # A turn later: where we ourselves were away, what has just come in counts before the clock does.
        self._deadline = asyncio.get_running_loop().call_soon(self._too_slow, part, seconds)

    def _too_slow(self, part: str, seconds: float) -> None:
        transport, self._deadline = self._transport, None
        if transport is None or transport.is_closing():
            return
        sentence = f"the {part} of a request did not come within {seconds:g} s"
        # Inside a request an answer may have begun: a second one would be read as a part of it.
        if not self._silent and not self._in_request:
            body = f"{sentence}\n".encode()
            head = "HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: "
            transport.write(f"{head}{len(body)}\r\n\r\n".encode() + body)
        transport.close()
        self._end(sentence)

    def _end(self, why: str) -> None:
        """The connection is closing; a peer that reads nothing keeps it no longer than a moment."""
        self.cut = True
        self._no_limit()
        assert self._transport is not None
        self._refused(why)
        asyncio.get_running_loop().call_later(_ABORTED_AFTER, self._transport.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def within_limits(app: App) -> App:
    """The application, whose requests report to the connection that they came on. After a refusal, and where a body is still on
    its way, the connection ends with the answer.
    """

    async def served(scope: Any, receive: Receive, send: Send) -> None:
        connection: LimitedConnection = scope["state"].pop(_KEY)
        connection.request_began()
        unread = _promises_body(scope["headers"])

        async def receiving() -> Message:
            nonlocal unread
            if not unread:
                return await receive()
            connection.body_awaited()
            message = await receive()
            if not message.get("more_body"):  # its last part, or the end of the connection
                unread = False
                connection.body_ended()
            return message

        async def sending(message: Message) -> None:
            if connection.cut:
                await connection.over()
            if message["type"] == "http.response.start":
                if unread or message["status"] in _ENDING:
                    headers = [each for each in message.get("headers", ()) if each[0].lower() != b"connection"]
                    message = {**message, "headers": [*headers, _CLOSE]}
                await send(message)
                return
            last = not message.get("more_body")
            if last and unread:
                await send({**message, "more_body": True})  # complete for the client
                await _drain(receive)
                message = {"type": message["type"], "body": b""}
            await send(message)
            if last:
                connection.answered()

        if not connection.cut:
            await app(scope, receiving, sending)
        if connection.cut:
            await connection.over()

    return served


def _promises_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request with these headers has a body that is still to come."""
    found: Mapping[bytes, bytes] = dict(headers)
    return b"transfer-encoding" in found or found.get(b"content-length", b"0").strip() != b"0"


async def _drain(receive: Receive) -> None:
    """Throw away what is still coming, for a moment: a client that is cut off in the middle of its sentence would see a reset
    in place of the answer. Nothing is kept, and of who sends on nothing more is read.
    """
    left = _DRAINED_BYTES
    try:
        async with asyncio.timeout(_DRAINED_SECONDS):
            while left > 0:
                message = await receive()
                if not message.get("more_body"):
                    return
                left -= len(message.get("body", b""))
    except TimeoutError:
        return
