"""The web application: the front page and its live stream, the pages of objects, actions, health and metrics."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from htpy import Node
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from paddock.base.metrics import CONTENT_TYPE_LATEST, CollectorRegistry, exposition
from paddock.kube.errors import KubeError
from paddock.runners.ledger import LedgerError
from paddock.views.giving_back import JobsCameError
from paddock.web import misc_pages, object_pages
from paddock.web.actions import Actor, plan
from paddock.web.assets import serve_asset
from paddock.web.compression import packed, takes_packed
from paddock.web.faults import FaultPanel
from paddock.web.finding import named, spelt_alike
from paddock.web.front import front_frame, front_inside
from paddock.web.guard import LOOPBACK, Guarded
from paddock.web.links import KINDS, href
from paddock.web.live import Live
from paddock.web.objects import page_of
from paddock.web.rewind_page import rewind_page
from paddock.web.runbooks import Runbooks, rendered
from paddock.web.session_authentication import SessionAuthentication
from paddock.web.shell import Site
from paddock.web.then import moment_of
from paddock.web.tiles import groups_of
from paddock.web.timeline import about, timeline
from paddock.web.watched import Watched

__all__ = ["Pages", "create_app"]

_LONGEST_FORM: Final = 16_384
_LONGEST_SOUGHT: Final = 120
_NOT_STORED: Final = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class Pages:
    """What the pages are made from. Without an `actor` they are for reading; without `faults` nothing can be broken."""

    watched: Watched
    live: Live
    site: Site
    sessions_auth: SessionAuthentication
    actor: Actor | None = None
    faults: FaultPanel | None = None
    runbooks: Runbooks = field(default_factory=Runbooks)
    past: bool = False
    """Whether the ledger keeps the fleet's past, and its routes are served beside the pages."""


def create_app(
    pages: Pages,
    registry: CollectorRegistry,
    *,
    healthy: Callable[[], str | None],
    names: Collection[str] | None = LOOPBACK,
    more: Sequence[BaseRoute] = (),
) -> ASGIApp:
    """The application. `healthy` says what is wrong, or None; `names` are the host names it answers to; `more` is served
    beside it.
    """
    handlers = _Handlers(pages)

    async def healthz(_: Request) -> Response:
        problem = healthy()
        return PlainTextResponse("ok" if problem is None else problem, status_code=200 if problem is None else 503)

    async def metrics(_: Request) -> Response:
        return Response(exposition(registry), media_type=CONTENT_TYPE_LATEST)

    app = Starlette(
        routes=[
            Route("/", handlers.front),
            Route("/live", handlers.stream),
            *(Route(f"/{plural}/{{name}}", handlers.object_of(kind)) for kind, plural in KINDS.items()),
            Route("/find", handlers.find),
            Route("/rewind", handlers.rewind),
            Route("/runbooks/{name}", handlers.runbook),
            Route("/sign-in", handlers.sign_in, methods=["GET", "POST"]),
            Route("/actions/{verb}/{name}", handlers.confirm, methods=["GET"]),
            Route("/actions/{verb}/{name}", handlers.act, methods=["POST"]),
            Route("/faults", handlers.panel, methods=["GET"]),
            Route("/faults/{name}", handlers.strike, methods=["POST"]),
            Route("/healthz", healthz),
            Route("/metrics", metrics),
            Route("/static/{name}", serve_asset),
            *more,
        ],
        exception_handlers={404: handlers.not_found},
    )
    return Guarded(app, names)


class _Handlers:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    # Reading.

    async def front(self, request: Request) -> Response:
        return self._pieces(request, self._front(), "text/html")

    async def _front(self) -> AsyncIterator[bytes]:
        """The head goes out before anything is looked at: a browser loads the style sheet in the meantime."""
        live = self._pages.live
        before, after = front_frame(self._pages.site)
        yield before.encode()
        began = live.clock.monotonic()
        await self._pages.watched.look()
        asked = live.clock.monotonic()
        moment = await live.now()
        took = f"ledger {(asked - began) * 1000:.0f} ms, look {moment.took * 1000:.0f} ms"
        inside = partial(front_inside, moment, live.clock.now(), took, past=self._pages.past)
        yield await live.apart(lambda: str(inside()).encode())
        yield after.encode()

    async def stream(self, request: Request) -> Response:
        # A browser that reconnects says what it saw last; one that just loaded the page has its version in the address.
        if self._pages.live.full:
            # Its browser asks again by itself, and the page stands as it was drawn.
            return PlainTextResponse("too many pages are open", status_code=503, headers={"Retry-After": "10"})
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        return self._pieces(request, self._pages.live.stream(since), "text/event-stream")

    def _pieces(self, request: Request, pieces: AsyncIterator[bytes], media_type: str) -> Response:
        """Only the front page and its stream are packed: they are large, and hold no token that their length could tell."""
        headers = {**_NOT_STORED, "Vary": "Accept-Encoding"}
        if takes_packed(request):
            pieces, headers = packed(pieces), {**headers, "Content-Encoding": "gzip"}
        return StreamingResponse(pieces, media_type=media_type, headers=headers)

    async def find(self, request: Request) -> Response:
        sought = request.query_params.get("q", "").strip()[:_LONGEST_SOUGHT]
        if not sought:
            return RedirectResponse("/", 303)
        seen = await self._pages.watched.look()
        found = named(seen, sought)
        exact = [one for one in found if one[1] == sought]
        if len(exact) == 1 or len(found) == 1:
            return RedirectResponse(href(*(exact or found)[0]), 303)
        return self._html(misc_pages.found_page(self._pages.site, sought, found), 200 if found else 404)

    async def rewind(self, request: Request) -> Response:
        """The fleet at a moment of the past. Where the ledger keeps none there is no such page."""
        pages, ledger = self._pages, self._pages.watched.ledger
        if ledger is None or not pages.past:
            raise HTTPException(404)
        seen = pages.watched.seen()
        asked = request.query_params.get("at", "")
        at = moment_of(asked, seen.now)
        if isinstance(at, str):
            return self._refused(at, 400)
        try:
            then = await ledger.then(at)
            if not asked and then.known_since is not None and at < then.known_since <= seen.now:
                # Nobody asked for that moment, and a young ledger does not know it: its first one is shown.
                then = await ledger.then(then.known_since)
        except LedgerError as error:
            return self._refused(f"that moment cannot be read now: {error}", 503)
        node = await asyncio.to_thread(
            lambda: str(rewind_page(pages.site, then, groups_of(seen), retention=ledger.log_kept))
        )
        return HTMLResponse(node, headers=_NOT_STORED)

    def object_of(self, kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            name, pages = request.path_params["name"], self._pages
            seen = await pages.watched.look()
            page = await page_of(kind, name, seen, pages.watched.ledger)
            if page is None:
                lines = timeline(about(seen.events, name))
                what = (
                    f"{kind} {name} is gone. This is what was last heard of it."
                    if lines
                    else f"No ledger knows {kind} {name}: it may be gone, or the name is another."
                )
                near = spelt_alike(seen, kind, name)
                return self._html(misc_pages.missing_page(pages.site, what, near, lines), 404)
            return self._html(object_pages.object_page(pages.site, page, pages.runbooks.href))

        return answer

    async def runbook(self, request: Request) -> Response:
        name = request.path_params["name"]
        text = self._pages.runbooks.text(name)
        if text is None:
            what = f"The runbook {name} is not shipped with this build; the repository has it in docs/runbooks."
            return self._html(misc_pages.missing_page(self._pages.site, what), 404)
        return self._html(misc_pages.runbook_page(self._pages.site, name, rendered(text)))

    async def not_found(self, request: Request, _: Exception) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse("not found\n", 404)
        what = f"No page of Paddock is at {request.url.path}."
        return self._html(misc_pages.missing_page(self._pages.site, what), 404)

    # Acting.

    async def sign_in(self, request: Request) -> Response:
        pages = self._pages
        if not pages.sessions_auth.allows or pages.actor is None:
            return self._refused("this page is for reading: no action token is set", 403)
        if request.method == "GET":
            then = _own_path(request.query_params.get("then", "/"))
            return self._html(misc_pages.sign_in_page(pages.site, then))
        form = await _form(request)
        then = _own_path(form.get("then", "/"))
        visitor = pages.sessions_auth.admit(form.get("token", ""), form.get("who", ""))
        if visitor is None:
            return self._html(misc_pages.sign_in_page(pages.site, then, wrong=True), 403)
        return pages.sessions_auth.remember(RedirectResponse(then, 303), visitor, request)

    async def confirm(self, request: Request) -> Response:
        return await self._confirm(request, "", 200)

    async def _confirm(self, request: Request, notice: str, status: int) -> Response:
        pages, verb, name = self._pages, request.path_params["verb"], request.path_params["name"]
        if pages.actor is None or not pages.sessions_auth.allows:
            return self._refused("this page is for reading: no action token is set", 403)
        visitor = pages.sessions_auth.welcome(request)
        if visitor is None:
            return RedirectResponse(f"/sign-in?then={request.url.path}", 303)
        found = plan(verb, name, await pages.watched.look())
        if found is None:
            return self._html(misc_pages.missing_page(pages.site, f"Nothing called {name} can be acted on so."), 404)
        answer = self._html(object_pages.confirm_page(pages.site, found, visitor, notice=notice), status)
        return pages.sessions_auth.remember(answer, visitor, request)

    async def act(self, request: Request) -> Response:
        pages, verb, name = self._pages, request.path_params["verb"], request.path_params["name"]
        form = await _form(request)
        visitor = pages.sessions_auth.visitor(request)
        refused = pages.sessions_auth.refuses(request, visitor, form.get("form_token", ""))
        if refused is not None or visitor is None or pages.actor is None:
            return self._refused(refused or "this page is for reading", 403)
        found = plan(verb, name, await pages.watched.look())
        if found is None or found.refused:
            return await self._confirm(request, "", 409)
        why = " ".join(form.get("why", "").split())[:200]
        if verb == "quarantine" and not why:
            return await self._confirm(request, "Say why: it is shown wherever the host is shown.", 400)
        shown = frozenset(form.get("shown", "").split(",")) - {""}
        try:
            await pages.actor.act(found, who=visitor.who, why=why, shown=shown)
        except JobsCameError:
            return await self._confirm(request, "Another job has started there since. Look at the plan again.", 409)
        except KubeError as error:
            return self._refused(f"the cluster refused it, and nothing was changed: {error}", 409)
        return RedirectResponse(href(*found.back), 303)

    async def panel(self, request: Request) -> Response:
        return self._panel(request, "")

    def _panel(self, request: Request, notice: str, status: int = 200) -> Response:
        pages = self._pages
        visitor = pages.sessions_auth.welcome(request)
        if pages.faults is None or visitor is None:
            raise HTTPException(404)
        seen = pages.watched.seen()
        answer = self._html(
            object_pages.faults_page(pages.site, pages.faults, visitor, seen.now, notice=notice), status
        )
        return pages.sessions_auth.remember(answer, visitor, request)

    async def strike(self, request: Request) -> Response:
        pages, form = self._pages, await _form(request)
        if pages.faults is None:
            raise HTTPException(404)
        refused = pages.sessions_auth.refuses(request, pages.sessions_auth.visitor(request), form.get("form_token", ""))
        if refused is not None:
            return self._refused(refused, 403)
        try:
            struck = await pages.faults.strike(request.path_params["name"])
        except KeyError:
            raise HTTPException(404) from None
        except KubeError as error:
            return self._refused(f"the cluster refused it: {error}", 409)
        if struck is None:
            return self._panel(
                request,
                "There is nothing to break it on now: it needs a Mac that is ready, and some need one without a job. Try again.",
                409,
            )
        return self._panel(request, f"Done. {struck.sentence}")

    # How.

    def _html(self, node: Node, status: int = 200) -> Response:
        return HTMLResponse(str(node), status, headers=_NOT_STORED)

    def _refused(self, why: str, status: int) -> Response:
        return self._html(misc_pages.refused_page(self._pages.site, why), status)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form; whatever is longer, or no form, has none, and is refused for want of its token."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST_FORM:
            return {}
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        return {}
    return {name: values[-1] for name, values in fields.items()}


def _own_path(text: str) -> str:
    """A path of our own to go on to; never another site, however it is spelt."""
    return text if text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() else "/"
