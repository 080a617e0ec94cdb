from decimal import Decimal
from typing import Any

from paddock.clients.scaleway.prices import prices_of


def product(sku: str, unit: str, units: int, nanos: int, **apple: str) -> dict[str, Any]:
    return {
        "sku": sku,
        "price": {"retail_price": {"currency_code": "EUR", "units": units, "nanos": nanos}},
        "unit_of_measure": {"unit": unit, "size": 1},
        "properties": {"apple_silicon": apple},
    }


def test_the_hourly_and_the_monthly_price_of_a_type_are_exact():
    prices = prices_of(
        [
            product("/apple-silicon/m4-s/monthly/run_par1", "month", 149, 0, range="M4"),
            product("/apple-silicon/m4-s/run_par1", "hour", 0, 220_000_000, range="M4"),
        ]
    )
    assert prices["M4-S"].per_hour == Decimal("0.22")
    assert prices["M4-S"].per_month == Decimal(149)
    assert prices["M4-S"].currency == "EUR"


def test_a_named_server_type_wins_over_the_one_in_the_sku():
    prices = prices_of([product("/apple-silicon/whatever/run_par1", "hour", 1, 0, server_type="M9-Z")])
    assert list(prices) == ["M9-Z"]


def test_entries_of_other_shapes_are_left_out():
    assert prices_of([{}, {"sku": "/instance/dev1-s/run_par1"}, {"sku": "/apple-silicon/m4-s/run_par1"}]) == {}
