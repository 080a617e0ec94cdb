"""Two ways to reach the simulated cloud with the same requests: over HTTP, and inside the process."""

from typing import Protocol

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from paddock.simulator.cloud.exchange import Answer, Request
from paddock.simulator.lost_answer import LostAnswer

__all__ = ["InProcessTransport", "asgi_app"]

_METHODS = ["GET", "POST", "PATCH", "PUT", "DELETE"]


class Answering(Protocol):
    async def answer(self, request: Request) -> Answer: ...


def asgi_app(front: Answering) -> Starlette:
    """The API as an ASGI application, for any HTTP server on loopback."""

    async def serve(http: HttpRequest) -> Response:
        answer = await front.answer(
            Request(
                method=http.method,
                path=http.url.path,
                query=dict(http.query_params),
                token=http.headers.get("x-auth-token", ""),
                body=await http.body(),
            )
        )
        if answer.lost:
            return LostAnswer()
        content = answer.body or None
        return Response(content, answer.status, headers=answer.headers, media_type=answer.content_type)

    return Starlette(routes=[Route("/{path:path}", serve, methods=_METHODS)])


class InProcessTransport(httpx2.AsyncBaseTransport):
    """The same cloud without a socket: deterministic, and at home on a virtual-time event loop."""

    def __init__(self, front: Answering) -> None:
        self._front = front

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._front.answer(
            Request(
                method=request.method,
                path=request.url.path,
                query=dict(request.url.params),
                token=request.headers.get("x-auth-token", ""),
                body=await request.aread(),
            )
        )
        if answer.lost:
            raise httpx2.ReadError("the connection broke", request=request)
        headers = {"content-type": answer.content_type, **answer.headers}
        return httpx2.Response(answer.status, headers=headers, content=answer.body, request=request)
