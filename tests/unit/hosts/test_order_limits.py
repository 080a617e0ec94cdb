"""How many Macs may be rented in a day, and for how much."""

from datetime import timedelta
from decimal import Decimal

from unit.hosts.made import NOW

from paddock.clients.scaleway import Price, Server
from paddock.hosts.order_limits import MayOrder, OverLimit, may_order

PRICES = {"M4-M": Price("M4-M", "EUR", Decimal("0.22"))}


def bought(*hours_ago: float) -> list[Server]:
    return [
        Server(id=f"s-{number}", name="x", type="M4-M", created_at=NOW - timedelta(hours=hours))
        for number, hours in enumerate(hours_ago)
    ]


def test_orders_of_the_last_day_count_and_older_servers_do_not():
    assert may_order("M4-M", bought(25, 90), {}, NOW, cap=1, budget=None) == MayOrder()
    over = may_order("M4-M", bought(3, 90), {}, NOW, cap=1, budget=None)
    assert isinstance(over, OverLimit)
    assert over.reason == "OrderCapReached"
    assert f"{NOW + timedelta(hours=21):%Y-%m-%d %H:%M} UTC" in over.message
    assert may_order("M4-M", bought(*range(20)), {}, NOW, cap=0, budget=None) == MayOrder()


def test_a_budget_counts_a_whole_day_for_each():
    # 0.22 an hour is 5.28 a day.
    assert may_order("M4-M", bought(1), PRICES, NOW, cap=0, budget=Decimal("10.56")) == MayOrder()
    over = may_order("M4-M", bought(1), PRICES, NOW, cap=0, budget=Decimal("10.55"))
    assert isinstance(over, OverLimit)
    assert over.reason == "OrderBudgetSpent"
    assert "costs 5.28 EUR a day, 5.28 were spent" in over.message


def test_nothing_is_bought_at_a_price_that_nobody_knows():
    over = may_order("M2-L", bought(1), PRICES, NOW, cap=0, budget=Decimal(100))
    assert isinstance(over, OverLimit)
    assert over.reason == "OrderPriceUnknown"
    assert "M2-L" in over.message
