"""How HTTP reaches the simulated GitHub."""

from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest

from paddock.simulator.github.requests import GitHubApiRequest
from paddock.simulator.service import serving
from paddock.simulator.service.response import ServiceResponse

__all__ = ["Answering", "asgi_app"]


class Answering(Protocol):
    async def answer(self, request: GitHubApiRequest) -> ServiceResponse: ...


def asgi_app(front: Answering) -> Starlette:
    async def ask(http: HttpRequest) -> ServiceResponse:
        return await front.answer(
            GitHubApiRequest(
                method=http.method,
                base_url=str(http.base_url).rstrip("/"),
                path=http.url.path,
                query=dict(http.query_params),
                authorization=http.headers.get("authorization", ""),
                body=await http.body(),
                headers={name.lower(): value for name, value in http.headers.items()},
            )
        )

    return serving.asgi_app(ask)
