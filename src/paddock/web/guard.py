"""Security headers on every answer, and no answer to names that are not ours."""

from collections.abc import Collection
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOOPBACK", "Guarded"]

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
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

    def __init__(self, app: ASGIApp, names: Collection[str] | None = LOOPBACK) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _HEADERS.items():
                    headers[name] = value
                message["headers"] = headers.raw
            await send(message)

        if scope["type"] == "http" and self._names is not None and _host(scope) not in self._names:
            await PlainTextResponse("unknown host name\n", 421)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)


def _host(scope: Scope) -> str:
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
