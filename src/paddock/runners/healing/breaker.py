"""What holds a worker back: a cap for each pass, a share of each pool, and a breaker for reads that cannot be right. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from paddock.runners.api.settings import HealingSettings

__all__ = ["PLAUSIBLE_FROM", "Attempts", "Streaks", "implausible", "within_caps"]

T = TypeVar("T")

PLAUSIBLE_FROM: Final = 10
"""Below this many, most of them being gone is an ordinary evening."""


def within_caps(
    proven: Sequence[T],
    pool_of: Callable[[T], str],
    pool_sizes: Mapping[str, int],
    settings: HealingSettings,
    *,
    one_cause: Callable[[T], bool] = lambda _: False,
) -> tuple[list[T], int]:
    """The first of `proven` that one pass may undo, in order, and how many are put off.

    At most `cap` in all, and of each pool at most `cap_share` of its Pods, but one always: a pool of three can heal. Those
    that `one_cause` explains may be more (`burst_share`): what is known to be over is not made safer by waiting.
    """
    used: Counter[tuple[str, bool]] = Counter()
    chosen: list[T] = []
    for each in proven:
        pool, explained = pool_of(each), one_cause(each)
        share = settings.burst_share if explained else settings.cap_share
        allowed = max(1, int(pool_sizes.get(pool, 0) * share))
        if len(chosen) < settings.cap and used[pool, explained] < allowed:
            used[pool, explained] += 1
            chosen.append(each)
    return chosen, len(proven) - len(chosen)


def implausible(looked: int, gone: int, settings: HealingSettings) -> bool:
    """So many are gone that the read is more likely to be wrong than the world: change nothing."""
    return looked >= PLAUSIBLE_FROM and gone > looked * settings.breaker_share


class Attempts:
    """Who was tried lately. What was tried and is still there goes behind everything that was tried longer ago, or never:
    a cap lets few of a pool through, and one that cannot be healed must not be the only one that is ever tried.

    It is kept in memory alone: a new process tries in the given order.
    """

    def __init__(self) -> None:
        self._tried: dict[str, int] = {}
        self._number = 0

    def in_order(self, items: Sequence[T], key_of: Callable[[T], str]) -> list[T]:
        """All that is proven now, in the order in which it is tried; what is not among it any more is forgotten."""
        keys = {key_of(each) for each in items}
        self._tried = {key: number for key, number in self._tried.items() if key in keys}
        return sorted(items, key=lambda each: self._tried.get(key_of(each), 0))

    def tried(self, key: str) -> None:
        self._number += 1
        self._tried[key] = self._number


class Streaks:
    """Since when something has been seen, look after look, without a gap: what one look cannot prove, a row of them can.

    A look that sees something else, or that fails, begins anew; so does a pause in looking that is longer than
    `longest_gap`, during which anything may have happened. It is kept in memory alone: a new process starts from nothing,
    which costs time and proves nothing wrong.
    """

    def __init__(self, longest_gap: timedelta) -> None:
        self._longest_gap = longest_gap
        self._seen: dict[str, tuple[datetime, datetime]] = {}

    def seen(self, key: str, now: datetime) -> datetime:
        """It was seen so now; gives since when without a gap."""
        since, last = self._seen.get(key, (now, now))
        if now - last > self._longest_gap or now < last:
            since = now
        self._seen[key] = (since, now)
        return since

    def broken(self, key: str) -> None:
        """It was not seen so, or could not be looked at."""
        self._seen.pop(key, None)

    def keep_only(self, keys: frozenset[str]) -> None:
        """Forget all others: they are gone."""
        self._seen = {key: span for key, span in self._seen.items() if key in keys}
