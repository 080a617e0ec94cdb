"""Refusals in the log: each kind at once when it begins, and then no more than one line every few seconds, with its count.

Whoever attacks decides how often they are refused; they must not decide how much is written.
"""

import asyncio
from collections import OrderedDict
from typing import Any, Final

from paddock.base.readable import shown

__all__ = ["EVERY", "RefusalLog"]

EVERY: Final = 10.0
_KINDS: Final = 256
_LONGEST: Final = 200


class RefusalLog:
    """`refused("webhook", "bad signature", sender="192.0.2.7")`. Kinds are `what` and `why`; the rest is of the newest one.

    Holds no secret: callers give none. Text of strangers is cut short, and control characters are taken out of it.
    """

    def __init__(self, log: Any, *, every: float = EVERY) -> None:
        self._log = log
        self._every = every
        self._kinds: OrderedDict[tuple[str, str, bool], tuple[float, int]] = OrderedDict()
        """When it was last said, and how often it happened since."""

    def refused(self, what: str, why: str, *, usual: bool = False, **who: str) -> None:
        """With `usual` it is no warning: it also happens where nobody means harm."""
        now, kind = asyncio.get_running_loop().time(), (what, why, usual)
        said_at, missed = self._kinds.pop(kind, (float("-inf"), 0))
        if 0 <= now - said_at < self._every:
            self._kinds[kind] = (said_at, missed + 1)
            return
        self._kinds[kind] = (now, 0)
        if len(self._kinds) > _KINDS:
            self._kinds.popitem(last=False)
        more = {"times": missed + 1} if missed else {}
        say = self._log.info if usual else self._log.warning
        say(
            "refused",
            what=what,
            why=why,
            **{key: shown(value)[:_LONGEST] for key, value in who.items() if value},
            **more,
        )
