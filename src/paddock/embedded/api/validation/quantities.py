"""Amounts of resources such as `100m`, `1.5Gi` or `2e3`, as exact numbers."""

import re
from decimal import Decimal

__all__ = ["QuantityError", "quantity"]

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))(?P<suffix>[eE][+-]?\d+|Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?)"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class QuantityError(ValueError):
    """The text is not an amount: write a number with an optional suffix such as `m`, `k`, `Mi` or `Gi`."""

    def __init__(self) -> None:
        super().__init__("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")


def quantity(value: object) -> Decimal:
    """The amount a quantity names, exactly."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Decimal(str(value))
    parsed = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if parsed is None:
        raise QuantityError
    number, suffix = Decimal(parsed["number"]), parsed["suffix"]
    if suffix in _BINARY:
        return number * 2 ** _BINARY[suffix]
    return number.scaleb(_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))
