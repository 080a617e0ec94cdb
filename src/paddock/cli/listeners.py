"""Where the long-running commands listen: addresses as controllers write them, metrics and probes."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from paddock.base.metrics import CollectorRegistry
    from paddock.kube.manager import HealthProbes

__all__ = ["BindAddress", "metrics_app", "metrics_route", "probe_routes", "probes_app"]


class BindAddress(click.ParamType):
    """`:8080`, `127.0.0.1:8080` or `0` for none, as controllers write it."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int] | None:
        if value is None or isinstance(value, tuple):
            return value
        if value in ("", "0"):
            return None
        match = re.fullmatch(r"(?P<host>[^:\s]*):(?P<port>\d{1,5})", value)
        if match is None or int(match["port"]) > 65535:
            self.fail(f"{value!r} is not an address such as :8080 or 127.0.0.1:8080 (0 turns it off)", param, ctx)
        return match["host"] or "0.0.0.0", int(match["port"])  # noqa: S104 - `:8080` means every address, as probes need


def metrics_route(registry: "CollectorRegistry") -> Any:
    """`/metrics`, for Prometheus."""
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from paddock.base.metrics import CONTENT_TYPE_LATEST, exposition

    async def metrics(_: Request) -> Response:
        return Response(exposition(registry), media_type=CONTENT_TYPE_LATEST)

    return Route("/metrics", metrics)


def probe_routes(healthz: "Callable[[], HealthProbes]", readyz: "Callable[[], HealthProbes]") -> list[Any]:
    """`/healthz` and `/readyz`, for the kubelet; what is not well is in the body."""
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    def answering(ask: "Callable[[], HealthProbes]") -> Any:
        async def answer(_: Request) -> Response:
            health = ask()
            return PlainTextResponse(health.text, status_code=200 if health.ok else 503)

        return answer

    return [Route("/healthz", answering(healthz)), Route("/readyz", answering(readyz))]


def metrics_app(registry: "CollectorRegistry") -> "ASGIApp":
    from starlette.applications import Starlette

    return Starlette(routes=[metrics_route(registry)])


def probes_app(healthz: "Callable[[], HealthProbes]", readyz: "Callable[[], HealthProbes]") -> "ASGIApp":
    from starlette.applications import Starlette

    return Starlette(routes=probe_routes(healthz, readyz))
