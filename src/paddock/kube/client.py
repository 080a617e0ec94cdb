"""The API server's verbs, typed. Every answer comes fresh from the server; nothing here is cached.

A kind is named by its class (`Pod`, answers are frozen structs) or, where no class is worth having, by its `Resource`
(answers are plain dicts). Every call ends within its `timeout`, 30 seconds unless told otherwise. A TransportError or
UnavailableError after a mutation means *unknown*, never *not done*: read before you decide anything.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeVar, Unpack, overload

import httpx2
import msgspec

from paddock.base.secrets import Secret
from paddock.kube.builtin import ObjectReference, ServiceAccount, TokenRequest
from paddock.kube.calls import (
    ApplyOptions,
    ListOptions,
    PatchOptions,
    ReadOptions,
    WriteOptions,
    collection_path,
    object_path,
    parts_of,
    resource_of,
    selector_params,
)
from paddock.kube.config import Config
from paddock.kube.connection import KubeConnection
from paddock.kube.decoding import Listing, ListPage, decoder_of, page_of
from paddock.kube.errors import ExpiredError, TransportError, UnreadableObjectError
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import KubeObject, Struct
from paddock.kube.resource import Resource

__all__ = ["Client", "ListPage", "Listing", "Propagation"]

T = TypeVar("T", bound=KubeObject)
Json = dict[str, Any]
Propagation = Literal["Background", "Foreground", "Orphan"]
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_PATCH: Final = "application/json-patch+json"

LIST_RESTARTS = 3


class Client:
    """The typed client. One a process; close it with `aclose` (or `async with`)."""

    def __init__(
        self,
        config: Config,
        transport: httpx2.AsyncBaseTransport | None = None,
        *,
        field_manager: str = "paddock",
        timeout: float = 30.0,
        user_agent: str = "paddock",
        pool: int = 64,
        metrics: KubeMetrics | None = None,
    ) -> None:
        self.config = config
        self.connection = KubeConnection(config, transport=transport, user_agent=user_agent, pool=pool, metrics=metrics)
        self.field_manager = field_manager
        self.timeout = timeout

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self.connection.aclose()

    # --- reading -------------------------------------------------------------------------------------------------

    @overload
    async def get(self, kind: type[T], name: str, namespace: str | None = None, **how: Unpack[ReadOptions]) -> T: ...
    @overload
    async def get(
        self, kind: Resource, name: str, namespace: str | None = None, **how: Unpack[ReadOptions]
    ) -> Json: ...
    async def get(
        self,
        kind: type[T] | Resource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        timeout: float | None = None,
    ) -> T | Json:
        """The object now; NotFoundError when it does not exist."""
        path = object_path(resource_of(kind), namespace, name, subresource)
        return await self._answer(kind, "GET", path, timeout=timeout)

    @overload
    async def list(self, kind: type[T], namespace: str | None = None, **how: Unpack[ListOptions]) -> Listing[T]: ...
    @overload
    async def list(self, kind: Resource, namespace: str | None = None, **how: Unpack[ListOptions]) -> Listing[Json]: ...
    async def list(
        self, kind: type[Any] | Resource, namespace: str | None = None, **how: Unpack[ListOptions]
    ) -> Listing[Any]:
        """All objects (of a namespace, or of all), read in pages at one resourceVersion.

        Raises rather than leave anything out: a page that fails, expires too often or holds an object that does not
        decode is no list. `timeout` bounds each page.
        """
        for attempt in range(1, LIST_RESTARTS + 1):
            items: list[Any] = []
            version = ""
            try:
                async for page in self.pages(kind, namespace, **how):
                    for (space, name), problem in page.unreadable.items():
                        raise UnreadableObjectError(f"{resource_of(kind).qualified} {space}/{name}: {problem}")
                    items += page.items
                    version = page.metadata.resource_version
            except ExpiredError:
                if attempt == LIST_RESTARTS:
                    raise
                continue
            return Listing(items, version)
        raise AssertionError("unreachable")

    async def pages(
        self, kind: type[T] | Resource, namespace: str | None = None, **how: Unpack[ListOptions]
    ) -> AsyncIterator[ListPage[T]]:
        """The pages of a list; ExpiredError when the server no longer holds the version that was begun with."""
        path = resource_of(kind).path(namespace)
        params = selector_params(how.get("label_selector", ""), how.get("field_selector", ""))
        params["limit"] = str(how.get("limit", 500))
        item: Any = Json if isinstance(kind, Resource) else kind
        while True:
            body = await self._send("GET", path, params=params, timeout=how.get("timeout"))
            try:
                page = page_of(item, body)
            except msgspec.MsgspecError as error:
                raise TransportError(f"GET {path}: the answer is no list: {error}") from error
            yield page
            if not page.metadata.continue_:
                return
            params["continue"] = page.metadata.continue_

    # --- writing -------------------------------------------------------------------------------------------------

    @overload
    async def create(self, obj: T, **how: Unpack[WriteOptions]) -> T: ...
    @overload
    async def create(self, obj: Mapping[str, Any], resource: Resource, **how: Unpack[WriteOptions]) -> Json: ...
    async def create(
        self,
        obj: T | Mapping[str, Any],
        resource: Resource | None = None,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> T | Json:
        """Create it; AlreadyExistsError when the name is taken. Reviews (`TokenReview`, …) are plain creates."""
        kind, body, namespace, name = parts_of(obj, resource)
        where = resource_of(kind)
        path = object_path(where, namespace, name, subresource) if subresource else collection_path(where, namespace)
        params = self._write_params(None, dry_run)
        return await self._answer(kind, "POST", path, body=body, params=params, timeout=timeout)

    @overload
    async def update(self, obj: T, **how: Unpack[WriteOptions]) -> T: ...
    @overload
    async def update(self, obj: Mapping[str, Any], resource: Resource, **how: Unpack[WriteOptions]) -> Json: ...
    async def update(
        self,
        obj: T | Mapping[str, Any],
        resource: Resource | None = None,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> T | Json:
        """Replace the whole object (PUT); ConflictError unless its resourceVersion is the server's.

        Only for kinds whose struct declares *every* field: what a struct does not know, a PUT deletes.
        """
        kind, body, namespace, name = parts_of(obj, resource)
        path = object_path(resource_of(kind), namespace, name, subresource)
        params = self._write_params(None, dry_run)
        return await self._answer(kind, "PUT", path, body=body, params=params, timeout=timeout)

    @overload
    async def apply(self, obj: T, **how: Unpack[ApplyOptions]) -> T: ...
    @overload
    async def apply(self, obj: Mapping[str, Any], resource: Resource, **how: Unpack[ApplyOptions]) -> Json: ...
    async def apply(
        self,
        obj: T | Mapping[str, Any],
        resource: Resource | None = None,
        *,
        field_manager: str | None = None,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> T | Json:
        """Server-side apply: the manager owns exactly the fields that `obj` carries, and gives up those it left out.

        Struct fields at their default are not sent. A resourceVersion or uid in the metadata is a precondition.
        ConflictError when another manager owns a field and `force` is not set.
        """
        kind, body, namespace, name = parts_of(obj, resource)
        path = object_path(resource_of(kind), namespace, name, subresource)
        params = self._write_params(field_manager, dry_run)
        if force:
            params["force"] = "true"
        return await self._answer(kind, "PATCH", path, body=body, params=params, timeout=timeout, content_type=_APPLY)

    @overload
    async def merge_patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any] | Struct,
        namespace: str | None = None,
        **how: Unpack[PatchOptions],
    ) -> T: ...
    @overload
    async def merge_patch(
        self,
        kind: Resource,
        name: str,
        patch: Mapping[str, Any] | Struct,
        namespace: str | None = None,
        **how: Unpack[PatchOptions],
    ) -> Json: ...
    async def merge_patch(
        self,
        kind: type[T] | Resource,
        name: str,
        patch: Mapping[str, Any] | Struct,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        timeout: float | None = None,
    ) -> T | Json:
        """JSON merge patch: lists are replaced whole, `None` removes. Put `metadata.resourceVersion` or
        `metadata.uid` into the patch to make it conditional.
        """
        path = object_path(resource_of(kind), namespace, name, subresource)
        params, body = self._write_params(field_manager, dry_run=False), msgspec.json.encode(patch)
        return await self._answer(kind, "PATCH", path, body=body, params=params, timeout=timeout, content_type=_MERGE)

    @overload
    async def json_patch(
        self,
        kind: type[T],
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        **how: Unpack[PatchOptions],
    ) -> T: ...
    @overload
    async def json_patch(
        self,
        kind: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        **how: Unpack[PatchOptions],
    ) -> Json: ...
    async def json_patch(
        self,
        kind: type[T] | Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        timeout: float | None = None,
    ) -> T | Json:
        """JSON patch (RFC 6902); a failing `test` operation is an InvalidError and changes nothing."""
        path = object_path(resource_of(kind), namespace, name, subresource)
        params, body = self._write_params(field_manager, dry_run=False), msgspec.json.encode(operations)
        return await self._answer(kind, "PATCH", path, body=body, params=params, timeout=timeout, content_type=_PATCH)

    async def delete(
        self,
        kind: type[KubeObject] | Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Ask for deletion; finalizers and grace periods may keep the object for a while.

        With `uid` and `resource_version` only that very object, in that very version, is deleted (else ConflictError):
        give both wherever the decision rests on what was read.
        """
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if given := {key: value for key, value in preconditions.items() if value is not None}:
            options["preconditions"] = given
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        path = object_path(resource_of(kind), namespace, name, None)
        await self._send("DELETE", path, body=msgspec.json.encode(options), timeout=timeout)

    async def create_token(
        self,
        service_account: str,
        namespace: str,
        *,
        audiences: Sequence[str] = (),
        expiration_seconds: int = 3600,
        bound_to: ObjectReference | None = None,
        timeout: float | None = None,
    ) -> tuple[Secret, datetime | None]:
        """A new token of a ServiceAccount (TokenRequest) and when it expires; `bound_to` a Pod, it dies with it."""
        path = object_path(ServiceAccount.RESOURCE, namespace, service_account, "token")
        spec = TokenRequest.Spec(
            audiences=tuple(audiences), expiration_seconds=expiration_seconds, bound_object_ref=bound_to
        )
        request = TokenRequest(api_version="authentication.k8s.io/v1", kind="TokenRequest", spec=spec)
        answer = await self._answer(TokenRequest, "POST", path, body=msgspec.json.encode(request), timeout=timeout)
        status: TokenRequest.Status = answer.status
        return Secret(status.token), status.expiration_timestamp

    # --- how -----------------------------------------------------------------------------------------------------

    async def _send(
        self,
        method: str,
        path: str,
        *,
        timeout: float | None,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        limit = self.timeout if timeout is None else timeout
        return await self.connection.request(
            method, path, params=params, body=body, timeout=limit, content_type=content_type
        )

    def _write_params(self, field_manager: str | None, dry_run: bool) -> dict[str, str]:
        params = {"fieldManager": field_manager or self.field_manager}
        return params | {"dryRun": "All"} if dry_run else params

    async def _answer(self, kind: Any, method: str, path: str, **call: Any) -> Any:
        """`_send`, and the answer as an object of that kind."""
        body = await self._send(method, path, **call)
        try:
            return decoder_of(Json if isinstance(kind, Resource) else kind).decode(body)
        except msgspec.ValidationError as error:
            raise UnreadableObjectError(f"{path}: {error}") from error
        except msgspec.DecodeError as error:
            raise TransportError(f"{path}: the answer is not JSON: {error}") from error
