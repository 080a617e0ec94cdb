"""A simulated service as an ASGI application: for an HTTP server on loopback, or for a transport in the process."""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from paddock.simulator.service.response import ServiceResponse

__all__ = ["asgi_app"]

_METHODS = ["GET", "POST", "PATCH", "PUT", "DELETE"]


def asgi_app(ask: Callable[[Request], Awaitable[ServiceResponse]]) -> Starlette:
    """Every path and every method goes to `ask`; what it answers is sent, or lost on its way."""

    async def serve(request: Request) -> Response:
        answer = await ask(request)
        if answer.lost:
            return _LostAnswer()
        return Response(answer.body or None, answer.status, headers=answer.headers, media_type=answer.content_type)

    return Starlette(routes=[Route("/{path:path}", serve, methods=_METHODS)])


class _LostAnswer(Response):
    """Breaks the connection in the middle of the answer: the server promises more bytes than it sends.

    The effect may have happened, and the client cannot know.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        headers = [(b"content-type", b"application/json"), (b"content-length", b"4096")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
