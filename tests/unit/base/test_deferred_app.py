"""An application that comes later: until then one answer for every route, afterwards none of it."""

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from paddock.base.deferred_app import DeferredApp, unavailable


async def test_every_request_is_answered_503_with_the_sentence_of_the_moment_until_the_application_is_there():
    sentences = iter(["first", "second"])
    app = DeferredApp(unavailable("no_ledger", lambda: next(sentences)))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://d") as http:
        for method, path, sentence in (("GET", "/", "first"), ("POST", "/jobs", "second")):
            answer = await http.request(method, path)
            assert answer.status_code == 503
            assert answer.json() == {"error": sentence, "reason": "no_ledger"}
            assert int(answer.headers["Retry-After"]) > 0

        async def jobs(_: Request) -> Response:
            return PlainTextResponse("a job")

        app.serve(Starlette(routes=[Route("/jobs", jobs, methods=["POST"])]))
        assert (await http.post("/jobs")).text == "a job"
        assert (await http.get("/")).status_code == 404
