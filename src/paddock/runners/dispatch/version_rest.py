"""How many Pods of a pool may be handed jobs while GitHub calls its runners too old: none, and then one at a time.

Without it such a pool loops: each Pod takes a job, ends within seconds, and the next one takes it. The pool rests alone,
whatever others use the same image, and one runner that works ends the rest.
"""

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.ledger import Ledger, LedgerError

__all__ = ["VersionRest"]

_ASKED_EVERY = 5.0
_TRIAL = 60.0
"""So long no second one is tried: a runner that GitHub refuses ends within seconds of its start."""
log = get_logger("dispatch")


class VersionRest:
    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._known: dict[str, tuple[float, int | None]] = {}

    async def room(self, pool: str) -> int | None:
        """How many Pods may be claimed for now; None: any number."""
        until, room = self._known.get(pool, (float("-inf"), None))
        now = self._clock.monotonic()
        if now < until:
            return room
        try:
            refused = await self._ledger.runner_versions.of_pool(pool)
        except LedgerError:
            return None  # claiming says so itself
        room = None if refused is None else int(self._clock.now() >= refused.rests_until)
        # Whoever is told of a trial makes it: until it must have ended there is no second one.
        self._known[pool] = (now + (_TRIAL if room else _ASKED_EVERY), 0 if room else room)
        if room:
            log.info("one runner is tried, because GitHub called the ones before too old", pool=pool)
        return room
