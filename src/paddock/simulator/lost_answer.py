"""An answer that is lost on its way: the effect has happened, and the client cannot know."""

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["LostAnswer"]


class LostAnswer(Response):
    """Breaks the connection in the middle of the answer: the server promises more bytes than it sends."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        headers = [(b"content-type", b"application/json"), (b"content-length", b"4096")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
