"""A connection as whoever admits strangers sees it, and what all strangers together may cost."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Guest", "StrangerLimits"]


@dataclass(frozen=True, slots=True)
class StrangerLimits:
    reads_a_turn: int = 4
    requests_a_turn: int = 1
    """So many packets of strangers are parsed, and so many requests of theirs begun, in one turn of the event loop; as many
    again at the doors. The rest waits in line, while every packet of a proven caller is parsed in the turn in which it comes."""
    doors: tuple[bytes, ...] = ()
    """Beginnings of requests, such as b"POST /webhooks/github ", whose senders stand in a line of their own: where honest
    callers come with a new connection each time, and where to prove oneself costs next to nothing. A crowd before one
    door keeps nobody from another."""
    read_bytes: int = 8 * 1024
    """One packet is at most so long, so that the line holds at most twice this for each connection."""
    line_bytes: int = 64 * 1024 * 1024
    """All that waits in line. A TLS connection may bring more than `read_bytes` at once, so this is bounded by itself."""
    quick_each: float = 2.0
    quick_each_burst: float = 20.0
    quick: float = 50.0
    """Refusals that are told at once, in each second: to one address, and to all. Whoever is refused for an honest reason
    (a clock that is off, a token that has expired) is refused seldom, and hears why without delay."""
    late_seconds: float = 4.0
    """The first refusal beyond that on a connection is told so late; each one after it takes twice as long. Our own clients
    and GitHub wait longer than the first."""
    latest_seconds: float = 30.0
    silent_seconds: float = 60.0
    """A connection that never says a word costs a place and nothing else; to open it anew would cost more."""
    kept_seconds: float = 60.0
    """One that broke a limit and cannot be told so at once is kept so long, unread."""


class Guest(Protocol):
    """One connection, as the listener's protocol knows it. The attributes belong to Strangers."""

    address: str
    here: bool
    proven_at: float | None
    """When the application last vouched for it; None for a stranger."""
    vouched: bool
    """Whether it did for the request that is being answered."""
    refusals: int
    pending: bytes | None
    """What it sent and nobody parsed yet."""
    held: "asyncio.Future[None] | None"

    @property
    def dribbles(self) -> bool:
        """Whether it sent a part of a request's head before, and not the whole of it."""
        ...

    @property
    def between_requests(self) -> bool:
        """Whether what it sends next begins a request."""
        ...

    at_door: bool
    """Whether the request that it sends is for one of the doors. This belongs to the line."""

    def parse(self, data: bytes) -> None: ...
    def stop_reading(self) -> None: ...
    def read_on(self) -> None: ...
    def limit_reads(self, most: int | None) -> None: ...
    def end(self, limit: str) -> None: ...
