"""Strategic merge patch: a merge patch that knows which lists of the built-in kinds have keys.

Directives: `$patch: delete|replace` in an object or a list item, `$deleteFromPrimitiveList/x`, `$setElementOrder/x`,
`$retainKeys`. Which lists merge, and by which key, is in `merge_keys`. Inputs are never changed.
"""

from collections.abc import Callable
from typing import Any, Final

from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.patching.merge_keys import REPLACED_MAPS, ListMerge, list_merge
from paddock.embedded.api.status import ApiFailure, bad_request
from paddock.embedded.api.validation.gotext import go_plain

__all__ = ["strategic_merge_patch"]

Json = dict[str, Any]
_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


def strategic_merge_patch(target: Json, patch: Json, kind: Kind | None = None) -> Json:
    """The target with the patch laid over it. The kind is taken from the target if it is not given.

    400 for directives that are malformed, 422 for lists of lists, 500 (as the real server) for an item without its key.
    """
    if kind is None:
        name = target.get("kind") or patch.get("kind") or ""
        kind = Kind(group="", version="", kind=name, plural="", singular="", namespaced=True)
    return _Merge(kind).objects(target, patch, "")


def _failed(message: str) -> ApiFailure:
    return ApiFailure(500, "", message)


class _Merge:
    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def objects(self, original: Json, patch: Json, parent: str) -> Json:
        """Two objects, the values of the field (or list) `parent`."""
        if _PATCH in patch:
            return _directed(patch)
        result = _retained(original, patch)
        ordered = self._in_given_order(result, patch, parent)
        result.update(ordered)
        for key, value in patch.items():
            if key == _RETAIN or key.startswith(_ORDER) or key in ordered:
                continue
            if key.startswith(_DELETE_FROM):
                name = key.removeprefix(_DELETE_FROM)
                if isinstance(result.get(name), list):
                    result[name] = [item for item in result[name] if item not in (value or [])]
                continue
            if value is None:
                result.pop(key, None)
                continue
            merged = self._value(result[key], value, parent, key) if key in result else _plain(value)
            if merged is _GONE:
                result.pop(key, None)
            else:
                result[key] = merged
        return result

    def _value(self, original: Any, value: Any, parent: str, name: str) -> Any:
        if isinstance(original, dict) and isinstance(value, dict):
            if name in REPLACED_MAPS.get(self._kind.kind, frozenset()):
                return value
            return self.objects(original, value, name)
        if isinstance(original, list) and isinstance(value, list):
            how = list_merge(self._kind, parent, name)
            return value if how is None or not _merges(how) else self._lists(original, value, name, how)
        return _plain(value)

    def _lists(self, original: list[Any], patch: list[Any], name: str, how: ListMerge) -> list[Any]:
        if not original and not patch:
            return original
        if not _are_objects(original, patch):
            both = list(dict.fromkeys([*original, *patch]))
            return _reordered(both, patch, original, lambda item: item)
        key = how.patch_key
        kept, plain = self._special(original, patch, key)
        merged = list(kept)
        for item in plain:
            identity = _keyed(item, key)
            at = next((i for i, known in enumerate(merged) if known.get(key) == identity), None)
            if at is None:
                merged.append(_plain(item))
            else:
                merged[at] = self.objects(merged[at], item, name)
        return _reordered(merged, plain, kept, lambda item: _keyed(item, key))

    def _special(self, original: list[Json], patch: list[Json], key: str) -> tuple[list[Json], list[Json]]:
        """What is left of the original after `$patch` items, and the items of the patch that are plain."""
        kept, plain, replace = list(original), [], False
        for item in patch:
            directive = item.get(_PATCH)
            if directive is None:
                plain.append(item)
            elif directive == "delete":
                identity = _keyed(item, key)
                kept = [known for known in kept if known.get(key) != identity]
            elif directive == "replace":
                replace = True
            elif directive == "merge":
                raise _failed("merging lists cannot yet be specified in the patch")
            else:
                raise _failed(f"unknown patch type: {directive} in map: {go_plain(item)}")
        return (plain, []) if replace else (kept, plain)

    def _in_given_order(self, original: Json, patch: Json, parent: str) -> Json:
        """The lists for which the patch sets an order of elements, merged and in that order."""
        ordered: Json = {}
        for directive, order in patch.items():
            if not directive.startswith(_ORDER):
                continue
            name = directive.removeprefix(_ORDER)
            if not isinstance(order, list):
                raise bad_request("invalid patch format of setElementOrder list")
            before, given = original.get(name), patch.get(name)
            how = list_merge(self._kind, parent, name) or ListMerge()
            if before is None and given is None:
                continue
            if given is None:
                merged = before
            elif before is None:
                merged = _plain(given)
            else:
                merged = self._lists(before, given, name, how) if _merges(how) else given
            key = how.patch_key

            def identity(item: Any, key: str = key) -> Any:
                return _keyed(item, key) if key else item

            _check_order(given or [], order, identity)
            ordered[name] = _reordered(merged or [], order, before or [], identity)
        return ordered


_GONE: Final[Any] = object()


def _merges(how: ListMerge) -> bool:
    return bool(how.patch_key) or how.is_set


def _are_objects(*lists: list[Any]) -> bool:
    kinds = {type(item) for items in lists for item in items}
    if list in kinds:
        raise ApiFailure(422, "Invalid", "the server rejected our request due to an error in our request")
    if len(kinds) > 1:
        raise _failed(f"list element types are not identical: {go_plain(list(lists))}")
    return dict in kinds


def _keyed(item: Any, key: str) -> Any:
    if not isinstance(item, dict) or key not in item:
        raise _failed(f"map: {go_plain(item)} does not contain declared merge key: {key}")
    return item[key]


def _directed(patch: Json) -> Json:
    match patch[_PATCH]:
        case "replace":
            return {name: value for name, value in patch.items() if name != _PATCH}
        case "delete":
            return {}
        case other:
            raise _failed(f"unknown patch type: {other} in map: {go_plain(patch)}")


def _retained(original: Json, patch: Json) -> Json:
    """A copy of the original with only the fields that `$retainKeys` names, if the patch has it."""
    if _RETAIN not in patch:
        return dict(original)
    retained = patch[_RETAIN]
    if not isinstance(retained, list):
        raise bad_request("invalid patch format of retainKeys")
    for name, value in patch.items():
        directive = name == _RETAIN or name.startswith((_DELETE_FROM, _ORDER))
        if not directive and value is not None and name not in retained:
            raise bad_request("invalid patch format of retainKeys")
    return {name: value for name, value in original.items() if name in retained}


def _plain(value: Any) -> Any:
    """A patch's value where there was none: without nulls, directives, and whatever they delete."""
    if isinstance(value, dict):
        if _PATCH in value:
            return _GONE
        cleaned = {
            name: _plain(child)
            for name, child in value.items()
            if child is not None and not name.startswith((_DELETE_FROM, _ORDER)) and name != _RETAIN
        }
        return {name: child for name, child in cleaned.items() if child is not _GONE}
    if isinstance(value, list):
        return [item for item in map(_plain, value) if item is not _GONE]
    return value


def _check_order(given: list[Any], order: list[Any], identity: Callable[[Any], Any]) -> None:
    """The items of the patch must come in the order that the patch itself sets."""
    wanted = iter([identity(item) for item in order])
    if not order:
        return
    for item in given:
        if isinstance(item, dict) and _PATCH in item:
            continue
        if not any(identity(item) == known for known in wanted):
            raise _failed(
                f"The order in patch list:\n{go_plain(given)}\n doesn't match $setElementOrder list:\n{go_plain(order)}\n"
            )


def _reordered(items: list[Any], order: list[Any], before: list[Any], identity: Callable[[Any], Any]) -> list[Any]:
    """Items that the order names come in it; the others keep the place they had among what was there before."""
    ranks = [identity(item) for item in order]
    places = [identity(item) for item in before]
    named = sorted((item for item in items if identity(item) in ranks), key=lambda item: ranks.index(identity(item)))
    others = [item for item in items if identity(item) not in ranks]
    others.sort(key=lambda item: places.index(identity(item)) if identity(item) in places else len(places))
    result: list[Any] = []
    while named and others:
        here, there = identity(others[0]), identity(named[0])
        both_known = here in places and there in places
        source = others if both_known and places.index(here) < places.index(there) else named
        result.append(source.pop(0))
    return result + others + named
