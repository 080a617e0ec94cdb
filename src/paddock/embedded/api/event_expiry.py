"""Events that are over: a cluster's store forgets them after an hour, and ours would keep them in memory and Postgres for ever."""

from datetime import datetime, timedelta
from typing import Any, Final

from paddock.base.clock import parse_rfc3339
from paddock.base.logs import get_logger
from paddock.embedded.api.deletion import DeleteOptions
from paddock.embedded.api.objects import Objects
from paddock.embedded.api.representation import decode
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.store import Key

__all__ = ["KEPT", "MOST", "EventExpiry"]

Json = dict[str, Any]
KEPT: Final = timedelta(days=1)
"""Longer than a cluster's hour: beside `paddock up` nothing else writes them down."""
MOST: Final = 10_000
_LOOK_EVERY: Final = 60.0
_AT_ONCE: Final = 1000
log = get_logger("event expiry")


class EventExpiry:
    """Keeps the Events of a day, by when they last happened, and at most `most` of them. Each look can be repeated."""

    def __init__(self, objects: Objects, most: int = MOST) -> None:
        self._objects = objects
        self._most = most

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                await self.look()
            except ApiFailure as failure:
                log.warning("old Events stay for now", why=failure.message)
            await self._objects.clock.sleep(_LOOK_EVERY)

    async def look(self) -> None:
        """A bounded bite of the oldest; the next look takes the next."""
        now = self._objects.clock.now()
        found = [
            (_last(event), record.key, event["metadata"]["uid"])
            for record in (await self._objects.store.list("events")).records
            if (event := decode(record))
        ]
        found.sort(key=lambda each: (each[0], each[1].namespace, each[1].name))
        surplus = max(0, len(found) - self._most)
        over = [each for place, each in enumerate(found) if place < surplus or now - each[0] > KEPT]
        for _, key, uid in over[:_AT_ONCE]:
            await self._delete(key, uid)

    async def _delete(self, key: Key, uid: str) -> None:
        kind = self._objects.kinds.get("", "v1", "events")
        assert kind is not None
        try:
            await self._objects.delete(kind, key.namespace, key.name, DeleteOptions(uid=uid))
        except ApiFailure as failure:
            if failure.code == 503:
                raise
            log.debug("an Event went another way", key=str(key), why=failure.message)


def _last(event: Json) -> datetime:
    """When it last happened, as far as it says; the server's own time is always there."""
    for text in (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"]["creationTimestamp"]):
        try:
            if text:
                return parse_rfc3339(text)
        except ValueError:
            continue  # whoever wrote it may have written anything
    raise AssertionError("the server gives every object its time")
