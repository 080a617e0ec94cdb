"""What one connection may cost the server before anybody has proved who it is: bytes of head, seconds, a place.

Uvicorn bounds the head only with its slower parser, and no time at all for a client that has begun to speak. So a client
that sends its headers byte by byte, or for ever, or never, would keep memory and a file descriptor until it leaves.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paddock.base.clock import SystemClock
from paddock.base.rate_limit import RateLimit
from paddock.base.strangers import Strangers

__all__ = ["ConnectionLimits", "with_limits"]

_READ_AT_ONCE: Final = 256 * 1024  # what asyncio reads at once by itself


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


class _PipelinedError(Exception):
    """A request came before its turn."""


_UNSAID = ("Invalid HTTP request received", "Cancel %s running task(s)")


class _NotEachTime(logging.Filter):
    """Uvicorn writes a line for each request that is none: whoever sends rubbish would decide how much is logged. And a trace for
    each that a stop cuts short.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        # A request that our own stop cuts short is no failure, and its trace would be the last that somebody sees of us.
        stopped = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
        return not stopped and not str(record.msg).startswith(_UNSAID)


_not_each_time = _NotEachTime()


def with_limits(
    limits: ConnectionLimits, refused: Callable[[str], None], strangers: Strangers | None = None
) -> type[HttpToolsProtocol]:
    """Uvicorn's protocol that ends a connection beyond its limits; `refused` hears which limit it was. With `strangers` it
    tells those who have proved who they are from the others, and serves the others after them.
    """
    logging.getLogger("uvicorn.error").addFilter(_not_each_time)  # the same one: it is added once

    quick = RateLimit(limits.quick_refusals, limits.quick_refusals, SystemClock())

    class WithLimits(HttpToolsProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._head: int | None = 0  # bytes of the head so far; None between its end and the next request
            self._body = False  # whether its body is awaited
            self._in_request = False  # whether one has begun, and not all of it has come
            self._deadline: asyncio.TimerHandle | None = None
            self._overdue: tuple[str, float] | None = None  # the deadline that rang while what it sent waited in line
            self._silent = True
            self._stopped = False
            self._stopped_by_line = False
            self.address = ""
            self.here = True
            self.proven_at: float | None = None
            self.vouched = False
            self.refusals = 0
            self.pending: bytes | None = None
            self.held: asyncio.Future[None] | None = None
            self.at_door = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().connection_made(transport)
            if len(self.connections) > limits.connections and not (strangers and strangers.make_room(self)):
                self._refuse("connections", 503, "too many connections: try again later")
                return
            if strangers is None:
                self._limit_time("head_seconds", limits.head_seconds)
                return
            self.address = self.client[0] if self.client else ""
            strangers.arrived(self)
            self._deadline = self.loop.call_later(strangers.limits.silent_seconds, self.end, "silent_seconds")

        def connection_lost(self, exc: Exception | None) -> None:
            self._no_deadline()
            if strangers is not None:
                strangers.left(self)
            super().connection_lost(exc)
            # Cycle and connection refer to each other, and asyncio's transport to itself. Apart, all of them end at once, and not
            # with the next search for garbage.
            self.cycle = None  # pyright: ignore[reportAttributeAccessIssue]
            self.scope = None  # pyright: ignore[reportAttributeAccessIssue]
            self.pipeline.clear()
            if hasattr(self.transport, "_read_ready_cb"):
                setattr(self.transport, "_read_ready_cb", None)  # noqa: B010 - nothing is read any more

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing() or self._stopped:
                return  # what was on its way when we refused
            if strangers is None or (self.proven_at is not None and self.pending is None):
                self.parse(data)
                return
            if self._silent:
                self._silent = False
                if not data.lstrip(b"\r\n")[:1].isalpha():
                    self.send_400_response("Invalid HTTP request received.")  # not even the first letter of a method
                    return
                self._limit_time("head_seconds", limits.head_seconds)
            strangers.read(self, data)

        def parse(self, data: bytes) -> None:
            if self.transport.is_closing() or self._stopped:
                return  # it came to its limit while it waited in line
            begun = self._head
            if begun is not None:
                self._head = begun + len(data)
            super().data_received(data)
            # Judged after parsing: a body that came in the same packet as its head is not a part of it.
            if begun is not None and self._head is not None and self._head > limits.head_bytes:
                self._refuse("head_bytes", 431, f"the request's head is longer than {limits.head_bytes} bytes")
            elif self._overdue is not None and not self._stopped:
                self._too_late(*self._overdue)
            elif self._deadline is None and not self.transport.is_closing():
                # Most requests are complete by now, and need no timer. An empty line begins none, but ends uvicorn's own wait for one.
                if self._head is not None or (self._waits_for_a_request and self.timeout_keep_alive_task is None):
                    self._limit_time("head_seconds", limits.head_seconds)
                elif self._body:
                    self._limit_time("body_seconds", limits.body_seconds)

        def on_message_begin(self) -> None:
            if self._runs_ahead():
                raise _PipelinedError  # the parser stops in the midst of the packet
            super().on_message_begin()
            self._in_request = True
            if strangers is not None:
                strangers.introduce(self, cast("dict[str, Any]", self.scope))
            if self._head is None:
                self._head = 0

        def on_headers_complete(self) -> None:
            self._no_deadline()
            self._head, self._body = None, True
            if strangers is not None:
                strangers.request_begins(self)
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._no_deadline()
            self._body = self._in_request = False
            super().on_message_complete()

        def _runs_ahead(self) -> bool:
            """Whether a request comes before the one before it was answered. A packet holds hundreds of small ones, uvicorn would
            keep all of them, and none of our clients does it. One is let pass of those who may not have seen yet that their
            answer is complete, but not of strangers, of whom one request is begun in a turn.
            """
            stranger = strangers is not None and self.proven_at is None
            return self._answering and (stranger or bool(self.pipeline))

        @property
        def _waits_for_a_request(self) -> bool:
            return not self._in_request and not self._answering

        @property
        def _answering(self) -> bool:
            # Uvicorn declares a cycle where there is none before the first request.
            return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

        def send_400_response(self, msg: str) -> None:
            """What is no HTTP at all. It is counted with the rest, and not written down each time: see `_NotEachTime`."""
            if self._runs_ahead():
                self._refuse("pipelined", 400, "send a request after the answer to the one before it")
                return
            self._no_deadline()
            refused("no_http")
            if quick.take() if strangers is None else strangers.may_say_why(self):
                super().send_400_response(msg)
            else:
                self._keep_waiting(limits.kept_waiting if strangers is None else strangers.limits.kept_seconds)

        def _unsupported_upgrade_warning(self) -> None:
            """An upgrade is answered as the plain request that it also is; uvicorn would print advice about libraries."""

        def _limit_time(self, limit: str, seconds: float) -> None:
            self._no_deadline()
            self._deadline = self.loop.call_later(seconds, self._too_late, limit, seconds)

        def _too_late(self, limit: str, seconds: float) -> None:
            if self.pending is not None:
                self._overdue = (
                    limit,
                    seconds,
                )  # what it sent waits for us, and may be the end: judged when it is parsed
                return
            self._refuse(limit, 408, f"the request did not come to its end within {seconds:.0f} s")

        def _no_deadline(self) -> None:
            self._overdue = None
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _refuse(self, limit: str, status: int, text: str) -> None:
            """One sentence if it can still be understood, and the end. The peer may not read: nothing waits for it."""
            self._no_deadline()
            refused(limit)
            if self.transport.is_closing():
                return
            # One for which there is no place is not kept: it would be in nobody's count.
            kept = self.proven_at is None and limit != "connections"
            if kept and strangers is not None and not strangers.may_say_why(self):
                self._keep_waiting(strangers.limits.kept_seconds)
                return
            if not self._answering:
                body = f"{text}\n".encode()
                head = f"HTTP/1.1 {status} Refused\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
                self.transport.write(head.encode() + body)
                self.transport.close()
            else:
                self.transport.abort()  # an answer has begun: a second one in it would be read as a part of it

        def _keep_waiting(self, seconds: float) -> None:
            """Unread and without an answer, and then the end."""
            self._stopped = True
            self.transport.pause_reading()
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

        # What Strangers asks of a connection

        @property
        def dribbles(self) -> bool:
            return self._in_request and self._head is not None

        @property
        def between_requests(self) -> bool:
            return not self._in_request

        def stop_reading(self) -> None:
            if not self._stopped and not self.flow.read_paused:
                self._stopped_by_line = True
                self.flow.pause_reading()

        def read_on(self) -> None:
            if self._stopped_by_line:
                self._stopped_by_line = False
                self.flow.resume_reading()

        def limit_reads(self, most: int | None) -> None:
            """How much asyncio reads at once from a plain socket."""
            if hasattr(self.transport, "max_size"):
                setattr(self.transport, "max_size", most or _READ_AT_ONCE)  # noqa: B010 - asyncio declares none

        def end(self, limit: str) -> None:
            self._no_deadline()
            refused(limit)
            self.transport.abort()

    return WithLimits
