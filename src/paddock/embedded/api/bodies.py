"""The body of a request: read within a limit, and only from whom we know; what nobody reads is left on the way.

Whoever reaches the listener can promise a body. What a stranger sends must cost neither memory nor a decision, so the caller is
known by the head and the certificate first, and the refusal is said before the body has come.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from paddock.embedded.api import status
from paddock.embedded.api.status import ApiFailure

__all__ = ["LARGEST_BODY", "Message", "Receive", "drain", "promises_body", "read_body"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

LARGEST_BODY: Final = 3 * 1024 * 1024
_DRAINED_BYTES: Final = 256 * 1024
_DRAINED_SECONDS: Final = 2.0


def promises_body(headers: Mapping[str, str]) -> bool:
    """Whether a request with these headers has a body that is still to come."""
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip() != "0"


async def read_body(receive: Receive) -> bytes:
    """The whole body; 413 as soon as it is too large. How long it may take is the listener's business (`ConnectionLimits`)."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise status.bad_request("the client left before its request was complete")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > LARGEST_BODY:
            raise ApiFailure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LARGEST_BODY}")
        if chunk:
            chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)


async def drain(receive: Receive) -> None:
    """Throw away what is still coming, for a moment: a client that is cut off in the middle of its sentence would see a reset
    in place of the answer. Nothing is kept, and whoever sends on is not listened to any longer.
    """
    left = _DRAINED_BYTES
    try:
        async with asyncio.timeout(_DRAINED_SECONDS):
            while left > 0:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
                left -= len(message.get("body", b""))
    except TimeoutError:
        return
