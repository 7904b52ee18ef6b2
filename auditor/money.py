"""Money as exact decimals: rounding, sums and text that never pass through a float or a 28-digit context."""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context, Decimal

PLACES = 12
QUANTUM = Decimal(1).scaleb(-PLACES)
# A DECIMAL(38,12) has more digits than Python's default context keeps; sums of a whole bill need room above that.
_EXACT = Context(prec=80, rounding=ROUND_HALF_UP)


def quantise(amount: Decimal) -> Decimal:
    """The amount at 12 decimals, halves away from zero as DuckDB's cast to DECIMAL rounds them."""
    return amount.quantize(QUANTUM, context=_EXACT)


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Exact sum of amounts of one currency; 0 for none."""
    result = Decimal(0)
    for amount in amounts:
        result = _EXACT.add(result, amount)
    return result


def difference(minuend: Decimal, subtrahend: Decimal) -> Decimal:
    """Exact difference of two amounts of one currency."""
    return _EXACT.subtract(minuend, subtrahend)


def text(amount: Decimal) -> str:
    """The amount as the files write it: plain digits, no exponent, no trailing zeros, never `-0`."""
    plain = format(amount, "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain in ("-0", "") else plain
