"""What a mutating request asks of an object: the verb, the media type of a patch, the subresource."""

from collections.abc import Callable
from typing import Any

import msgspec

from paddock.embedded.api import patches, status
from paddock.embedded.api.calls import Call, Target, decode_body, from_yaml
from paddock.embedded.api.deletion import DeleteOptions
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.lists import list_objects
from paddock.embedded.api.objects import Objects, Outcome, Write, decode

__all__ = ["Writes"]

Json = dict[str, Any]

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"

_encode = msgspec.json.Encoder().encode


class Writes:
    """POST, PUT, PATCH and DELETE on collections, objects and their subresources."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def answer(self, call: Call, kind: Kind, target: Target) -> Outcome:
        if target.subresource not in ("", "status", "scale", "binding", "eviction", "finalize"):
            raise _no_such_page()
        match (call.method, bool(target.name)):
            case ("POST", False):
                return await self._objects.create(kind, target.namespace, decode_body(call), _write(call, ""))
            case ("POST", True):
                return await self._post_subresource(call, kind, target)
            case ("PUT", True):
                return await self._put(call, kind, target)
            case ("PATCH", True):
                return await self._patch(call, kind, target)
            case ("DELETE", True) if not target.subresource:
                return await self._objects.delete(kind, target.namespace, target.name, _delete_options(call))
            case ("DELETE", False):
                return await self._delete_collection(call, kind, target)
            case _:
                raise status.ApiFailure(
                    405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
                )

    async def _put(self, call: Call, kind: Kind, target: Target) -> Outcome:
        if target.subresource == "scale":
            return await self._scale(call, kind, target, lambda _: decode_body(call))
        if target.subresource == "finalize":
            return await self._finalize(kind, target, decode_body(call), _write(call, "finalize"))
        write = _write(call, self._checked(kind, target))
        return await self._objects.replace(kind, target.namespace, target.name, decode_body(call), write)

    async def _patch(self, call: Call, kind: Kind, target: Target) -> Outcome:
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
        write = _write(call, self._checked(kind, target), patching=True)
        return await self._objects.change(kind, target.namespace, target.name, change, write)

    async def _apply(self, call: Call, kind: Kind, target: Target) -> Outcome:
        if target.subresource == "scale":
            raise status.unsupported_media_type([_JSON_PATCH, _MERGE_PATCH])
        manager = call.query.get("fieldManager", "")
        if not manager:
            raise status.ApiFailure(
                422,
                "Invalid",
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
                {
                    "group": "meta.k8s.io",
                    "kind": "PatchOptions",
                    "causes": [
                        {
                            "reason": "FieldValueRequired",
                            "message": "Required value: is required for apply patch",
                            "field": "fieldManager",
                        }
                    ],
                },
            )
        applied = decode_body(call)
        if not applied.get("apiVersion") or not applied.get("kind"):
            raise status.bad_request("an applied object must name its apiVersion and kind")
        return await self._objects.apply(
            kind,
            target.namespace,
            target.name,
            applied,
            _write(call, self._checked(kind, target)),
            force=call.query.get("force") == "true",
        )

    def _checked(self, kind: Kind, target: Target) -> str:
        if target.subresource == "status" and not kind.status:
            raise _no_such_page()
        return target.subresource

    # Subresources

    async def _post_subresource(self, call: Call, kind: Kind, target: Target) -> Outcome:
        if kind.resource == "pods" and target.subresource == "binding":
            return await self._bind(call, kind, target)
        if kind.resource == "pods" and target.subresource == "eviction":
            body = decode_body(call)
            options = _options_from(body.get("deleteOptions") or {})
            await self._objects.delete(kind, target.namespace, target.name, options)
            return Outcome(
                201, _encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
            )
        raise _no_such_page()

    async def _bind(self, call: Call, kind: Kind, target: Target) -> Outcome:
        node = (decode_body(call).get("target") or {}).get("name", "")

        def bound(pod: Json) -> Json:
            if pod["spec"].get("nodeName"):
                raise status.conflict(
                    kind, target.name, f'pod {target.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
                )
            pod["spec"]["nodeName"] = node
            return pod

        await self._objects.change(kind, target.namespace, target.name, bound, _write(call, "binding"))
        return Outcome(
            201, _encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
        )

    async def _finalize(self, kind: Kind, target: Target, body: Json, write: Write) -> Outcome:
        """A namespace's own finalizers live in its spec and are emptied through this door only."""
        if kind.resource != "namespaces":
            raise _no_such_page()

        def emptied(namespace: Json) -> Json:
            namespace["spec"] = {
                **(namespace.get("spec") or {}),
                "finalizers": (body.get("spec") or {}).get("finalizers") or [],
            }
            return namespace

        return await self._objects.change(kind, "", target.name, emptied, write)

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

    async def _scale(self, call: Call, kind: Kind, target: Target, change: Callable[[Json], Json]) -> Outcome:
        if kind.scale is None:
            raise _no_such_page()
        scale = kind.scale

        def scaled(obj: Json) -> Json:
            wanted = change(self.scale_of(kind, obj))
            replicas = (wanted.get("spec") or {}).get("replicas", 0)
            if not isinstance(replicas, int) or replicas < 0:
                message = f"Invalid value: {replicas}: must be greater than or equal to 0"
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

        outcome = await self._objects.change(kind, target.namespace, target.name, scaled, _write(call, ""))
        return Outcome(200, _encode(self.scale_of(kind, msgspec.json.decode(outcome.body))), outcome.warnings)

    async def _delete_collection(self, call: Call, kind: Kind, target: Target) -> Outcome:
        listing = await list_objects(self._objects.store, kind, target.namespace or None, call.query)
        options = _delete_options(call)
        for record in listing.records:
            try:
                await self._objects.delete(kind, record.key.namespace, record.key.name, options)
            except status.ApiFailure as failure:
                if failure.code != 404:  # somebody else was quicker: gone is what was asked for
                    raise
        head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": listing.metadata()}
        return Outcome(200, _encode({**head, "items": [decode(record) for record in listing.records]}))


def _write(call: Call, subresource: str, *, patching: bool = False) -> Write:
    validation = call.query.get("fieldValidation") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        raise status.bad_request(
            f'fieldValidation: Unsupported value: "{validation}": supported values: "Ignore", "Strict", "Warn"'
        )
    manager = call.query.get("fieldManager") or call.headers.get("user-agent", "").split("/")[0] or "unknown"
    return Write(manager, validation, _dry_run(call.query.get("dryRun", "")), subresource, patching)


def _dry_run(text: str) -> bool:
    if text not in ("", "All"):
        raise status.bad_request(f'dryRun: Unsupported value: "{text}": supported values: "All"')
    return text == "All"


def _delete_options(call: Call) -> DeleteOptions:
    body = decode_body(call) if call.body else {}
    named = {key: call.query[key] for key in ("propagationPolicy", "gracePeriodSeconds") if call.query.get(key)}
    if call.query.get("dryRun"):
        named["dryRun"] = call.query["dryRun"]
    return _options_from({**body, **named})


def _options_from(body: Json) -> DeleteOptions:
    conditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    dry = body.get("dryRun") or []
    policy = body.get("propagationPolicy") or ("Orphan" if body.get("orphanDependents") else "Background")
    if policy not in ("Background", "Foreground", "Orphan"):
        raise status.bad_request(
            f'propagationPolicy: Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
        )
    return DeleteOptions(
        propagation=policy,
        grace=int(grace) if grace is not None else None,
        uid=conditions.get("uid") or "",
        resource_version=conditions.get("resourceVersion") or "",
        dry_run="All" in dry,
    )


def _patch_body(call: Call) -> Any:
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
