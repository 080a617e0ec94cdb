"""The inbox of webhooks: stored once each before they are answered, worked off afterwards.

A repeat is known by its delivery id for as long as the row is kept; GitHub gives a redelivery the id of the original. A
worker that takes a delivery holds it for a while; if it dies, the delivery comes due again and another takes it. Handling
must therefore be repeatable, which every operation of the ledger is.
"""

import random
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import LiteralString

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database
from paddock.runners.ledger.errors import InvalidEntryError, StaleDeliveryError
from paddock.runners.ledger.rows import Delivery

__all__ = ["ATTEMPTS", "Deliveries"]

ATTEMPTS = 6
"""How often a delivery is tried before it is given up, with its body kept for a look."""

_HOLD = timedelta(seconds=60)
_BACKOFF = Backoff(base=1.0, cap=300.0, factor=4.0)

STORE = """
-- store_delivery: the key is the de-duplication
INSERT INTO deliveries (delivery_id, event, payload, received_at, due_at) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
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
-- settle_delivery: the body goes, the id stays; only by the worker that holds it
UPDATE deliveries SET settled_at = %(now)s, due_at = NULL, outcome = %(outcome)s,
    payload = CASE WHEN %(keep)s THEN payload END
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
SELECT delivery_id FROM deliveries WHERE delivery_id = ANY (%s)
"""
NEWEST = """
-- newest_delivery
SELECT max(received_at) FROM deliveries
"""
BACKLOG = """
-- delivery_backlog
SELECT count(*) FROM deliveries WHERE settled_at IS NULL
"""


class Deliveries:
    def __init__(self, database: Database, clock: Clock, chance: random.Random) -> None:
        self._database = database
        self._clock = clock
        self._chance = chance

    async def store(self, delivery_id: str, event: str, payload: bytes) -> bool:
        """Keep a delivery; False means that it is a repeat. Answer GitHub 2xx after either, 503 after an error."""
        if not delivery_id:
            raise InvalidEntryError("delivery_id is empty: it is the header X-GitHub-Delivery")
        now = self._clock.now()
        return await self._database.run(STORE, [delivery_id, event, payload, now, now]) == 1

    async def take(self, limit: int = 20) -> list[Delivery]:
        """Take up to `limit` deliveries that are due, for a minute. Settle or postpone each within that."""
        now = self._clock.now()
        taken = await self._database.rows(Delivery, TAKE, {"now": now, "until": now + _HOLD, "limit": limit})
        return sorted(taken, key=lambda delivery: delivery.received_at)

    async def settle(self, delivery: Delivery, outcome: str) -> None:
        """The delivery was handled (or ignored, as `outcome` says). StaleDeliveryError if another worker holds it."""
        await self._write(SETTLE, delivery, outcome=outcome, now=self._clock.now(), keep=False)

    async def fail(self, delivery: Delivery, why: str) -> bool:
        """Handling failed: try again later, with growing pauses; False means that this was the last attempt."""
        now = self._clock.now()
        if delivery.attempt >= ATTEMPTS:
            await self._write(SETTLE, delivery, outcome=f"given up: {why}", now=now, keep=True)
            return False
        due = now + timedelta(seconds=_BACKOFF.delay(delivery.attempt, self._chance))
        await self._write(POSTPONE, delivery, outcome=why, due=due)
        return True

    async def known(self, delivery_ids: Collection[str]) -> frozenset[str]:
        """Those of these deliveries that are stored here, handled or not."""
        async with self._database.connection() as connection:
            found = await (await connection.execute(KNOWN, [list(delivery_ids)])).fetchall()
        return frozenset(number for (number,) in found)

    async def newest(self) -> datetime | None:
        """When the last delivery was received; None if none is remembered."""
        return await self._database.value(NEWEST)

    async def backlog(self) -> int:
        """How many deliveries wait to be handled."""
        return await self._database.value(BACKLOG)

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop settled deliveries received before that; keep at least three days, as long as GitHub may redeliver."""
        return await self._database.run(FORGET, [before, limit])

    async def _write(self, statement: LiteralString, delivery: Delivery, **values: object) -> None:
        params = {"delivery_id": delivery.delivery_id, "attempt": delivery.attempt, **values}
        if await self._database.run(statement, params) == 0:
            raise StaleDeliveryError(
                f"delivery {delivery.delivery_id} is not held by attempt {delivery.attempt} any more: drop it"
            )
