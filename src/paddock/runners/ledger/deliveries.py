"""The inbox of webhooks: stored once each before they are answered, worked off afterwards.

A repeat is known by its delivery id for as long as the row is kept; GitHub gives a redelivery the id of the original. A
worker that takes a delivery holds it for a while; if it dies, the delivery comes due again and another takes it. Handling
must therefore be repeatable, which every operation of the ledger is. Who stores one may take it in the same statement.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import LiteralString, NamedTuple

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, columns
from paddock.runners.ledger.errors import InvalidEntryError, StaleDeliveryError
from paddock.runners.ledger.group_commit import GroupCommit
from paddock.runners.ledger.rows import Delivery
from paddock.runners.ledger.views import LostDeliveries

__all__ = ["ATTEMPTS", "Deliveries"]

ATTEMPTS = 6
"""How often a delivery is tried before it is given up, with its body kept for a look."""

_MOST_AT_ONCE = 64
"""Deliveries in one statement: at most so many bodies of a quarter of a megabyte each."""
_HOLD = timedelta(seconds=60)
_HOLD_AS_STORED = timedelta(seconds=15)
"""Shorter where it was taken as it was stored: GitHub may not have heard that it is stored, and nobody else looks for it."""
_LOST_LATELY = timedelta(minutes=15)
"""What could not be delivered is asked for again every few minutes: a loss of which nothing was heard for longer is over."""
_LOST_AT_MOST = timedelta(days=3)
_CLOCKS_APART = timedelta(seconds=10)
_BACKOFF = Backoff(base=1.0, cap=300.0, factor=4.0)

STORE = """
-- store_deliveries: the key is the de-duplication; in its order, so that two who store the same ones wait in no circle
INSERT INTO deliveries (delivery_id, event, payload, received_at, due_at, attempts)
SELECT sent.delivery_id, sent.event, sent.payload, %(now)s, CASE WHEN sent.taken THEN %(until)s ELSE %(now)s END, sent.taken::integer
FROM unnest(%(delivery_ids)s::text[], %(events)s::text[], %(payloads)b::bytea[], %(taken)s::boolean[])
    AS sent (delivery_id, event, payload, taken)
ORDER BY sent.delivery_id
ON CONFLICT DO NOTHING
RETURNING delivery_id
"""
TAKE = """
-- take_deliveries: whoever holds a delivery hides it from the others until its time is up
WITH due AS (
    SELECT delivery_id FROM deliveries WHERE settled_at IS NULL AND due_at <= %(now)s
    ORDER BY due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE deliveries d SET attempts = d.attempts + 1, due_at = %(until)s
FROM due WHERE d.delivery_id = due.delivery_id
RETURNING d.delivery_id, d.event, d.payload, d.received_at, d.attempts AS attempt
"""
SETTLE = """
-- settle_deliveries: the body goes, the id stays; only by the worker that holds them, locked in the order of the key
WITH held AS MATERIALIZED (
    SELECT d.delivery_id, done.outcome
    FROM unnest(%(delivery_ids)s::text[], %(attempts)s::integer[], %(outcomes)s::text[]) AS done (delivery_id, attempt, outcome)
    JOIN deliveries d ON d.delivery_id = done.delivery_id AND d.attempts = done.attempt AND d.settled_at IS NULL
    ORDER BY d.delivery_id FOR UPDATE OF d
)
UPDATE deliveries d SET settled_at = %(now)s, due_at = NULL, outcome = held.outcome, payload = NULL
FROM held WHERE d.delivery_id = held.delivery_id
RETURNING d.delivery_id
"""
GIVE_UP = """
-- give_up_delivery: settled with its body, for a look; only by the worker that holds it
UPDATE deliveries SET settled_at = %(now)s, due_at = NULL, outcome = %(outcome)s
WHERE delivery_id = %(delivery_id)s AND attempts = %(attempt)s AND settled_at IS NULL
"""
POSTPONE = """
-- postpone_delivery: only by the worker that holds it
UPDATE deliveries SET due_at = %(due)s, outcome = %(outcome)s
WHERE delivery_id = %(delivery_id)s AND attempts = %(attempt)s AND settled_at IS NULL
"""
FORGET = """
-- forget_deliveries: settled ones, a bounded bite
DELETE FROM deliveries WHERE delivery_id IN (
    SELECT delivery_id FROM deliveries WHERE received_at < %s AND settled_at IS NOT NULL ORDER BY received_at LIMIT %s)
"""
KNOWN = """
-- known_deliveries
SELECT delivery_id FROM deliveries WHERE delivery_id = ANY (%(delivery_ids)s)
"""
NEWEST = """
-- newest_delivery
SELECT max(received_at) FROM deliveries
"""
LOST = f"""
-- lost_deliveries: by what GitHub was asked to deliver again, of late too. An arrival after GitHub's try ends it; clocks may
-- differ a little.
SELECT {columns(LostDeliveries)} FROM (
    SELECT count(DISTINCT evidence ->> 'guid')::integer AS events, min((evidence ->> 'delivered_at')::timestamptz) AS since,
           (array_agg((evidence ->> 'status_code')::integer ORDER BY (evidence ->> 'delivered_at')::timestamptz DESC))[1] AS status_code
    FROM heals, (SELECT coalesce(max(received_at) + %(apart)s, '-infinity') AS at FROM deliveries) arrived
    WHERE kind = 'redelivered' AND heals.at > greatest(arrived.at, %(oldest)s)
      AND (evidence ->> 'delivered_at')::timestamptz > arrived.at
    HAVING max(heals.at) > %(lately)s
) tries
"""
BACKLOG = """
-- delivery_backlog
SELECT count(*) FROM deliveries WHERE settled_at IS NULL
"""


class _Sent(NamedTuple):
    delivery_id: str
    event: str
    payload: bytes
    taken: bool


class _Done(NamedTuple):
    delivery_id: str
    attempt: int
    outcome: str


class Deliveries:
    def __init__(self, database: Database, clock: Clock, rng: random.Random) -> None:
        self._database = database
        self._clock = clock
        self._rng = rng
        self._storing = GroupCommit(self._store, most=_MOST_AT_ONCE, key=lambda sent: sent.delivery_id)
        self._settling = GroupCommit(self._settle, most=_MOST_AT_ONCE, key=lambda done: done.delivery_id)

    async def store(self, delivery_id: str, event: str, payload: bytes, *, take: bool = False) -> Delivery | None:
        """Keep a delivery; None means that it is a repeat. Answer GitHub 2xx after either, 503 after an error.

        With `take` it is the caller's for a quarter of a minute, as if it had been taken: settle or postpone it within that.
        Otherwise it is due at once.
        """
        if not delivery_id:
            raise InvalidEntryError("delivery_id is empty: it is the header X-GitHub-Delivery")
        return await self._storing.ask(_Sent(delivery_id, event, payload, take))

    async def take(self, limit: int = 20) -> list[Delivery]:
        """Take up to `limit` deliveries that are due, for a minute. Settle or postpone each within that."""
        now = self._clock.now()
        taken = await self._database.rows(Delivery, TAKE, {"now": now, "until": now + _HOLD, "limit": limit})
        return sorted(taken, key=lambda delivery: delivery.received_at)

    async def settle(self, delivery: Delivery, outcome: str) -> None:
        """The delivery was handled (or ignored, as `outcome` says). StaleDeliveryError if another worker holds it."""
        if not await self._settling.ask(_Done(delivery.delivery_id, delivery.attempt, outcome)):
            raise _stale(delivery)

    async def fail(self, delivery: Delivery, why: str) -> bool:
        """Handling failed: try again later, with growing pauses; False means that this was the last attempt."""
        now = self._clock.now()
        if delivery.attempt >= ATTEMPTS:
            await self._write(GIVE_UP, delivery, outcome=f"given up: {why}", now=now)
            return False
        due = now + timedelta(seconds=_BACKOFF.delay(delivery.attempt, self._rng))
        await self._write(POSTPONE, delivery, outcome=why, due=due)
        return True

    async def known(self, delivery_ids: Collection[str]) -> frozenset[str]:
        """Those of these deliveries that are stored here, handled or not."""
        return await self._ids(KNOWN, {"delivery_ids": list(delivery_ids)})

    async def newest(self) -> datetime | None:
        """When the last delivery was received; None if none is remembered."""
        return await self._database.value(NEWEST)

    async def lost(self) -> LostDeliveries | None:
        """What GitHub could not deliver since the last delivery arrived; None while they arrive, or while there are none."""
        now = self._clock.now()
        params = {"lately": now - _LOST_LATELY, "oldest": now - _LOST_AT_MOST, "apart": _CLOCKS_APART}
        return await self._database.row(LostDeliveries, LOST, params)

    async def backlog(self) -> int:
        """How many deliveries wait to be handled."""
        return await self._database.value(BACKLOG)

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop settled deliveries received before that; keep at least three days, as long as GitHub may redeliver."""
        return await self._database.run(FORGET, [before, limit])

    async def _store(self, sent: Sequence[_Sent]) -> list[Delivery | None]:
        now = self._clock.now()
        params = {
            "delivery_ids": [one.delivery_id for one in sent],
            "events": [one.event for one in sent],
            "payloads": [one.payload for one in sent],
            "taken": [one.taken for one in sent],
            "now": now,
            "until": now + _HOLD_AS_STORED,
        }
        new = await self._ids(STORE, params)
        return [
            Delivery(one.delivery_id, one.event, one.payload, now, int(one.taken)) if one.delivery_id in new else None
            for one in sent
        ]

    async def _settle(self, done: Sequence[_Done]) -> list[bool]:
        params = {
            "delivery_ids": [one.delivery_id for one in done],
            "attempts": [one.attempt for one in done],
            "outcomes": [one.outcome for one in done],
            "now": self._clock.now(),
        }
        settled = await self._ids(SETTLE, params)
        return [one.delivery_id in settled for one in done]

    async def _ids(self, statement: LiteralString, params: Mapping[str, object]) -> frozenset[str]:
        async with self._database.connection() as connection:
            return frozenset(number for (number,) in await (await connection.execute(statement, params)).fetchall())

    async def _write(self, statement: LiteralString, delivery: Delivery, **values: object) -> None:
        params = {"delivery_id": delivery.delivery_id, "attempt": delivery.attempt, **values}
        if await self._database.run(statement, params) == 0:
            raise _stale(delivery)


def _stale(delivery: Delivery) -> StaleDeliveryError:
    return StaleDeliveryError(
        f"delivery {delivery.delivery_id} is not held by attempt {delivery.attempt} any more: drop it"
    )
