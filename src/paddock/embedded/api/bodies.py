"""The body of a request: read within a limit, and only from whom we know.

Whoever reaches the listener can promise a body. What a stranger sends must cost neither memory nor a decision, so the caller is
known by the head and the certificate first, and the refusal is said before the body has come; the listener ends the connection.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from paddock.embedded.api import status
from paddock.embedded.api.status import ApiFailure

__all__ = ["LARGEST_BODY", "Message", "Receive", "read_body"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

LARGEST_BODY: Final = 3 * 1024 * 1024


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
