"""The web application: the page, its live stream, health and metrics."""

from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.base.metrics import CONTENT_TYPE_LATEST, CollectorRegistry, exposition
from paddock.web import pages
from paddock.web.live import Live
from paddock.web.view import FleetView

__all__ = ["create_app"]

_STATIC = Path(__file__).parent / "static"
_POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"


def create_app(
    view: Callable[[], FleetView],
    live: Live,
    registry: CollectorRegistry,
    *,
    healthy: Callable[[], str | None],
    hint: str,
    more: Sequence[BaseRoute] = (),
) -> ASGIApp:
    """The application. `view` takes the picture of this moment; `healthy` says what is wrong, or None; `more` is served beside it."""

    async def index(_: Request) -> Response:
        return HTMLResponse(str(pages.page(view(), title="Paddock", hint=hint)))

    async def events(_: Request) -> Response:
        return StreamingResponse(live.stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def healthz(_: Request) -> Response:
        problem = healthy()
        return PlainTextResponse("ok" if problem is None else problem, status_code=200 if problem is None else 503)

    async def metrics(_: Request) -> Response:
        return Response(exposition(registry), media_type=CONTENT_TYPE_LATEST)

    app = Starlette(
        routes=[
            Route("/", index),
            Route("/live", events),
            Route("/healthz", healthz),
            Route("/metrics", metrics),
            Mount("/static", StaticFiles(directory=_STATIC)),
            *more,
        ]
    )
    return _Guarded(app)


class _Guarded:
    """Security headers on every answer; only loopback names are answered, so that no other site can rebind to us."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers["Content-Security-Policy"] = _POLICY
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
                message["headers"] = headers.raw
            await send(message)

        if scope["type"] == "http" and not _local(scope):
            await PlainTextResponse("unknown host name\n", 421)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)


def _local(scope: Scope) -> bool:
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name in ("localhost", "127.0.0.1", "::1")
