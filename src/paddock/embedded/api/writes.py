"""What a mutating request asks of an object: the verb, the media type of a patch, the subresource."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from paddock.base.clock import rfc3339
from paddock.embedded.api import status
from paddock.embedded.api.builtin import catalogue as builtins
from paddock.embedded.api.calls import ApiCall, Target, User, decode_body, from_yaml
from paddock.embedded.api.guards import CSRS, WriteGuard
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.lists import list_objects
from paddock.embedded.api.objects import Objects, Write, WriteOutcome
from paddock.embedded.api.options import delete_options, delete_options_from, write_of
from paddock.embedded.api.patching import patches
from paddock.embedded.api.representation import decode

__all__ = ["Writes", "makes_what_is_absent"]

Json = dict[str, Any]

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})

_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"

_encode = msgspec.json.Encoder().encode


class Writes:
    """POST, PUT, PATCH and DELETE on collections, objects and their subresources."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def answer(self, call: ApiCall, kind: Kind, target: Target) -> WriteOutcome:
        if target.subresource not in ("", "status", "scale", "binding", "eviction", "finalize", "approval"):
            raise _no_such_page()
        match (call.method, bool(target.name)):
            case ("POST", False):
                self._check_scope(kind, target)
                body = _signed_by(call.user, decode_body(call)) if kind.resource == CSRS else decode_body(call)
                return await self._objects.create(kind, target.namespace, body, write_of(call))
            case ("POST", True) if target.subresource:
                return await self._post_subresource(call, kind, target)
            case ("PUT", True):
                return await self._put(call, kind, target)
            case ("PATCH", True):
                return await self._patch(call, kind, target)
            case ("DELETE", True) if not target.subresource:
                if kind.resource == "namespaces" and target.name in _IMMORTAL:
                    message = f'namespaces "{target.name}" is forbidden: this namespace may not be deleted'
                    raise status.forbidden(message, kind, target.name)
                return await self._objects.delete(kind, target.namespace, target.name, delete_options(call))
            case ("DELETE", False):
                self._check_scope(kind, target)
                return await self._delete_collection(call, kind, target)
            case _:
                raise status.method_not_allowed()

    def _check_scope(self, kind: Kind, target: Target) -> None:
        """Namespaced objects are made and emptied out in one namespace at a time."""
        if kind.namespaced and not target.namespace:
            raise status.method_not_allowed()

    async def _put(self, call: ApiCall, kind: Kind, target: Target) -> WriteOutcome:
        if target.subresource == "scale":
            return await self._scale(call, kind, target, lambda _: decode_body(call))
        if target.subresource == "finalize":
            return await self._finalize(kind, target, decode_body(call), write_of(call, "finalize"))
        if target.subresource == "approval":
            return await self._approve(call, kind, target, lambda _: decode_body(call))
        write = write_of(call, self._checked(kind, target))
        return await self._objects.replace(kind, target.namespace, target.name, decode_body(call), write)

    async def _patch(self, call: ApiCall, kind: Kind, target: Target) -> WriteOutcome:
        media = call.content_type
        accepted = [_JSON_PATCH, _MERGE_PATCH, *([] if kind.custom else [_STRATEGIC]), _APPLY]
        if media not in accepted:
            raise status.unsupported_media_type(accepted)
        if media == _APPLY:
            return await self._apply(call, kind, target)
        patch = _patch_body(call)
        change = _patcher(media, patch)
        if target.subresource == "scale":
            return await self._scale(call, kind, target, change)
        if target.subresource == "approval":
            return await self._approve(call, kind, target, change)
        write = write_of(call, self._checked(kind, target), patching=True)
        return await self._objects.change(kind, target.namespace, target.name, change, write)

    async def _apply(self, call: ApiCall, kind: Kind, target: Target) -> WriteOutcome:
        if target.subresource in ("scale", "approval"):
            raise status.unsupported_media_type([_JSON_PATCH, _MERGE_PATCH])
        write = write_of(call, self._checked(kind, target), patching=True, applying=True)
        applied = decode_body(call)
        if not applied.get("apiVersion") or not applied.get("kind"):
            raise status.bad_request("an applied object must name its apiVersion and kind")
        if kind.resource == CSRS:
            applied = _signed_by(call.user, applied)
        return await self._objects.apply(
            kind,
            target.namespace,
            target.name,
            applied,
            write,
            force=call.query.get("force") == "true",
        )

    def _checked(self, kind: Kind, target: Target) -> str:
        if target.subresource == "status" and not kind.status:
            raise _no_such_page()
        return target.subresource

    # Subresources

    async def _post_subresource(self, call: ApiCall, kind: Kind, target: Target) -> WriteOutcome:
        if kind.resource == "pods" and target.subresource == "binding":
            return await self._bind(call, kind, target)
        if kind.resource == "pods" and target.subresource == "eviction":
            body = decode_body(call)
            options = delete_options_from(body.get("deleteOptions") or {})
            await self._refuse_to_disturb(kind, target)
            await self._objects.delete(kind, target.namespace, target.name, options)
            return WriteOutcome(
                201, _encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
            )
        raise _no_such_page()

    async def _refuse_to_disturb(self, kind: Kind, target: Target) -> None:
        """This server has no PodDisruptionBudgets; a Pod that says that it must not be evicted is answered as if it had one,
        so that `kubectl drain` waits and asks again. A plain delete is a person's own decision.
        """
        pod = decode(await self._objects.read(kind, target.namespace, target.name))
        said = (pod["metadata"].get("annotations") or {}).get(_SAFE_TO_EVICT)
        if said == "false" and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            raise status.too_many_requests(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                f"the pod has the annotation {_SAFE_TO_EVICT}=false: it is at work, ask again",
            )

    async def _bind(self, call: ApiCall, kind: Kind, target: Target) -> WriteOutcome:
        node = (decode_body(call).get("target") or {}).get("name", "")

        def bound(pod: Json) -> Json:
            if pod["spec"].get("nodeName"):
                raise status.conflict(
                    kind, target.name, f'pod {target.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
                )
            pod["spec"]["nodeName"] = node
            moment = rfc3339(self._objects.clock.now())
            scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
            held = pod.setdefault("status", {})
            others = [c for c in held.get("conditions") or () if c.get("type") != "PodScheduled"]
            held["conditions"] = [*others, scheduled]
            return pod

        await self._objects.change(kind, target.namespace, target.name, bound, write_of(call, "binding"))
        return WriteOutcome(
            201, _encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
        )

    async def _finalize(self, kind: Kind, target: Target, body: Json, write: Write) -> WriteOutcome:
        """A namespace's own finalizers live in its spec and are emptied through this subresource only."""
        if kind.resource != "namespaces":
            raise _no_such_page()

        def emptied(namespace: Json) -> Json:
            namespace["spec"] = {
                **(namespace.get("spec") or {}),
                "finalizers": (body.get("spec") or {}).get("finalizers") or [],
            }
            return namespace

        return await self._objects.change(kind, "", target.name, emptied, write)

    async def _approve(self, call: ApiCall, kind: Kind, target: Target, change: Callable[[Json], Json]) -> WriteOutcome:
        """Approve or deny a request for a certificate: nothing but the conditions travels, and no verdict is taken back."""
        if kind.resource != CSRS or not isinstance(call.guard, WriteGuard):
            raise _no_such_page()
        record = await self._objects.read(kind, "", target.name)
        await call.guard.check_approval(kind, decode(record))

        def judged(request: Json) -> Json:
            held = request.get("status") or {}
            wanted = change(copy.deepcopy(request))
            conditions = (wanted.get("status") or {}).get("conditions") or []
            types = {condition.get("type") for condition in conditions}
            if not {c.get("type") for c in held.get("conditions") or ()} <= types or {"Approved", "Denied"} <= types:
                cause = status.Cause("FieldValueInvalid", "a verdict cannot be taken back", "status.conditions")
                raise status.invalid(kind, target.name, [cause])
            request["status"] = {**held, "conditions": conditions}
            if version := (wanted.get("metadata") or {}).get("resourceVersion"):
                request["metadata"]["resourceVersion"] = version
            return request

        write = replace(write_of(call, "status", patching=True), guard=None)
        return await self._objects.change(kind, "", target.name, judged, write)

    def scale_of(self, kind: Kind, obj: Json) -> Json:
        """An object as `autoscaling/v1` Scale shows it."""
        assert kind.scale is not None
        meta = {
            key: obj["metadata"][key]
            for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if key in obj["metadata"]
        }
        scale_status: Json = {"replicas": _at(obj, kind.scale.status_replicas) or 0}
        if kind.scale.label_selector and (selector := _at(obj, kind.scale.label_selector)):
            scale_status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": meta,
            "spec": {"replicas": _at(obj, kind.scale.spec_replicas) or 0},
            "status": scale_status,
        }

    async def _scale(self, call: ApiCall, kind: Kind, target: Target, change: Callable[[Json], Json]) -> WriteOutcome:
        if kind.scale is None:
            raise _no_such_page()
        scale = kind.scale

        def scaled(obj: Json) -> Json:
            wanted = change(self.scale_of(kind, obj))
            replicas = (wanted.get("spec") or {}).get("replicas", 0)
            if not isinstance(replicas, int) or replicas < 0:
                message = f"Invalid value: {replicas}: should be a non-negative integer"
                raise status.ApiFailure(
                    422,
                    "Invalid",
                    f'Scale.autoscaling "{target.name}" is invalid: spec.replicas: {message}',
                    {
                        "name": target.name,
                        "group": "autoscaling",
                        "kind": "Scale",
                        "causes": [{"reason": "FieldValueInvalid", "message": message, "field": "spec.replicas"}],
                    },
                )
            _put_at(obj, scale.spec_replicas, replicas)
            if version := (wanted.get("metadata") or {}).get("resourceVersion"):
                obj["metadata"]["resourceVersion"] = version
            return obj

        outcome = await self._objects.change(kind, target.namespace, target.name, scaled, write_of(call, "scale"))
        return WriteOutcome(200, _encode(self.scale_of(kind, msgspec.json.decode(outcome.body))), outcome.warnings)

    async def _delete_collection(self, call: ApiCall, kind: Kind, target: Target) -> WriteOutcome:
        listing = await list_objects(self._objects.store, kind, target.namespace or None, call.query)
        options = delete_options(call)
        for record in listing.records:
            try:
                await self._objects.delete(kind, record.key.namespace, record.key.name, options)
            except status.ApiFailure as failure:
                if failure.code != 404:  # another client was quicker: gone is what was asked for
                    raise
        head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": listing.metadata()}
        return WriteOutcome(200, _encode({**head, "items": [decode(record) for record in listing.records]}))


def _signed_by(user: User, request: Json) -> Json:
    """A request for a certificate, with who asks for it: the server's word, whatever the client says."""
    claimed = ("username", "uid", "groups", "extra")
    spec = {key: value for key, value in (request.get("spec") or {}).items() if key not in claimed}
    spec |= {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = dict(user.extra)
    return {**request, "spec": spec}


def makes_what_is_absent(call: ApiCall, kind: Kind) -> bool:
    """Whether this way of writing creates an object that is not there: every apply, and a PUT of some built-ins."""
    if call.method == "PATCH":
        return call.content_type == _APPLY
    return call.method == "PUT" and kind.resource in builtins.MADE_BY_PUT


def _patch_body(call: ApiCall) -> Any:
    try:
        return from_yaml(call.body)
    except Exception as error:
        raise status.bad_request(f"error decoding patch: {error}") from error


def _patcher(media: str, patch: Any) -> Callable[[Json], Json]:
    if media == _JSON_PATCH:
        if not isinstance(patch, list):
            raise status.bad_request("a JSON patch is a list of operations")
        return lambda obj: patches.json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise status.bad_request("a merge patch is an object")
    if media == _STRATEGIC:
        return lambda obj: patches.strategic_merge_patch(obj, patch)
    return lambda obj: patches.merge_patch(obj, patch)


def _at(obj: Json, path: str) -> Any:
    found: Any = obj
    for part in path.strip(".").split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _put_at(obj: Json, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[last] = value


def _no_such_page() -> status.ApiFailure:
    return status.ApiFailure(404, "NotFound", "the server could not find the requested resource")
