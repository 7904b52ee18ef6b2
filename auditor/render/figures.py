"""Writes figures for people: rounded once, thousands separated, never without their currency."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

ABSENT = "—"
NBSP = "\u00a0"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def decimal(value: Any) -> Decimal | None:
    """The value as an exact figure; null for what is none."""
    if isinstance(value, Decimal):
        return value if value.is_finite() else None
    if value is None or isinstance(value, bool):
        return None
    try:
        figure = Decimal(str(value))
    except InvalidOperation:  # text that is no figure
        return None
    return figure if figure.is_finite() else None


def amount(value: Any) -> Decimal:
    """The value as money; a missing one counts as nothing in a sum."""
    return decimal(value) or Decimal(0)


def total(values: Iterable[Any]) -> Decimal:
    """Sum of money in one currency."""
    return sum((amount(value) for value in values), Decimal(0))


def number(value: Any, places: int = 0) -> str:
    """`−1,234.50`, or a dash for a missing figure. A figure too small to show is not shown as zero."""
    figure = decimal(value)
    if figure is None:
        return ABSENT
    step = Decimal(1).scaleb(-places)
    rounded = figure.quantize(step, ROUND_HALF_UP)
    if rounded == 0 and figure != 0:
        return f"{'>−' if figure < 0 else '<'}{step}"
    return f"{rounded:,.{places}f}".replace("-", "−")


def exact(value: Any) -> str:
    """All digits that the figure has, without trailing zeros."""
    figure = decimal(value)
    if figure is None:
        return ABSENT
    text = format(figure, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def money(value: Any, currency: str | None, places: int = 2) -> str:
    """`USD 1,234.50`, with a space that does not break."""
    return ABSENT if decimal(value) is None else f"{currency or '?'}{NBSP}{number(value, places)}"


def short(value: Decimal) -> str:
    """`12k`, `1.5M`: for an axis."""
    for size, unit in ((Decimal(10**9), "B"), (Decimal(10**6), "M"), (Decimal(1000), "k")):
        if abs(value) >= size:
            return f"{exact((value / size).quantize(Decimal('0.01')))}{unit}".replace("-", "−")
    return exact(value).replace("-", "−")


def percent(part: Any, whole: Any = 1, places: int = 0) -> str:
    """`18 %` of the whole, or a dash where there is no whole."""
    figure, base = decimal(part), decimal(whole)
    if figure is None or not base:
        return ABSENT
    return f"{number(100 * figure / base, places)}{NBSP}%"


def size(value: Any) -> str:
    """Bytes in decimal units, as bills count them: `1.2 TB`."""
    figure = decimal(value)
    if figure is None:
        return ABSENT
    for power, unit in ((5, "PB"), (4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if abs(figure) >= 1000**power:
            return f"{number(figure / 1000**power, 1)}{NBSP}{unit}"
    return f"{number(figure)}{NBSP}B"


def moment(text: Any) -> datetime | None:
    """A time as the document writes it; null for what is none."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # shown as it stands by those who ask
        return None


def day(value: Any) -> str:
    """`3 Oct 2026`; text that is no date stays as it is."""
    when = value if isinstance(value, date) else moment(value)
    if when is None:
        return ABSENT if value is None else str(value)
    return f"{when.day}{NBSP}{MONTHS[when.month - 1]}{NBSP}{when.year}"


def last_day(end: Any) -> str:
    """The last day before `end`, which is excluded: midnight belongs to the day it closes."""
    when = moment(end)
    return day(when - timedelta(microseconds=1)) if when else day(end)


def period(window: Any) -> str:
    """`1 Oct 2026 to 30 Oct 2026`: both days included, for a window whose end is excluded."""
    start, end = moment((window or {}).get("start")), moment((window or {}).get("end"))
    if start is None or end is None:
        return ABSENT
    first, last = day(start), last_day(window["end"])
    return first if first == last else f"{first} to {last}"


def hours(window: Any) -> Decimal | None:
    """Length of a window in hours."""
    start, end = moment((window or {}).get("start")), moment((window or {}).get("end"))
    if start is None or end is None:
        return None
    return Decimal((end - start) // timedelta(seconds=1)) / 3600
