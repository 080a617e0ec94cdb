"""The API over HTTP: one ASGI application that answers what kubectl and our controllers ask."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.refusal_log import RefusalLog
from paddock.embedded.api import admission, status
from paddock.embedded.api.access import Access
from paddock.embedded.api.bodies import Message, Receive, read_body
from paddock.embedded.api.builtin.definitions import CRDS, rules_not_evaluated
from paddock.embedded.api.calls import ApiCall, Target, User, aim, demanded, flag, verb_of
from paddock.embedded.api.documents import discovery, openapi, tables
from paddock.embedded.api.guards import WriteGuard
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.lists import list_objects
from paddock.embedded.api.objects import Objects
from paddock.embedded.api.pod_logs import PodLogServer
from paddock.embedded.api.rbac import Attributes
from paddock.embedded.api.representation import decode, listed, metadata_of, seen, shown
from paddock.embedded.api.reviews import Reviews
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.api.watches import Frames, watch
from paddock.embedded.api.writes import Writes, makes_what_is_absent
from paddock.kube.version import KUBERNETES

__all__ = ["ApiServer"]

Send = Callable[[Message], Awaitable[None]]

_encode = msgspec.json.Encoder().encode
_JSON = "application/json"
_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
_KEYS = "application/jwk-set+json"
_ISSUER_PATHS = frozenset({"/openid/v1/jwks", "/.well-known/openid-configuration"})
_ISSUER_HEADERS = {"Cache-Control": "public, max-age=3600"}

log = get_logger("api")
_KNOWN_FOR = 10.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A finished answer, or a stream of frames."""

    code: int
    body: bytes = b""
    content_type: str = _JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    stream: AsyncIterator[bytes] | None = None


class ApiServer:
    """The Kubernetes-compatible API as an ASGI application.

    Requests without a certificate or a token that `access` knows get 401, whatever they ask, and before a byte of their body is
    read; only the health endpoints are open.
    """

    def __init__(self, objects: Objects, access: Access, clock: Clock, rng: random.Random) -> None:
        self._objects = objects
        self._access = access
        self._clock = clock
        self._rng = rng
        self._writes = Writes(objects)
        self._reviews = Reviews(objects, access)
        self._streams: set[asyncio.Task[Any]] = set()
        self._refusals = RefusalLog(log)
        self.logs = PodLogServer(objects)
        self.ready = True
        """Set to False while stopping: readyz then says so."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"the API speaks http only, not {scope['type']}")
        headers = _headers(scope["headers"])
        query = ApiCall.parse_query(scope.get("query_string", b""))
        call = ApiCall(scope["method"], scope["path"], query, headers, b"", User(""))
        certificate = (scope.get("state") or {}).get("client_certificate") or b""
        try:
            answer = self._health(call.path)
            if answer is None:
                call = await self._introduced(call, certificate)
                body = await read_body(receive)
                answer = await self._answer(replace(call, body=body))
        except ApiFailure as failure:
            answer = _refusal(failure)
            if answer.code in (401, 403):
                self._refusals.refused(
                    "api",
                    "unauthorized" if answer.code == 401 else "forbidden",
                    usual=failure.usual,
                    request=f"{scope['method']} {scope['path']}",
                    said=str(failure),
                )
        except RecursionError:
            answer = _refusal(admission.too_deep())  # before anything was stored: writes check the depth
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            answer = _refusal(status.internal("see the log of paddock"))
        if answer.stream is not None:
            refused = self._refused_later(headers.get("authorization", ""), certificate) if certificate else None
            await self._stream(answer, receive, send, refused)
        else:
            await _finish(answer, send)

    def _health(self, path: str) -> HttpResponse | None:
        if path not in _OPEN_PATHS:
            return None
        if path == "/readyz" and not self.ready:
            return HttpResponse(503, b"stopping", "text/plain")
        return HttpResponse(200, b"ok", "text/plain; charset=utf-8")

    async def _introduced(self, call: ApiCall, certificate: bytes) -> ApiCall:
        """The call with who sends it, known by its head and the connection alone; 401 or 403 for whom we do not know."""
        user = await self._access.authenticate(call.headers.get("authorization", ""), certificate)
        user = await self._access.acting_as(user, call.headers)
        return replace(call, user=user, guard=WriteGuard(self._access.authorizer, user))

    async def _answer(self, call: ApiCall) -> HttpResponse:
        target = aim(self._objects.kinds, call.path)
        if target is None:
            return await self._document(call)
        await self._authorize(call, target)
        if (log_shown := await self.logs.answer(call, target)) is not None:
            return HttpResponse(200, log_shown.text, "text/plain", stream=log_shown.stream)
        if not call.takes_json:
            raise status.not_acceptable([_JSON])
        reviewed = await self._reviews.answer(call, target)
        if reviewed is not None:
            return HttpResponse(201, _encode(reviewed))
        kind = target.kind
        if kind is None:
            return HttpResponse(404, b"404 page not found\n", "text/plain; charset=utf-8")
        if not target.subresource and verb_of(call, target) not in kind.verbs:
            raise status.method_not_allowed()
        if call.method == "GET":
            return await self._read(call, kind, target)
        await self._authorize_making(call, kind, target)
        outcome = await self._writes.answer(call, kind, target)
        more = rules_not_evaluated(outcome.body) if kind.resource == CRDS else ()
        return HttpResponse(outcome.code, outcome.body, warnings=(*outcome.warnings, *more))

    async def _authorize(self, call: ApiCall, target: Target) -> None:
        fields = demanded(call.query.get("fieldSelector", ""))
        asked = Attributes(
            verb_of(call, target),
            target.group,
            target.plural,
            target.subresource,
            target.namespace,
            # As the real one does: a list of one name is a right to that name.
            target.name or fields.get("metadata.name", ""),
            fields=fields,
        )
        if not await self._access.authorizer.allows(call.user, asked):
            refused = status.forbidden(asked.refusal(call.user), target.kind, target.name)
            refused.usual = await self._access.is_over_for(call.user, asked)
            raise refused

    async def _authorize_making(self, call: ApiCall, kind: Kind, target: Target) -> None:
        """A PUT or an apply that finds nothing makes the object, and needs the right to create it, too."""
        if call.method not in ("PUT", "PATCH") or target.subresource or not makes_what_is_absent(call, kind):
            return
        if await self._objects.find(kind, target.namespace, target.name) is None:
            asked = Attributes("create", target.group, target.plural, "", target.namespace, target.name)
            if not await self._access.authorizer.allows(call.user, asked):
                raise status.forbidden(asked.refusal(call.user), target.kind, target.name)

    # Reading

    async def _read(self, call: ApiCall, kind: Kind, target: Target) -> HttpResponse:
        include = tables.include_of(call.query.get("includeObject"))
        if target.name:
            return await self._one(call, kind, target, include)
        namespace = target.namespace or None
        if flag(call.query, "watch"):
            frames = Frames(kind, self._clock, table=call.wants_table, include=include, partial=call.wants_metadata)
            stream = await watch(self._objects.store, kind, namespace, call.query, frames, self._clock, self._rng)
            return HttpResponse(200, stream=stream)
        listing = await list_objects(self._objects.store, kind, namespace, call.query)
        if call.wants_table:
            rows = [seen(kind, record) for record in listing.records]
            return HttpResponse(200, _encode(tables.table(kind, rows, self._clock.now(), include, listing.metadata())))
        if (version := call.wants_metadata) is not None:
            parts = [metadata_of(seen(kind, record), version) for record in listing.records]
            head = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{version}"}
            return HttpResponse(200, _encode({**head, "metadata": listing.metadata(), "items": parts}))
        head = _encode({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": listing.metadata()})
        items = b",".join([listed(kind, record) for record in listing.records])
        return HttpResponse(200, b'%b,"items":[%b]}' % (head[:-1], items))

    async def _one(self, call: ApiCall, kind: Kind, target: Target, include: tables.Include) -> HttpResponse:
        record = await self._objects.read(kind, target.namespace, target.name)
        if target.subresource == "scale" and kind.scale is not None:
            return HttpResponse(200, _encode(self._writes.scale_of(kind, decode(record))))
        if target.subresource and not (target.subresource == "status" and kind.status):
            return HttpResponse(404, b"404 page not found\n", "text/plain; charset=utf-8")
        if call.wants_table:
            obj = seen(kind, record)
            meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            return HttpResponse(200, _encode(tables.table(kind, [obj], self._clock.now(), include, meta)))
        if (version := call.wants_metadata) is not None:
            return HttpResponse(200, _encode(metadata_of(seen(kind, record), version)))
        return HttpResponse(200, shown(kind, record))

    # Documents about the API itself

    async def _document(self, call: ApiCall) -> HttpResponse:
        if not await self._access.authorizer.allows(call.user, Attributes("get", path=call.path)) and not _public(call):
            raise status.forbidden(Attributes("get", path=call.path).refusal(call.user))
        kinds, path = self._objects.kinds, call.path.rstrip("/")
        if path in ("/api", "/apis"):
            core = path == "/api"
            if discovery.wants_aggregated(call.accept):
                return HttpResponse(
                    200, _encode(discovery.aggregated(kinds, core=core)), discovery.AGGREGATED_CONTENT_TYPE
                )
            address = call.headers.get("host", "localhost")
            return HttpResponse(200, _encode(discovery.core_versions(address) if core else discovery.groups(kinds)))
        if path == "/version":
            return HttpResponse(200, _encode(self._version_info()))
        if path == "/openid/v1/jwks":
            if not call.takes(_KEYS):
                raise status.not_acceptable([_KEYS])  # as Kubernetes: JSON alone is not enough here
            return HttpResponse(200, _encode(self._access.issuer.jwks()), _KEYS, _ISSUER_HEADERS)
        if path == "/.well-known/openid-configuration":
            server = f"https://{call.headers.get('host', 'localhost')}"
            return HttpResponse(200, _encode(self._access.issuer.discovery(server)), headers=_ISSUER_HEADERS)
        if path == "/openapi/v2":
            if "protobuf" not in call.accept and call.takes_json:
                return HttpResponse(200, _encode(openapi.v2_document(kinds)))
            return HttpResponse(200, openapi.V2_DOCUMENT, openapi.V2_CONTENT_TYPE)
        found: dict[str, Any] | None = None
        headers: dict[str, str] = {}
        parts = path.strip("/").split("/")
        match parts:
            case ["openapi", "v3"]:
                found = openapi.index(kinds)
            case ["openapi", "v3", "api", version]:
                found = openapi.document(kinds, "", version)
            case ["openapi", "v3", "apis", group, version]:
                found = openapi.document(kinds, group, version)
            case ["api", version]:
                found = discovery.resources(kinds, "", version)
            case ["apis", group]:
                found = discovery.group(kinds, group)
            case ["apis", group, version]:
                found = discovery.resources(kinds, group, version)
            case _:
                pass
        if found is None:
            return HttpResponse(404, b"404 page not found\n", "text/plain; charset=utf-8")
        if parts[0] == "openapi" and "hash" in call.query:
            headers["Cache-Control"] = "public, immutable"
        return HttpResponse(200, _encode(found), headers=headers)

    def _version_info(self) -> dict[str, str]:
        major, minor, _ = KUBERNETES.removeprefix("v").split(".", 2)
        # Every field that a real server has: the official clients refuse an answer without one of them.
        return {
            "major": major,
            "minor": minor,
            "gitVersion": f"{KUBERNETES}+paddock",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "",
            "platform": "paddock",
        }

    # Streams

    async def _stream(
        self, answer: HttpResponse, receive: Receive, send: Send, refused: Coroutine[Any, Any, None] | None
    ) -> None:
        """Send frames until they end, the client leaves or is `refused`, or the server stops."""
        assert answer.stream is not None
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", answer.content_type.encode())]}
        )
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        pump = asyncio.ensure_future(_pump(answer.stream, send))
        leave = asyncio.ensure_future(_left(receive))
        others = [leave, asyncio.ensure_future(refused)] if refused is not None else [leave]
        self._streams.add(pump)
        try:
            await asyncio.wait({pump, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(pump)
            for task in (pump, *others):
                task.cancel()
            ended, *_ = await asyncio.gather(pump, *others, return_exceptions=True)
        if isinstance(ended, Exception):
            log.warning("a watch ended early", error=str(ended))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _refused_later(self, authorization: str, certificate: bytes) -> None:
        """Until whoever was known when its watch began is not known any more: a Mac that was given back sees no more Pods."""
        with suppress(ApiFailure):
            while True:
                await self._clock.sleep(_KNOWN_FOR)
                await self._access.authenticate(authorization, certificate)

    def end_streams(self) -> None:
        """End every watch, so that a stopping server does not wait for clients that never leave."""
        self.ready = False
        for task in list(self._streams):
            task.cancel()


def _headers(sent: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by their lower-case names; what came several times is joined, as HTTP has it."""
    headers: dict[str, str] = {}
    for raw, value in sent:
        name, text = raw.decode("latin-1").lower(), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def _public(call: ApiCall) -> bool:
    """Documents that every authenticated client may read, as the role `system:discovery` grants on a real server; and
    those about the issuer of tokens for every ServiceAccount (`system:service-account-issuer-discovery`).
    """
    if call.path in _ISSUER_PATHS:
        return call.method == "GET" and "system:serviceaccounts" in call.user.groups
    return call.method == "GET" and call.path.split("/")[1] in ("api", "apis", "openapi", "version")


def _refusal(failure: ApiFailure) -> HttpResponse:
    return HttpResponse(failure.code, _encode(failure.as_json()), headers=failure.headers)


async def _finish(answer: HttpResponse, send: Send) -> None:
    headers = [(b"content-type", answer.content_type.encode()), (b"content-length", str(len(answer.body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in answer.headers.items()]
    for warning in answer.warnings:
        said = warning.replace("\\", "\\\\").replace('"', '\\"')
        headers.append((b"warning", f'299 - "{said}"'.encode()))
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _pump(frames: AsyncIterator[bytes], send: Send) -> None:
    try:
        async for frame in frames:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
    finally:
        close = getattr(frames, "aclose", None)
        if close is not None:
            await close()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
