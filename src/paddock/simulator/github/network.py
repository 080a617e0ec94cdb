"""The simulated GitHub as an ASGI application: for an HTTP server on loopback, or for a transport in the process."""

from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from paddock.simulator.github.exchange import Answer, Request
from paddock.simulator.lost_answer import LostAnswer

__all__ = ["Answering", "asgi_app"]

_METHODS = ["GET", "POST", "PATCH", "PUT", "DELETE"]


class Answering(Protocol):
    async def answer(self, request: Request) -> Answer: ...


def asgi_app(front: Answering) -> Starlette:
    async def serve(http: HttpRequest) -> Response:
        answer = await front.answer(
            Request(
                method=http.method,
                base_url=str(http.base_url).rstrip("/"),
                path=http.url.path,
                query=dict(http.query_params),
                authorization=http.headers.get("authorization", ""),
                body=await http.body(),
            )
        )
        if answer.lost:
            return LostAnswer()
        return Response(answer.body or None, answer.status, headers=answer.headers, media_type=answer.content_type)

    return Starlette(routes=[Route("/{path:path}", serve, methods=_METHODS)])
