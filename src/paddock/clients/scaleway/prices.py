"""What a server costs, from the provider's public product catalogue."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from paddock.clients.scaleway.model import Price

__all__ = ["prices_of"]


def prices_of(products: Iterable[dict[str, Any]]) -> dict[str, Price]:
    """The price of each server type. A type without an hourly price is left out, as are entries of other shapes."""
    hourly: dict[str, tuple[str, Decimal]] = {}
    monthly: dict[str, Decimal] = {}
    for product in products:
        server_type = _server_type(product)
        money = _dig(product, "price", "retail_price")
        unit = _dig(product, "unit_of_measure", "unit")
        size = _dig(product, "unit_of_measure", "size")
        if not server_type or not isinstance(money, dict):
            continue
        amount = Decimal(int(money.get("units", 0))) + Decimal(int(money.get("nanos", 0))).scaleb(-9)
        amount /= size if isinstance(size, int) and size > 0 else 1
        if unit == "hour":
            hourly[server_type] = (str(money.get("currency_code") or "EUR"), amount)
        elif unit == "month":
            monthly[server_type] = amount
    return {
        name: Price(server_type=name, currency=currency, per_hour=amount, per_month=monthly.get(name))
        for name, (currency, amount) in hourly.items()
    }


def _server_type(product: dict[str, Any]) -> str:
    """The type a product stands for: named outright since 2026, before that only in the SKU."""
    named = _dig(product, "properties", "apple_silicon", "server_type")
    if isinstance(named, str) and named:
        return named
    parts = str(product.get("sku") or "").strip("/").split("/")
    return parts[1].upper() if len(parts) >= 3 and parts[0] == "apple-silicon" else ""


def _dig(data: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(data, dict):
            return None
        data = data.get(key)
    return data
