"""Kubernetes quantities: `100m` of a CPU, `16Gi` of memory."""

from decimal import Decimal, InvalidOperation
from functools import lru_cache

__all__ = ["parse_quantity"]

_BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5, "Ei": 1024**6}
_DECIMAL = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(1000),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
}


def parse_quantity(text: str | float) -> Decimal:
    """The exact number behind a quantity; ValueError on anything else."""
    return _parsed(text) if isinstance(text, str) else Decimal(str(text))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Decimal:
    """A fleet says few quantities, and each thousands of times."""
    try:
        if text[-2:] in _BINARY:
            return Decimal(text[:-2]) * _BINARY[text[-2:]]
        if text[-1:] in _DECIMAL and not text[-1:].isdigit():
            return Decimal(text[:-1]) * _DECIMAL[text[-1:]]
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2 or 16Gi") from None
