"""What a quantity means, and what it may cost to read one that somebody hostile wrote."""

from decimal import Decimal

import pytest

from paddock.kube import quantity
from paddock.kube.quantity import QuantityError, parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", "2"),
        ("500m", "0.5"),
        ("1.5Gi", "1610612736"),
        ("16Gi", "17179869184"),
        ("2e3", "2000"),
        ("3E", "3000000000000000000"),
        (".5", "0.5"),
        ("-1k", "-1000"),
        (4, "4"),
        (0.5, "0.5"),
    ],
)
def test_a_quantity_is_an_exact_number(text: str | float, number: str) -> None:
    assert parse_quantity(text) == Decimal(number)


@pytest.mark.parametrize("text", ["1e400", "9" * 60, 10**5000, float("inf")], ids=["exponent", "text", "int", "float"])
def test_what_is_too_large_is_the_largest_that_there_is(text: str | float) -> None:
    assert parse_quantity(text) == 2**63 - 1


@pytest.mark.parametrize(
    "text", ["", "lots", "NaN", "sNaN", "Infinity", "1e400000", "1e999999999", "0" * 65, "1 ", True, None, float("nan")]
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


def test_long_texts_are_not_kept() -> None:
    before = quantity._parsed.cache_info().currsize
    for number in range(8):
        with pytest.raises(QuantityError):
            parse_quantity("0" * 100_000 + str(number))
    assert quantity._parsed.cache_info().currsize == before
