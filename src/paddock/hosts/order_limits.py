"""How many Macs may be rented, and for how much, in a day. Pure.

Each order is paid for a day at least, and no server can be deleted before that. So a complete list of the zone shows every
order of the last day, whoever sent it and whatever was forgotten since: nothing has to be counted, and nothing can be lost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from paddock.base.explanation import utc
from paddock.clients.scaleway import Price, Server

__all__ = ["MayOrder", "OverLimit", "may_order"]

_DAY: Final = timedelta(hours=24)
_HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class MayOrder:
    """One more fits."""


@dataclass(frozen=True, slots=True)
class OverLimit:
    """One more does not fit now; the message says why, and when it will."""

    reason: str
    message: str


def may_order(
    server_type: str,
    servers: Iterable[Server],
    prices: Mapping[str, Price],
    now: datetime,
    *,
    cap: int,
    budget: Decimal | None,
) -> MayOrder | OverLimit:
    """Whether one more server of this type may be ordered. `cap` counts orders of a day, `budget` is in the cloud's currency.

    With a budget, a price that is not known is a reason to wait: nothing is bought at a price that nobody knows.
    """
    bought = [each for each in servers if each.created_at is not None and now - each.created_at < _DAY]
    frees = min((each.created_at for each in bought if each.created_at is not None), default=now) + _DAY
    when = f"the next one fits at {utc(frees)}"
    if cap and len(bought) >= cap:
        return OverLimit(
            "OrderCapReached",
            f"{len(bought)} servers were ordered in this zone in the last 24 h, and --order-cap allows {cap}: {when}",
        )
    if budget is None:
        return MayOrder()
    unknown = sorted({kind for kind in (server_type, *(each.type for each in bought)) if kind not in prices})
    if unknown:
        return OverLimit(
            "OrderPriceUnknown",
            f"the cloud shows no price of {', '.join(unknown)}, so --order-budget cannot be kept: asked again",
        )
    spent = sum((prices[each.type].per_hour * _HOURS for each in bought), Decimal(0))
    more = prices[server_type].per_hour * _HOURS
    if spent + more > budget:
        currency = prices[server_type].currency
        return OverLimit(
            "OrderBudgetSpent",
            f"a {server_type} costs {more:.2f} {currency} a day, {spent:.2f} were spent in this zone in the last 24 h, "
            f"and --order-budget allows {budget}: {when}",
        )
    return MayOrder()
