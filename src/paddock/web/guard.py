"""Security headers on every answer, and no answer to names that are not ours."""

from collections.abc import Collection, Iterable
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.base.client_header import CLIENT_HEADER
from paddock.base.logs import get_logger
from paddock.base.refusal_log import RefusalLog

__all__ = ["LOOPBACK", "Guarded", "guarded_routes"]

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_UNKNOWN: Final = (
    "unknown host name: read this with the `paddock` commands, through kubectl port-forward, or start the service with "
    "--page-host NAME\n"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Nothing is told to other sites. Not `no-referrer`, under which browsers call the origin of our own forms "null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guarded:
    """Only requests for one of `names` are answered, so that no other site can rebind its own name to us.

    None answers to every name: for a server behind an ingress that knows its names, and never on a person's machine.
    """

    def __init__(self, app: ASGIApp, names: Collection[str] | None = LOOPBACK, *, programs: bool = False) -> None:
        """With `programs`, what only a program can be is answered under every name: see `_is_program`."""
        self._app = app
        self._names = names
        self._programs = programs
        self._refusals = RefusalLog(get_logger("page"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _HEADERS.items():
                    headers[name] = value
                message["headers"] = headers.raw
            await send(message)

        if scope["type"] == "http" and not self._answers(scope):
            self._refusals.refused("page", "the request is for a host name that is not ours", host=_host(scope))
            await PlainTextResponse(_UNKNOWN, 421)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)

    def _answers(self, scope: Scope) -> bool:
        if self._names is None or _host(scope) in self._names:
            return True
        return self._programs and _is_program(scope)


def guarded_routes(routes: Iterable[Route], names: Collection[str]) -> list[Route]:
    """The same routes behind the guard. The commands come to them through the API server's service proxy, under whatever
    name their kubeconfig gives the API server.
    """
    return [
        Route(route.path, Guarded(route.app, names, programs=True), methods=sorted(route.methods or ()) or None)
        for route in routes
    ]


def _is_program(scope: Scope) -> bool:
    """No site can rebind an IP address to us, nor make a browser send a header whose name starts with `Sec-`: Fetch forbids
    scripts to set those.
    """
    if any(name == CLIENT_HEADER.lower().encode() for name, _ in scope["headers"]):
        return True
    try:
        ip_address(_host(scope))
    except ValueError:
        return False
    return True


def _host(scope: Scope) -> str:
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
