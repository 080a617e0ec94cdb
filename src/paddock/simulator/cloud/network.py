"""Two ways to reach the simulated cloud with the same requests: over HTTP, and inside the process."""

from typing import Protocol

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest

from paddock.simulator.cloud.requests import CloudRequest
from paddock.simulator.service import serving
from paddock.simulator.service.response import ServiceResponse

__all__ = ["InProcessTransport", "asgi_app"]


class Answering(Protocol):
    async def answer(self, request: CloudRequest) -> ServiceResponse: ...


def asgi_app(front: Answering) -> Starlette:
    """The API as an ASGI application, for any HTTP server on loopback."""

    async def ask(http: HttpRequest) -> ServiceResponse:
        return await front.answer(
            CloudRequest(
                method=http.method,
                path=http.url.path,
                query=dict(http.query_params),
                token=http.headers.get("x-auth-token", ""),
                body=await http.body(),
            )
        )

    return serving.asgi_app(ask)


class InProcessTransport(httpx2.AsyncBaseTransport):
    """The same cloud without a socket: deterministic, and at home on a virtual-time event loop."""

    def __init__(self, front: Answering) -> None:
        self._front = front

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._front.answer(
            CloudRequest(
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
