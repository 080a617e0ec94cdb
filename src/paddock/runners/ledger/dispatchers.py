"""Which dispatching processes are alive. A claim names its dispatcher; one that stopped beating cannot finish its claims."""

from datetime import datetime

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database

__all__ = ["Dispatchers"]

REGISTER = """
-- register_dispatcher: every start is a new one
INSERT INTO dispatchers (name, started_at, seen_at) VALUES (%s, %s, %s) RETURNING dispatcher_id
"""
BEAT = """
-- dispatcher_beat
UPDATE dispatchers SET seen_at = greatest(seen_at, %s) WHERE dispatcher_id = %s
"""
FORGET = """
-- forget_dispatchers: silent for long, and no claim names them
DELETE FROM dispatchers d WHERE d.seen_at < %s
AND NOT EXISTS (SELECT FROM claims c WHERE c.dispatcher_id = d.dispatcher_id)
"""


class Dispatchers:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def register(self, name: str) -> int:
        """A number for this start of the process, to be given with every claim it makes."""
        now = self._clock.now()
        return await self._database.value(REGISTER, [name, now, now])

    async def beat(self, dispatcher_id: int) -> bool:
        """Say that the process is alive, every few seconds. False means that it was forgotten: register again."""
        return await self._database.run(BEAT, [self._clock.now(), dispatcher_id]) == 1

    async def forget(self, before: datetime) -> int:
        """Drop dispatchers that were last seen before that and hold nothing."""
        return await self._database.run(FORGET, [before])
