"""An ASGI application that exists from some moment on, behind a listener that exists from the first second."""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from paddock.base.http_requests import refusal

__all__ = ["DeferredApp", "unavailable"]

_RETRY_AFTER = "5"


class DeferredApp:
    """`until_then` answers every request before `serve`, and none after it: no route behind it asks by itself."""

    def __init__(self, until_then: ASGIApp) -> None:
        self._app = until_then

    def serve(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def unavailable(reason: str, sentence: Callable[[], str]) -> ASGIApp:
    """Answers every request with 503, the sentence of that moment and Retry-After. The body of a request is not read."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await refusal(503, reason, sentence(), headers={"Retry-After": _RETRY_AFTER})(scope, receive, send)

    return answer
