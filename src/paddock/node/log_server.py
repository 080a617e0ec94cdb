"""`kubectl logs` by the second path: the API server dials the Mac, as it dials a kubelet.

It is off unless asked for: rented Macs are often beyond the reach of a managed control plane, and the log is posted to
dispatch in any case. Only logs are served. The guest's log is hostile: what is read of it is bounded, and made readable.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from paddock.base.clock import Clock
from paddock.base.log_options import LogOptions, log_options
from paddock.base.readable import readable, selected
from paddock.base.secrets import Secret
from paddock.node.callers import Callers, RefusedError

__all__ = ["LARGEST_LOG", "GuestLog", "GuestLogs", "log_app"]

LARGEST_LOG: Final = 1 << 20
"""How much of a log is shown of what was printed before the request."""
_PIECE: Final = 256 * 1024
_FOLLOW_EVERY: Final = 0.5


class GuestLog(Protocol):
    """The log of one Pod's guest, during its life and after it."""

    container: str

    async def part(self, first: int, limit: int) -> tuple[int, bytes] | None:
        """The log's size, and at most `limit` bytes from byte `first` on; None where there is none."""
        ...

    def over(self) -> bool:
        """Whether nothing more will be printed."""
        ...


class GuestLogs(Protocol):
    def find(self, namespace: str, pod: str) -> GuestLog | None: ...


def log_app(logs: GuestLogs, callers: Callers, clock: Clock) -> Starlette:
    """What the API server asks a kubelet for when somebody types `kubectl logs`."""

    def looked_up(namespace: str, pod: str, container: str) -> GuestLog:
        log = logs.find(namespace, pod)
        if log is None:
            raise RefusedError(404, f"no VM of {namespace}/{pod} is known on this Mac")
        if container != log.container:
            raise RefusedError(404, f"the Pod's only container is {log.container}")
        return log

    async def container_log(request: Request) -> Response:
        try:
            log = looked_up(**request.path_params)
            wanted = _checked(request.query_params, clock)
        except RefusedError as refused:
            return _refusal(refused)
        text, position = await _now(log, wanted)
        if not wanted.follow or wanted.limit_bytes is not None:
            return PlainTextResponse(text)
        return StreamingResponse(_following(log, text, position, clock), media_type="text/plain")

    async def healthy(_: Request) -> Response:
        return PlainTextResponse("ok")

    return Starlette(
        routes=[
            Route("/containerLogs/{namespace}/{pod}/{container}", _admitted(callers, container_log)),
            Route("/healthz", _admitted(callers, healthy)),
        ]
    )


def _admitted(
    callers: Callers, answer: Callable[[Request], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    """Nothing is looked up, and so nothing is told, before the cluster has admitted who asks."""

    async def guarded(request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        shown = Secret(token.strip()) if scheme.lower() == "bearer" and token.strip() else None
        try:
            await callers.admit(request.scope.get("state", {}).get("client_certificate"), shown)
        except RefusedError as refused:
            return _refusal(refused)
        return await answer(request)

    return guarded


def _refusal(refused: RefusedError) -> Response:
    return PlainTextResponse(f"{refused}\n", status_code=refused.status)


def _checked(query: Mapping[str, str], clock: Clock) -> LogOptions:
    try:
        wanted = log_options(query, clock.now())
    except ValueError as error:
        raise RefusedError(400, str(error)) from None
    if wanted.previous:
        raise RefusedError(400, "there is no earlier container: a runner never runs twice in one Pod")
    if wanted.timestamps or wanted.since is not None:
        raise RefusedError(400, "the guest's log has no times of its own: ask without --timestamps and --since")
    return wanted


async def _now(log: GuestLog, wanted: LogOptions) -> tuple[str, int]:
    """What there is to show, and up to which byte of the log that is."""
    try:
        found = await log.part(0, 0)
        size = found[0] if found is not None else 0
        first = max(0, size - LARGEST_LOG)
        found = await log.part(first, LARGEST_LOG)
    except OSError:
        return "", 0
    content = found[1] if found is not None else b""
    text = selected(readable(content), tail_lines=wanted.tail_lines, limit_bytes=wanted.limit_bytes)
    return text, first + len(content)


async def _following(log: GuestLog, text: str, position: int, clock: Clock) -> AsyncIterator[bytes]:
    yield text.encode()
    while True:
        over = log.over()  # asked before the log: what was printed before the end is still shown
        try:
            found = await log.part(position, _PIECE)
        except OSError:
            found = None
        size, content = found if found is not None else (position, b"")
        if size < position:
            position = 0  # begun anew, by whomever
            continue
        if content:
            position += len(content)
            yield readable(content).encode()
        elif over:
            return
        else:
            await clock.sleep(_FOLLOW_EVERY)
