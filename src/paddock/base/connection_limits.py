"""What one connection may cost the server before anybody has proved who it is: bytes of head, seconds, a place.

Uvicorn bounds the head only with its slower parser, and no time at all for a client that has begun to speak. So a client
that sends its headers byte by byte, or for ever, or never, would keep memory and a file descriptor until it leaves.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paddock.base.clock import SystemClock
from paddock.base.rate_limit import RateLimit

__all__ = ["ConnectionLimits", "with_limits"]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Head: the request line with the headers. The seconds of a body end with its last byte, not with the answer, so a
    held request or a watch may last as long as it likes.
    """

    head_bytes: int = 64 * 1024
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    connections: int = 20_000
    quick_refusals: int = 50
    """So many of those that send no HTTP are told so at once, in each second. The others are kept waiting in silence for
    `kept_waiting`: a place that is free at once would be taken again at once, and opening it costs more than keeping it."""
    kept_waiting: float = 10.0


class _NotEachTime(logging.Filter):
    """Uvicorn writes a line for each request that is none: whoever sends rubbish would decide how much is logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Invalid HTTP request received")


_not_each_time = _NotEachTime()


def with_limits(limits: ConnectionLimits, refused: Callable[[str], None]) -> type[HttpToolsProtocol]:
    """Uvicorn's protocol that ends a connection beyond its limits; `refused` hears which limit it was."""
    logging.getLogger("uvicorn.error").addFilter(_not_each_time)  # the same one: it is added once

    quick = RateLimit(limits.quick_refusals, limits.quick_refusals, SystemClock())

    class WithLimits(HttpToolsProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._head: int | None = 0  # bytes of the head so far; None between its end and the next request
            self._deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self._refuse("connections", 503, "too many connections: try again later")
                return
            self._limit_time("head_seconds", limits.head_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            self._no_deadline()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return  # what was on its way when we refused
            begun = self._head
            if begun is not None:
                self._head = begun + len(data)
            super().data_received(data)
            # Judged after parsing: a body that came in the same packet as its head is not a part of it.
            if begun is not None and self._head is not None and self._head > limits.head_bytes:
                self._refuse("head_bytes", 431, f"the request's head is longer than {limits.head_bytes} bytes")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            if self._head is None:
                self._head = 0
                self._limit_time("head_seconds", limits.head_seconds)

        def on_headers_complete(self) -> None:
            self._head = None
            self._limit_time("body_seconds", limits.body_seconds)
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._no_deadline()
            super().on_message_complete()

        def send_400_response(self, msg: str) -> None:
            """What is no HTTP at all. It is counted with the rest, and not written down each time: see `_NotEachTime`."""
            self._no_deadline()
            refused("no_http")
            if quick.take():
                super().send_400_response(msg)
            else:
                self.transport.pause_reading()
                self._deadline = self.loop.call_later(limits.kept_waiting, self.transport.abort)

        def _unsupported_upgrade_warning(self) -> None:
            """An upgrade is answered as the plain request that it also is; uvicorn would print advice about libraries."""

        def _limit_time(self, limit: str, seconds: float) -> None:
            self._no_deadline()
            text = f"the request did not come to its end within {seconds:.0f} s"
            self._deadline = self.loop.call_later(seconds, self._refuse, limit, 408, text)

        def _no_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _refuse(self, limit: str, status: int, text: str) -> None:
            """One sentence if it can still be understood, and the end. The peer may not read: nothing waits for it."""
            self._no_deadline()
            refused(limit)
            if self.transport.is_closing():
                return
            # Uvicorn declares a cycle where there is none before the first request.
            if self.cycle is None or self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
                body = f"{text}\n".encode()
                head = f"HTTP/1.1 {status} Refused\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
                self.transport.write(head.encode() + body)
                self.transport.close()
            else:
                self.transport.abort()  # an answer has begun: a second one in it would be read as a part of it

    return WithLimits
