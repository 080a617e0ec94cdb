"""How HTTP reaches the simulated GitHub."""

from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest

from paddock.simulator.github.exchange import Request
from paddock.simulator.twin import serving
from paddock.simulator.twin.answer import Answer

__all__ = ["Answering", "asgi_app"]


class Answering(Protocol):
    async def answer(self, request: Request) -> Answer: ...


def asgi_app(front: Answering) -> Starlette:
    async def ask(http: HttpRequest) -> Answer:
        return await front.answer(
            Request(
                method=http.method,
                base_url=str(http.base_url).rstrip("/"),
                path=http.url.path,
                query=dict(http.query_params),
                authorization=http.headers.get("authorization", ""),
                body=await http.body(),
            )
        )

    return serving.asgi_app(ask)
