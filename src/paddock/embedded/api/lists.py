"""Collections: which objects a list shows, page by page, as of one revision."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from paddock.embedded.api import status
from paddock.embedded.api.builtin.catalogue import FIELD_LABELS
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.representation import decode, labels_of
from paddock.embedded.api.selectors import FieldSelector, LabelSelector, parse_fields, parse_labels
from paddock.embedded.api.status import Cause
from paddock.embedded.api.validation.causes import forbidden, unsupported
from paddock.embedded.store import CompactedError, FutureRevisionError, Record, Store

__all__ = ["ObjectListing", "Selection", "list_objects", "parse_revision", "selection_of"]

_CHUNK = 500
_SELECTABLE = "field label not supported: {}"
_NAMES_ONLY = '"{}" is not a known field selector: only "metadata.name", "metadata.namespace"'


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a collection the client asked to see."""

    labels: LabelSelector
    fields: FieldSelector

    @property
    def everything(self) -> bool:
        return self.labels.matches_everything and self.fields.matches_everything

    def shows(self, record: Record) -> bool:
        if self.fields.matches_everything:
            return self.labels.matches(labels_of(record))
        obj = decode(record)
        return self.labels.matches((obj.get("metadata") or {}).get("labels") or {}) and self.fields.matches(obj)


@dataclass(frozen=True, slots=True)
class ObjectListing:
    """One page of a list and what its metadata says."""

    records: list[Record]
    revision: int
    continue_token: str
    remaining: int | None

    def metadata(self) -> dict[str, Any]:
        meta: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            meta["continue"] = self.continue_token
        if self.remaining:
            meta["remainingItemCount"] = self.remaining
        return meta


def selection_of(kind: Kind, query: Mapping[str, str]) -> Selection:
    """The selectors of a query; 400 on one that cannot be read or names a field that cannot be selected."""
    supported = {"metadata.name"} | {path.removeprefix(".") for path in kind.selectable}
    if kind.namespaced:
        supported.add("metadata.namespace")
    supported |= FIELD_LABELS.get(kind.resource, frozenset())
    refusal = _SELECTABLE if kind.custom or kind.resource in FIELD_LABELS else _NAMES_ONLY
    return Selection(
        parse_labels(query.get("labelSelector", "")), parse_fields(query.get("fieldSelector", ""), supported, refusal)
    )


def parse_revision(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text):
        why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise status.bad_request(f"invalid resource version: resourceVersion: {why}")
    return int(text)


async def list_objects(store: Store, kind: Kind, namespace: str | None, query: Mapping[str, str]) -> ObjectListing:
    """One page, with the rules of a real server for resourceVersion, limit and continue."""
    selection = selection_of(kind, query)
    limit = _limit(query)
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    token = query.get("continue", "")
    if token and version not in ("", "0"):
        raise status.bad_request("specifying resource version is not allowed when using continue")
    if causes := _match_causes(query, version, match):
        raise status.invalid_options("ListOptions", causes)
    revision: int | None = None
    after: tuple[str, str] | None = None
    if token:
        revision, after = _read_token(token)
    elif version:
        wanted = parse_revision(version)
        if wanted > store.revision:
            raise status.too_large_revision(wanted, store.revision)
        if match == "Exact":
            revision = wanted
        if wanted == 0:
            limit = 0  # "any cached state": the whole collection at once
    try:
        return await _collect(store, kind, namespace, selection, limit, revision, after)
    except CompactedError:
        if token:
            fresh = _write_token(store.revision, after) if after else ""
            raise status.expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new "
                "list without the continue parameter, or use the continue token in this response to retrieve the "
                "remainder of the results. Continuing with the provided token results in an inconsistent list - "
                "objects that were created, modified, or deleted between the time the first chunk was returned and "
                "now may show up in the list.",
                fresh,
            ) from None
        raise status.expired("The resourceVersion for the provided list is too old.") from None
    except FutureRevisionError:
        raise status.too_large_revision(revision or 0, store.revision) from None


async def _collect(
    store: Store,
    kind: Kind,
    namespace: str | None,
    selection: Selection,
    limit: int,
    revision: int | None,
    after: tuple[str, str] | None,
) -> ObjectListing:
    if selection.everything:
        page = await store.list(kind.resource, namespace, limit=limit, after=after, revision=revision)
        token = _write_token(page.revision, _place(page.records[-1])) if page.remaining else ""
        return ObjectListing(list(page.records), page.revision, token, page.remaining or None)
    found: list[Record] = []
    while True:
        page = await store.list(kind.resource, namespace, limit=_CHUNK if limit else 0, after=after, revision=revision)
        revision = page.revision  # later chunks show the same moment
        for index, record in enumerate(page.records):
            if not selection.shows(record):
                continue
            found.append(record)
            if limit and len(found) == limit and (page.remaining or index + 1 < len(page.records)):
                # More may follow; how many match is not counted, as on a real server.
                return ObjectListing(found, page.revision, _write_token(page.revision, _place(record)), None)
        if not page.remaining or not page.records:
            return ObjectListing(found, page.revision, "", None)
        after = _place(page.records[-1])


def _place(record: Record) -> tuple[str, str]:
    return (record.key.namespace, record.key.name)


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", "") or "0"
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise status.bad_request(f'Invalid value: "{text}": limit must be a number')
    return max(0, int(text))


def _write_token(revision: int, after: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode({"rv": revision, "after": after})).decode()


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        held = msgspec.json.decode(base64.urlsafe_b64decode(token.encode()))
        namespace, name = held["after"]
        return int(held["rv"]), (str(namespace), str(name))
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise status.bad_request("continue key is not valid") from None


def _match_causes(query: Mapping[str, str], version: str, match: str) -> list[Cause]:
    """What a list may not say about the version it wants to see."""
    found: list[Cause] = []
    field = "resourceVersionMatch"
    if match and not version:
        found.append(forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if match not in ("", "Exact", "NotOlderThan"):
        found.append(unsupported(field, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and version == "0":
        found.append(forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in query:
        found.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return found
