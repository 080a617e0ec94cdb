"""How a command reaches what it asks: the cluster through a kubeconfig, the ledger through the dispatch service.

The same command works against `paddock up` and against a cluster. Where nothing is given, a `paddock up` in this folder is
what is meant; the ledger of a cluster is reached through the API server's own service proxy, so a kubeconfig is enough.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from paddock.cli.exit_codes import FAILED, INTERRUPTED
from paddock.cli.output import say

if TYPE_CHECKING:
    from paddock.kube.client import Client
    from paddock.kube.config import Config

__all__ = [
    "LedgerApi",
    "Problem",
    "Reach",
    "Reached",
    "connected",
    "in_path",
    "left_by_up",
    "names_cluster",
    "reach_flags",
    "run",
]

F = TypeVar("F", bound=Callable[..., Any])
_UP: Final = Path(".paddock")
_REFUSED: Final = re.compile(r'"error":\s*"((?:[^"\\]|\\.)*)("?)')
"""A JSON string up to its own end, not to the first quote that is escaped in it; without one where it was cut."""
_DISPATCH: Final = "app.kubernetes.io/name=paddock,app.kubernetes.io/component=dispatch"


class Problem(Exception):  # noqa: N818 - it is what the user is told, not a defect
    """The command cannot go on: the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the user said that things are. Empty means: find out."""

    kubeconfig: Path | None = None
    namespace: str = ""
    server: str = ""
    context: str = ""


class ServiceUrl(click.ParamType):
    """An address that can be asked at all; empty: none was given."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from urllib.parse import urlsplit

        text = str(value)
        try:
            parts = urlsplit(text)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # brackets that are not closed, a port that is none
            good = False
        if text and not (good and text.isprintable()):
            self.fail(f"{text!r} is not a URL such as http://127.0.0.1:8080 or https://paddock.example", param, ctx)
        return text


def reach_flags(command: F) -> F:
    """Adds `--kubeconfig`, `--context`, `--namespace` and `--server`; the command gets them as one `reach`."""

    @wraps(command)  # which takes along the options that are declared below this one
    def folded(*args: Any, kubeconfig: Path | None, context: str, namespace: str, server: str, **flags: Any) -> Any:
        return command(*args, reach=Reach(kubeconfig, namespace, server, context), **flags)

    decorated: Any = folded
    for option in (
        click.option(
            "--server",
            type=ServiceUrl(),
            default="",
            envvar="PADDOCK_SERVER",
            help="URL of the dispatch service; without it that of a `paddock up` here, then the cluster's.",
        ),
        click.option(
            "--namespace",
            "-n",
            default="",
            help="Where the objects are; without it that of the kubeconfig's context. `get -A` lists those of every namespace.",
        ),
        click.option("--context", default="", help="The context of the kubeconfig; without it the current one."),
        click.option(
            "--kubeconfig",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="The cluster; without it $KUBECONFIG, a `paddock up` here, the cluster this runs in, ~/.kube/config.",
        ),
    ):
        decorated = option(decorated)
    return decorated


def in_path(name: str) -> str:
    """A name as one segment of a path, whatever was typed: what is not UTF-8 goes as the bytes that it was."""
    from urllib.parse import quote

    return quote(name, safe="", errors="surrogateescape")


class LedgerApi:
    """The dispatch service's JSON. Raises Problem with the remedy when it does not answer."""

    def __init__(self, ask: Callable[..., Coroutine[Any, Any, bytes]], where: str) -> None:
        self._ask = ask
        self.where = where

    async def post(self, path: str, body: Any) -> Any:
        """Send JSON below `/api/v1/`; None where the service says 404. What it may change asks for a token of its own."""
        import msgspec

        answer = await self._answer(f"/api/v1/{path.lstrip('/')}", msgspec.json.encode(body))
        try:
            return None if answer is None else msgspec.json.decode(answer)
        except msgspec.DecodeError as error:
            raise self._silent(error) from error

    async def get(self, path: str, seconds: float | None = None) -> Any:
        """The JSON below `/api/v1/`; None where the service says 404. `seconds` for what may take longer than others."""
        import msgspec

        answer = await self._answer(f"/api/v1/{path.lstrip('/')}", seconds=seconds)
        try:
            return None if answer is None else msgspec.json.decode(answer)
        except msgspec.DecodeError as error:
            raise self._silent(error) from error

    async def text(self, path: str) -> str | None:
        """What the service says at `/healthz` or `/metrics`; None where it says 404."""
        answer = await self._answer(path)
        return None if answer is None else answer.decode("utf-8", "replace")

    async def _answer(self, path: str, body: bytes | None = None, seconds: float | None = None) -> bytes | None:
        from paddock.kube.errors import BadRequestError, ForbiddenError, KubeError, NotFoundError

        try:
            return await self._ask(path, body, seconds or (10.0 if body is None else 30.0))
        except NotFoundError:
            return None
        except ForbiddenError as error:
            raise Problem(f"the dispatch service at {self.where} may not be asked: {error}{_remedy(error)}") from error
        except BadRequestError as error:
            raise Problem(f"the dispatch service at {self.where} refuses that: {_sentence(error)}") from error
        except (KubeError, OSError) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> Problem:
        return Problem(
            f"the dispatch service at {self.where} does not answer ({error}): is `paddock dispatch` or `paddock up` "
            "running? Give --server if it is elsewhere"
        )


@dataclass(frozen=True, slots=True)
class Reached:
    client: "Client"
    ledger: LedgerApi
    namespace: str
    """Where a thing is that is named without its namespace."""
    only: str = ""
    """The one namespace that lists are of; empty for all of them."""


@asynccontextmanager
async def connected(reach: Reach) -> AsyncIterator[Reached]:
    """A client for the cluster and one for the ledger, closed at the end."""
    from paddock.kube.client import Client

    found = _config(reach)
    async with Client(found) as client:
        namespace = reach.namespace or found.namespace
        async with _ledger(reach, client, namespace) as ledger:
            yield Reached(client, ledger, namespace, reach.namespace)


def _config(reach: Reach) -> "Config":
    from paddock.kube import config

    if not names_cluster(reach):
        raise Problem(
            "nothing says which cluster is meant: type this in the folder of a `paddock up` that runs, "
            "or give --kubeconfig FILE, or set KUBECONFIG"
        )
    return config.load(_kubeconfig(reach), context=reach.context or None)


def names_cluster(reach: Reach) -> bool:
    """Whether there is anything that could say which cluster is meant."""
    told = os.environ.get("KUBECONFIG") or os.environ.get("KUBERNETES_SERVICE_HOST")
    return bool(told) or _kubeconfig(reach) is not None or (Path.home() / ".kube" / "config").is_file()


def _kubeconfig(reach: Reach) -> Path | None:
    if reach.kubeconfig is not None or os.environ.get("KUBECONFIG") or os.environ.get("KUBERNETES_SERVICE_HOST"):
        return reach.kubeconfig
    here = _UP / "kubeconfig"
    return here if here.is_file() else None


@asynccontextmanager
async def _ledger(reach: Reach, client: "Client", namespace: str) -> AsyncIterator[LedgerApi]:
    import httpx2

    from paddock.base.client_header import CLIENT_HEADER

    server = reach.server or _server_here(client)
    if not server:

        async def through_cluster(below: str, body: bytes | None, seconds: float) -> bytes:
            path = await _service_proxy(client, namespace)
            return await client.connection.request(
                "GET" if body is None else "POST",
                path + below,
                body=body,
                timeout=seconds,
                headers=[(CLIENT_HEADER, "cli")],
            )

        yield LedgerApi(through_cluster, f"{client.config.server}, through its service proxy")
        return
    headers = {CLIENT_HEADER: "cli"}
    async with httpx2.AsyncClient(base_url=server.rstrip("/"), headers=headers) as http:

        async def directly(below: str, body: bytes | None, seconds: float) -> bytes:
            from paddock.kube.errors import ForbiddenError, NotFoundError, from_response

            try:
                method = "GET" if body is None else "POST"
                answer = await http.request(method, below, content=body, timeout=seconds)
            except httpx2.HTTPError as error:
                raise OSError(str(error) or type(error).__name__) from error
            if answer.status_code == 404:
                raise NotFoundError(below)
            if answer.status_code == 403:
                raise ForbiddenError(answer.text)
            if answer.status_code == 400:
                raise from_response(400, answer.content)
            if answer.status_code >= 400:
                raise OSError(f"HTTP {answer.status_code}")
            return answer.content

        yield LedgerApi(directly, server)


def _sentence(error: Exception) -> str:
    """What the service says for people, out of the JSON that it refuses with, of which the error quotes the beginning."""
    import json

    found = _REFUSED.search(str(error))
    if found is None:
        return str(error)
    try:
        said = json.loads(f'"{found[1]}"')
    except json.JSONDecodeError:
        return str(error)
    return said if found[2] else f"{said}…"


async def _service_proxy(client: "Client", namespace: str) -> str:
    """The path of the dispatch service's operators' port, wherever the chart put it: in this namespace before others."""
    from paddock.kube.errors import ForbiddenError
    from paddock.kube.resource import Resource

    services = Resource("", "v1", "Service", "services")
    found = (await client.list(services, namespace, label_selector=_DISPATCH)).items
    if not found:
        try:
            found = (await client.list(services, label_selector=_DISPATCH)).items
        except ForbiddenError:
            found = []
    if not found:
        raise Problem(
            f"there is no dispatch service in namespace {namespace}: give its namespace with -n, or its URL with --server"
        )
    meta = found[0]["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/services/http:{meta['name']}:metrics/proxy"


def _server_here(client: "Client") -> str:
    """The page of the `paddock up` whose API the kubeconfig names."""
    lines = left_by_up(client)
    return lines[0].partition(" ")[2] if lines else ""


def left_by_up(client: "Client") -> list[str]:
    """What the `paddock up` whose API this is wrote beside its kubeconfig: its addresses, then how it sweeps."""
    for folder in (_UP, *(Path(part).parent for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part)):
        file = folder / "server"
        if file.is_file():
            lines = file.read_text(encoding="utf-8").splitlines()
            if lines and lines[0].partition(" ")[0] == client.config.server:
                return lines
    return []


def _remedy(error: Exception) -> str:
    """What to do about an answer of the API server, or about none; our own problems say it themselves."""
    from paddock.kube import errors

    match error:
        case errors.TransportError():
            return ": is the cluster, or the `paddock up` of this folder, running? `paddock doctor` looks closer"
        case errors.UnauthorizedError():
            return ": the kubeconfig's credentials are refused; get new ones, or give another --kubeconfig or --context"
        case errors.ForbiddenError():
            return ": ask for that right; `paddock doctor` lists all that the commands need"
        case errors.UnknownKindError():
            return ": Paddock's definitions are not installed in this cluster; is it the right one? See docs/install.md"
        case _:
            return ""


def run(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a command to its exit code. What the user can mend is one line on standard error, never a traceback."""
    from paddock.kube.errors import KubeError

    try:
        code = asyncio.run(work)
    except (Problem, KubeError) as error:
        say(f"paddock: {error}{_remedy(error)}", err=True)
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # `| head` has seen enough; Python would complain once more while flushing at exit.
        sys.stdout = None
        code = 0
    sys.exit(code)
