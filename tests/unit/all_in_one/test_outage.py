"""An outage cuts off what is held and refuses what comes, and afterwards everything is as before."""

from __future__ import annotations

import asyncio

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from paddock.all_in_one.outage import Outage
from paddock.base.clock import LoopClock
from paddock.simulator.loop import run
from paddock.simulator.transport import InProcessTransport


def test_requests_are_cut_off_and_refused_while_it_lasts() -> None:
    async def main() -> None:
        entered, ended = asyncio.Event(), asyncio.Event()

        async def held(request: Request) -> Response:
            if request.url.path == "/quick":
                return PlainTextResponse("here")
            entered.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()
            return PlainTextResponse("late")

        outage = Outage(LoopClock())
        app = Starlette(routes=outage.behind([Route("/held", held), Route("/quick", held)]))
        async with httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://localhost") as client:
            assert (await client.get("/quick")).text == "here"
            waiting = asyncio.create_task(client.get("/held"))
            await entered.wait()
            lasting = asyncio.create_task(outage.last(20))
            assert (await waiting).status_code == 503
            assert ended.is_set()
            assert outage.down
            assert (await client.get("/quick")).status_code == 503
            await lasting
            assert (await client.get("/quick")).text == "here"

    run(main, seed=1)
