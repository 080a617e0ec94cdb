"""One watch, from its request to its end. It never begins anew by itself: that is the informer's decision."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from paddock.kube.connection import KubeConnection
from paddock.kube.errors import TransportError, from_status

__all__ = ["Event", "Lines", "WatchTimeouts", "watch"]


class Event(msgspec.Struct, frozen=True):
    """The envelope of one line; the object inside stays undecoded until the reader knows what it is."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


_ENVELOPE = msgspec.json.Decoder(Event)


class Lines:
    """Cuts chunks of bytes into lines, whatever the chunks; the last, unfinished one waits for its rest."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def fanout(self, chunk: bytes) -> list[bytes]:
        head, *others = chunk.split(b"\n")
        self._rest.append(head)
        if not others:
            return []
        complete = [b"".join(self._rest), *others[:-1]]
        self._rest = [others[-1]]
        return [line for line in complete if line]


@dataclass(frozen=True, slots=True)
class WatchTimeouts:
    """How long a silent stream is believed to be alive.

    The server ends a watch by itself after `server_timeout`, so that a silence of `margin` beyond that is a dead
    connection. Bookmarks come about once a minute: after the first one, a silence of `after_bookmark` is enough.
    """

    server_timeout: float
    margin: float = 30.0
    after_bookmark: float = 200.0
    connect: float = 30.0


async def watch(
    connection: KubeConnection,
    path: str,
    params: Mapping[str, str],
    deliver: Callable[[Event], None],
    *,
    timeout: WatchTimeouts,
    opened: Callable[[], None] = lambda: None,
) -> None:
    """Deliver every event until the server ends the stream cleanly, which is the only normal return.

    Raises ExpiredError on a 410, as an HTTP status or inside the stream; another ApiError on any other refusal; a
    TransportError when the stream breaks, stalls or is not a stream of events. `deliver` runs in the loop and must
    neither block nor raise.
    """
    loop = asyncio.get_running_loop()
    query = dict(params) | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(int(timeout.server_timeout)),
    }
    async with connection.stream(path, params=query, connect_timeout=timeout.connect) as response:
        opened()
        at_latest = loop.time() + timeout.server_timeout + timeout.margin
        lines, bookmarked = Lines(), False
        async with asyncio.timeout_at(at_latest) as deadline:
            async for chunk in response.aiter_bytes():
                for line in lines.fanout(chunk):
                    bookmarked |= _hand_over(line, path, deliver) == "BOOKMARK"
                if bookmarked:
                    deadline.reschedule(min(at_latest, loop.time() + timeout.after_bookmark))


def _hand_over(line: bytes, path: str, deliver: Callable[[Event], None]) -> str:
    try:
        event = _ENVELOPE.decode(line)
        if event.type != "ERROR":
            deliver(event)
            return event.type
        status: Any = msgspec.json.decode(event.object)
    except msgspec.MsgspecError as error:
        raise TransportError(f"GET {path}: the stream holds something that is no event: {error}") from error
    raise from_status(status if isinstance(status, dict) else {})
