"""The control API of the world: who it is, where Paddock is, what is to go wrong, and its end.

It is on a unix socket that only its owner may use. Nothing of Paddock's own work goes through it: for that there are the
services themselves.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute

from paddock.simulator.world.messages import Attachment, FaultOrder, JobOrder, JobView, PoolOrder, Route, WorldView

__all__ = ["Controlled", "control_app"]

M = TypeVar("M")


class Controlled(Protocol):
    """What the control API does to a world. Every effect can be repeated."""

    def view(self) -> WorldView: ...

    async def attach(self, where: Attachment) -> None: ...

    async def detach(self) -> None: ...

    def pool(self, order: PoolOrder) -> None: ...

    async def route(self, address: str) -> Route: ...

    def fault(self, order: FaultOrder) -> None: ...

    def submit(self, order: JobOrder) -> JobView: ...

    def jobs(self) -> list[JobView]: ...

    def stop(self) -> None: ...


def control_app(world: Controlled) -> Starlette:
    async def view(_: Request) -> Response:
        return _json(world.view())

    async def attach(request: Request) -> Response:
        return await _told(request, Attachment, world.attach)

    async def detach(_: Request) -> Response:
        await world.detach()
        return Response(status_code=204)

    async def pool(request: Request) -> Response:
        return await _told(request, PoolOrder, _later(world.pool))

    async def route(request: Request) -> Response:
        return _json(await world.route(request.query_params["address"]))

    async def fault(request: Request) -> Response:
        return await _told(request, FaultOrder, _later(world.fault))

    async def submit(request: Request) -> Response:
        return _json(world.submit(msgspec.json.decode(await request.body(), type=JobOrder)))

    async def jobs(_: Request) -> Response:
        return _json(world.jobs())

    async def stop(_: Request) -> Response:
        world.stop()
        return Response(status_code=202)

    return Starlette(
        routes=[
            HttpRoute("/", view, methods=["GET"]),
            HttpRoute("/", stop, methods=["DELETE"]),
            HttpRoute("/paddock", attach, methods=["PUT"]),
            HttpRoute("/paddock", detach, methods=["DELETE"]),
            HttpRoute("/pool", pool, methods=["PUT"]),
            HttpRoute("/route", route, methods=["GET"]),
            HttpRoute("/faults", fault, methods=["POST"]),
            HttpRoute("/jobs", submit, methods=["POST"]),
            HttpRoute("/jobs", jobs, methods=["GET"]),
        ]
    )


def _json(body: Any) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")


async def _told(request: Request, kind: type[M], act: Callable[[M], Awaitable[None]]) -> Response:
    try:
        await act(msgspec.json.decode(await request.body(), type=kind))
    except (msgspec.DecodeError, LookupError, ValueError) as error:
        return Response(f"{error}\n", 422, media_type="text/plain")
    return Response(status_code=204)


def _later(act: Callable[[M], None]) -> Callable[[M], Awaitable[None]]:
    async def acted(message: M) -> None:
        act(message)

    return acted
