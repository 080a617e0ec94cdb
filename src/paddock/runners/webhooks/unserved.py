"""Whether a job that no pool serves is meant for us: stored, it says which labels nobody offers; ignored, nobody hears of it.

Sure is a job that carries a dispatch label which a pool of ours had. Perhaps ours is one that carries `self-hosted`, or a label
that our runners offer: a team may have other runners beside Paddock, so that such a job is shown and counted apart, and is
nobody's alarm. Jobs for GitHub's own runners are never ours.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paddock.base.clock import Clock
from paddock.runners.api import Platform, RunnerPool
from paddock.runners.ledger import Ledger
from paddock.runners.ledger.rerouting import FormerPool
from paddock.runners.webhooks.routing import kin, nearest

__all__ = ["FormerLabels", "Meant", "hosted", "meant_for_us"]

_HOSTED = re.compile(r"(ubuntu|macos|windows)-(latest|slim|\d[\d.]*)(-[a-z0-9-]+)?")
_KEPT = 60.0


@dataclass(frozen=True, slots=True)
class Meant:
    """The pool that it was most likely meant for. `label` is the dispatch label that a pool had; empty where that is not sure."""

    pool: str
    platform: Platform
    vcpus: int
    memory_mb: int
    label: str = ""


def hosted(labels: Sequence[str]) -> bool:
    """Whether GitHub itself runs a job with these labels, as far as their form tells."""
    return all(_HOSTED.fullmatch(label.lower()) for label in labels)


def meant_for_us(pools: Sequence[RunnerPool], labels: Sequence[str], former: Mapping[str, FormerPool]) -> Meant | None:
    """Of a job for which no pool was chosen. Pure; `former` is by label in small letters."""
    if not labels or hosted(labels):
        return None
    for label in sorted(labels, key=str.lower):
        had = former.get(label.lower())
        if had is not None:
            return Meant(had.pool, had.platform, had.vcpus, had.memory_mb, label)
    if not kin(pools, labels):
        return None
    pool = nearest(pools, labels)
    return None if pool is None else Meant(pool.metadata.name, pool.platform, pool.vcpus, pool.spec.pod_memory_mb)


class FormerLabels:
    """The dispatch labels of the newest jobs, read once a minute at most: also those of pools that are gone."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._read_at = float("-inf")
        self._known: Mapping[str, FormerPool] = {}
        self._turn = asyncio.Lock()

    async def known(self) -> Mapping[str, FormerPool]:
        if self._is_old():
            async with self._turn:
                # Of many deliveries that come together one reads, and the others find what it read.
                if self._is_old():
                    self._known = await self._ledger.rerouting.former()
                    self._read_at = self._clock.monotonic()
        return self._known

    def _is_old(self) -> bool:
        return self._clock.monotonic() - self._read_at >= _KEPT
