"""What the fleet costs an hour, by what the Macs do with it. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.web.tiles import Group

__all__ = ["Money", "Share", "money_of"]

_SHARES = (
    ("busy", "busy", "a job runs", ("busy", "draining")),
    ("ready", "ready", "up, no job runs", ("ready",)),
    ("idle", "idle", "in the pool, no machine has it", ("free", "quarantined")),
    ("setup", "setting up", "claimed, not yet ready", ("setup", "claiming", "failing", "unknown")),
    ("wiping", "reinstalling", "being wiped for the next", ("wiping",)),
    ("stranded", "stranded", "paid for nothing", ("stranded",)),
)
_SHARE_OF = {state: name for name, _, _, states in _SHARES for state in states}


@dataclass(frozen=True, slots=True)
class Share:
    name: str
    word: str
    meaning: str
    macs: int
    per_hour: float


@dataclass(frozen=True, slots=True)
class Money:
    """`unpriced` are Macs whose price the cloud has not told; they are not in the sums."""

    currency: str
    per_hour: float
    shares: tuple[Share, ...]
    in_floor: int
    next_releasable: datetime | None
    unpriced: int = 0

    @property
    def useful(self) -> float:
        """The part that runs jobs, from 0 to 1."""
        busy = next((share.per_hour for share in self.shares if share.name == "busy"), 0.0)
        return busy / self.per_hour if self.per_hour else 0.0


def money_of(groups: Sequence[Group], hosts: Sequence[ScalewayAppleSiliconHost], now: datetime) -> Money:
    """Foreign and vanished hosts cost us nothing, and are left out."""
    macs: dict[str, int] = defaultdict(int)
    cost: dict[str, float] = defaultdict(float)
    unpriced = 0
    for group in groups:
        for tile in group.tiles:
            name = _SHARE_OF.get(tile.state)
            if name is None:
                continue
            macs[name] += 1
            cost[name] += tile.price
            unpriced += tile.price == 0.0
    floors = [
        end
        for host in hosts
        if (end := host.status.paid_until) is not None and end > now and host.status.state not in ("foreign", "gone")
    ]
    return Money(
        currency=next((host.status.currency for host in hosts if host.status.currency), "EUR"),
        per_hour=sum(cost.values()),
        shares=tuple(Share(name, word, meaning, macs[name], cost[name]) for name, word, meaning, _ in _SHARES),
        in_floor=len(floors),
        next_releasable=min(floors, default=None),
        unpriced=unpriced,
    )
