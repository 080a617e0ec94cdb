"""Watches: a stream of changes, one JSON object a line, that a client can start where its list ended."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from paddock.base.clock import Clock
from paddock.embedded.api import status
from paddock.embedded.api.calls import flag
from paddock.embedded.api.documents import tables
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.lists import Selection, list_objects, parse_revision, selection_of
from paddock.embedded.api.representation import decode, metadata_of, seen, shown
from paddock.embedded.api.status import Cause
from paddock.embedded.api.validation.causes import forbidden, unsupported
from paddock.embedded.store import Change, CompactedError, Record, Store

__all__ = ["Frames", "watch"]

_encode = msgspec.json.Encoder().encode
_BOOKMARK_EVERY = 30.0
_IN_ONE_GO = 64
_DEFAULT_TIMEOUT = (1800.0, 3600.0)
_NEEDS_MATCH = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
_NEEDS_INITIAL = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


class Frames:
    """How a change is written to this client: as the object, as its metadata alone, or as a one-row Table."""

    def __init__(
        self, kind: Kind, clock: Clock, *, table: bool, include: tables.Include, partial: str | None = None
    ) -> None:
        self._kind = kind
        self._clock = clock
        self._table = table
        self._partial = partial
        self._include: tables.Include = include
        self._columns_sent = False

    def change(self, kind: str, record: Record) -> bytes:
        if self._partial is not None:
            return _encode({"type": kind, "object": metadata_of(seen(self._kind, record), self._partial)}) + b"\n"
        if not self._table:
            return b'{"type":"%b","object":%b}\n' % (kind.encode(), shown(self._kind, record))
        obj = seen(self._kind, record)
        table = tables.table(
            self._kind,
            [obj],
            self._clock.now(),
            self._include,
            {"resourceVersion": str(record.revision)},
            with_columns=not self._columns_sent,
        )
        self._columns_sent = True
        return _encode({"type": kind, "object": table}) + b"\n"

    def bookmark(self, revision: int, annotations: Mapping[str, str] | None = None) -> bytes:
        meta: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = dict(annotations)
        body = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": meta}
        if self._partial is not None:
            body = metadata_of(body, self._partial)
        return _encode({"type": "BOOKMARK", "object": body}) + b"\n"

    def error(self, failure: status.ApiFailure) -> bytes:
        return _encode({"type": "ERROR", "object": failure.as_json()}) + b"\n"


async def watch(
    store: Store,
    kind: Kind,
    namespace: str | None,
    query: Mapping[str, str],
    frames: Frames,
    clock: Clock,
    rng: random.Random,
) -> AsyncIterator[bytes]:
    """The frames of one watch, until its time is up, its history is gone, or the client leaves.

    Refusals that are known at once are raised before the first frame; a history that is gone is an ERROR frame, as on a
    real server.
    """
    selection = selection_of(kind, query)
    version = query.get("resourceVersion", "")
    initial = flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    if causes := _match_causes(query):
        raise status.invalid_options("ListOptions", causes)
    wanted = parse_revision(version) if version else 0
    deadline = clock.monotonic() + _timeout(query, rng)
    bookmarks = flag(query, "allowWatchBookmarks")
    synthetic = initial if initial is not None else wanted == 0
    return _Watch(
        store,
        kind,
        namespace,
        selection,
        frames,
        clock,
        wanted=wanted,
        deadline=deadline,
        bookmarks=bookmarks,
        synthetic=synthetic,
        announce=bool(initial),
    ).run()


@dataclass(frozen=True, slots=True)
class _Watch:
    """What one client asked for; `synthetic` begins with what is there, `announce` says when that was all."""

    store: Store
    kind: Kind
    namespace: str | None
    selection: Selection
    frames: Frames
    clock: Clock
    wanted: int
    deadline: float
    bookmarks: bool
    synthetic: bool
    announce: bool

    async def run(self) -> AsyncIterator[bytes]:
        store, frames, selection = self.store, self.frames, self.selection
        after = self.wanted
        if self.synthetic:
            listing = await list_objects(store, self.kind, self.namespace, {})
            after = listing.revision
            for record in listing.records:
                if selection.everything or selection.shows(record):
                    yield frames.change("ADDED", record)
            if self.announce and self.bookmarks:
                yield frames.bookmark(listing.revision, _INITIAL_EVENTS_END)
        elif self.wanted == 0:
            after = store.revision
        name = selection.fields.name
        seen = min(after, store.revision)
        try:
            async with store.watch(
                self.kind.resource, self.namespace, after=seen, wanted=(lambda key: key.name == name) if name else None
            ) as changes:
                due = self.clock.monotonic() + _BOOKMARK_EVERY
                async for change in _until(changes, self.clock, self.deadline):
                    # The store's revision moves with every kind: a bookmark that did not follow would leave the watch of a
                    # quiet kind at a revision whose history is gone, and its client would list everything again.
                    seen = changes.revision if change is None else change.revision
                    # A client may name a revision that had not happened yet.
                    frame = _frame(selection, frames, change) if change is not None and seen > after else None
                    if frame is None and self.bookmarks and seen >= after and self.clock.monotonic() >= due:
                        frame = frames.bookmark(seen)
                    if frame is not None:
                        due = self.clock.monotonic() + _BOOKMARK_EVERY
                        yield frame
                seen = max(seen, changes.revision)
                if self.bookmarks and seen >= after:
                    yield frames.bookmark(seen)
        except CompactedError:
            message = f"too old resource version: {after} ({store.revision})"
            yield frames.error(status.expired(message))


async def _until(changes: AsyncIterator[Change], clock: Clock, deadline: float) -> AsyncIterator[Change | None]:
    """The changes until the deadline, with None whenever nothing happened for a while.

    A change is taken in the same step in which waiting for it ends, so a wait that is given up loses none.
    """
    taken = 0
    while (left := deadline - clock.monotonic()) > 0:
        try:
            async with asyncio.timeout(min(left, _BOOKMARK_EVERY)):
                change = await anext(changes)
        except TimeoutError:
            yield None
            continue
        except StopAsyncIteration:
            return
        taken += 1
        if taken % _IN_ONE_GO == 0:
            await asyncio.sleep(0)  # a long backlog must not keep the loop from everybody else
        yield change


def _frame(selection: Selection, frames: Frames, change: Change) -> bytes | None:
    """What the change looks like to a client that sees only its selection."""
    if selection.everything:
        return frames.change(change.kind, change.record)
    was = change.previous is not None and selection.shows(change.previous)
    now = change.kind != "DELETED" and selection.shows(change.record)
    match (was, now):
        case (False, True):
            return frames.change("ADDED", change.record)
        case (True, True):
            return frames.change("MODIFIED", change.record)
        case (True, False):
            return frames.change("DELETED", _as_it_was(change))
        case _:
            return None


def _as_it_was(change: Change) -> Record:
    """What leaves a selection is shown as it was while it belonged, under the version at which it left."""
    if change.kind == "DELETED" or change.previous is None:
        return change.record
    was = decode(change.previous)
    was["metadata"]["resourceVersion"] = str(change.revision)
    return replace(change.previous, value=_encode(was), revision=change.revision)


def _timeout(query: Mapping[str, str], rng: random.Random) -> float:
    text = query.get("timeoutSeconds", "")
    if re.fullmatch(r"[0-9]{1,9}", text) and int(text) > 0:
        return float(text)
    return rng.uniform(*_DEFAULT_TIMEOUT)


def _match_causes(query: Mapping[str, str]) -> list[Cause]:
    """What a watch may not say about the version it begins at."""
    match, found = query.get("resourceVersionMatch", ""), list[Cause]()
    if "sendInitialEvents" in query and not match:
        found.append(forbidden("resourceVersionMatch", _NEEDS_MATCH))
    if match and "sendInitialEvents" not in query:
        found.append(forbidden("resourceVersionMatch", _NEEDS_INITIAL))
    if match not in ("", "NotOlderThan"):
        found.append(unsupported("resourceVersionMatch", match, ("NotOlderThan",)))
    return found
