"""Kubernetes quantities: `100m` of a CPU, `16Gi` of memory, `2e3`, as exact numbers.

Whoever is root on a Mac writes the quantities of its Node, so reading one costs little, whatever it says: the text is short, and
the number is bounded as the API server bounds it.
"""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Final

__all__ = ["QuantityError", "parse_quantity"]

_LONGEST: Final = 64
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))(?P<suffix>[eE][+-]?\d{1,3}|Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?)"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MOST: Final = 2**63 - 1


class QuantityError(ValueError):
    """The text is not an amount: write a number with an optional suffix such as `m`, `k`, `Mi` or `Gi`."""

    def __init__(self) -> None:
        super().__init__("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")


def parse_quantity(value: object) -> Decimal:
    """The number behind a quantity, at most 2⁶³-1 either way, as the API server caps it; QuantityError on anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value > _MOST or value < -_MOST:  # Python refuses to write the longest
            return Decimal(_MOST if value > 0 else -_MOST)
        value = str(value)
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise QuantityError
    return _parsed(value)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Decimal:
    """A fleet says few quantities, and each thousands of times."""
    parsed = _QUANTITY.fullmatch(text)
    if parsed is None:
        raise QuantityError
    number, suffix = Decimal(parsed["number"]), parsed["suffix"]
    if suffix in _BINARY:
        number *= 2 ** _BINARY[suffix]
    else:
        number = number.scaleb(_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))
    return max(Decimal(-_MOST), min(Decimal(_MOST), number))
